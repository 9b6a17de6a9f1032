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
  bool by_channel = false;  ///< one scale and bias per row (InstanceNormalization), else per element of the row
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
  std::vector<Knob> space() const override { return {{"unroll", {1, 2, 4}}}; }

 private:
  Schedule usual() const override { return {"normalize_rows", {{"unroll", 4}}}; }
  Lowered emit(const Schedule& schedule) const override {
    const int32_t lanes = lanes_of(limits());
    const Node& node = task().node();
    Emitter e(task(), "normalize_rows");
    LoopBuilder& b = e.b;
    RowKernel kernel(e, r_.rows, schedule.knob("unroll"), lanes);
    const auto parameters = [&](size_t i) { return node.input(i) == kNone ? Buf{} : e.input(node.inputs[i]); };
    const Buf scale = parameters(1), bias = parameters(2);
    // The mean of term(x) over the row.
    const auto mean_of = [&](const std::function<Expr(const Expr&)>& term) {
      const Expr total = kernel.reduce(Op::add, 0, "sum", "total", [&](const Expr& at, const Expr& mask) {
        return term(b.let("x", kernel.load(at, mask)));
      });
      return total * imm(DType::f32, 1.0 / static_cast<double>(r_.rows.extent));
    };
    Expr mean = imm(DType::f32, 0);
    if (r_.centred) mean = b.let("mean", mean_of([](const Expr& x) { return x; }));
    const Expr variance = mean_of([&](const Expr& x) {
      const Expr d = b.let("d", r_.centred ? x - broadcast(mean, lanes) : x);
      return d * d;
    });
    const Expr epsilon = imm(DType::f32, node.float_attr("epsilon", 1e-5F));
    const Expr deviation = b.let("inv", imm(DType::f32, 1) / unary(Op::sqrt, variance + epsilon));
    kernel.write([&](const Expr& at, const Expr& mask) {
      Expr v = kernel.load(at, mask);
      if (r_.centred) v = v - broadcast(mean, lanes);
      v = v * broadcast(deviation, lanes);
      const auto parameter = [&](Buf buf) {
        return r_.by_channel ? b.load(buf, kernel.index(1), lanes, 0) : b.load(buf, at, lanes, 1, mask);
      };
      if (scale.id >= 0) v = v * parameter(scale);
      if (bias.id >= 0) v = v + parameter(bias);
      return v;
    });
    return e.finish();
  }

  const Normalisation r_;
};

}  // namespace

const Template normalize_rows{"normalize_rows", "normalisations over contiguous rows",
                              analyse_as<NormalizeRows, analyse>};

}  // namespace kilter
