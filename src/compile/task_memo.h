// Tasks that are alike are lowered once. In a network of many thousand nodes most tasks repeat a few, and choosing a
// template, lowering and printing one takes far longer than telling that it is known.
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

/// What a template may ask of a task, names left out: tasks of one text have one answer to everything.
struct TaskForm {
  std::string text;
  std::vector<ValueId> values;  ///< in the order in which the text numbers them
  std::vector<int64_t> elems;   ///< by operand: Physical::elems, which kernels are the same for whatever they are
  /// Whether constants were told apart by their types alone: kernels that pack such are the task's own.
  bool any_content = false;
};
/// Nothing for a task with attributes that are too large to compare.
std::optional<TaskForm> form_of(const Task& task);

/// A task that was lowered, and what its steps are but for names and buffers.
struct LoweredForm {
  TaskForm form;
  std::shared_ptr<const PackedTask> packed;
  std::vector<Step> stages;     ///< names, arguments and limits of threads are the task's own
  std::vector<uint64_t> loops;  ///< by stage: hash of its loop IR
  int64_t task_bytes = 0;
  std::vector<TemplateView> templates;  ///< filled where alternatives are kept
  std::optional<Estimate> estimate;     ///< likewise

  /// The value of a task of the same form that stands where `value` stands in this one.
  ValueId counterpart(ValueId value, const TaskForm& other) const;
  /// The kernel of one of the stages for a task of the same form: with its own sizes of buffers, which differ where
  /// they are views inside of others.
  LoopFunc with_elems_of(const Task& task, const TaskForm& other, const Stage& stage) const;
};

using FormMemo = std::unordered_map<std::string, LoweredForm>;

}  // namespace kilter
