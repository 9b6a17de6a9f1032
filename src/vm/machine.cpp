#include "vm/machine.h"

#include <algorithm>

#include "base/error.h"
#include "ops/op.h"

namespace kilter::vm {

std::vector<AnyValue> Machine::call(int32_t function, std::vector<AnyValue> inputs) const {
  const Function& f = program_.functions[static_cast<size_t>(function)];
  Registers registers(f.graph->values.size());
  for (size_t i = 0; i < inputs.size(); ++i) registers[static_cast<size_t>(f.graph->inputs[i])] = std::move(inputs[i]);
  for (const ValueId v : f.constants)
    registers[static_cast<size_t>(v)] = *f.graph->values[static_cast<size_t>(v)].constant;
  for (const Instr& instr : f.code) execute(instr, registers);
  std::vector<AnyValue> outputs;
  for (const OpenGraph::Output& output : f.graph->outputs)
    outputs.push_back(output.value == kNone ? AnyValue() : registers[static_cast<size_t>(output.value)]);
  return outputs;
}

void Machine::execute(const Instr& instr, Registers& registers) const {
  if (instr.node != nullptr && instr.node->op == nullptr) {
    fail(ErrorKind::unsupported, "{}: {} is missing from Kilter (`kilter ops` lists the supported operators)",
         instr.node->label, instr.node->op_name);
  }
  if (observer_ != nullptr) observer_->begin(instr);
  std::vector<AnyValue> results;
  if (instr.kind == Instr::Kind::control) {
    results = control(instr, registers);
  } else {
    std::vector<AnyValue> inputs;
    inputs.reserve(instr.inputs.size());
    for (size_t i = 0; i < instr.inputs.size(); ++i) {
      const ValueId v = instr.inputs[i];
      if (v == kNone) {
        inputs.emplace_back();
        continue;
      }
      const bool last = std::ranges::find(instr.dead, v) != instr.dead.end() &&
                        std::find(instr.inputs.begin() + static_cast<std::ptrdiff_t>(i) + 1, instr.inputs.end(), v) ==
                            instr.inputs.end();
      AnyValue& from = registers[static_cast<size_t>(v)];
      inputs.push_back(last ? std::move(from) : from);
    }
    if (instr.kind == Instr::Kind::segment) {
      results = segments_(instr.segment, std::move(inputs));
    } else {
      results = run_op(*instr.node, std::move(inputs), host_);
    }
  }
  for (size_t i = 0; i < instr.outputs.size(); ++i) {
    if (instr.outputs[i] != kNone) registers[static_cast<size_t>(instr.outputs[i])] = std::move(results[i]);
  }
  for (const ValueId v : instr.dead) registers[static_cast<size_t>(v)] = {};
  if (observer_ != nullptr) observer_->end();
}

}  // namespace kilter::vm
