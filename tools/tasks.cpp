// kilter tasks: what of a network can be tuned.

#include <nlohmann/json.hpp>

#include "measure/quiet.h"
#include "tool.h"
#include "tune/tuner/task_list.h"

namespace kilter::tool {
namespace {

struct TasksCommand {
  ModelOptions model;
  std::vector<std::string> ops;
  std::string json;
  bool nodes = false, spaces = false;
};

nlohmann::json to_json(const tune::TaskList& list) {
  nlohmann::json out{{"anchors", list.anchors}, {"tasks", nlohmann::json::array()}, {"nodes", nlohmann::json::array()}};
  for (const tune::TaskLine& t : list.tasks) {
    out["tasks"].push_back({{"task", t.task},
                            {"problem", t.problem},
                            {"layouts", t.layouts},
                            {"schedule", t.schedule},
                            {"nodes", t.nodes},
                            {"flops", t.flops},
                            {"bytes", t.bytes},
                            {"cycles", t.cycles},
                            {"best_cycles", t.best_cycles},
                            {"points", t.points},
                            {"worth_a_trial", t.worth},
                            {"space", t.space}});
  }
  for (const tune::NodeLine& n : list.nodes) {
    nlohmann::json line{{"node", n.node}, {"op", n.op}, {"becomes", n.becomes}};
    if (n.task > 0) line["task"] = n.task;
    out["nodes"].push_back(std::move(line));
  }
  return out;
}

/// Whether another task has the same problem, so that only layouts tell the two apart.
bool has_twin(const tune::TaskList& list, const tune::TaskLine& task) {
  return std::ranges::count(list.tasks, task.problem, &tune::TaskLine::problem) > 1;
}

void print_list(const tune::TaskList& list, bool nodes, bool spaces) {
  double all = 0;
  for (const tune::TaskLine& t : list.tasks) all += t.cycles * static_cast<double>(t.nodes.size());
  const double ghz = core_clock_ghz();
  fmt::print("{} tasks; {} different problems without what is fused into them\n", list.tasks.size(), list.anchors);
  const auto ms = [&](double cycles) {
    return cycles > 0 && ghz > 0 ? fmt::format("{:.4f}", cycles / ghz * 1e-6) : std::string("-");
  };
  fmt::print("{:>4} {:>6} {:>9} {:>9} {:>9} {:>6} {:>8} {:>7}  {}\n", "task", "layers", "MFLOP", "model ms", "best ms",
             "share", "points", "worth", "problem | default schedule");
  for (const tune::TaskLine& t : list.tasks) {
    const double cycles = t.cycles * static_cast<double>(t.nodes.size());
    fmt::print("{:>4} {:>6} {:>9.3f} {:>9} {:>9} {:>6} {:>8} {:>7}  {}{} | {}\n", t.task, t.nodes.size(),
               static_cast<double>(t.flops) * 1e-6, ms(t.cycles), ms(t.best_cycles),
               t.cycles > 0 ? fmt::format("{:.1f} %", 100 * cycles / all) : "-", t.points, t.worth, t.problem,
               has_twin(list, t) ? " in " + t.layouts : "", t.schedule);
    if (spaces) fmt::print("{:>69}{}; first layer '{}'\n", "", t.space, t.nodes.front());
  }
  fmt::print(
      "MFLOP, model ms and best ms are of one layer; the times are the model's, of the default and of the best "
      "schedule, "
      "on one core at {:.2f} GHz;\n"
      "share: of the model's time, all layers; worth: schedules that the model leaves worth a trial\n",
      ghz);
  if (!nodes) return;
  fmt::print("\n{:<40} {:<24} {}\n", "node", "operator", "becomes");
  for (const tune::NodeLine& n : list.nodes) fmt::print("{:<40} {:<24} {}\n", n.node, n.op, n.becomes);
}

void run_tasks(const TasksCommand& command) {
  const auto session = command.model.open();
  if (session->compiled_file())
    fail(ErrorKind::usage, "{} is a compiled file: its tasks are those of the model that it was made from",
         command.model.model);
  const std::map<std::string, Tensor> inputs = command.model.all_inputs(*session);
  onnx::Model::Shapes shapes;
  for (const auto& [name, tensor] : inputs) shapes[name] = tensor.shape();
  const Graph graph = session->graph(shapes, session->needed_values(inputs));
  CompileOptions options = adapted(session->options().compile, graph);
  options.generate_code = false;
  options.keep_placed = true;
  const tune::TaskList list = tune::list_tasks(graph, compile_graph(graph, options), options, command.ops);
  if (!command.json.empty()) write_text("--json", command.json, to_json(list).dump(2) + "\n");
  if (command.json != "-") print_list(list, command.nodes, command.spaces);
}

}  // namespace

void add_tasks(CLI::App& app, Context&) {
  auto command = std::make_shared<TasksCommand>();
  CLI::App* sub =
      app.add_subcommand("tasks", "List the tasks of a network, their spaces, and what becomes of each node");
  command->model.add_to(*sub);
  sub->add_option("--ops", command->ops, "only tasks of these kinds, the first word of their problems: conv2d, matmul")
      ->delimiter(',');
  sub->add_flag("--nodes", command->nodes,
                "also a line for each node: task, fused into a task, free view, or why it has no space");
  sub->add_flag("--spaces", command->spaces, "also what rules out the points of each space, and how many");
  sub->add_option("--json", command->json,
                  "also write everything as JSON to a file; - is standard output, which then holds nothing else");
  sub->callback([command] { run_tasks(*command); });
}

}  // namespace kilter::tool
