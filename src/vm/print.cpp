#include <fmt/ranges.h>

#include "ops/op.h"
#include "vm/program.h"

namespace kilter::vm {
namespace {

std::string names(const OpenGraph& graph, const std::vector<ValueId>& values) {
  std::vector<std::string> all;
  for (const ValueId v : values) all.push_back(v == kNone ? "?" : "%" + graph.values[static_cast<size_t>(v)].name);
  return fmt::format("{}", fmt::join(all, ", "));
}

std::string line(const Program& program, const OpenGraph& graph, const Instr& instr) {
  std::string what;
  if (instr.kind == Instr::Kind::segment) {
    what = fmt::format("segment {}", instr.segment);
    const size_t nodes = program.segments[static_cast<size_t>(instr.segment)].nodes.size();
    if (nodes > 0) what += fmt::format(" of {} nodes", nodes);  // a compiled file need not have them
  } else {
    what = instr.node->label;
    for (size_t i = 0; i < instr.functions.size(); ++i)
      what += fmt::format(" {}=function {}", instr.node->regions[i].attribute, instr.functions[i]);
  }
  return fmt::format("  {} = {}({})\n", names(graph, instr.outputs), what, names(graph, instr.inputs));
}

}  // namespace

std::string text(const Program& program) {
  std::string all;
  for (size_t f = 0; f < program.functions.size(); ++f) {
    const OpenGraph& graph = *program.functions[f].graph;
    std::vector<ValueId> outputs;
    for (const OpenGraph::Output& output : graph.outputs) outputs.push_back(output.value);
    all += fmt::format("function {}({}) -> ({})\n", f, names(graph, graph.inputs), names(graph, outputs));
    for (const Instr& instr : program.functions[f].code) all += line(program, graph, instr);
  }
  return all;
}

}  // namespace kilter::vm
