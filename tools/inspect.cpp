// kilter inspect: what is in a network: inputs, outputs, operators, parameters, work, tasks.

#include <algorithm>
#include <map>

#include "ops/builder.h"
#include "tool.h"

namespace kilter::tool {
namespace {

std::string scaled(double value) {
  for (const auto& [unit, size] : {std::pair{"G", 1e9}, {"M", 1e6}, {"k", 1e3}}) {
    if (value >= size) return fmt::format("{:.2f} {}", value / size, unit);
  }
  return fmt::format("{:.0f} ", value);
}

void print_graph(const Graph& graph) {
  std::map<std::string_view, int64_t> operators;
  int64_t parameters = 0, parameter_bytes = 0, flops = 0;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    ++operators[node.op->name];
    if (node.op->flops != nullptr) flops += node.op->flops(view(graph, node));
  }
  for (ValueId v = 0; v < static_cast<ValueId>(graph.value_count()); ++v) {
    const Value& value = graph.value(v);
    if (value.dead || !value.constant) continue;
    parameters += value.constant->elems();
    parameter_bytes += value.constant->bytes();
  }
  fmt::print("operators ({} nodes):\n", graph.order().size());
  for (const auto& [name, count] : operators) fmt::print("  {:<28} {:>5}\n", name, count);
  fmt::print("parameters: {} ({}B)\nFLOPs: {} (one multiply-add = 2)\n", parameters,
             scaled(static_cast<double>(parameter_bytes)), scaled(static_cast<double>(flops)));
}

struct TaskRow {
  int64_t count = 0, flops = 0, bytes = 0;
  std::string schedule;
};

void print_tasks(const Plan& plan) {
  std::map<std::string, TaskRow> tasks;
  const Step* before = nullptr;
  for (const Step& s : plan.steps) {
    if (s.problem.empty() || s.ops == "pack") continue;
    TaskRow& row = tasks[s.problem];
    row.count += before == nullptr || before->name != s.name ? 1 : 0;  // stages of one task follow each other
    before = &s;
    row.flops += s.flops;
    row.bytes += s.bytes;
    row.schedule = s.schedule;
  }
  std::vector<std::pair<std::string, TaskRow>> sorted(tasks.begin(), tasks.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.flops > b.second.flops; });
  fmt::print("tasks ({}):\n  {:>5} {:>10} {:>10}  {}\n", sorted.size(), "count", "MFLOP", "MB", "problem | schedule");
  for (const auto& [problem, row] : sorted) {
    fmt::print("  {:>5} {:>10.2f} {:>10.3f}  {} | {}\n", row.count, static_cast<double>(row.flops) * 1e-6,
               static_cast<double>(row.bytes) * 1e-6, problem, row.schedule);
  }
}

void inspect(const ModelOptions& options) {
  const auto session = options.open();
  fmt::print("{}\ninputs:\n", session->name());
  for (const onnx::Port& p : session->inputs()) fmt::print("  {}: {}\n", p.name, onnx::text(p));
  fmt::print("outputs:\n");
  for (const onnx::Port& p : session->outputs()) fmt::print("  {}: {}\n", p.name, onnx::text(p));
  if (!session->compiled_file()) print_graph(session->graph({}));
  Loaded& loaded = session->prepare();
  const Plan& plan = loaded.plan();
  fmt::print("plan: {} steps for {} ({}), arena {:.2f} MB, packed weights {:.2f} MB, code {:.2f} MB\n",
             plan.steps.size(), plan.target, plan.codegen, static_cast<double>(plan.arena_bytes) * 1e-6,
             static_cast<double>(plan.constants_bytes) * 1e-6, static_cast<double>(plan.code_bytes) * 1e-6);
  print_tasks(plan);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].kind != StepKind::reference) continue;
    fmt::print("reference kernel: {} '{}'\n", plan.steps[i].ops, plan.steps[i].name);
  }
  if (options.time_passes && !session->compiled_file()) print_passes(loaded.compiled);
}

}  // namespace

void add_inspect(CLI::App& app, Context&) {
  auto options = std::make_shared<ModelOptions>();
  CLI::App* sub =
      app.add_subcommand("inspect", "Show a network's inputs, outputs, operators, parameters, work and tasks");
  options->add_to(*sub);
  sub->callback([=] { inspect(*options); });
}

}  // namespace kilter::tool
