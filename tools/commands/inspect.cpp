// kilter inspect: shows a network's inputs, outputs, operators, parameters, work and tasks; why each layer runs its
// schedule; and the machine code of a layer.

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/columns.h"
#include "base/other_threads.h"
#include "base/text.h"
#include "codegen/disassemble.h"
#include "exec/kernels/step_kernel.h"
#include "onnx/bind_ranges.h"
#include "ops/support/builder.h"
#include "profile/profile.h"
#include "profile/schedules.h"
#include "terminal.h"
#include "tool.h"
#include "tune/tuner/plans/choices_file.h"

namespace kilter::tool {
namespace {

std::string scaled(double value) {
  for (const auto& [unit, size] : {std::pair{"G", 1e9}, {"M", 1e6}, {"k", 1e3}}) {
    if (value >= size) return fmt::format("{:.2f} {}", value / size, unit);
  }
  return fmt::format("{:.0f} ", value);
}

/// What a graph contains and computes.
struct Contents {
  std::map<std::string, int64_t> operators;
  int64_t nodes = 0, parameters = 0, parameter_bytes = 0, flops = 0;
};

Contents contents_of(const Graph& graph) {
  Contents c;
  c.nodes = static_cast<int64_t>(graph.order().size());
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    ++c.operators[std::string(node.op->name)];
    if (node.op->flops != nullptr) c.flops += node.op->flops(view(graph, node));
  }
  for (ValueId v = 0; v < static_cast<ValueId>(graph.value_count()); ++v) {
    const Value& value = graph.value(v);
    if (value.dead || !value.constant) continue;
    c.parameters += value.constant->elems();
    c.parameter_bytes += value.constant->bytes();
  }
  return c;
}

/// Returns what a graph contains before the shapes of its values are known; `flops` is not set.
Contents contents_of(const OpenGraph& graph) {
  Contents c;
  for (const OpenNode& node : graph.nodes) {
    ++c.nodes;
    ++c.operators[node.op != nullptr ? std::string(node.op->name) : node.op_name];
  }
  for (const OpenValue& value : graph.values) {
    if (!value.constant) continue;
    c.parameters += value.constant->elems();
    c.parameter_bytes += value.constant->bytes();
  }
  return c;
}

void print_contents(const Contents& c) {
  say("operators ({} nodes):\n", c.nodes);
  for (const auto& [name, count] : c.operators) say("  {:<28} {:>5}\n", printable(name), count);
  say("parameters: {} ({}B)\n", c.parameters, scaled(static_cast<double>(c.parameter_bytes)));
}

void print_graph(const Graph& graph) {
  const Contents c = contents_of(graph);
  print_contents(c);
  say("FLOPs: {} (one multiply-add = 2)\n", scaled(static_cast<double>(c.flops)));
}

/// Reports outputs whose nodes make a different shape than the model declares.
void print_contradictions(const Graph& graph, const std::vector<onnx::Port>& declared) {
  for (const Graph::Output& output : graph.outputs()) {
    const auto port = std::ranges::find(declared, output.name, &onnx::Port::name);
    const TensorType& type = graph.type(output.value);
    if (port == declared.end() || onnx::fits(*port, type.shape)) continue;
    say("  {} is {} according to its nodes, unlike the model's declaration\n", printable(output.name), text(type));
  }
}

struct TaskRow {
  int64_t count = 0, flops = 0, bytes = 0;
  std::string schedule;
};

/// Returns the problems of a plan with their totals, those with the most operations first.
std::vector<std::pair<std::string, TaskRow>> tasks_of(const Plan& plan) {
  std::map<std::string, TaskRow> tasks;
  const Step* before = nullptr;
  for (const Step& s : plan.steps) {
    if (s.problem.empty() || s.role == StepRole::pack) continue;
    TaskRow& row = tasks[s.problem];
    row.count += before == nullptr || before->name != s.name ? 1 : 0;  // stages of one task are adjacent
    before = &s;
    row.flops += s.flops;
    row.bytes += s.bytes;
    row.schedule = s.schedule;
  }
  std::vector<std::pair<std::string, TaskRow>> sorted(tasks.begin(), tasks.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.flops > b.second.flops; });
  return sorted;
}

