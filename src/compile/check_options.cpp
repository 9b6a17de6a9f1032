#include "compile/check_options.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "compile/tasks.h"

namespace kilter {

void check_pass_names(const CompileOptions& options) {
  std::vector<std::string_view> names;
  for (const PassRow& row : all_passes()) names.push_back(row.name);
  const auto known = [&](std::string_view n) { return std::find(names.begin(), names.end(), n) != names.end(); };
  if (!options.stop_after.empty() && !known(options.stop_after)) {
    fail(ErrorKind::usage, "--stop-after: no pass '{}'; legal are {}", options.stop_after, fmt::join(names, ", "));
  }
  for (const std::string& n : options.disable) {
    if (!known(n)) fail(ErrorKind::usage, "--disable: no pass '{}'; legal are {}", n, fmt::join(names, ", "));
  }
}

void check_node_names(const Graph& graph, const CompileOptions& options) {
  std::set<std::string> anchors, nodes;
  for (const Unit& unit : units(graph)) anchors.insert(make_task(graph, unit, nullptr).node().name);
  for (NodeId id : graph.order()) {
    if (graph.node(id).op->name != "Relayout") nodes.insert(graph.node(id).name);
  }
  const auto task = [&](const std::string& node, const std::string& option) {
    if (anchors.contains(node)) return;
    fail(ErrorKind::usage, "{}: no task has this name; legal are {}", option, fmt::join(anchors, ", "));
  };
  for (const auto& [node, schedule] : options.schedules)
    task(node, fmt::format("--schedule {}={}", node, schedule.text()));
  for (const Forbidden& f : options.forbidden) {
    if (!f.node.empty()) task(f.node, "--forbid " + f.text());
  }
  for (const std::string& node : options.fuse) task(node, "--fuse " + node);
  for (const std::string& node : options.no_fuse) task(node, "--no-fuse " + node);
  for (const auto& [node, threads] : options.layer_threads) {
    task(node, fmt::format("--layer-threads {}={}", node, threads));
    if (threads < 1) fail(ErrorKind::usage, "--layer-threads {}={}: expected 1 thread or more", node, threads);
  }
  for (const std::string& node : options.plain_layout) {
    if (nodes.contains(node)) continue;
    fail(ErrorKind::usage, "--plain-layout {}: no node has this name; legal are {}", node, fmt::join(nodes, ", "));
  }
}

}  // namespace kilter
