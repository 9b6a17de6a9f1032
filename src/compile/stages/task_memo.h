// Lowers equal tasks once. In a network of thousands of nodes, most tasks repeat a few distinct ones, and choosing a
// template, lowering and printing take far longer than recognising a known task.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compile/build_cache.h"
#include "exec/plan.h"
#include "schedule/problem/task.h"
#include "schedule/survey.h"

namespace kilter {

/// Everything that a template can ask about a task, without names. Templates treat tasks with the same text in the same
/// way.
struct TaskForm {
  std::string text;
  std::vector<ValueId> values;  ///< in the order of their numbers in the text
  std::vector<int64_t> elems;   ///< by operand: Physical::elems, on which kernels do not depend
  /// Whether constants were distinguished only by type. Kernels that pack such constants are not shared with other
  /// tasks.
  bool any_content = false;
};
/// The form of a task; empty if its attributes are too large to compare.
std::optional<TaskForm> form_of(const Task& task);

/// A lowered task, and its steps without names and buffers.
struct LoweredForm {
  TaskForm form;
  std::shared_ptr<PackedTask> packed;
  bool emitted = false;                   ///< whether the fields below are set, from the first task of the form
  std::vector<Step> stages = {};          ///< names, arguments and thread limits are each task's own
  std::vector<uint64_t> loops = {};       ///< by stage: hash of its loop IR
  std::vector<BufferRef> constants = {};  ///< by index of Lowered::constants
  int64_t task_bytes = 0;
  std::vector<TemplateView> templates = {};  ///< filled if alternatives are kept
  std::optional<Estimate> estimate = {};     ///< filled if alternatives are kept

  /// The value that takes the place of `value` in another task of the same form.
  ValueId counterpart(ValueId value, const TaskForm& other) const;
  /// The kernel of a stage for another task of the same form, with that task's buffer sizes. These differ for buffers
  /// that are views inside others.
  LoopFunc with_elems_of(const Task& task, const TaskForm& other, const Stage& stage) const;
};

using FormMemo = std::unordered_map<std::string, std::shared_ptr<LoweredForm>>;

}  // namespace kilter
