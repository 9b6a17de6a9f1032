#include "compile/memory_model.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "base/error.h"

namespace kilter {
namespace {

constexpr std::string_view kPrefix = "memory:";

struct Known {
  std::mutex mutex;
  std::map<std::string, const MemoryModel*> models;
  int64_t made = 0;
};

Known& known() {
  static Known all;
  return all;
}

}  // namespace

MemoryModel::MemoryModel(Content content) : content_(std::move(content)) {
  const std::lock_guard lock(known().mutex);
  name_ = fmt::format("{}{}", kPrefix, ++known().made);
  known().models[name_] = this;
}

MemoryModel::~MemoryModel() {
  const std::lock_guard lock(known().mutex);
  known().models.erase(name_);
}

bool names_memory(std::string_view model) { return model.starts_with(kPrefix); }

MemoryModel::Content memory_content(const std::string& name) {
  const std::lock_guard lock(known().mutex);
  const auto it = known().models.find(name);
  if (it == known().models.end())
    fail(ErrorKind::usage, "{}: this process has no model of this name in memory; it may have been released", name);
  return it->second->content();
}

}  // namespace kilter
