#include "compile/build_cache.h"

namespace kilter {

BuildCache::~BuildCache() {
  for (const auto& [key, kept] : tasks_) forget(*kept.task);
  for (const auto& [key, ref] : values_) sink_.release(ref.offset);
  for (const auto& [key, kept] : packed_) sink_.release(kept.ref.offset);
}

std::shared_ptr<PackedTask> BuildCache::task(const std::string& key) {
  const auto it = tasks_.find(key);
  if (it == tasks_.end()) return nullptr;
  it->second.used = build_;
  return it->second.task;
}

void BuildCache::keep_task(const std::string& key, std::shared_ptr<PackedTask> task) {
  tasks_[key] = {std::move(task), build_};
}

const BufferRef* BuildCache::value(ValueId value, const std::string& layout) const {
  const auto it = values_.find({value, layout});
  return it == values_.end() ? nullptr : &it->second;
}

void BuildCache::keep_value(ValueId value, const std::string& layout, const BufferRef& ref) {
  values_[{value, layout}] = ref;
}

std::optional<BufferRef> BuildCache::packed(ValueId from, const std::string& form) {
  const auto it = packed_.find({from, form});
  if (it == packed_.end()) return std::nullopt;
  it->second.used = build_;
  sink_.share(it->second.ref.offset, it->second.ref.bytes);
  return it->second.ref;
}

void BuildCache::keep_packed(ValueId from, const std::string& form, const BufferRef& ref) {
  sink_.share(ref.offset, ref.bytes);
  packed_[{from, form}] = {ref, build_};
}

void BuildCache::next() {
  if (!counts_) return;
  ++build_;
  std::erase_if(tasks_, [&](const auto& entry) {
    if (outdated(entry.second.used)) forget(*entry.second.task);
    return outdated(entry.second.used);
  });
  std::erase_if(packed_, [&](const auto& entry) {
    if (outdated(entry.second.used)) sink_.release(entry.second.ref.offset);
    return outdated(entry.second.used);
  });
}

void BuildCache::forget(const PackedTask& task) {
  for (const BufferRef& ref : task.constants) sink_.release(ref.offset);
}

}  // namespace kilter
