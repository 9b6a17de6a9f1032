#include "tune/tuner/tasks/task_names.h"

#include <algorithm>
#include <ranges>

#include "base/text.h"
#include "compile/tasks.h"
#include "tune/tuner/tasks/task_list.h"

namespace kilter::tune {
namespace {

constexpr std::string_view kTask = "task:", kEvery = "*";

/// Returns whether a name in an option stands for several layers.
bool is_several(std::string_view name) { return name == kEvery || name.starts_with(kTask); }

/// Removes the options that stand for several layers from `options` and returns them.
CompileOptions take_out(CompileOptions& options) {
  CompileOptions out;
  for (auto it = options.choices.begin(); it != options.choices.end();) {
    const auto next = std::next(it);
    if (is_several(it->first)) out.choices.insert(options.choices.extract(it));
    it = next;
  }
  const auto of_tasks = std::stable_partition(options.forbidden.begin(), options.forbidden.end(),
                                              [](const Forbidden& f) { return !is_several(f.node); });
  out.forbidden.assign(std::make_move_iterator(of_tasks), std::make_move_iterator(options.forbidden.end()));
  options.forbidden.erase(of_tasks, options.forbidden.end());
  return out;
}

/// The network as compiled with these options without records, with its tasks.
class Looked {
 public:
  Looked(const Graph& graph, CompileOptions look) : limits_(look.target.limits) {
    look.contents = {.code = false, .tasks = true};
    look.report.notice = nullptr, look.debug.dump_ir.clear();
    compiled_ = compile_graph(graph, look);
    tasks_ = numbered_tasks(compiled_, look.forbidden);
  }

  /// Returns the layers of one task ("task:3"), or those of all tasks ("*").
  std::vector<std::string> layers(const std::string& name, const std::string& option) const {
    if (name == kEvery) {
      std::vector<std::string> all;
      for (const auto& nodes : tasks_) all.insert(all.end(), nodes.begin(), nodes.end());
      return all;
    }
    const auto number = try_parse_int(std::string_view(name).substr(kTask.size()));
    if (number && *number >= 1 && *number <= static_cast<int64_t>(tasks_.size()))
      return tasks_[static_cast<size_t>(*number - 1)];
    fail(ErrorKind::usage, "{}: expected a task from task:1 to task:{}, as `kilter tasks` numbers them, got '{}'",
         option, tasks_.size(), name);
  }

  /// Returns all layers that accept a schedule and for which it is not forbidden.
  std::vector<std::string> takers(const Schedule& schedule, std::span<const Forbidden> forbidden,
                                  const std::string& option) const {
    const std::vector<std::string> all = layers(std::string(kEvery), option);
    const std::set<std::string> known(all.begin(), all.end());
    std::vector<std::string> out;
    try {
      for (const Task& task : tasks_of(compiled_.tasks->graph, compiled_.tasks->storage)) {
        const std::string& node = task.node().name;
        if (known.contains(node) && forbids(forbidden, node, schedule) == nullptr && takes(task, schedule, limits_))
          out.push_back(node);
      }
    } catch (const Error& e) {
      fail(e.kind(), "{}: {}", option, e.message());
    }
    return out;
  }

 private:
  CpuLimits limits_;
  Compiled compiled_;
  NumberedTasks tasks_;
};

void name_schedule(const Looked& network, const std::string& name, const Schedule& schedule, CompileOptions& options) {
  const std::string option = fmt::format("--schedule {}={}", name, schedule.text());
  const auto nodes =
      name == kEvery ? network.takers(schedule, options.forbidden, option) : network.layers(name, option);
  if (nodes.empty() && options.report.notice)
    options.report.notice(option + ": this has no effect, since it applies to no layer of this network");
  for (const std::string& node : nodes) add({{node, schedule}}, options.choices);
}

/// Drops schedules from files that are forbidden for their layers.
void drop_forbidden_of_files(CompileOptions& options) {
  Choices kept;
  for (auto& [node, choice] : options.choices) {
    if (choice.schedule && choice.schedule_from.source == ScheduleSource::layer_plan &&
        forbids(options.forbidden, node, *choice.schedule) != nullptr)
      choice.schedule.reset();
    if (choice != LayerChoice()) kept.emplace(node, choice);
  }
  options.choices = std::move(kept);
}

}  // namespace

bool names_several(const CompileOptions& options) {
  return std::ranges::any_of(options.choices, [](const auto& entry) { return is_several(entry.first); }) ||
         std::ranges::any_of(options.forbidden, [](const Forbidden& f) { return is_several(f.node); });
}

void name_layers(const Graph& graph, CompileOptions& options) {
  const CompileOptions named = take_out(options);
  const Looked network(graph, options);
  for (const Forbidden& f : named.forbidden) {
    for (const std::string& node : network.layers(f.node, "--forbid " + f.text()))
      options.forbidden.push_back({f.schedule, node});
  }
  drop_forbidden_of_files(options);
  // In the map, names of tasks come after "*"; in reverse order, they come first and take precedence.
  for (const auto& [name, choice] : std::views::reverse(named.choices)) {
    if (choice.schedule) name_schedule(network, name, *choice.schedule, options);
  }
  for (const auto& [name, choice] : std::views::reverse(named.choices)) {
    if (choice.threads == 0) continue;
    LayerChoice threads;
    threads.threads = choice.threads;
    for (const std::string& node : network.layers(name, fmt::format("--layer-threads {}={}", name, choice.threads)))
      add({{node, threads}}, options.choices);
  }
}

void refuse_forbidden_schedules(const CompileOptions& options) {
  for (const auto& [node, choice] : options.choices) {
    if (!choice.forced()) continue;
    if (const Forbidden* barred = forbids(options.forbidden, node, *choice.schedule)) {
      fail(ErrorKind::usage, "--schedule {}={}: --forbid {} excludes it from this layer; give only one of them", node,
           choice.schedule->text(), barred->text());
    }
  }
}

}  // namespace kilter::tune
