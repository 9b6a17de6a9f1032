#include "task_spaces.h"

#include "compile/tasks.h"

namespace kilter {
namespace {

constexpr int kTries = 12;  ///< draws of a schedule before a task keeps its default

std::optional<Schedule> draw_schedule(const Task& task, const CpuLimits& limits, Draw& draw) {
  std::vector<std::pair<const Template*, std::unique_ptr<const Analysed>>> takers;
  for (const Template* t : all_templates()) {
    if (auto analysed = t->analyse(task, limits)) takers.emplace_back(t, *std::move(analysed));
  }
  if (takers.empty()) return std::nullopt;
  for (int i = 0; i < kTries; ++i) {
    const auto& [from, analysed] =
        takers[static_cast<size_t>(draw.between(0, static_cast<int64_t>(takers.size()) - 1))];
    Schedule schedule{std::string(from->name), {}};
    for (const Knob& knob : analysed->space()) {
      const auto at = static_cast<size_t>(draw.between(0, static_cast<int64_t>(knob.values.size()) - 1));
      schedule.knobs.emplace_back(knob.name, knob.values[at]);
    }
    if (analysed->lower(schedule)) return schedule;
  }
  return std::nullopt;
}

}  // namespace

std::vector<TaskSpace> tasks_of(Graph given, const Target& target) {
  CompileOptions options;
  options.target = target;
  const Graph graph = run_passes(std::move(given), options).graph;
  std::vector<TaskSpace> all;
  for (const Unit& unit : units(graph)) {
    const Task task = make_task(graph, unit, nullptr);
    const Chosen chosen = choose(task, target.limits);
    const Template* t = find_template(chosen.schedule.name);
    if (t == nullptr || chosen.lowered.stages.empty()) continue;
    const auto analysed = t->analyse(task, target.limits);
    all.push_back({task.node().name, task.problem(), chosen.schedule, (*analysed)->space()});
  }
  return all;
}

std::set<std::string> draw_fused(const Graph& graph, const CompileOptions& options, Draw& draw) {
  std::set<std::string> drawn;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op->family != Family::conv || node.int_attr("group", 1) == 1 || !draw.chance(70)) continue;
    CompileOptions with = options;
    for (const std::string& known : drawn) with.choices[known].fuse = Fusion::before;
    with.choices[node.name].fuse = Fusion::before;
    try {
      run_passes(graph, with);
      drawn.insert(node.name);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::usage) throw;
    }
  }
  return drawn;
}

std::map<std::string, Schedule> draw_schedules(Graph given, const CompileOptions& options, Draw& draw) {
  const Graph graph = run_passes(std::move(given), options).graph;
  std::map<std::string, Schedule> drawn;
  for (const Unit& unit : units(graph)) {
    const Task task = make_task(graph, unit, nullptr);
    if (auto schedule = draw_schedule(task, options.target.limits, draw))
      drawn[task.node().name] = std::move(*schedule);
  }
  return drawn;
}

}  // namespace kilter
