// Matrix product C[.., m, n] = A[.., m, k] B[.., k, n] by register tiles of rows x vectors of columns over all of k. B
// is stored in panels [n / width][k / group][width][group]: packed at compile time if it is constant, otherwise by a
// first stage. A group is one f32 or f16, two of bf16 or four bytes (Multiplicands). A and B may have any strides
// (transposes are views).

#include <algorithm>
#include <array>
#include <numeric>

#include "base/align.h"
#include "schedule/emit.h"
#include "schedule/model/register_tile.h"
#include "schedule/templates/templates.h"
#include "schedule/templates/weight_stream.h"

namespace kilter {
namespace {

constexpr int64_t kMaxVectors = 8;
constexpr int64_t kTilesPerItem = 4;

struct Product {
  Shape batch;  ///< broadcast batch dimensions
  int64_t m = 0, n = 0, k = 0;
  Shape a_batch, b_batch;  ///< strides along the batch dimensions, 0 where broadcast
  int64_t a_m = 0, a_k = 0, b_k = 0, b_n = 0;
  Shape b_extent;  ///< extents of B's own batch dimensions, aligned with `batch` (1 where broadcast)
  bool constant_b = false;
  Multiplicands operands;
  bool widens_a = false;  ///< vectors of A are converted to f32 before they are spread

