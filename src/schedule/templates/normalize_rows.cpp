// LayerNormalization, RMSNormalization and InstanceNormalization over contiguous rows: mean, variance, scaling. The
// variance is computed from differences from the mean (in two passes), which stays accurate for rows with a large mean.

#include "ops/support/builder.h"
#include "schedule/model/loop_model.h"
#include "schedule/templates/row_kernel.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

struct Normalisation {
  RowShape rows;
  bool centred = true;      ///< subtracts the mean
  bool by_channel = false;  ///< one scale and bias per row (InstanceNormalization), otherwise per element of the row
};

Result<Normalisation> analyse(const Task& task, const CpuLimits&) {
  const Node& node = task.node();
  const Statistics statistics = node.op->statistics;
  if (statistics != Statistics::row && statistics != Statistics::row_squares && statistics != Statistics::channel)
    return not_for("operator", "LayerNormalization, RMSNormalization, InstanceNormalization", node.op->name);
  const Operand& x = task.operand(node.inputs[0]);
  const Shape& shape = x.type.shape;
  const auto rank = static_cast<int64_t>(shape.size());
  if (node.outputs.size() > 1 && (node.outputs[1] != kNone || (node.outputs.size() > 2 && node.outputs[2] != kNone))) {
    return Rejected{"outputs", "1", "mean or inverse deviation as well"};
  }
  if (x.type.layout.block != 1 || elems(shape) == 0) return Rejected{"input", "plain, not empty", text(x.type)};
  Normalisation r;
  r.by_channel = statistics == Statistics::channel;
  r.centred = statistics != Statistics::row_squares;
  const int64_t first = r.by_channel ? 2 : normal_axis(node, node.int_attr("axis", -1), rank);
  r.rows = row_shape(shape, static_cast<size_t>(first));
  const int64_t parameters = r.by_channel ? shape[1] : r.rows.extent;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNone) continue;
    const Operand& o = task.operand(node.inputs[i]);
    if (o.type.dtype != DType::f32) return Rejected{"element type", "f32", std::string(name(o.type.dtype))};
    if (i > 0 && elems(o.type.shape) != parameters)
      return Rejected{"elements of scale and bias", std::to_string(parameters), std::to_string(elems(o.type.shape))};
    if (i > 0 && !is_dense(o.type.shape, o.phys.strides)) return Rejected{"scale and bias", "dense", "strided"};
  }
  if (!task.prologue.empty()) return Rejected{"prologue", "none", std::to_string(task.prologue.size()) + " nodes"};
  if (auto rejected = check_elementwise(task)) return *rejected;
  if (auto rejected = check_rows(task, r.rows, true)) return *rejected;
  return r;
}

class NormalizeRows final : public LoopModel {
 public:
  NormalizeRows(const Task& task, const CpuLimits& limits, const Normalisation& normalisation)
      : LoopModel(task, limits), r_(normalisation) {}
  std::vector<Knob> space() const override { return row_knobs(r_.rows, limits()); }

 private:
  /// Elements of a group, whose rows stay in L1 from pass to pass. Without a mean, no pass hides the loads of the next
  /// rows, and long rows are fastest one by one.
  static constexpr int64_t kCentredElems = 2048, kElems = 1024;

  Schedule usual() const override {
    return usual_rows("normalize_rows", r_.rows, limits(), r_.centred ? kCentredElems : kElems);
  }
  Lowered emit(const Schedule& schedule) const override {
    Emitter e(task(), "normalize_rows");
    emit_row_groups(e, r_.rows, schedule, lanes_of(limits()), [&](RowGroup& rows) { normalize(e, rows); });
    return e.finish();
  }

  void normalize(Emitter& e, RowGroup& rows) const {
    using Place = RowGroup::Place;
    LoopBuilder& b = e.b;
    const Expr share = imm(DType::f32, 1.0 / static_cast<double>(r_.rows.extent));
    std::vector<Expr> means;
    if (r_.centred) {
      const auto input = [&](const Place& p) { return rows.load(p); };
      means = rows.in_all_lanes(b.let("mean", rows.reduce(Op::add, 0, "sum", input) * share));
    }
    const auto apart = [&](const Place& p) {
      return r_.centred ? rows.load(p) - means[static_cast<size_t>(p.row)] : rows.load(p);
    };
    const auto apart_once = [&](const Place& p) {
      if (r_.centred) rows.prefetch_next(p);
      return b.let("d", apart(p));
    };
    const Expr squares =
        rows.reduce(Op::add, 0, "squares", apart_once, [](const Expr& sum, const Expr& d) { return fma(d, d, sum); });
    const Expr epsilon = imm(DType::f32, task().node().float_attr("epsilon", 1e-5F));
    const Expr inverse = b.let("inv", imm(DType::f32, 1) / unary(Op::sqrt, squares * share + epsilon));
    const std::vector<Expr> inverses = rows.in_all_lanes(inverse);
    const Parameter scale = parameter(e, rows, 1), bias = parameter(e, rows, 2);
    rows.write([&](const Place& p) {
      const Expr v = apart(p) * inverses[static_cast<size_t>(p.row)];
      const Expr factor = scale(p), shift = bias(p);
      if (!factor.defined()) return shift.defined() ? v + shift : v;
      return shift.defined() ? fma(v, factor, shift) : v * factor;
    });
  }

  /// The scale or bias at a place; undefined if there is none. The rows of a group share those that belong to the
  /// elements of a row.
  using Parameter = std::function<Expr(const RowGroup::Place&)>;
  Parameter parameter(Emitter& e, const RowGroup& rows, size_t input) const {
    const ValueId value = task().node().input(input);
    if (value == kNone) return [](const RowGroup::Place&) { return Expr(); };
    const Buf from = e.input(value);
    const int32_t lanes = lanes_of(limits());
    if (r_.by_channel) {
      return [=, &e, &rows](const RowGroup::Place& p) { return e.b.load(from, rows.index(p.row, 1), lanes, 0); };
    }
    return [=, &e, shared = Expr()](const RowGroup::Place& p) mutable {
      if (p.row == 0) shared = e.b.let("p", e.b.load(from, p.at, lanes, 1, p.mask));
      return shared;
    };
  }

  const Normalisation r_;
};

}  // namespace

const Template normalize_rows{"normalize_rows", "normalisations over contiguous rows",
                              analyse_as<NormalizeRows, analyse>};

}  // namespace kilter
