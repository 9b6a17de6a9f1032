// Softmax and LogSoftmax over contiguous rows: maximum, exponentials and their sum, scaling.

#include <limits>

#include "base/align.h"
#include "ops/support/builder.h"
#include "schedule/emit.h"
#include "schedule/model/loop_model.h"
#include "schedule/templates/rows.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

struct Rows {
  size_t first_dim = 0;  ///< dimensions from here on form a row
  int64_t extent = 1;
  bool logarithm = false;
};

Result<Rows> analyse(const Task& task, const TargetLimits&) {
  const Node& node = task.node();
  if (node.op->family != Family::softmax) return not_for("operator", "Softmax, LogSoftmax", node.op->name);
  const Operand& x = task.operand(node.inputs[0]);
  const Shape& shape = x.type.shape;
  if (x.type.dtype != DType::f32) return Rejected{"element type", "f32", std::string(name(x.type.dtype))};
  if (x.type.layout.block != 1 || shape.empty() || elems(shape) == 0)
    return Rejected{"input", "plain, not empty", text(x.type)};
  if (!task.prologue.empty()) return Rejected{"prologue", "none", std::to_string(task.prologue.size()) + " nodes"};
  if (auto rejected = check_elementwise(task)) return *rejected;
  const bool flattens = node.op->until < 13;  // before opset 13: everything from the axis on is one row
  const int64_t axis = normal_axis(node, node.int_attr("axis", flattens ? 1 : -1), static_cast<int64_t>(shape.size()));
  Rows rows{static_cast<size_t>(axis), 1, node.op->logarithmic};
  for (size_t d = rows.first_dim; d < shape.size(); ++d) rows.extent *= shape[d];
  if (!flattens && rows.extent != shape[rows.first_dim]) return Rejected{"axis", "the innermost", std::to_string(axis)};
  const Shape dense = dense_strides(shape);
  for (const auto* list : {&task.inputs, &task.outputs}) {
    for (const Operand& o : *list) {
      for (size_t d = rows.first_dim; d < shape.size() && o.type.shape == shape; ++d) {
        if (shape[d] != 1 && o.phys.strides[d] != dense[d])
          return Rejected{"rows contiguous in memory", std::to_string(dense[d]), std::to_string(o.phys.strides[d])};
      }
      if (flattens && rows.first_dim + 1 < shape.size() && o.type.shape != shape && elems(o.type.shape) != 1) {
        return Rejected{"operands of the epilogue when a row spans dimensions", text(shape), text(o.type.shape)};
      }
    }
  }
  return rows;
}

class SoftmaxRows final : public LoopModel {
 public:
  SoftmaxRows(const Task& task, const TargetLimits& limits, Rows rows)
      : LoopModel(task, limits), rows_(std::move(rows)) {}
  std::vector<Knob> space() const override { return {{"unroll", {1, 2, 4}}}; }

 private:
  Schedule usual() const override { return {"softmax_rows", {{"unroll", 2}}}; }
  Lowered emit(const Schedule& schedule) const override {
    const int64_t unroll = schedule.knob("unroll");
    const int32_t lanes = lanes_of(limits());
    const Node& node = task().node();
    const Operand& x = task().operand(node.inputs[0]);
    Emitter e(task(), "softmax_rows");
    LoopBuilder& b = e.b;
    Site site;
    site.index.assign(x.type.shape.size(), Expr(0));
    for (size_t d = 0; d < rows_.first_dim; ++d) {
      if (x.type.shape[d] != 1) site.index[d] = b.parallel("i" + std::to_string(d), x.type.shape[d]);
    }
    const Buf from = e.input(node.inputs[0]);
    const Buf row = b.scratch("row", DType::f32, round_up(rows_.extent, lanes));
    const Domain domain = domain_of(x.type);
    const Expr base = b.let("base", e.index(x, domain, site));

    const double low = -std::numeric_limits<double>::infinity();
    std::vector<int32_t> most, sums;
    for (int64_t u = 0; u < unroll; ++u) most.push_back(b.reg("most", imm(DType::f32, low, lanes)));
    for_vectors(b, rows_.extent, lanes, unroll, [&](const Expr& at, const Expr& mask, int64_t u) {
      Expr v = b.load(from, base + at, lanes, 1, mask);
      if (mask.defined()) v = select(mask, v, imm(DType::f32, low, lanes));
      b.set(most[static_cast<size_t>(u)], max(b.get(most[static_cast<size_t>(u)]), v));
    });
    Expr all = b.get(most[0]);
    for (int64_t u = 1; u < unroll; ++u) all = max(all, b.get(most[static_cast<size_t>(u)]));
    const Expr maximum = b.let("max", lane_reduce(Op::max, all));
    for (int64_t u = 0; u < unroll; ++u) sums.push_back(b.reg("sum", imm(DType::f32, 0, lanes)));
    for_vectors(b, rows_.extent, lanes, unroll, [&](const Expr& at, const Expr& mask, int64_t u) {
      const Expr shifted = b.let("d", b.load(from, base + at, lanes, 1, mask) - broadcast(maximum, lanes));
      const Expr power = b.let("e", unary(Op::exp, shifted));
      b.store(row, at, rows_.logarithm ? shifted : power);
      const Expr counted = mask.defined() ? select(mask, power, imm(DType::f32, 0, lanes)) : power;
      b.set(sums[static_cast<size_t>(u)], b.get(sums[static_cast<size_t>(u)]) + counted);
    });
    Expr sum = b.get(sums[0]);
    for (int64_t u = 1; u < unroll; ++u) sum = sum + b.get(sums[static_cast<size_t>(u)]);
    const Expr total = b.let("total", lane_reduce(Op::add, sum));
    const Expr scale = b.let("scale", rows_.logarithm ? unary(Op::log, total) : imm(DType::f32, 1) / total);
    for_vectors(b, rows_.extent, lanes, unroll, [&](const Expr& at, const Expr& mask, int64_t) {
      const Expr v = b.load(row, at, lanes);
      const Expr wide = broadcast(scale, lanes);
      Site here = site;
      const size_t inner = innermost(x.type.shape, rows_.first_dim);
      here.index[inner] = at;
      here.vec_dim = static_cast<int32_t>(inner);
      here.lanes = lanes;
      here.mask = mask;
      e.epilogue({{node.outputs[0], rows_.logarithm ? v - wide : v * wide}}, domain, here);
    });
    return e.finish();
  }

  const Rows rows_;
};

}  // namespace

const Template softmax_rows{"softmax_rows", "Softmax and LogSoftmax over contiguous rows",
                            analyse_as<SoftmaxRows, analyse>};

}  // namespace kilter
