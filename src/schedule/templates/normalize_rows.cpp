// LayerNormalization, RMSNormalization and InstanceNormalization over contiguous rows: mean, variance, scaling. The
// variance is computed from differences to the mean (in two passes), which stays accurate for rows with a large mean.

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
  bool centred = true;      ///< subtracts the mean
  bool by_channel = false;  ///< one scale and bias per row (InstanceNormalization), else per element of the row
};

bool read_by_epilogue(const Task& task, ValueId value) {
  return std::any_of(task.epilogue.begin(), task.epilogue.end(), [&](NodeId id) {
    const std::vector<ValueId>& inputs = task.graph->node(id).inputs;
    return std::find(inputs.begin(), inputs.end(), value) != inputs.end();
  });
}

Result<Rows> analyse(const Task& task, const TargetLimits&) {
  const Node& node = task.node();
  const Statistics statistics = node.op->statistics;
  if (statistics != Statistics::row && statistics != Statistics::row_squares && statistics != Statistics::channel)
    return not_for("operator", "LayerNormalization, RMSNormalization, InstanceNormalization", node.op->name);
  const Operand& x = task.operand(node.inputs[0]);
  const Shape& shape = x.type.shape;
  const auto rank = static_cast<int64_t>(shape.size());
  if (node.outputs.size() > 1 && (node.outputs[1] != kNone || (node.outputs.size() > 2 && node.outputs[2] != kNone))) {
    return Rejected{"outputs", "1", "mean or inverse deviation wanted too"};
  }
  if (x.type.layout.block != 1 || elems(shape) == 0) return Rejected{"input", "plain, not empty", text(x.type)};
  Rows r;
  r.by_channel = statistics == Statistics::channel;
  r.centred = statistics != Statistics::row_squares;
  r.first_dim = r.by_channel ? 2 : static_cast<size_t>(normal_axis(node, node.int_attr("axis", -1), rank));
  for (size_t d = r.first_dim; d < shape.size(); ++d) r.extent *= shape[d];
  const int64_t parameters = r.by_channel ? shape[1] : r.extent;
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
  const Shape dense = dense_strides(shape);
  for (const auto* list : {&task.inputs, &task.outputs}) {
    for (const Operand& o : *list) {
      if (o.type.shape != shape) {
        if (r.first_dim + 1 < shape.size() && read_by_epilogue(task, o.value) && elems(o.type.shape) != 1) {
          return Rejected{"operands of the epilogue when a row spans dimensions", text(shape), text(o.type.shape)};
        }
        continue;
      }
      for (size_t d = r.first_dim; d < shape.size(); ++d) {
        if (shape[d] != 1 && o.phys.strides[d] != dense[d])
          return Rejected{"rows contiguous in memory", std::to_string(dense[d]), std::to_string(o.phys.strides[d])};
      }
    }
  }
  return r;
}

/// Sum of term(x) over the row.
Expr row_sum(LoopBuilder& b, const Rows& rows, Buf from, const Expr& base, int32_t lanes, int64_t unroll,
             const std::function<Expr(const Expr&)>& term) {
  std::vector<int32_t> sums;
  for (int64_t u = 0; u < unroll; ++u) sums.push_back(b.reg("sum", imm(DType::f32, 0, lanes)));
  for_vectors(b, rows.extent, lanes, unroll, [&](const Expr& at, const Expr& mask, int64_t u) {
    Expr t = term(b.let("x", b.load(from, base + at, lanes, 1, mask)));
    if (mask.defined()) t = select(mask, t, imm(DType::f32, 0, lanes));
    b.set(sums[static_cast<size_t>(u)], b.get(sums[static_cast<size_t>(u)]) + t);
  });
  Expr sum = b.get(sums[0]);
  for (int64_t u = 1; u < unroll; ++u) sum = sum + b.get(sums[static_cast<size_t>(u)]);
  return b.let("total", lane_reduce(Op::add, sum));
}

class NormalizeRows final : public LoopModel {
 public:
  NormalizeRows(const Task& task, const TargetLimits& limits, Rows rows)
      : LoopModel(task, limits), rows_(std::move(rows)) {}
  std::vector<Knob> space() const override { return {{"unroll", {1, 2, 4}}}; }

 private:
  Schedule usual() const override { return {"normalize_rows", {{"unroll", 4}}}; }
  Lowered emit(const Schedule& schedule) const override {
    const int64_t unroll = schedule.knob("unroll");
    const int32_t lanes = lanes_of(limits());
    const Node& node = task().node();
    const Operand& x = task().operand(node.inputs[0]);
    Emitter e(task(), "normalize_rows");
    LoopBuilder& b = e.b;
    Site site;
    site.index.assign(x.type.shape.size(), Expr(0));
    for (size_t d = 0; d < rows_.first_dim; ++d) {
      if (x.type.shape[d] != 1) site.index[d] = b.parallel("i" + std::to_string(d), x.type.shape[d]);
    }
    const Buf from = e.input(node.inputs[0]);
    const bool has_scale = node.input(1) != kNone, has_bias = node.input(2) != kNone;
    const Buf scale = has_scale ? e.input(node.inputs[1]) : Buf{};
    const Buf bias = has_bias ? e.input(node.inputs[2]) : Buf{};
    const Domain domain = domain_of(x.type);
    const Expr base = b.let("base", e.index(x, domain, site));
    const Expr inverse = imm(DType::f32, 1.0 / static_cast<double>(rows_.extent));
    Expr mean = imm(DType::f32, 0);
    if (rows_.centred)
      mean = b.let("mean", row_sum(b, rows_, from, base, lanes, unroll, [](const Expr& v) { return v; }) * inverse);
    const Expr squares = row_sum(b, rows_, from, base, lanes, unroll, [&](const Expr& v) {
      const Expr d = b.let("d", rows_.centred ? v - broadcast(mean, lanes) : v);
      return d * d;
    });
    const Expr epsilon = imm(DType::f32, node.float_attr("epsilon", 1e-5F));
    const Expr deviation = b.let("inv", imm(DType::f32, 1) / unary(Op::sqrt, squares * inverse + epsilon));
    for_vectors(b, rows_.extent, lanes, unroll, [&](const Expr& at, const Expr& mask, int64_t) {
      Expr v = b.load(from, base + at, lanes, 1, mask);
      if (rows_.centred) v = v - broadcast(mean, lanes);
      v = v * broadcast(deviation, lanes);
      const auto parameter = [&](Buf buf) {
        return rows_.by_channel ? b.load(buf, site.index[1], lanes, 0) : b.load(buf, at, lanes, 1, mask);
      };
      if (has_scale) v = v * parameter(scale);
      if (has_bias) v = v + parameter(bias);
      Site here = site;
      const size_t inner = innermost(x.type.shape, rows_.first_dim);
      here.index[inner] = at;
      here.vec_dim = static_cast<int32_t>(inner);
      here.lanes = lanes;
      here.mask = mask;
      e.epilogue({{node.outputs[0], v}}, domain, here);
    });
    return e.finish();
  }

  const Rows rows_;
};

}  // namespace

const Template normalize_rows{"normalize_rows", "normalisations over contiguous rows",
                              analyse_as<NormalizeRows, analyse>};

}  // namespace kilter
