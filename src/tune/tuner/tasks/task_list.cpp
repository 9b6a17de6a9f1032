#include "tune/tuner/tasks/task_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "compile/tasks.h"
#include "tune/records/problem_words.h"
#include "tune/space/prune.h"

namespace kilter::tune {
namespace {

/// All bans that apply to a layer, as one text.
std::string forbidden_text(std::span<const Forbidden> forbidden, const std::string& node) {
  std::set<std::string> words;
  for (const Forbidden& f : forbidden) {
    if (f.node == node) words.insert(f.schedule.text());
  }
  return fmt::format("{}", fmt::join(words, "; "));
}

class Lister {
 public:
  Lister(const Compiled& compiled, const CompileOptions& options, const std::vector<std::string>& kinds,
         const NumberedTasks& tasks)
      : compiled_(compiled), options_(options), kinds_(kinds) {
    for (size_t s = 0; s < compiled.plan.steps.size(); ++s) {
      const Step& step = compiled.plan.steps[s];
      if (step.kind == StepKind::kernel || step.kind == StepKind::reference) step_.emplace(step.name, s);
    }
    for (size_t t = 0; t < tasks.size(); ++t) {
      for (const std::string& node : tasks[t]) number_[node] = static_cast<int64_t>(t) + 1;
    }
  }

  TaskList run(const Graph& original) {
    const Graph& graph = compiled_.tasks->graph;
    for (const Unit& unit : units(graph)) place(unit);
    std::set<std::string> listed;
    const auto add = [&](const Node& node, const std::string& otherwise) {
      if (!listed.insert(node.name).second) return;
      const auto known = lines_.find(node.name);
      out_.nodes.push_back(known != lines_.end() ? known->second
                                                 : NodeLine{node.name, std::string(node.op->name), -1, "", otherwise});
    };
    for (const NodeId id : original.order()) add(original.node(id), "gone: folded or rewritten by the passes");
    for (const NodeId id : graph.order()) add(graph.node(id), "");
    std::vector<std::string> problems;
    for (const TaskLine& t : out_.tasks) problems.push_back(t.problem);
    require_kinds(kinds_, problems);
    std::erase_if(out_.tasks, [&](const TaskLine& t) { return !wanted(t.problem); });
    double all = 0;
    for (const TaskLine& t : out_.tasks) all += t.cycles * static_cast<double>(t.nodes.size());
    for (TaskLine& t : out_.tasks) t.share = all > 0 ? t.cycles * static_cast<double>(t.nodes.size()) / all : 0;
    std::set<std::string> anchors;
    for (const TaskLine& t : out_.tasks) anchors.insert(std::string(anchor_of(t.problem)));
    out_.anchors = static_cast<int64_t>(anchors.size());
    return std::move(out_);
  }

 private:
  void place(const Unit& unit) {
    const TaskGraph& placed = *compiled_.tasks;
    if (placed.storage.views.contains(unit.nodes.front())) return tell(unit, "free view");
    const Task task = make_task(placed.graph, unit, &placed.storage);
    const auto at = step_.find(task.node().name);
    if (at == step_.end()) return tell(unit, "no kernel: a tensor without elements");
    const Step& step = compiled_.plan.steps[at->second];
    if (step.kind == StepKind::reference) {
      std::string why = "no space: no template applies";
      for (const auto& [name, r] : compiled_.rejected[at->second])
        if (!r.other_kind) why += fmt::format("; {}: {}", name, r.text());
      return tell(unit, why);
    }
    const int64_t number = task_of(task, step);
    if (!wanted(step.problem)) return tell(unit, "left out by --ops");
    const std::string name = number > 0 ? fmt::format("task {}", number) : "a task without a number";
    for (const NodeId id : unit.nodes)
      add_line(id, number, step.problem, id == task.anchor ? name : "fused into " + name);
  }

  bool wanted(std::string_view problem) const { return has_kind(problem, kinds_); }

