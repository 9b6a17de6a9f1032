#include "compile/pipeline.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "codegen/backend.h"
#include "compile/build_plan.h"
#include "compile/check_options.h"
#include "compile/chooser.h"
#include "compile/compile.h"
#include "compile/driver.h"
#include "compile/origins.h"
#include "graph/values.h"
#include "ops/support/builder.h"
#include "passes/tried_rewrites.h"
#include "vm/reference_steps.h"

namespace kilter {
namespace {

constexpr PassRow kPasses[] = {
#define KILTER_PASS(name, function, summary, why_here, rewrites) {#name, function, summary, why_here, rewrites},
#include "passes/passes.inc"
#undef KILTER_PASS
};

/// The inputs of each node.
std::vector<std::vector<ValueId>> inputs_of(const Graph& graph) {
  std::vector<std::vector<ValueId>> all;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.node_count()); ++id) all.push_back(graph.node(id).inputs);
  return all;
}

/// Writes the graph after a pass, and the outcomes of the pass's rewrites.
void dump(const Graph& graph, TriedRewrites& tried, const std::filesystem::path& folder, size_t index,
          std::string_view pass) {
  const auto file = [&](std::string_view extension) {
    return folder / fmt::format("{:02}_{}.{}", index, pass, extension);
  };
  write_dump(file("graph"), print(graph));
  if (const std::string text = tried.take_text(); !text.empty()) write_dump(file("rewrites"), text);
}

using Types = std::vector<TensorType>;
Types output_types(const Graph& graph) {
  Types types;
  for (const Graph::Output& output : graph.outputs()) types.push_back(graph.type(output.value));
  return types;
}

/// Throws internal unless the network has as many outputs as before the pass, of the same types.
void verify_outputs(const Graph& graph, const Types& before) {
  const std::vector<Graph::Output>& outputs = graph.outputs();
  require(outputs.size() == before.size(), "graph '{}' has {} outputs, expected {}", graph.name, outputs.size(),
          before.size());
  for (size_t i = 0; i < before.size(); ++i) {
    const TensorType& now = graph.type(outputs[i].value);
    require(same_elements(now, before[i]), "graph '{}': output '{}' has type {}, expected {}", graph.name,
            outputs[i].name, text(now), text(before[i]));
  }
}

}  // namespace

std::span<const PassRow> all_passes() { return kPasses; }

void run_checked(const PassRow& row, Graph& graph, PassContext& context, NodeId made_by_passes) {
  const auto broken = [&](std::string_view fault) { fail(ErrorKind::internal, "pass {}: {}", row.name, fault); };
  const Types outputs = output_types(graph);
  const int64_t before = graph.changes();
  try {
    row.function(graph, context);
    if (graph.changes() == before) return;
    graph.give_names_back(made_by_passes);  // options of later passes name layers as the model does
    verify(graph);
    verify_outputs(graph, outputs);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::internal) throw;
    broken(error.message());
  } catch (const ShapeNeedsValue& needs) {
    broken(fmt::format("{}: its shape depends on data", needs.node));
  } catch (const std::logic_error& error) {
    broken(error.what());
  }
}

namespace {

/// Reports on destruction, also after an error, that no stage is running any more.
class Stages {
 public:
  explicit Stages(const CompileOptions& options) : options_(options) {}
  ~Stages() {
    if (options_.report.progress) options_.report.progress({});
  }
  Stages(const Stages&) = delete;
  Stages& operator=(const Stages&) = delete;

 private:
  const CompileOptions& options_;
};

PassContext context_of(const CompileOptions& options) {
  PassContext context;
  context.limits = options.target.limits;
  context.precision = options.precision;
  context.stored_ports = options.stored_ports;
  context.rewrites_left = options.debug.max_rewrites;
  context.disabled = options.debug.disable;
  context.forbidden = options.forbidden;
  context.memo = options.shared.memo;
  for (const auto& [node, choice] : options.choices) {
    if (choice.fuse == Fusion::none) context.no_fuse.insert(node);
    if (choice.fuse == Fusion::before) context.fuse[node] = option_text(options, "--fuse", node);
    if (choice.fuse == Fusion::apart) context.apart.insert(node);
    if (choice.plain) context.plain_layout.insert(node);
    if (choice.forced() || choice.threads > 0) context.own[node] = choice.forced() ? choice.schedule->name : "";
  }
  return context;
}

/// The nodes of the model that CompileOptions::keep_float names, directly or by their operator.
std::set<std::string> nodes_kept_in_float(const Graph& graph, const CompileOptions& options) {
  std::set<std::string> nodes;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (options.keep_float.contains(node.name) || options.keep_float.contains(std::string(node.op->name)))
      nodes.insert(node.name);
  }
  return nodes;
}

