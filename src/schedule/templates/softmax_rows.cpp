// Softmax and LogSoftmax over contiguous rows: maximum, exponentials and their sum, scaling.

#include <limits>

#include "base/align.h"
#include "ops/support/builder.h"
#include "schedule/model/loop_model.h"
#include "schedule/templates/row_kernel.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

struct Softmax {
  RowShape rows;
  bool logarithm = false;
};

Result<Softmax> analyse(const Task& task, const CpuLimits&) {
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
  const Softmax s{row_shape(shape, static_cast<size_t>(axis)), node.op->logarithmic};
  if (!flattens && s.rows.extent != shape[s.rows.first_dim])
    return Rejected{"axis", "the innermost", std::to_string(axis)};
  if (auto rejected = check_rows(task, s.rows, flattens)) return *rejected;
  return s;
}

class SoftmaxRows final : public LoopModel {
 public:
  SoftmaxRows(const Task& task, const CpuLimits& limits, const Softmax& softmax)
      : LoopModel(task, limits), s_(softmax) {}
  std::vector<Knob> space() const override { return {{"unroll", {1, 2, 4}}}; }

 private:
  Schedule usual() const override { return {"softmax_rows", {{"unroll", 2}}}; }
  Lowered emit(const Schedule& schedule) const override {
    const int32_t lanes = lanes_of(limits());
    Emitter e(task(), "softmax_rows");
    LoopBuilder& b = e.b;
    RowKernel kernel(e, s_.rows, schedule.knob("unroll"), lanes);
    const Buf row = b.scratch("row", DType::f32, round_up(s_.rows.extent, lanes));
    const Expr maximum = kernel.reduce(Op::max, -std::numeric_limits<double>::infinity(), "most", "max",
                                       [&](const Expr& at, const Expr& mask) { return kernel.load(at, mask); });
    const Expr total = kernel.reduce(Op::add, 0, "sum", "total", [&](const Expr& at, const Expr& mask) {
      const Expr shifted = b.let("d", kernel.load(at, mask) - broadcast(maximum, lanes));
      const Expr power = b.let("e", unary(Op::exp, min(imm(DType::f32, 0, lanes), shifted)));
      b.store(row, at, s_.logarithm ? shifted : power);
      return power;
    });
    const Expr scale = b.let("scale", s_.logarithm ? unary(Op::log, total) : imm(DType::f32, 1) / total);
    kernel.write([&](const Expr& at, const Expr&) {
      const Expr v = b.load(row, at, lanes), wide = broadcast(scale, lanes);
      return s_.logarithm ? v - wide : v * wide;
    });
    return e.finish();
  }

  const Softmax s_;
};

}  // namespace

const Template softmax_rows{"softmax_rows", "Softmax and LogSoftmax over contiguous rows",
                            analyse_as<SoftmaxRows, analyse>};

}  // namespace kilter