  /// Steps of the reduction, and elements of a panel for each column.
  int64_t steps() const { return ceil_div(k, operands.group); }
  int64_t padded_k() const { return steps() * operands.group; }
};

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

/// Chooses the operands of a product whose results are integers: bytes, or f32 where its sums are exact and the target
/// has no instruction for bytes.
Result<Product> integer_product(Product p, const TensorType& a, const Operand& b, const CpuLimits& limits) {
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
  return p;
}

Result<Product> analyse(const Task& task, const CpuLimits& limits) {
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
  Product p;
  p.batch.assign(y.shape.begin(), y.shape.end() - 2);
  const size_t ra = a.type.shape.size(), rb = b.type.shape.size();
  p.m = a.type.shape[ra - 2], p.k = a.type.shape[ra - 1], p.n = b.type.shape[rb - 1];
  p.a_batch = batch_strides(a, p.batch, nullptr);
  p.b_batch = batch_strides(b, p.batch, &p.b_extent);
  p.a_m = a.phys.strides[ra - 2], p.a_k = a.phys.strides[ra - 1];
  p.b_k = b.phys.strides[rb - 2], p.b_n = b.phys.strides[rb - 1];
  p.constant_b = b.constant != nullptr;
  if (y.dtype == DType::i32) return integer_product(std::move(p), a.type, b, limits);
  const TensorType computed{DType::f32, b.type.shape, {}};
  const Multiplicands operands = Multiplicands::of(a.type, p.constant_b ? b.type : computed, y.dtype, limits);
  const bool stored_alike = p.constant_b || b.type.layout.stored == a.type.layout.stored;
  if (operands.group == 1 || (p.a_k == 1 && stored_alike)) p.operands = operands;
  p.widens_a = p.operands.widens(a.type) && p.a_k == 1 && lanes_of(limits) % kReductionUnroll == 0;
  return p;
}

int64_t most_rows(int64_t vectors, const CpuLimits& limits) {
  return std::max<int64_t>(register_rows(vectors, limits), 1);
}

/// The largest number of vectors per panel; each has at least one column.
int64_t most_vectors(const Product& p, const CpuLimits& limits) {
  const int64_t lanes = lanes_of(limits);
  return std::min(kMaxVectors, ceil_div(p.n, lanes));
}

/// Whether the lines of this many rows of A evict each other from L1. Rows that are a multiple of a way apart, or
/// nearly so, map to only a few of its sets.
bool crowd_l1(const Product& p, int64_t rows, const CpuLimits& limits) {
  const int64_t way = limits.l1_way_bytes, ways = limits.l1_bytes / way;
  const int64_t places = way / std::max<int64_t>(std::gcd(p.a_m * p.operands.bytes(), way), limits.line_bytes);
  return ceil_div(rows, places) > ways / 2;
}

/// Cycles of one step of the reduction over all panels and rows. Panels stream from L2, and so do rows that do not stay
/// in L1.
double cycles(const Product& p, int64_t vectors, int64_t rows, const CpuLimits& limits) {
  const int64_t lanes = lanes_of(limits);
  const int64_t panels = ceil_div(p.n, vectors * lanes);
  const CpuLimits rates = p.operands.limits(limits);
  const auto step = [&](int64_t r) {
    if (r == 0) return 0.0;
    const int64_t bytes = vectors * limits.vector_bytes + (crowd_l1(p, r, limits) ? r * limits.line_bytes : 0);
    return std::max(step_cycles(r, vectors, rates), static_cast<double>(bytes) / limits.l2_rate);
  };
  return static_cast<double>(panels) * (static_cast<double>(p.m / rows) * step(rows) + step(p.m % rows));
}

/// Prefetches packed constants only: a B that was just packed is still in the near caches.
Schedule schedule_of(const Product& p, int64_t vectors, int64_t rows, const CpuLimits& limits) {
  const int64_t panel = p.steps() * vectors * limits.vector_bytes;
  const int64_t all = p.k * p.n * elems(p.b_extent) * p.operands.bytes();
  const int64_t prefetch = p.constant_b ? pick_prefetch(all, panel, ceil_div(p.m, rows), limits) : 0;
  return {"matmul_tiled", {{"vectors", vectors}, {"rows", rows}, {"prefetch", prefetch}}};
}

struct Panels {
  int64_t width, per_matrix, elems, matrices;
};
Panels panels_of(const Product& p, int64_t vectors, int32_t lanes) {
  Panels out{};
  out.width = vectors * lanes;
  out.per_matrix = ceil_div(p.n, out.width);
  out.matrices = elems(p.b_extent);
  out.elems = out.matrices * out.per_matrix * p.padded_k() * out.width;
  return out;
}

/// Packs [k][n] matrices into memory that is zeroed.
template <class T>
void pack_panels(const Tensor& b, const Product& p, const Panels& panels, std::byte* packed) {
  T* to = reinterpret_cast<T*>(packed);
  const int64_t group = p.operands.group;
  for (int64_t matrix = 0; matrix < panels.matrices; ++matrix) {
    const float* from = b.data<float>() + matrix * p.k * p.n;
    for (int64_t panel = 0; panel < panels.per_matrix; ++panel, to += p.padded_k() * panels.width) {
      const int64_t first = panel * panels.width, count = std::min(panels.width, p.n - first);
      for (int64_t row = 0; row < p.k; ++row) {
        const float* x = from + row * p.n + first;
        T* y = to + row / group * group * panels.width + row % group;
        for (int64_t i = 0; i < count; ++i) y[i * group] = T(x[i]);
      }
    }
  }
}

Packing pack_constant(const Task& task, const Product& p, const Panels& panels) {
  const ValueId b = task.node().inputs[1];
  const DType type = p.operands.weights();
  std::string form = fmt::format("panels of {}", panels.width);
  if (type != DType::f32) form += fmt::format(" {}", name(type));
  return {b, std::move(form), type, panels.elems, [from = *task.operand(b).constant, p, panels](std::byte* to) {
            if (p.operands.type == DType::bf16) return pack_panels<BFloat16>(from, p, panels, to);
            if (p.operands.type == DType::f16) return pack_panels<Half>(from, p, panels, to);
            if (p.operands.type == DType::u8) return pack_panels<int8_t>(from, p, panels, to);
            pack_panels<float>(from, p, panels, to);
          }};
}

/// The start of the sums of each column, which corrects them for the stored zero of A: none if that is 0.
std::optional<Packing> column_starts(const Task& task, const Product& p, const Panels& panels) {
  const int64_t zero = task.operand(task.node().inputs[0]).type.layout.zero;
  if (p.operands.type != DType::u8 || zero == 0) return std::nullopt;
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

/// The picks that alternate between the lanes of two vectors.
std::vector<int32_t> alternating(int32_t lanes) {
  std::vector<int32_t> picks;
  for (int32_t l = 0; l < lanes; ++l) picks.push_back(l), picks.push_back(lanes + l);
  return picks;
}

/// The stage that packs a B computed at run time.
Stage pack_stage(const Task& task, const Product& p, const Panels& panels, int32_t lanes, Lowered& lowered) {
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
  const Expr out = b.let("to", (matrix * Expr(panels.per_matrix) + panel) * Expr(p.padded_k() * panels.width));
  const auto step = [&](const Expr& k, int64_t count) {
    for (int64_t v = 0; v < panels.width / lanes; ++v) {
      const Expr column = panel * Expr(panels.width) + Expr(v * lanes);
      const Expr mask = p.n % panels.width == 0 ? Expr() : first_lanes(max(Expr(0), Expr(p.n) - column), lanes);
      const Expr at = base + k * Expr(p.b_k) + column * Expr(p.b_n);
      const Expr row = group == 1 ? b.load(from, at, lanes, p.b_n, mask) : b.load_raw(from, at, lanes, p.b_n, mask);
      const Expr below =
          count == group ? b.load_raw(from, at + Expr(p.b_k), lanes, p.b_n, mask) : imm(p.operands.type, 0, lanes);
      const Expr place = out + k * Expr(panels.width) + Expr(v * lanes * group);
      b.store(to, place, group == 1 ? row : shuffle(row, below, alternating(lanes)));
    }
  };
  b.loop("k", 0, p.k / group * group, group, [&](const Expr& k) { step(k, group); });
  if (p.k % group != 0) step(Expr(p.k - p.k % group), p.k % group);
  return e.finish(lowered);
}

class ProductEmitter {
 public:
  ProductEmitter(Emitter& e, const Product& p, const Panels& panels, int64_t vectors, int32_t lanes)
      : e_(e), b_(e.b), p_(p), panels_(panels), vectors_(vectors), lanes_(lanes) {
    const Operand& a = e.task().operand(e.task().node().inputs[0]);
    a_base_ = a.phys.offset;
    Expr matrix = 0;
    for (size_t d = 0; d < p.batch.size(); ++d) {
      const Expr i = b_.parallel("b" + std::to_string(d), p.batch[d]);
      batch_.push_back(i);
      a_base_ = a_base_ + i * Expr(p.a_batch[d]);
      if (p.b_extent[d] != 1) matrix = matrix * Expr(p.b_extent[d]) + i;
    }
    panel_ = b_.parallel("panel", panels.per_matrix);
    panel_index_ = matrix * Expr(panels.per_matrix) + panel_;
    panel_base_ = panel_index_ * Expr(p.padded_k() * panels.width);
  }

  /// `starts`: of the sums of each column; no buffer if they start at 0. `rows`: of a tile.
  void bind(Buf a, const WeightStream& packed, Buf starts, int64_t rows) {
    a_ = a, packed_ = packed, starts_ = starts;
    if (p_.widens_a) wide_ = b_.scratch("wide", DType::f32, rows * lanes_);
  }

  /// Tile `index` of its panel.
  void tile(const Expr& index, const Expr& row, int64_t rows) {
    std::vector<int32_t> acc;
    for (int64_t i = 0; i < rows * vectors_; ++i) {
      Expr start = imm(p_.operands.sum(), 0, lanes_);
      if (starts_.id >= 0)
        start = b_.load(starts_, panel_index_ * Expr(panels_.width) + Expr(i % vectors_ * lanes_), lanes_);
      acc.push_back(b_.reg("acc", start));
    }
    const Expr a0 = b_.let("a0", a_base_ + row * Expr(p_.a_m));
    const Expr w0 = b_.let("w0", panel_base_);
    const Multiplicands& by = p_.operands;
    // `x_of`: the element of A of a row, in all lanes.
    const auto step = [&](const Expr& k, const auto& x_of) {
      std::vector<Expr> w;
      for (int64_t v = 0; v < vectors_; ++v) {
        const Expr at = w0 + k * Expr(panels_.width) + Expr(v * lanes_ * by.group);
        w.push_back(b_.let("w", by.columns(b_, packed_.weights, at, lanes_)));
      }
      for (int64_t r = 0; r < rows; ++r) {
        const Expr x = b_.let("x", x_of(r));
        for (int64_t v = 0; v < vectors_; ++v) {
          const int32_t reg = acc[static_cast<size_t>(r * vectors_ + v)];
          b_.set(reg, by.multiply(x, w[static_cast<size_t>(v)], b_.get(reg)));
        }
      }
    };
    const auto spread = [&](const Expr& k, int64_t count) {
      step(k, [&](int64_t r) { return by.spread(b_, a_, a0 + Expr(r * p_.a_m) + k * Expr(p_.a_k), lanes_, count); });
    };
    const int64_t unroll = kReductionUnroll * by.group, full = p_.k / unroll * unroll;
    const int64_t widened = p_.widens_a ? p_.k / lanes_ * lanes_ : 0;
    const auto prefetch = [&](const Expr& k) {
      emit_prefetch(b_, packed_, w0, k * Expr(panels_.width), unroll * panels_.width, index);
    };
    if (widened > 0) {
      b_.loop("kv", 0, widened, lanes_, [&](const Expr& kv) {
        for (int64_t r = 0; r < rows; ++r)
          b_.store(wide_, Expr(r * lanes_), b_.load(a_, a0 + Expr(r * p_.a_m) + kv, lanes_));
        b_.loop("k", 0, lanes_, unroll, [&](const Expr& k) {
          prefetch(kv + k);
          for (int64_t u = 0; u < unroll; ++u)
            step(kv + k + Expr(u), [&](int64_t r) { return b_.load(wide_, Expr(r * lanes_ + u) + k, lanes_, 0); });
        });
      });
    }
    b_.loop("k", widened, full, unroll, [&](const Expr& k) {
      prefetch(k);
      for (int64_t u = 0; u < unroll; u += by.group) spread(k + Expr(u), by.group);
    });
    for (int64_t k = full; k < p_.k; k += by.group) spread(Expr(k), std::min(by.group, p_.k - k));
    finish(row, rows, acc);
  }

 private:
  void finish(const Expr& row, int64_t rows, const std::vector<int32_t>& acc) {
    const ValueId anchor = e_.task().node().outputs[0];
    const Domain domain = domain_of(e_.task().graph->type(anchor));
    for (int64_t v = 0; v < vectors_; ++v) {
      const Expr column = b_.let("n", panel_ * Expr(panels_.width) + Expr(v * lanes_));
      const Expr mask = p_.n % panels_.width == 0 ? Expr() : first_lanes(max(Expr(0), Expr(p_.n) - column), lanes_);
      for (int64_t r = 0; r < rows; ++r) {
        Site site;
        site.index = batch_;
        site.index.push_back(row + Expr(r));
        site.index.push_back(column);
        site.vec_dim = static_cast<int32_t>(domain.rank()) - 1;
        site.lanes = lanes_;
        site.mask = mask;
        e_.epilogue({{anchor, b_.get(acc[static_cast<size_t>(r * vectors_ + v)])}}, domain, site);
      }
    }
  }

  Emitter& e_;
  LoopBuilder& b_;
  const Product& p_;
  const Panels& panels_;
  int64_t vectors_;
  int32_t lanes_;
  Buf a_;
  Buf wide_;  ///< a vector of each row of A in f32; no buffer unless Product::widens_a
  WeightStream packed_;
  std::vector<Expr> batch_;
  Buf starts_;
  Expr panel_, panel_index_, a_base_, panel_base_;
};

class MatmulTiled final : public Analysed {
 public:
  MatmulTiled(const Task& task, const CpuLimits& limits, Product product)
      : Analysed(task, limits), p_(std::move(product)) {}

  std::vector<Knob> space() const override {
    Knob vectors{"vectors", {}}, rows{"rows", {}};
    for (int64_t v = 1; v <= most_vectors(p_, limits()); ++v) vectors.values.push_back(v);
    for (int64_t r = 1; r <= std::min(p_.m, most_rows(1, limits())); ++r) rows.values.push_back(r);
    return {vectors, rows, panel_prefetch_knob()};
  }
  Result<Schedule> pick() const override {
    int64_t best_v = 1, best_r = 1;
    double best = -1;
    for (int64_t v = 1; v <= most_vectors(p_, limits()); ++v) {
      for (const int64_t r : rows_beside(v)) {
        const double c = cycles(p_, v, r, limits());
        // Two vectors win a tie: a single one needs more broadcasts, and three or more read more of the panels.
        if (best < 0 || c < best * 0.99 || (c <= best * 1.01 && v == 2 && best_v == 1))
          best = c, best_v = v, best_r = r;
      }
    }
    return schedule_of(p_, best_v, best_r, limits());
  }
  /// The candidates in the order in which pick() considers them.
  std::vector<Schedule> candidates() const override {
    std::vector<Schedule> all;
    for (int64_t v = 1; v <= most_vectors(p_, limits()); ++v) {
      for (const int64_t r : rows_beside(v)) all.push_back(schedule_of(p_, v, r, limits()));
    }
    return all;
  }

 private:
  /// The candidates for the rows of a tile: as many as fit, or fewer that divide the matrix more evenly.
  std::array<int64_t, 2> rows_beside(int64_t vectors) const {
    const int64_t most = std::min(p_.m, most_rows(vectors, limits()));
    return {most, ceil_div(p_.m, ceil_div(p_.m, most))};
  }

  std::optional<Rejected> conflict(const Schedule& schedule) const override {
    const int64_t vectors = schedule.knob("vectors"), rows = schedule.knob("rows");
    const int64_t most = most_rows(vectors, limits());
    if (rows <= most) return std::nullopt;
    return Rejected{fmt::format("register tile (rows with {} vectors each)", vectors), std::to_string(most),
                    std::to_string(rows)};
  }

  Estimate model(const Schedule& schedule) const override {
    const int64_t vectors = schedule.knob("vectors"), rows = schedule.knob("rows");
    const double all = cycles(p_, vectors, rows, limits());
    Product full = p_;
    full.m = rows, full.n = vectors * lanes_of(limits());
    const double tiles = static_cast<double>(p_.m * p_.n) / static_cast<double>(full.m * full.n);
    const double ideal = cycles(full, vectors, rows, limits()) * tiles;
    return {all * static_cast<double>(p_.steps() * elems(p_.batch)), std::max(0.0, 1 - ideal / all)};
  }

  Lowered emit(const Schedule& schedule) const override {
    const int64_t vectors = schedule.knob("vectors"), rows = schedule.knob("rows");
    const int32_t lanes = lanes_of(limits());
    const Panels panels = panels_of(p_, vectors, lanes);
    Lowered lowered;
    if (!p_.constant_b) {
      lowered.temp_bytes.push_back(panels.elems * p_.operands.bytes());
      lowered.stages.push_back(pack_stage(task(), p_, panels, lanes, lowered));
      lowered.stages.back().packs = true;
    }
    Emitter e(task(), "matmul_tiled");
    ProductEmitter product(e, p_, panels, vectors, lanes);
    const int64_t full = p_.m / rows, rest = p_.m % rows;
    const int64_t items = ceil_div(full + (rest > 0 ? 1 : 0), kTilesPerItem);
    const Expr item = e.b.parallel("item", items);
    const Buf a = e.input(task().node().inputs[0]);
    const Buf packed = p_.constant_b ? e.constant(pack_constant(task(), p_, panels), "packed")
                                     : e.temp(0, p_.operands.type, panels.elems, false, "packed");
    const auto packing = column_starts(task(), p_, panels);
    const Buf starts = packing ? e.constant(*packing, "starts") : Buf{};
    product.bind(
        a, {packed, schedule.knob("prefetch"), p_.padded_k() * panels.width, ceil_div(p_.m, rows), limits().line_bytes},
        starts, rows);
    const Expr first = item * Expr(kTilesPerItem);
    if (full > 0) {
      e.b.loop("t", first, min(first + Expr(kTilesPerItem), Expr(full)),
               [&](const Expr& t) { product.tile(t, t * Expr(rows), rows); });
    }
    if (rest > 0) {
      e.b.if_then(binary(Op::eq, item, Expr(items - 1)), [&] { product.tile(Expr(full), Expr(full * rows), rest); });
    }
    lowered.stages.push_back(e.finish(lowered));
    return lowered;
  }

  const Product p_;
};

}  // namespace

const Template matmul_tiled{"matmul_tiled", "matrix products by register tiles over packed panels",
                            analyse_as<MatmulTiled, analyse>};

}  // namespace kilter
