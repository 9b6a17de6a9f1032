// Gather: rows of the data by index. Negative indices count from the end; indices beyond either end are clamped, so
// that no input makes the kernel read outside of its buffer.

#include "ops/builder.h"
#include "schedule/emit.h"
#include "schedule/loop_model.h"
#include "schedule/templates.h"

namespace kilter {
namespace {

std::optional<Rejected> check(const Task& task) {
  const Node& node = task.node();
  if (node.op->name != "Gather") return not_for("operator", "Gather", node.op->name);
  if (!task.prologue.empty() || !task.epilogue.empty()) return Rejected{"fused nodes", "none", "some"};
  const Operand& data = task.operand(node.inputs[0]);
  if (data.type.dtype == DType::string) return Rejected{"element type", "numeric", "str"};
  if (data.type.shape.empty() || elems(data.type.shape) == 0 || elems(task.outputs[0].type.shape) == 0) {
    return Rejected{"elements", "1 or more", "0"};
  }
  for (const auto* list : {&task.inputs, &task.outputs}) {
    for (const Operand& o : *list) {
      if (!o.type.layout.plain() || !is_dense(o.type.shape, o.phys.strides))
        return Rejected{"operands", "dense", text(o.type)};
    }
  }
  return std::nullopt;
}

Answer<std::vector<Knob>> space(const Task& task, const TargetLimits&) {
  if (auto rejected = check(task)) return *rejected;
  return std::vector<Knob>{};
}

Answer<Schedule> usual(const Task& task, const TargetLimits&) {
  if (auto rejected = check(task)) return *rejected;
  return Schedule{"gather_rows", {}};
}

Answer<Lowered> lower(const Task& task, const Schedule& schedule, const TargetLimits&) {
  if (auto rejected = check(task)) return *rejected;
  if (auto rejected = check_knobs(schedule, {})) return *rejected;
  const Node& node = task.node();
  const Operand& data = task.operand(node.inputs[0]);
  const Operand& indices = task.operand(node.inputs[1]);
  const Shape& shape = data.type.shape;
  const auto axis =
      static_cast<size_t>(normal_axis(node, node.int_attr("axis", 0), static_cast<int64_t>(shape.size())));
  int64_t before = 1, after = 1;
  for (size_t d = 0; d < axis; ++d) before *= shape[d];
  for (size_t d = axis + 1; d < shape.size(); ++d) after *= shape[d];
  const int64_t count = elems(indices.type.shape), extent = shape[axis];
  Emitter e(task, "gather_rows");
  LoopBuilder& b = e.b;
  const Expr outer = b.parallel("outer", before);
  const Expr i = b.parallel("i", count);
  const Buf from = e.input(data.value);
  const Buf at = e.input(indices.value);
  const Buf to = e.output(task.outputs[0].value);
  const Expr raw = b.let("raw", cast(DType::i64, b.load(at, i)));
  const Expr wrapped = b.let("wrapped", select(binary(Op::lt, raw, Expr(0)), raw + Expr(extent), raw));
  const Expr row = b.let("row", max(Expr(0), min(wrapped, Expr(extent - 1))));
  const Expr source = b.let("source", (outer * Expr(extent) + row) * Expr(after));
  const Expr target = b.let("target", (outer * Expr(count) + i) * Expr(after));
  b.vector_loop("v", after, [&](const Expr& v) { b.store(to, target + v, b.load(from, source + v)); });
  Lowered lowered;
  lowered.stages.push_back(e.finish(lowered));
  return lowered;
}

using Model = LoopModel<space, usual, lower>;

}  // namespace

const Template gather_rows{"gather_rows", "rows by index",   space,          Model::pick,
                           lower,         Model::candidates, Model::estimate};

}  // namespace kilter
