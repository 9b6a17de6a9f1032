// Splits groups that no template takes, before tasks are placed and lowered.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compile/compile.h"
#include "graph/graph.h"
#include "schedule/problem/task.h"
#include "schedule/schedule.h"
#include "target/target.h"

namespace kilter {

struct SplitGroups {
  std::set<NodeId> reference;    ///< nodes that run their reference kernel
  std::vector<Unfused> unfused;  ///< nodes that run separately from their group's anchor, and why
};

/// Splits groups that no template takes into single nodes. A node that no template takes even on its own leaves its
/// group and gets plain operands: a Relayout connects it to values in another layout.
SplitGroups split_unschedulable(Graph& graph, const CompileOptions& options);

/// The objections of every template to a task that none takes: name and reason, in the order of the templates.
std::vector<std::pair<std::string, Rejected>> rejections(const Task& task, const TargetLimits& limits);

/// Reports the first task of a stage, and every 64th after it, to CompileOptions::progress.
void tell_task(const CompileOptions& options, std::string_view stage, int64_t done, int64_t of);

}  // namespace kilter
