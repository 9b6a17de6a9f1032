#include "schedule/templates/matmul_core.h"

#include <algorithm>
#include <utility>

#include "schedule/templates/byte_pairs.h"

namespace kilter {
namespace {

/// Strides of an operand's leading dimensions along `batch`.
Shape batch_strides(const Operand& o, const Shape& batch, Shape* extents) {
  const size_t own = o.type.shape.size() - 2;
  Shape strides(batch.size(), 0);
  if (extents != nullptr) extents->assign(batch.size(), 1);
  for (size_t i = 0; i < own; ++i) {
    const size_t d = batch.size() - own + i;
    if (o.type.shape[i] != 1) strides[d] = o.phys.strides[i];
    if (extents != nullptr) (*extents)[d] = o.type.shape[i];
  }
  return strides;
}

/// Makes a batch dimension the rows of the product if its matrices have one row each, so that B is read once.
void take_rows_from_batch(MatrixProduct& p) {
  p.row_axis = p.batch.size();
  if (p.m != 1) return;
  for (size_t d = p.batch.size(); d-- > 0;) {
    if (p.batch[d] == 1 || p.b_extent[d] != 1) continue;
    p.row_axis = d, p.m = std::exchange(p.batch[d], 1), p.a_m = std::exchange(p.a_batch[d], 0);
    return;
  }
}

/// Chooses the operands of a product whose results are integers: bytes, or f32 if its sums are exact and the target has
/// no instruction for bytes.
Result<MatrixProduct> integer_product(MatrixProduct p, const TensorType& a, const Operand& b, const CpuLimits& limits) {
  if (!p.constant_b) return Rejected{"right operand of a product of integers", "constant", "computed at run time"};
  const Tensor& w = *b.constant;
  const auto inexact = [&] {
    double most = 0;
    for (const float weight : w.span<float>()) most = std::max(most, std::abs(double{weight}));
    return check_exact_sums(most * static_cast<double>(p.k));
  };
  const bool bytes = p.a_k == 1 && Multiplicands::stores_bytes(a, DType::i32) && fit_i8(w);
  if (bytes)
    p.operands = Multiplicands::of_bytes(a, b.type, limits, [&] { return !inexact(); });
  else if (auto rejected = inexact())
    return *rejected;
  if (p.operands.type == DType::i16 && p.k % Multiplicands::byte_pairs().group == 0 && few_saturate(w, p.k, p.n))
    p.operands = Multiplicands::byte_pairs();
  return p;
}

Result<MatrixProduct> analyse(const Task& task, const CpuLimits& limits, bool tiles) {
  const Node& node = task.node();
  if (node.op->family != Family::matmul) return not_for("operator", "MatMul", node.op->name);
  const Operand& a = task.operand(node.inputs[0]);
  const Operand& b = task.operand(node.inputs[1]);
  const TensorType& y = task.graph->type(node.outputs[0]);
  for (const Operand* o : {&a, &b}) {
    if (o->type.dtype != DType::f32) return Rejected{"element type", "f32", std::string(name(o->type.dtype))};
    if (o->type.shape.size() < 2)
      return Rejected{"rank of the operands", "2 or more", std::to_string(o->type.shape.size())};
    if (o->type.layout.block != 1) return Rejected{"layout of the operands", "plain", "blocked"};
  }
  if (elems(y.shape) == 0 || a.type.shape.back() == 0) return Rejected{"elements", "1 or more", "0"};
  if (!task.prologue.empty()) return Rejected{"prologue", "none", std::to_string(task.prologue.size()) + " nodes"};
  if (auto rejected = check_elementwise(task)) return *rejected;
  MatrixProduct p;
  p.overlap = task.open;
  p.batch.assign(y.shape.begin(), y.shape.end() - 2);
  const size_t ra = a.type.shape.size(), rb = b.type.shape.size();
  p.m = a.type.shape[ra - 2], p.k = a.type.shape[ra - 1], p.n = b.type.shape[rb - 1];
  p.a_batch = batch_strides(a, p.batch, nullptr);
  p.b_batch = batch_strides(b, p.batch, &p.b_extent);
  p.a_m = a.phys.strides[ra - 2], p.a_k = a.phys.strides[ra - 1];
  p.b_k = b.phys.strides[rb - 2], p.b_n = b.phys.strides[rb - 1];
  take_rows_from_batch(p);
  p.constant_b = b.constant != nullptr;
  if (y.dtype == DType::i32) return integer_product(std::move(p), a.type, b, limits);
  const TensorType computed{DType::f32, b.type.shape, {}};
  const Multiplicands operands = tiles ? Multiplicands::of_tiles(a.type, y.dtype, limits)
                                       : Multiplicands::of(a.type, p.constant_b ? b.type : computed, y.dtype, limits);
  const bool stored_alike = p.constant_b || b.type.layout.stored == a.type.layout.stored;
  const bool fits = operands.group == 1 ? p.constant_b || operands.type == DType::f32 : p.a_k == 1 && stored_alike;
  if (fits) p.operands = operands;
  p.widens_a = p.operands.widens(a.type) && p.a_k == 1 && lanes_of(limits) % kReductionUnroll == 0;
  return p;
}

}  // namespace

Result<MatrixProduct> product_of(const Task& task, const CpuLimits& limits) { return analyse(task, limits, false); }

Result<MatrixProduct> tile_product_of(const Task& task, const CpuLimits& limits) { return analyse(task, limits, true); }

Panels panels_of(const MatrixProduct& p, int64_t vectors, int32_t lanes, int64_t unit) {
  Panels out{};
  out.width = vectors * lanes;
  out.per_matrix = ceil_div(p.n, out.width);
  out.matrices = elems(p.b_extent);
  out.depth = round_up(p.k, unit);
  out.elems = out.matrices * out.per_matrix * out.depth * out.width;
  return out;
}

Packing pack_constant(const Task& task, const MatrixProduct& p, const Panels& panels) {
  const ValueId b = task.node().inputs[1];
  const DType type = p.operands.weights();
  std::string form = fmt::format("panels of {}", panels.width);
  if (type != DType::f32) form += fmt::format(" {}", name(type));
  if (p.operands.type == DType::i16) form += " pairs";
  if (panels.depth != p.padded_k()) form += fmt::format(" depth {}", panels.depth);
  enum : int32_t { kMatrix, kRow, kColumn };
  const int64_t group = p.operands.group;
  Gather gather{{{panels.matrices, p.k * p.n}, {p.k, p.n}, {p.n, 1}},
                {{panels.matrices, kMatrix, 1},
                 {panels.per_matrix, kColumn, panels.width},
                 {panels.depth / group, kRow, group},
                 {panels.width, kColumn, 1}}};
  if (group > 1) gather.loops.push_back({group, kRow, 1});
  return packed_by(std::move(gather), b, std::move(form), type, *task.operand(b).constant);
}

std::optional<Packing> column_starts(const Task& task, const MatrixProduct& p, const Panels& panels) {
  const int64_t zero = task.operand(task.node().inputs[0]).type.layout.zero;
  if (!p.operands.integers() || zero == 0) return std::nullopt;
  const ValueId b = task.node().inputs[1];
  const int64_t padded = panels.per_matrix * panels.width;
  const auto fill = [from = *task.operand(b).constant, p, panels, zero, padded](std::byte* to) {
    const float* x = from.data<float>();
    std::vector<int64_t> sums(static_cast<size_t>(p.n));
    for (int64_t matrix = 0; matrix < panels.matrices; ++matrix) {
      std::ranges::fill(sums, 0);
      for (int64_t k = 0; k < p.k; ++k) {
        for (int64_t& sum : sums) sum += static_cast<int64_t>(*x++);
      }
      int32_t* row = reinterpret_cast<int32_t*>(to) + matrix * padded;
      for (const int64_t sum : sums) *row++ = static_cast<int32_t>(-zero * sum);
    }
  };
  return Packing{b, fmt::format("sums zero={} panels of {}", zero, panels.width), DType::i32, panels.matrices * padded,
                 fill};
}

Stage pack_stage(const Task& task, const MatrixProduct& p, const Panels& panels, int32_t lanes, Lowered& lowered) {
  Emitter e(task, "matmul_pack");
  LoopBuilder& b = e.b;
  const Operand& operand = task.operand(task.node().inputs[1]);
  Expr base = operand.phys.offset;
  Expr matrix = 0;
  for (size_t d = 0; d < p.batch.size(); ++d) {
    if (p.b_extent[d] == 1) continue;
    const Expr i = b.parallel("b" + std::to_string(d), p.b_extent[d]);
    base = base + i * Expr(p.b_batch[d]);
    matrix = matrix * Expr(p.b_extent[d]) + i;
  }
  const Expr panel = b.parallel("panel", panels.per_matrix);
  const Buf from = e.input(operand.value);
  const int64_t group = p.operands.group;
  const Buf to = e.temp(0, p.operands.type, panels.elems, true, "packed");
  const Expr out = b.let("to", (matrix * Expr(panels.per_matrix) + panel) * Expr(panels.depth * panels.width));
  const auto step = [&](const Expr& k, int64_t count) {
    for (int64_t v = 0; v < panels.width / lanes; ++v) {
      const Expr column = panel * Expr(panels.width) + Expr(v * lanes);
      const Expr mask = p.n % panels.width == 0 ? Expr() : first_lanes(max(Expr(0), Expr(p.n) - column), lanes);
      const Expr at = base + k * Expr(p.b_k) + column * Expr(p.b_n);
      const Expr row = group == 1 ? b.load(from, at, lanes, p.b_n, mask) : b.load_raw(from, at, lanes, p.b_n, mask);
      const Expr below =
          count == group ? b.load_raw(from, at + Expr(p.b_k), lanes, p.b_n, mask) : imm(p.operands.type, 0, lanes);
      const Expr place = out + k * Expr(panels.width) + Expr(v * lanes * group);
      b.store(to, place, group == 1 ? row : interleaved(row, below));
    }
  };
  b.loop("k", 0, p.k / group * group, group, [&](const Expr& k) { step(k, group); });
  if (p.k % group != 0) step(Expr(p.k - p.k % group), p.k % group);
  if (panels.depth == p.padded_k()) return e.finish(lowered);
  b.loop("k", p.padded_k(), panels.depth, group, [&](const Expr& k) {
    for (int64_t v = 0; v < panels.width / lanes; ++v) {
      const auto zeros = static_cast<int32_t>(lanes * group);
      b.store(to, out + k * Expr(panels.width) + Expr(v * zeros), imm(p.operands.type, 0, zeros));
    }
  });
  return e.finish(lowered);
}

BatchLoops::BatchLoops(LoopBuilder& b, const Task& task, const MatrixProduct& p) : row_axis(p.row_axis) {
  a_base = task.operand(task.node().inputs[0]).phys.offset;
  for (size_t d = 0; d < p.batch.size(); ++d) {
    const Expr i = b.parallel("b" + std::to_string(d), p.batch[d]);
    index.push_back(i);
    a_base = a_base + i * Expr(p.a_batch[d]);
    if (p.b_extent[d] != 1) matrix = matrix * Expr(p.b_extent[d]) + i;
  }
}

std::vector<Expr> BatchLoops::at(const Expr& row, const Expr& column) const {
  std::vector<Expr> at = index;
  at.emplace_back(0);
  at[row_axis] = row;
  at.push_back(column);
  return at;
}

}  // namespace kilter