void print_tasks(const Plan& plan) {
  const auto tasks = tasks_of(plan);
  constexpr size_t kFigures = 31;
  const size_t width = terminal_columns().value_or(0);
  const std::string head = fmt::format("  {:>5} {:>10} {:>10}  {}", "count", "MFLOP", "MB", "problem | schedule");
  say("tasks ({}):\n{}\n", tasks.size(), styled(Style::bold, head));
  for (const auto& [problem, row] : tasks) {
    const std::string line =
        fmt::format("  {:>5} {:>10.2f} {:>10.3f}  {} | {}", row.count, static_cast<double>(row.flops) * 1e-6,
                    static_cast<double>(row.bytes) * 1e-6, problem, row.schedule);
    say("{}\n", hanging(line, kFigures, width));
  }
}

nlohmann::json ports_json(const std::vector<onnx::Port>& ports, const Session& session) {
  nlohmann::json out = nlohmann::json::array();
  for (const onnx::Port& p : ports) {
    out.push_back({{"name", p.name}, {"type", onnx::text(p)}});
    if (const std::string sizes = onnx::ranges_text(p, session.ranges()); !sizes.empty()) out.back()["ranges"] = sizes;
  }
  return out;
}

nlohmann::json plan_json(const Plan& plan) {
  nlohmann::json tasks = nlohmann::json::array(), references = nlohmann::json::array();
  for (const auto& [problem, row] : tasks_of(plan)) {
    tasks.push_back({{"problem", problem},
                     {"schedule", row.schedule},
                     {"count", row.count},
                     {"flops", row.flops},
                     {"bytes", row.bytes}});
  }
  for (const Step& s : plan.steps) {
    if (s.kind == StepKind::reference) references.push_back({{"layer", s.name}, {"operators", s.ops}});
  }
  return {{"steps", plan.steps.size()},
          {"target", plan.target},
          {"code_generator", plan.codegen},
          {"arena_bytes", plan.arena_bytes},
          {"weight_bytes", plan.constants_bytes},
          {"code_bytes", plan.code_bytes},
          {"records", plan.records},
          {"tasks", tasks},
          {"without_schedule", references}};
}

/// Returns the rows of print_targets().
nlohmann::json targets_json(const Session& session) {
  nlohmann::json rows = nlohmann::json::array();
  for (size_t i = 0; i < session.file_targets().size(); ++i) {
    const vm::TargetPart& part = session.file_targets()[i];
    nlohmann::json& row = rows.emplace_back();
    row = {{"target", part.target},
           {"features", part.features},
           {"code_bytes", part.code_bytes},
           {"constant_bytes", part.constants_bytes},
           {"own_constant_bytes", part.own_bytes},
           {"runs_here", i == session.file_target()}};
    if (part.small) row["memory_bytes"] = part.memory_bytes;
  }
  return rows;
}

/// Prints the targets of a compiled file for several targets, or of a small one.
void print_targets(const Session& session) {
  if (session.file_targets().empty()) return;
  say("targets:\n");
  for (size_t i = 0; i < session.file_targets().size(); ++i) {
    const vm::TargetPart& part = session.file_targets()[i];
    const std::string packed =
        part.small ? fmt::format(", packed {:.1f} MB", static_cast<double>(part.memory_bytes) * 1e-6) : "";
    say("  {:<22} code {:5.2f} MB, weights {:6.1f} MB, {:6.1f} MB of its own{}{}\n", part.target,
        static_cast<double>(part.code_bytes) * 1e-6, static_cast<double>(part.constants_bytes) * 1e-6,
        static_cast<double>(part.own_bytes) * 1e-6, packed, i == session.file_target() ? "  (runs here)" : "");
  }
}

void add_contents(nlohmann::json& out, const Contents& c) {
  out["operators"] = c.operators, out["nodes"] = c.nodes;
  out["parameters"] = c.parameters, out["parameter_bytes"] = c.parameter_bytes;
}

