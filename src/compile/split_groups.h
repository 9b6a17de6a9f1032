// Groups that no template takes, split before tasks are placed and lowered.
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
  std::vector<Unfused> unfused;  ///< nodes that run apart from their group's anchor, and why
};

/// Splits groups that no template takes into single nodes. Nodes that no template takes alone leave their group, and
/// their operands become plain: a Relayout stands between them and values in another layout.
SplitGroups split_unschedulable(Graph& graph, const CompileOptions& options);

/// What every template says against a task that none takes: name and reason, in the order of the templates.
std::vector<std::pair<std::string, Rejected>> rejections(const Task& task, const TargetLimits& limits);

/// Tells CompileOptions::progress of the first task of a stage, and of one in 64 after it.
void tell_task(const CompileOptions& options, std::string_view stage, int64_t done, int64_t of);

}  // namespace kilter
