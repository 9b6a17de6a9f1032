// The invariants of a program that was read from a file.

#include <algorithm>

#include "base/error.h"
#include "ops/op.h"
#include "ops/support/builder.h"
#include "vm/program_file.h"

namespace kilter::vm {
namespace {

class Checker {
 public:
  Checker(const ProgramFile& file, std::string_view where) : file_(file), where_(where) {}

  void run() {
    const OpenGraph& graph = *file_.program.graph;
    if (graph.inputs.size() != file_.inputs.size() || graph.outputs.size() != file_.outputs.size()) {
      bad("function 0 has {} inputs and {} outputs; expected {} and {}, as the network", graph.inputs.size(),
          graph.outputs.size(), file_.inputs.size(), file_.outputs.size());
    }
    ranges();
    for (size_t s = 0; s < file_.segments.size(); ++s) segment(s);
    for (size_t f = 0; f < file_.program.functions.size(); ++f) function(f);
  }

 private:
  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::bad_input, "compiled file '{}': {}", where_, fmt::format(format, std::forward<Args>(args)...));
  }

  void ranges() const {
    for (const auto* ports : {&file_.inputs, &file_.outputs}) {
      for (const FilePort& port : *ports) {
        if (const size_t names = port.symbols.size(); names != 0 && (!port.dims || names != port.dims->size()))
          bad("'{}' is {}, but {} names are given for its dimensions", port.name, text(port), names);
      }
    }
    for (const ShapeRanges::Input& input : file_.ranges.inputs()) {
      const auto port = std::ranges::find(file_.inputs, input.name, &FilePort::name);
      if (port == file_.inputs.end() || (port->dims && port->dims->size() != input.dims.size()))
        bad("ranges for {} dimensions of '{}', which no input has", input.dims.size(), input.name);
      for (size_t axis = 0; axis < input.dims.size(); ++axis) {
        if (!input.dims[axis].is_legal()) bad("illegal sizes for dimension {} of input '{}'", axis, input.name);
      }
    }
    try {
      ShapeRanges(file_.ranges).resolve();
    } catch (const Error& error) {
      bad("{}", error.message());
    }
  }

  /// `left_out`: whether kNone is legal.
  void ids(const OpenGraph& graph, const std::vector<ValueId>& values, std::string_view what, bool left_out) const {
    for (const ValueId v : values) {
      if ((v == kNone && left_out) || (v >= 0 && v < std::ssize(graph.values))) continue;
      bad("{}: value {} of graph '{}', which has {}", what, v, graph.name, graph.values.size());
    }
  }

  void interface(const OpenGraph& graph) const {
    ids(graph, graph.inputs, "inputs of a graph", false);
    if (graph.own_inputs > graph.inputs.size())
      bad("graph '{}' has {} own inputs of {}", graph.name, graph.own_inputs, graph.inputs.size());
    std::vector<ValueId> outputs;
    for (const OpenGraph::Output& output : graph.outputs) outputs.push_back(output.value);
    ids(graph, outputs, "outputs of a graph", true);
  }

  void node(const OpenGraph& graph, const OpenNode& node) const {
    ids(graph, node.inputs, node.label, true);
    ids(graph, node.outputs, node.label, true);
    for (const Region& region : node.regions) {
      ids(graph, region.captures, node.label, false);
      const size_t expected = region.graph->inputs.size() - region.graph->own_inputs;
      if (region.captures.size() != expected)
        bad("{}: its {} captures {} values; expected {}", node.label, region.attribute, region.captures.size(),
            expected);
    }
    if (node.op == nullptr) return;
    try {
      check_node(node);
    } catch (const Error& error) {
      bad("{}", error.message());
    }
    if (node.op->control == Control::none || !node.regions.empty()) return;
    bad("{}: its operator runs graphs, but the node has none", node.label);
  }

  /// The graph of a segment, or one inside its nodes, which only branches have.
  void nodes(const OpenGraph& graph) const {
    interface(graph);
    for (const OpenNode& one : graph.nodes) {
      for (const Region& region : one.regions) nodes(*region.graph);
      if (one.op == nullptr) bad("{}: a segment needs an operator that this library has", one.label);
      node(graph, one);
    }
  }

  void segment(size_t s) const {
    const OpenGraph& graph = file_.program.segments[s];
    nodes(graph);
    const std::vector<Plan>& plans = file_.segments[s].plans;
    for (const Plan& plan : plans) {
      if (plan.inputs.size() != graph.inputs.size() || plan.outputs.size() != graph.outputs.size()) {
        bad("a plan of segment {} has {} inputs and {} outputs; expected {} and {}", s, plan.inputs.size(),
            plan.outputs.size(), graph.inputs.size(), graph.outputs.size());
      }
    }
  }

  void function(size_t f) const {
    const Function& function = file_.program.functions[f];
    const OpenGraph& graph = *function.graph;
    interface(graph);
    ids(graph, function.constants, "constants of a function", false);
    for (const ValueId v : function.constants) {
      if (!graph.values[static_cast<size_t>(v)].constant) bad("value {} of function {} is not a constant", v, f);
    }
    for (const Instr& instr : function.code) {
      ids(graph, instr.inputs, "inputs of an instruction", true);
      ids(graph, instr.outputs, "outputs of an instruction", true);
      ids(graph, instr.dead, "values that are not needed any more", false);
      if (instr.kind == Instr::Kind::segment) {
        runs_segment(instr);
      } else {
        node(graph, *instr.node);
        runs_node(instr);
      }
    }
  }

  void runs_segment(const Instr& instr) const {
    const auto& segments = file_.program.segments;
    if (instr.segment < 0 || instr.segment >= std::ssize(segments))
      bad("an instruction runs segment {}; there are {}", instr.segment, segments.size());
    const OpenGraph& segment = segments[static_cast<size_t>(instr.segment)];
    if (instr.inputs.size() == segment.inputs.size() && instr.outputs.size() == segment.outputs.size()) return;
    bad("an instruction has {} inputs and {} outputs; segment {} has {} and {}", instr.inputs.size(),
        instr.outputs.size(), instr.segment, segment.inputs.size(), segment.outputs.size());
  }

  void runs_node(const Instr& instr) const {
    const bool control = instr.kind == Instr::Kind::control;
    const OpenNode& node = *instr.node;
    const bool runs_graphs = node.op != nullptr && node.op->control != Control::none;
    const bool missing = node.op == nullptr;  // fails when it runs
    if (control == node.regions.empty() || (!missing && control != runs_graphs))
      bad("{}: it contains {} graphs, which does not match its operator", node.label, node.regions.size());
  }

  const ProgramFile& file_;
  std::string_view where_;
};

}  // namespace

void check_program(const ProgramFile& program, std::string_view where) { Checker(program, where).run(); }

}  // namespace kilter::vm