/// Returns what inspect() prints. `plan`: null for a network that runs as a program or has no shape yet. `open`: inputs
/// have no size yet, so there is no plan.
nlohmann::json network_json(const Session& session, const Loaded* plan, bool open) {
  nlohmann::json out{{"model", session.name()},
                     {"inputs", ports_json(session.inputs(), session)},
                     {"outputs", ports_json(session.outputs(), session)}};
  if (!session.file_targets().empty()) out["targets"] = targets_json(session);
  if (open) add_contents(out, contents_of(*session.open_graph()));
  if (plan == nullptr) return out;
  out["plan"] = plan_json(plan->plan());
  if (session.compiled_file()) return out;
  const Contents c = contents_of(session.graph({}));
  add_contents(out, c);
  out["flops"] = c.flops;
  return out;
}

struct InspectOptions : ModelOptions {
  bool schedules = false;
  std::string node, json, assembly, write_plan;
};

/// Writes the plan in use, whatever its sources, as a file for --layer-plan.
void write_plan(const InspectOptions& options, const Session& session, const Compiled& compiled) {
  const Choices used = tune::choices_in_use(compiled);
  const std::string& records = compiled.plan.records;
  std::string notes = fmt::format("the plan of {} for {}", session.name(), compiled.plan.target);
  if (const int tuned_at = compiled.records_tuned_at; tuned_at > 0) notes += " on " + threads_text(tuned_at);
  notes += fmt::format("; {}\n{}", version_text(), records);
  write_text("--write-plan", options.write_plan, tune::text(used, notes));
  if (options.write_plan != "-") say("{}: settings of {} layers\n", options.write_plan, used.size());
}

/// Compiles without generating code, since only schedules and layouts are shown.
void print_schedules(const InspectOptions& options, const Session& session) {
  if (session.compiled_file())
    fail(ErrorKind::usage, "--schedules: {} is a compiled file, which contains no alternatives; give the model itself",
         options.model);
  const Graph graph = session.graph({});
  CompileOptions compile = session.options().compile;
  compile.contents.alternatives = true;
  compile.contents.code = false;
  const Compiled compiled = compile_graph(graph, compile, session.options().chooser.get());
  tell_records(compiled.plan.records);
  if (!options.json.empty()) {
    const nlohmann::json report = profile::schedules_json(compiled, compile.target.limits, options.node);
    write_json(options.json, report);
  }
  if (!options.write_plan.empty()) write_plan(options, session, compiled);
  if (options.json == "-" || !options.write_plan.empty()) return;
  say("{} for {}: {} steps\n\n", printable(session.name()), compile.target.name, compiled.plan.steps.size());
  say_fitted(profile::schedules_text(compiled, compile.target.limits, options.node));
}

std::string loops_text(const std::vector<Instruction>& code) {
  std::string out;
  for (const InnerLoop& l : inner_loops(code)) {
    out += fmt::format(
        "  inner loop {:x} to {:x}: {} instructions, {} multiply-adds, {} loads ({} broadcasts), {} stores, {} "
        "prefetches, {} on the stack; {} vector registers\n",
        l.begin, l.end, l.instructions, l.fmas, l.loads, l.broadcasts, l.stores, l.prefetches, l.stack, l.registers);
  }
  return out;
}

/// Returns the layers with machine code that `node` refers to.
std::vector<std::string> assembled(const std::string& node, const Loaded& loaded) {
  std::set<std::string> names;
  for (const Step& s : loaded.plan().steps) {
    if (s.kernel >= 0) names.insert(s.name);
  }
  std::vector<std::string> meant = profile::layers_named(loaded.compiled, names, node);
  if (meant.empty())
    fail(ErrorKind::usage, "--asm {}: no layer of this name has machine code; legal values are {}", node,
         fmt::join(names, ", "));
  return meant;
}

void print_assembly(const std::string& node, const Loaded& loaded) {
  const Plan& plan = loaded.plan();
  const std::vector<std::string> meant = assembled(node, loaded);
  const Target target = parse_target(plan.target);
  const std::span<const std::byte> code(plan.code, static_cast<size_t>(plan.code_bytes));
  if (meant.front() != node) say("'{}' runs in {}\n\n", printable(node), printable(join(meant, ", ")));
  const std::vector<std::string> labels = profile::labels_of(plan);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& s = plan.steps[i];
    if (s.kernel < 0 || std::ranges::find(meant, s.name) == meant.end()) continue;
    const std::vector<Instruction> all = disassemble(code, plan.entries[static_cast<size_t>(s.kernel)], target);
    say("{} '{}' for {} ({})\n  {}\n{}{}\n", s.ops, printable(labels[i]), plan.target, plan.codegen, s.schedule,
        loops_text(all), listing(all));
  }
}