  /// Adds the unit's task to the list if needed. A task has the same number regardless of the kinds that are listed.
  int64_t task_of(const Task& task, const Step& step) {
    const auto numbered = number_.find(task.node().name);
    const int64_t number = numbered == number_.end() ? 0 : numbered->second;
    const auto known = std::ranges::find_if(out_.tasks, [&](const TaskLine& t) {
      return t.task == number && t.problem == step.problem && t.layouts == step.layouts && t.schedule == step.schedule;
    });
    if (known != out_.tasks.end()) {
      known->nodes.push_back(task.node().name);
      return number;
    }
    TaskLine line;
    line.task = number;
    line.problem = step.problem, line.layouts = step.layouts, line.schedule = step.schedule;
    line.record = step.record, line.nodes = {task.node().name};
    if (wanted(step.problem)) describe(line, task);
    out_.tasks.push_back(std::move(line));
    return number;
  }

  void describe(TaskLine& line, const Task& task) const {
    line.flops = task.flops(), line.bytes = task.bytes();
    const Space space(task, options_.target.limits, options_.accuracy, options_.forbidden);
    const Pruned pruned = prune(space);
    line.points = space.raw_size(), line.worth = static_cast<int64_t>(pruned.points.size()), line.space = pruned.text();
    const auto cycles = [&](const std::optional<Point>& point) {
      const auto index = point ? space.index_of(*point) : std::nullopt;
      return index ? space.legal()[*index].estimate.cycles : 0;
    };
    line.cycles = cycles(space.find(parse_schedule(line.schedule)));
    line.best_cycles = line.cycles;
    for (const LegalPoint& p : space.legal()) {
      if (line.cycles > 0) line.best_cycles = std::min(line.best_cycles, p.estimate.cycles);
    }
  }

  /// Adds lines for nodes that belong to no task.
  void tell(const Unit& unit, const std::string& becomes) {
    for (const NodeId id : unit.nodes) add_line(id, -1, "", becomes);
  }

  void add_line(NodeId id, int64_t number, const std::string& problem, const std::string& becomes) {
    const Node& node = compiled_.tasks->graph.node(id);
    lines_[node.name] = {node.name, std::string(node.op->name), number, problem, becomes};
  }

  const Compiled& compiled_;
  const CompileOptions& options_;
  const std::vector<std::string>& kinds_;
  std::map<std::string, size_t> step_;     ///< first step by anchor
  std::map<std::string, int64_t> number_;  ///< of the task by anchor
  std::map<std::string, NodeLine> lines_;  ///< by node
  TaskList out_;
};

}  // namespace

NumberedTasks numbered_tasks(const Compiled& compiled, std::span<const Forbidden> forbidden) {
  std::map<std::string, const Step*> steps;
  for (const Step& step : compiled.plan.steps) {
    if (step.kind == StepKind::kernel) steps.emplace(step.name, &step);
  }
  NumberedTasks out;
  std::map<std::array<std::string, 4>, size_t> known;
  for (const Task& task : tasks_of(compiled.tasks->graph, compiled.tasks->storage)) {
    const std::string& node = task.node().name;
    const auto step = steps.find(node);
    if (step == steps.end()) continue;
    const Step& is = *step->second;
    const auto [at, fresh] =
        known.try_emplace({is.problem, is.layouts, is.schedule, forbidden_text(forbidden, node)}, out.size());
    if (fresh) out.emplace_back();
    out[at->second].push_back(node);
  }
  return out;
}

TaskList list_tasks(const Graph& original, const Compiled& compiled, const CompileOptions& options,
                    const std::vector<std::string>& kinds, const std::optional<NumberedTasks>& numbers) {
  const NumberedTasks tasks = numbers ? *numbers : numbered_tasks(compiled, options.forbidden);
  return Lister(compiled, options, kinds, tasks).run(original);
}

}  // namespace kilter::tune
