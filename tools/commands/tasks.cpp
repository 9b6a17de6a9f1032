// kilter tasks: lists the parts of a network that can be tuned.

#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/columns.h"
#include "base/text.h"
#include "measure/quiet.h"
#include "terminal.h"
#include "tool.h"
#include "tune/tuner/tasks/task_list.h"
#include "tuning.h"

namespace kilter::tool {
namespace {

struct TasksCommand {
  ModelOptions model;
  std::vector<std::string> ops;
  std::string json;
  bool nodes = true, spaces = false;
};

/// Converts the model's cycles to milliseconds on one core. Returns nothing if the model has no estimate.
std::optional<double> core_ms(double cycles, double ghz) {
  return cycles > 0 && ghz > 0 ? std::optional(cycles / ghz * 1e-6) : std::nullopt;
}

nlohmann::json task_json(const tune::TaskLine& t, double ghz) {
  const auto ms = [&](double cycles) {
    const auto known = core_ms(cycles, ghz);
    return known ? nlohmann::json(*known) : nlohmann::json(nullptr);
  };
  return {{"task", t.task},
          {"problem", t.problem},
          {"layouts", t.layouts},
          {"schedule", t.schedule},
          {"record", t.record},
          {"nodes", t.nodes},
          {"count", t.nodes.size()},
          {"share", t.share},
          {"present_ms", ms(t.cycles)},
          {"best_ms", ms(t.best_cycles)},
          {"flops", t.flops},
          {"bytes", t.bytes},
          {"cycles", t.cycles},
          {"best_cycles", t.best_cycles},
          {"points", t.points},
          {"worth_a_trial", t.worth},
          {"space", t.space}};
}

nlohmann::json to_json(const tune::TaskList& list, double ghz) {
  nlohmann::json tasks = nlohmann::json::array(), nodes = nlohmann::json::array();
  for (const tune::TaskLine& t : list.tasks) tasks.push_back(task_json(t, ghz));
  for (const tune::NodeLine& n : list.nodes) {
    nodes.push_back({{"node", n.node}, {"op", n.op}, {"becomes", n.becomes}});
    if (n.task >= 0) nodes.back()["task"] = n.task, nodes.back()["problem"] = n.problem;
  }
  return {{"anchors", list.anchors}, {"cores", 1}, {"ghz", ghz}, {"tasks", tasks}, {"nodes", nodes}};
}

/// Whether another line has the same problem, so that only the layouts distinguish the two.
bool has_twin(const tune::TaskList& list, const tune::TaskLine& task) {
  return std::ranges::any_of(list.tasks, [&](const tune::TaskLine& other) {
    return other.problem == task.problem && other.layouts != task.layouts;
  });
}

void print_nodes(const tune::TaskList& list) {
  TextTable table({{.title = "node", .width = 40, .left = true, .least = 16},
                   {.title = "operator", .width = 24, .left = true, .least = 8},
                   {.title = "becomes", .left = true, .least = 30}});
  for (const tune::NodeLine& n : list.nodes) table.add({printable(n.node), n.op, printable(n.becomes)});
  say("{}\n", table.text(table_style(), ""));
}

/// The names of layers, "layer1.{0.conv1, 1.conv1}". With a width, names that take more lose their middle.
std::string names_text(const std::vector<std::string>& names, size_t width) {
  if (width == 0) return printable(join(names, ", "));
  const std::string start(common_start(names));
  std::vector<std::string> shown;
  const size_t most = start.empty() ? width - 1 : width / 2 - 2;
  for (const std::string& name : names) shown.push_back(without_middle(printable(name.substr(start.size())), most));
  return start.empty() ? join(shown, ", ") : without_middle(printable(start), most) + "{" + join(shown, ", ") + "}";
}

// A narrow terminal has problems and layers below the figures.
constexpr size_t kFigures = 69, kBelow = 5, kLeastWide = 120;

std::string tasks_head(bool narrow) {
  const std::string figures = fmt::format("{:>4} {:>6} {:>9} {:>9} {:>9} {:>6} {:>8} {:>7}", "task", "layers", "MFLOP",
                                          "now ms", "best ms", "share", "points", "worth");
  return figures + (narrow ? "\n" + std::string(kBelow, ' ') : "  ") + "problem | schedule, then its layers";
}

void print_tasks(const tune::TaskList& list, bool spaces, double ghz) {
  std::set<int64_t> numbers;
  for (const tune::TaskLine& t : list.tasks) numbers.insert(t.task);
  const auto without = std::ranges::count(list.tasks, 0, &tune::TaskLine::task);
  const int64_t count = std::ssize(numbers) + std::max<int64_t>(without - 1, 0);  // unnumbered tasks share the number 0
  say("{} tasks; {} different problems, not counting fused nodes\n", count, list.anchors);
  const auto ms = [&](double cycles) {
    const auto known = core_ms(cycles, ghz);
    return known ? fmt::format("{:.4f}", *known) : std::string("-");
  };
  const size_t width = terminal_columns().value_or(0);
  const bool narrow = width > 0 && width < kLeastWide;
  const size_t under = narrow ? kBelow : kFigures;
  const auto line = [&](const std::string& text) {
    say("{}\n", hanging(std::string(under, ' ') + text, under + (narrow ? 2 : 0), width));
  };
  say("{}\n", styled(Style::bold, tasks_head(narrow)));
  for (const tune::TaskLine& t : list.tasks) {
    const std::string figures =
        fmt::format("{:>4} {:>6} {:>9.3f} {:>9} {:>9} {:>6} {:>8} {:>7}", t.task > 0 ? std::to_string(t.task) : "-",
                    t.nodes.size(), static_cast<double>(t.flops) * 1e-6, ms(t.cycles), ms(t.best_cycles),
                    t.cycles > 0 ? fmt::format("{:.1f} %", 100 * t.share) : "-", t.points, t.worth);
    const std::string problem =
        fmt::format("{}{} | {}", t.problem, has_twin(list, t) ? " in " + t.layouts : "", t.schedule);
    if (narrow) {
      say("{}\n", figures);
      line(problem);
    } else {
      say("{}\n", hanging(figures + "  " + problem, under, width));
    }
    line(names_text(t.nodes, narrow ? width - under - 2 : 0));
    if (!t.record.empty()) line(printable(t.record));
    if (spaces) line(t.space);
  }
  say_fitted(fmt::format(
      "MFLOP, now ms and best ms are for one layer; the times are the analytic model's, for the schedule that runs and "
      "for the best one,\n"
      "on one core at {:.2f} GHz, whatever --threads; share: of the predicted time of all listed layers;\n"
      "worth: schedules that the analytic model considers worth a trial, usually including the default; the line below "
      "a schedule from records says what was measured\n",
      ghz));
}

/// Returns the options with which `kilter tasks` compiles a network, only to find its tasks.
CompileOptions looking(const CompileOptions& given, const Chooser* chooser, const Graph& graph) {
  CompileOptions options = adapted(given, chooser, graph);
  options.contents.code = false;
  options.contents.tasks = true;
  return options;
}

/// Returns the task numbers of the network compiled without records, or nothing if no records are in use.
std::optional<tune::NumberedTasks> numbers_without_records(const ModelOptions& model, const NetworkParts& network) {
  if (model.records_file().empty()) return std::nullopt;
  ModelOptions::CompileSetup plain = model.without_records().compile_setup();
  plain.options.report.notice = nullptr;  // already reported
  network.spread(plain.options);
  const CompileOptions options = looking(plain.options, plain.chooser.get(), network.whole);
  return tune::numbered_tasks(compile_graph(network.whole, options), options.forbidden);
}

void run_tasks(const TasksCommand& command) {
  const auto session = command.model.open();
  if (session->compiled_file())
    fail(ErrorKind::usage, "{} is a compiled file: give the original model to see its tasks", command.model.model);
  const NetworkParts network = parts_of(command.model, *session);
  const Graph& graph = network.whole;
  if (!network.text.empty()) note("{}: {}\n", command.model.model, network.text);
  const Chooser* chooser = session->options().chooser.get();
  CompileOptions given = session->options().compile;
  network.spread(given);
  const CompileOptions options = looking(given, chooser, graph);
  const Compiled compiled = compile_graph(graph, options, chooser);
  tell_records(compiled.plan.records);
  const tune::TaskList list =
      tune::list_tasks(graph, compiled, options, command.ops, numbers_without_records(command.model, network));
  const double ghz = core_clock_ghz();
  if (!command.json.empty()) write_json(command.json, to_json(list, ghz));
  if (command.json == "-") return;
  if (command.nodes) print_nodes(list);
  print_tasks(list, command.spaces, ghz);
}

}  // namespace

void add_tasks(Command app, Context&) {
  auto command = std::make_shared<TasksCommand>();
  Command sub = app.subcommand("tasks", "List the tasks of a network, their spaces, and what becomes of each node");
  sub.group("Look inside");
  command->model.add_to(sub, false);
  sub.heading("Tasks");
  sub.option("--ops", command->ops, "only tasks of these kinds, the first word of their problems: conv2d, matmul")
      .delimiter(',')
      .value("KIND");
  sub.flag("--nodes,!--no-nodes", command->nodes,
           "list the nodes before the tasks: task, fused into a task, free view, or why the node has no space "
           "(the default)");
  sub.flag("--spaces", command->spaces,
           "also show the rules that exclude points of each space, and how many points each excludes");
  sub.heading("Output");
  sub.json(command->json, "everything");
  sub.example("kilter tasks zoo:resnet18 --ops conv2d --no-nodes", "The tasks of the convolutions");
  sub.callback([command] { run_tasks(*command); });
}

}  // namespace kilter::tool