void print_ports(const Session& session) {
  const auto print = [&](const std::vector<onnx::Port>& ports) {
    for (const onnx::Port& p : ports) {
      const std::string sizes = onnx::ranges_text(p, session.ranges());
      say("  {}: {}{}{}\n", printable(p.name), onnx::text(p), sizes.empty() ? "" : ", ", sizes);
    }
  };
  say("{}\ninputs:\n", printable(session.name()));
  print(session.inputs());
  say("outputs:\n");
  print(session.outputs());
}

/// Shows the plans of a compiled file for several shapes.
void print_plans(const vm::FileProgram& file) {
  constexpr size_t kMostShown = 16;
  const auto& plans = file.plans(0);
  int64_t code = 0;
  for (const auto& program : plans) code += program->plan().code_bytes;
  say("plans for {} shapes, for {} ({}), packed weights {:.2f} MB, code {:.2f} MB:\n", plans.size(),
      printable(file.file().target), file.codegen(), static_cast<double>(plans.front()->plan().constants_bytes) * 1e-6,
      static_cast<double>(code) * 1e-6);
  for (size_t i = 0; i < std::min(plans.size(), kMostShown); ++i) {
    const Plan& plan = plans[i]->plan();
    std::string shapes;
    for (const PlanTensor& t : plan.inputs)
      shapes += fmt::format("{}{}={}", shapes.empty() ? "" : " ", printable(t.name), text(t.shape));
    say("  {}: {} step{}, arena {:.2f} MB\n", shapes, plan.steps.size(), plan.steps.size() == 1 ? "" : "s",
        static_cast<double>(plan.arena_bytes) * 1e-6);
  }
  if (plans.size() > kMostShown) say("  and {} more\n", plans.size() - kMostShown);
}

/// Shows a network that runs as a program, and how its segments run after a few runs on the given inputs and seeded
/// ones.
void print_program(const InspectOptions& options, Session& session) {
  print_ports(session);
  if (session.file_program() != nullptr && session.file_program()->file().has_whole_network())
    return print_plans(*session.file_program());
  const vm::Program& program = session.functions();
  say("program: functions {}, segments {}\n{}", program.functions.size(), program.segments.size(),
      printable_lines(vm::text(program)));
  if (const vm::FileProgram* file = session.file_program()) {
    say("segments, with the inputs for which the file has code, compiled for {}:\n{}", printable(file->file().target),
        printable_lines(file->text()));
    return;
  }
  std::map<std::string, AnyValue> inputs;
  try {
    inputs = options.all_values(session);
  } catch (const Error& error) {
    say("segments: not run, so not compiled: {}\n", printable(error.message()));
    return;
  }
  for (int i = 0; i < ProgramRunner::kRunsUntilCompiled; ++i) session.run_values(inputs);
  say("segments after {} runs:\n", ProgramRunner::kRunsUntilCompiled);
  for (const ProgramRunner::FormState& form : session.program().forms())
    say("  {} with {}\n", form.segment, text(form));
  say("{:.2f} MB of plans\n", static_cast<double>(session.program().held_bytes()) * 1e-6);
}

/// Shows a network without a plan, because inputs have no size yet. `open`: open_inputs_text().
void print_open(const Session& session, const std::string& open) {
  print_ports(session);
  print_contents(contents_of(*session.open_graph()));
  if (session.saves_shapes()) say("shapes: {}\n", session.ranges().count());
  say("plan: not compiled, because a plan is for one shape: {}\n", open);
}

/// Returns the plan; nullptr if the network runs as a program, or if inputs have no size yet. `open`: which these are.
const Loaded* plan_of(Session& session, const std::string& open) {
  if (!open.empty() && session.saves_shapes()) return nullptr;
  try {
    return &session.compile();
  } catch (const NeedsProgram&) {
    return nullptr;
  } catch (const Error& error) {  // it may also report something else, such as an unknown name in --input
    if (open.empty() || !error.message().ends_with(open)) throw;
    return nullptr;
  }
}

