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
  const auto take = [](auto& from, auto& to) {
    for (auto it = from.begin(); it != from.end();) {
      const auto next = std::next(it);
      if (is_several(it->first)) to.insert(from.extract(it));
      it = next;
    }
  };
  take(options.schedules, out.schedules);
  take(options.layer_threads, out.layer_threads);
  const auto of_tasks = std::stable_partition(options.forbidden.begin(), options.forbidden.end(),
                                              [](const Forbidden& f) { return !is_several(f.node); });
  out.forbidden.assign(std::make_move_iterator(of_tasks), std::make_move_iterator(options.forbidden.end()));
  options.forbidden.erase(of_tasks, options.forbidden.end());
  return out;
}

/// The network as these options compile it without records, with its tasks.
class Looked {
 public:
  Looked(const Graph& graph, CompileOptions look) : limits_(look.target.limits) {
    look.adapt = nullptr, look.recorded = nullptr, look.notice = nullptr;
    look.generate_code = false, look.keep_placed = true, look.dump_ir.clear();
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

  /// Returns all layers that take a schedule and for which it is not forbidden.
  std::vector<std::string> takers(const Schedule& schedule, std::span<const Forbidden> forbidden,
                                  const std::string& option) const {
    const std::vector<std::string> all = layers(std::string(kEvery), option);
    const std::set<std::string> known(all.begin(), all.end());
    std::vector<std::string> out;
    try {
      for (const Task& task : tasks_of(compiled_.placed->graph, compiled_.placed->storage)) {
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
  TargetLimits limits_;
  Compiled compiled_;
  NumberedTasks tasks_;
};

void name_schedule(const Looked& network, const std::string& name, const Schedule& schedule, CompileOptions& options) {
  const std::string option = fmt::format("--schedule {}={}", name, schedule.text());
  const auto nodes =
      name == kEvery ? network.takers(schedule, options.forbidden, option) : network.layers(name, option);
  if (nodes.empty() && options.notice)
    options.notice(option + ": no layer of this network would take it, so it changes nothing");
  for (const std::string& node : nodes) options.schedules.emplace(node, schedule);
}

}  // namespace

bool names_several(const CompileOptions& options) {
  const auto keyed = [](const auto& entry) { return is_several(entry.first); };
  return std::ranges::any_of(options.schedules, keyed) || std::ranges::any_of(options.layer_threads, keyed) ||
         std::ranges::any_of(options.forbidden, [](const Forbidden& f) { return is_several(f.node); });
}

void name_layers(const Graph& graph, CompileOptions& options) {
  const CompileOptions named = take_out(options);
  const Looked network(graph, options);
  for (const Forbidden& f : named.forbidden) {
    for (const std::string& node : network.layers(f.node, "--forbid " + f.text()))
      options.forbidden.push_back({f.schedule, node});
  }
  std::erase_if(options.schedules, [&](const auto& entry) {
    return options.given_in.contains(entry.first) && forbids(options.forbidden, entry.first, entry.second) != nullptr;
  });
  // In the maps, names of tasks sort after "*"; reversed, they take precedence over it.
  for (const auto& [name, schedule] : std::views::reverse(named.schedules))
    name_schedule(network, name, schedule, options);
  for (const auto& [name, threads] : std::views::reverse(named.layer_threads)) {
    for (const std::string& node : network.layers(name, fmt::format("--layer-threads {}={}", name, threads)))
      options.layer_threads.emplace(node, threads);
  }
}

void refuse_forbidden_schedules(const CompileOptions& options) {
  for (const auto& [node, schedule] : options.schedules) {
    if (const Forbidden* barred = forbids(options.forbidden, node, schedule)) {
      fail(ErrorKind::usage, "--schedule {}={}: --forbid {} leaves it out of this layer; give one of them", node,
           schedule.text(), barred->text());
    }
  }
}

}  // namespace kilter::tune
