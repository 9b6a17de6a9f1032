#include "tune/tuner/task_names.h"

#include <algorithm>

#include "base/text.h"
#include "tune/tuner/task_list.h"

namespace kilter::tune {
namespace {

constexpr std::string_view kTask = "task:";

bool is_task(std::string_view name) { return name.starts_with(kTask); }

/// The options that go by tasks, taken out of `options`.
CompileOptions take_out(CompileOptions& options) {
  CompileOptions out;
  const auto take = [](auto& from, auto& to) {
    for (auto it = from.begin(); it != from.end();) {
      const auto next = std::next(it);
      if (is_task(it->first)) to.insert(from.extract(it));
      it = next;
    }
  };
  take(options.schedules, out.schedules);
  take(options.layer_threads, out.layer_threads);
  const auto of_tasks = std::stable_partition(options.forbidden.begin(), options.forbidden.end(),
                                              [](const Forbidden& f) { return !is_task(f.node); });
  out.forbidden.assign(std::make_move_iterator(of_tasks), std::make_move_iterator(options.forbidden.end()));
  options.forbidden.erase(of_tasks, options.forbidden.end());
  return out;
}

using Tasks = std::vector<std::vector<std::string>>;

/// The layers of "task:3".
const std::vector<std::string>& layers_of(const Tasks& tasks, const std::string& name, const std::string& option) {
  const auto number = try_parse_int(std::string_view(name).substr(kTask.size()));
  if (number && *number >= 1 && *number <= static_cast<int64_t>(tasks.size()))
    return tasks[static_cast<size_t>(*number - 1)];
  fail(ErrorKind::usage, "{}: expected a task from task:1 to task:{}, as `kilter tasks` numbers them, got '{}'", option,
       tasks.size(), name);
}

}  // namespace

bool names_tasks(const CompileOptions& options) {
  const auto keyed = [](const auto& entry) { return is_task(entry.first); };
  return std::ranges::any_of(options.schedules, keyed) || std::ranges::any_of(options.layer_threads, keyed) ||
         std::ranges::any_of(options.forbidden, [](const Forbidden& f) { return is_task(f.node); });
}

void name_layers(const Graph& graph, CompileOptions& options) {
  const CompileOptions named = take_out(options);
  CompileOptions look = options;
  look.adapt = nullptr, look.recorded = nullptr, look.notice = nullptr;
  look.generate_code = false, look.keep_placed = true, look.dump_ir.clear();
  const Tasks tasks = numbered_tasks(compile_graph(graph, look), look.forbidden);
  for (const auto& [name, schedule] : named.schedules) {
    for (const std::string& node : layers_of(tasks, name, fmt::format("--schedule {}={}", name, schedule.text())))
      options.schedules.emplace(node, schedule);
  }
  for (const auto& [name, threads] : named.layer_threads) {
    for (const std::string& node : layers_of(tasks, name, fmt::format("--layer-threads {}={}", name, threads)))
      options.layer_threads.emplace(node, threads);
  }
  for (const Forbidden& f : named.forbidden) {
    for (const std::string& node : layers_of(tasks, f.node, "--forbid " + f.text()))
      options.forbidden.push_back({f.schedule, node});
  }
}

}  // namespace kilter::tune
