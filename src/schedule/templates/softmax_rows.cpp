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
  std::vector<Knob> space() const override { return row_knobs(s_.rows, limits()); }

 private:
  /// Elements of a group, whose rows stay in L1 from pass to pass, together with the exponents or powers.
  static constexpr int64_t kGroupElems = 512;

  Schedule usual() const override { return usual_rows("softmax_rows", s_.rows, limits(), kGroupElems); }
  Lowered emit(const Schedule& schedule) const override {
    Emitter e(task(), "softmax_rows");
    emit_row_groups(e, s_.rows, schedule, lanes_of(limits()), [&](RowGroup& rows) { softmax(e, rows); });
    return e.finish();
  }

  void softmax(Emitter& e, RowGroup& rows) const {
    using Place = RowGroup::Place;
    LoopBuilder& b = e.b;
    const int32_t lanes = lanes_of(limits());
    const int64_t padded = round_up(s_.rows.extent, lanes);
    const Buf between = b.scratch("row", DType::f32, rows.rows() * padded);
    const auto slot = [&](const Place& p) { return Expr(p.row * padded) + p.at; };
    const std::vector<Expr> most = rows.in_all_lanes(rows.reduce(Op::max, -std::numeric_limits<double>::infinity(),
                                                                 "most", [&](const Place& p) { return rows.load(p); }));
    const Expr total = rows.reduce(Op::add, 0, "sum", [&](const Place& p) {
      rows.prefetch_next(p);
      const Expr shifted = b.let("d", rows.load(p) - most[static_cast<size_t>(p.row)]);
      const Expr power = b.let("e", unary(Op::exp, min(imm(DType::f32, 0, lanes), shifted)));
      b.store(between, slot(p), s_.logarithm ? shifted : power);
      return power;
    });
    const Expr scale = b.let("scale", s_.logarithm ? unary(Op::log, total) : imm(DType::f32, 1) / total);
    const std::vector<Expr> scales = rows.in_all_lanes(scale);
    rows.write([&](const Place& p) {
      const Expr v = b.load(between, slot(p), lanes), &own = scales[static_cast<size_t>(p.row)];
      return s_.logarithm ? v - own : v * own;
    });
  }

  const Softmax s_;
};

}  // namespace

const Template softmax_rows{"softmax_rows", "Softmax and LogSoftmax over contiguous rows",
                            analyse_as<SoftmaxRows, analyse>};

}  // namespace kilter
