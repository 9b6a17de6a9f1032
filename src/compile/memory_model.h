// Models in memory instead of files, for programs that build their networks.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "graph/graph.h"
#include "onnx/model.h"

namespace kilter {

/// A model that Session::open() finds under name() as long as this object exists. Any thread may create one.
class MemoryModel {
 public:
  using Content = std::variant<std::shared_ptr<const onnx::Model>, std::shared_ptr<const Graph>>;

  explicit MemoryModel(Content content);
  ~MemoryModel();
  MemoryModel(const MemoryModel&) = delete;
  MemoryModel& operator=(const MemoryModel&) = delete;

  /// Returns "memory:N"; N is never used again in this process.
  const std::string& name() const { return name_; }
  const Content& content() const { return content_; }

 private:
  std::string name_;
  Content content_;
};

/// Whether `model` has the form of MemoryModel::name().
bool names_memory(std::string_view model);
/// Returns the content of the model that has this name. Throws usage if there is none.
MemoryModel::Content memory_content(const std::string& name);

}  // namespace kilter
