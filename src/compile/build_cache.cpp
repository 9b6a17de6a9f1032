#include "compile/build_cache.h"

namespace kilter {

BuildCache::~BuildCache() {
  for (const auto& [key, kept] : tasks_) forget(*kept.task);
  for (const auto& [key, ref] : values_) sink_.release(ref.offset);
}

std::shared_ptr<const PackedTask> BuildCache::task(const std::string& key) {
  const auto it = tasks_.find(key);
  if (it == tasks_.end()) return nullptr;
  it->second.used = build_;
  return it->second.task;
}

void BuildCache::keep_task(const std::string& key, std::shared_ptr<const PackedTask> task) {
  tasks_[key] = {std::move(task), build_};
}

const BufferRef* BuildCache::value(ValueId value, const std::string& layout) const {
  const auto it = values_.find({value, layout});
  return it == values_.end() ? nullptr : &it->second;
}

void BuildCache::keep_value(ValueId value, const std::string& layout, const BufferRef& ref) {
  values_[{value, layout}] = ref;
}

void BuildCache::next() {
  ++build_;
  std::erase_if(tasks_, [&](const auto& entry) {
    if (entry.second.used + keep_ >= build_) return false;
    forget(*entry.second.task);
    return true;
  });
}

void BuildCache::forget(const PackedTask& task) {
  for (const BufferRef& ref : task.constants) sink_.release(ref.offset);
}

}  // namespace kilter
