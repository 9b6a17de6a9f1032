// Resize and Upsample of images over height and width: source indices and weights come from tables made at compile
// time.

#include "ops/builder.h"
#include "ops/resize_coords.h"
#include "schedule/emit.h"
#include "schedule/loop_model.h"
#include "schedule/templates.h"

namespace kilter {
namespace {

constexpr int64_t kMaxTaps = 4;  ///< per axis: nearest 1, linear 2, cubic 4

Answer<ResizePlan> analyse(const Task& task, const TargetLimits& limits) {
  const Node& node = task.node();
  if (node.op->family != Family::resize) return Rejected{"operator family", "resize", std::string(node.op->name)};
  const Operand& x = task.operand(node.inputs[0]);
  const TensorType& y = task.graph->type(node.outputs[0]);
  if (x.type.dtype != DType::f32) return Rejected{"element type", "f32", std::string(name(x.type.dtype))};
  if (x.type.shape.size() != 4 || elems(y.shape) == 0)
    return Rejected{"rank of the input", "4, not empty", text(x.type)};
  if (x.type.layout.block != y.layout.block || (x.type.layout.block != 1 && x.type.layout.block != lanes_of(limits))) {
    return Rejected{"layouts", "alike", "blocked and plain"};
  }
  if (!task.prologue.empty()) return Rejected{"prologue", "none", std::to_string(task.prologue.size()) + " nodes"};
  if (auto rejected = check_elementwise(task)) return *rejected;
  const OpView v = view(*task.graph, node);
  const bool by_inputs = node.op->name == "Resize" && node.opset >= 11;
  const auto value = [&](size_t i) { return i < v.values.size() ? v.values[i] : nullptr; };
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i] != kNone && value(i) == nullptr)
      return Rejected{"scales and sizes", "constant", "computed at run time"};
  }
  const ResizeOperands operands =
      by_inputs ? ResizeOperands{value(1), value(2), value(3)} : ResizeOperands{nullptr, value(1), nullptr};
  ResizePlan plan = resize_plan(node, x.type.shape, operands);
  if (!plan.axes[0].identity() || !plan.axes[1].identity())
    return Rejected{"resized axes", "height and width", "batch or channels"};
  for (const ResizeAxis& a : plan.axes) {
    if (a.taps > kMaxTaps) return Rejected{"taps per axis", std::to_string(kMaxTaps), std::to_string(a.taps)};
    if (!a.outside.empty()) return Rejected{"extrapolated pixels", "none", "some"};
  }
  return plan;
}

Answer<std::vector<Knob>> space(const Task& task, const TargetLimits& limits) {
  auto plan = analyse(task, limits);
  if (auto* rejected = std::get_if<Rejected>(&plan)) return *rejected;
  return std::vector<Knob>{};
}

Answer<Schedule> usual(const Task& task, const TargetLimits& limits) {
  auto plan = analyse(task, limits);
  if (auto* rejected = std::get_if<Rejected>(&plan)) return *rejected;
  return Schedule{"resize_table", {}};
}

struct Table {
  Buf index, weight;
  int64_t taps;
};

Table table(Emitter& e, const ResizeAxis& axis, int64_t stride, const std::string& name) {
  Tensor index(DType::i64, {axis.out * axis.taps}), weight(DType::f32, {axis.out * axis.taps});
  for (int64_t i = 0; i < axis.out * axis.taps; ++i) {
    index.data<int64_t>()[i] = axis.index[static_cast<size_t>(i)] * stride;
    weight.data<float>()[i] = static_cast<float>(axis.weight[static_cast<size_t>(i)]);
  }
  return {e.constant(index, name + "_index"), e.constant(weight, name + "_weight"), axis.taps};
}

Answer<Lowered> lower(const Task& task, const Schedule& schedule, const TargetLimits& limits) {
  auto analysed = analyse(task, limits);
  if (auto* rejected = std::get_if<Rejected>(&analysed)) return *rejected;
  if (auto rejected = check_knobs(schedule, {})) return *rejected;
  const ResizePlan& plan = std::get<ResizePlan>(analysed);
  const Node& node = task.node();
  const Operand& x = task.operand(node.inputs[0]);
  const TensorType& y = task.graph->type(node.outputs[0]);
  const Domain domain = domain_of(y);
  const int32_t block = y.layout.block;
  Emitter e(task, "resize_table");
  LoopBuilder& b = e.b;
  const Expr n = b.parallel("n", domain.dims[0]);
  const Expr c = b.parallel("c", domain.dims[1]);
  const Expr h = b.parallel("h", domain.dims[2]);
  const Buf from = e.input(node.inputs[0]);
  const Table rows = table(e, plan.axes[2], x.phys.strides[2], "h");
  const Table columns = table(e, plan.axes[3], x.phys.strides[3], "w");
  const Expr base = b.let("base", Expr(x.phys.offset) + n * Expr(x.phys.strides[0]) + c * Expr(x.phys.strides[1]));
  std::vector<Expr> row_at, row_weight;
  for (int64_t t = 0; t < rows.taps; ++t) {
    row_at.push_back(b.let("row", base + b.load(rows.index, h * Expr(rows.taps) + Expr(t))));
    row_weight.push_back(b.let("rw", b.load(rows.weight, h * Expr(rows.taps) + Expr(t))));
  }
  const auto pixel = [&](const Expr& w, int32_t lanes) {
    Expr sum;
    for (int64_t s = 0; s < columns.taps; ++s) {
      const Expr column = b.let("column", b.load(columns.index, w * Expr(columns.taps) + Expr(s)));
      Expr part;
      for (int64_t r = 0; r < rows.taps; ++r) {
        Expr value = b.load(from, row_at[static_cast<size_t>(r)] + column, lanes);
        if (!plan.nearest) value = value * row_weight[static_cast<size_t>(r)];
        part = part.defined() ? part + value : value;
      }
      if (!plan.nearest) part = part * b.load(columns.weight, w * Expr(columns.taps) + Expr(s));
      sum = sum.defined() ? sum + part : part;
    }
    Site site{{n, c, h, w}, -1, lanes, {}};
    if (block > 1) site.index.emplace_back(0), site.vec_dim = 4;
    e.epilogue({{node.outputs[0], sum}}, domain, site);
  };
  if (block > 1) {
    b.loop("w", 0, domain.dims[3], [&](const Expr& w) { pixel(w, block); });
  } else if (domain.dims[3] == 1) {
    pixel(0, 1);
  } else {
    b.vector_loop("w", domain.dims[3], [&](const Expr& w) { pixel(w, 1); });
  }
  Lowered lowered;
  lowered.stages.push_back(e.finish(lowered));
  return lowered;
}

using Model = LoopModel<space, usual, lower>;

}  // namespace

const Template resize_table{
    "resize_table", "image resizing by index and weight tables", space, Model::pick, lower, Model::candidates,
    Model::estimate};

}  // namespace kilter