PassedGraph passed_graph(Graph graph, const CompileOptions& options) {
  check_pass_names(options);
  check_precision(graph, options);
  PassContext context = context_of(options);
  context.keep_float = nodes_kept_in_float(graph, options);
  std::vector<PassTiming> timings;
  std::vector<std::vector<ValueId>> model_inputs = inputs_of(graph);
  const auto made_by_passes = static_cast<NodeId>(graph.node_count());
  TriedRewrites tried;
  const bool dumps = !options.debug.dump_ir.empty();
  if (dumps) dump(graph, tried, options.debug.dump_ir, 0, "import");
  if (dumps) context.tried = &tried;
  size_t index = 0;
  for (const PassRow& row : kPasses) {
    ++index;
    // Reference kernels would round the values inside a quantised layer.
    if (options.debug.naive && row.function != integer_arithmetic) continue;
    if (options.debug.disable.contains(std::string(row.name))) continue;
    if (options.report.progress) options.report.progress({row.name, 0, std::ssize(graph.order())});
    const auto before = std::chrono::steady_clock::now();
    const int64_t done = context.rewrites_done;
    run_checked(row, graph, context, made_by_passes);
    timings.push_back(
        {std::string(row.name), ms_since(before), context.rewrites_done - done, std::exchange(context.applied, {})});
    if (dumps) dump(graph, tried, options.debug.dump_ir, index, row.name);
    if (options.debug.stop_after == row.name) break;
  }
  verify_types(graph);  // including nodes that passes changed in place
  return {
      std::move(graph), std::move(timings), {context.unfused.begin(), context.unfused.end()}, std::move(model_inputs)};
}

/// Compiles with the choices of one offer. If the graph cannot be laid out with them, reports the reason to the offer
/// and returns nothing.
std::optional<Compiled> compile_offer(Graph graph, const CompileOptions& given, const Offer& offer) {
  CompileOptions options = given;
  add(offer.choices, options.choices);
  std::optional<PassedGraph> passed;
  std::optional<PlanBuild> build;
  try {
    passed = passed_graph(std::move(graph), options);
    check_forbidden(*passed, options);
    build.emplace(*passed, options, &offer);
  } catch (const Error& why) {
    if (!offer.refused) throw;
    offer.refused(why);
    return std::nullopt;
  }
  Compiled compiled = build->finish();
  compiled.layers_of_nodes = layers_of_nodes(*passed, compiled);
  return compiled;
}

}  // namespace

CompileOptions adapted(const CompileOptions& options, const Chooser* chooser, const Graph& graph) {
  CompileOptions out = options;
  if (chooser != nullptr) chooser->adapt(graph, out);
  return out;
}

void install_reference_runner() {
  install_reference_kernels();
  add_backend_devices();
}

PassedGraph run_passes(Graph graph, const CompileOptions& options) {
  const Stages stages(options);
  return passed_graph(std::move(graph), options);
}

Compiled compile_passed(const PassedGraph& passed, const CompileOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const Stages stages(options);
  install_reference_runner();
  Compiled compiled = PlanBuild(passed, options, nullptr).finish();
  compiled.compile_ms = ms_since(start);
  return compiled;
}

Compiled compile_graph(Graph graph, const CompileOptions& given, const Chooser* chooser) {
  const auto start = std::chrono::steady_clock::now();
  const CompileOptions options = adapted(given, chooser, graph);
  const Stages stages(options);
  install_reference_runner();
  std::vector<Offer> offers = chooser != nullptr ? chooser->offers(graph, options) : std::vector<Offer>{};
  if (offers.empty()) offers.emplace_back();
  std::optional<Compiled> compiled;
  for (size_t i = 0; i + 1 < offers.size() && !compiled; ++i) compiled = compile_offer(graph, options, offers[i]);
  if (!compiled) compiled = compile_offer(std::move(graph), options, offers.back());
  require(compiled.has_value(), "the last offer of a chooser was refused");
  compiled->compile_ms = ms_since(start);
  return std::move(*compiled);
}

}  // namespace kilter