void inspect(const InspectOptions& options) {
  const auto session = options.open();
  if (!options.schedules && !(options.node.empty() && options.write_plan.empty()))
    fail(ErrorKind::usage, "--node and --write-plan require --schedules; add it, or leave them out");
  if (!options.assembly.empty() && !options.json.empty())
    fail(ErrorKind::usage, "--json {}: machine code is shown as text only; leave out --json or --asm", options.json);
  if (options.schedules) return print_schedules(options, *session);
  if (!options.assembly.empty()) return print_assembly(options.assembly, session->compile());
  const std::string open =
      onnx::open_inputs_text(session->inputs(), session->options().shapes, session->example_shapes());
  const bool no_shape = !open.empty() && session->open_graph() != nullptr;
  const Loaded* plan_if_any = plan_of(*session, open);
  if (!options.json.empty()) write_json(options.json, network_json(*session, plan_if_any, no_shape));
  if (options.json == "-") return;
  if (no_shape) return print_open(*session, open);
  print_targets(*session);
  if (plan_if_any == nullptr) return print_program(options, *session);
  const Loaded& loaded = *plan_if_any;
  print_ports(*session);
  if (!session->compiled_file()) {
    const Graph graph = session->graph({});
    print_contradictions(graph, session->outputs());
    print_graph(graph);
  }
  const Plan& plan = loaded.plan();
  say_fitted(fmt::format("plan: {} steps for {} ({}), arena {:.2f} MB, packed weights {:.2f} MB, code {:.2f} MB\n",
                         plan.steps.size(), plan.target, plan.codegen, static_cast<double>(plan.arena_bytes) * 1e-6,
                         static_cast<double>(plan.constants_bytes) * 1e-6,
                         static_cast<double>(plan.code_bytes) * 1e-6));
  if (const std::string memory = profile::memory_text(loaded.compiled); !memory.empty())
    say_fitted(fmt::format("{}; --schedules names them\n", memory));
  print_tasks(plan);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].kind != StepKind::reference) continue;
    const std::string_view kernel = StepKernel::make(plan.steps[i]) != nullptr ? "runtime" : "reference";
    say("{} kernel: {} '{}'\n", kernel, plan.steps[i].ops, printable(plan.steps[i].name));
  }
  if (options.time_passes) print_passes(loaded.compiled);
}

}  // namespace

void add_inspect(Command app, Context&) {
  auto options = std::make_shared<InspectOptions>();
  Command sub = app.subcommand("inspect", "Show a network's inputs, outputs, operators, parameters, work and tasks");
  sub.group("Look inside");
  options->add_to(sub);
  sub.heading("What to show");
  Option schedules = sub.flag("--schedules", options->schedules,
                              "show for each layer its schedule, what the analytic model predicts for it, and why no "
                              "other template or schedule was chosen; generates no code");
  sub.option("--node", options->node,
             "with --schedules: only the layers of this name, or those that run this node of the model")
      .value("NODE");
  sub.option("--asm", options->assembly,
             "show the machine code of this layer or node of the model, with counts of its inner loops")
      .value("NODE")
      .excludes(schedules);
  sub.heading("Output");
  sub.option("--write-plan", options->write_plan,
             "with --schedules: instead of a report, write the schedule and settings of every layer to a file for "
             "--layer-plan; - for standard output")
      .file();
  sub.json(options->json, "what is shown");
  sub.footer(
      "A network that runs as a program (doc/control_flow.md) is shown as its functions, with the shapes for which a "
      "few runs compile its segments.");
  sub.example("kilter inspect zoo:resnet18", "What ResNet-18 is compiled to");
  sub.example("kilter inspect zoo:resnet18 --schedules --node conv1", "What a layer runs, and why nothing else");
  sub.example("kilter inspect zoo:resnet18 --asm conv1", "The machine code of a layer");
  sub.callback([=] { inspect(*options); });
}

}  // namespace kilter::tool
