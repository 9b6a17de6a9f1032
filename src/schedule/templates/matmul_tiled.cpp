// Matrix products with register tiles of rows x vectors of columns over all of k, with B in panels.

#include <algorithm>
#include <array>
#include <numeric>

#include "base/align.h"
#include "schedule/templates/byte_pairs.h"
#include "schedule/templates/matmul_core.h"
#include "schedule/templates/templates.h"
#include "schedule/templates/tile_split.h"
#include "schedule/templates/weight_stream.h"
#include "schedule/templates/widen_operand.h"

namespace kilter {
namespace {

constexpr int64_t kMaxVectors = 8;
constexpr int64_t kTilesPerItem = 4;

int64_t most_rows(const MatrixProduct& p, int64_t vectors, const CpuLimits& limits) {
  return std::max<int64_t>(register_rows(vectors, p.operands.limits(limits)), 1);
}

/// The largest number of vectors per panel; each has at least one column.
int64_t most_vectors(const MatrixProduct& p, const CpuLimits& limits) {
  const int64_t lanes = lanes_of(limits);
  return std::min(kMaxVectors, ceil_div(p.n, lanes));
}

/// Whether the lines of this many rows of A evict each other from L1. Rows whose distance is a multiple of a way, or
/// nearly so, map to only a few of its sets.
bool crowd_l1(const MatrixProduct& p, int64_t rows, const CpuLimits& limits) {
  const int64_t way = limits.l1_way_bytes, ways = limits.l1_bytes / way;
  const int64_t places = way / std::max<int64_t>(std::gcd(p.a_m * size_bytes(p.operands.type), way), limits.line_bytes);
  return ceil_div(rows, places) > ways / 2;
}

/// Cycles of one step of the reduction over all panels and rows. Panels stream from L2, and so do rows that do not stay
/// in L1.
double cycles(const MatrixProduct& p, int64_t vectors, int64_t rows, const CpuLimits& limits) {
  const int64_t lanes = lanes_of(limits);
  const int64_t panels = ceil_div(p.n, vectors * lanes);
  const CpuLimits rates = p.operands.limits(limits);
  const auto step = [&](int64_t r) {
    if (r == 0) return 0.0;
    const int64_t bytes = vectors * limits.vector_bytes + (crowd_l1(p, r, limits) ? r * limits.line_bytes : 0);
    return std::max(step_cycles(r, vectors, rates), static_cast<double>(bytes) / limits.l2_rate);
  };
  const TileSplit tiles(p.m, rows, p.overlap);
  return static_cast<double>(panels) * (static_cast<double>(tiles.whole()) * step(rows) + step(tiles.rest()));
}

/// Prefetches packed constants only: if B was just packed, it is still in the near caches.
Schedule schedule_of(const MatrixProduct& p, int64_t vectors, int64_t rows, const CpuLimits& limits) {
  const int64_t panel = p.steps() * vectors * limits.vector_bytes;
  const int64_t all = p.k * p.n * elems(p.b_extent) * p.operands.bytes();
  const int64_t prefetch = p.constant_b ? pick_prefetch(all, panel, ceil_div(p.m, rows), limits) : 0;
  return {"matmul_tiled", {{"vectors", vectors}, {"rows", rows}, {"prefetch", prefetch}}};
}

class ProductEmitter {
 public:
  ProductEmitter(Emitter& e, const MatrixProduct& p, const Panels& panels, int64_t vectors, int32_t lanes)
      : e_(e),
        b_(e.b),
        p_(p),
        panels_(panels),
        vectors_(vectors),
        lanes_(lanes),
        batch_(e.b, e.task(), p),
        panel_(b_.parallel("panel", panels.per_matrix)),
        panel_index_(batch_.matrix * Expr(panels.per_matrix) + panel_),
        panel_base_(panel_index_ * Expr(panels.depth * panels.width)) {}

  /// `starts`: of the sums of each column; no buffer if they start at 0. `rows`: of a tile.
  void bind(Buf a, const WeightStream& packed, const RepeatedSteps& repeated, Buf starts, int64_t rows) {
    a_ = a, packed_ = packed, repeated_ = repeated, starts_ = starts;
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
    const Expr a0 = b_.let("a0", batch_.a_base + row * Expr(p_.a_m));
    const Expr w0 = b_.let("w0", panel_base_);
    const Multiplicands& by = p_.operands;
    // `x_of`: the element of A of a row, in all lanes.
    const auto multiply = [&](const Buf& weights, const Expr& first, const auto& x_of) {
      std::vector<Expr> w;
      for (int64_t v = 0; v < vectors_; ++v)
        w.push_back(b_.let("w", by.columns(b_, weights, first + Expr(v * lanes_ * by.group), lanes_)));
      for (int64_t r = 0; r < rows; ++r) {
        const Expr x = b_.let("x", x_of(r));
        for (int64_t v = 0; v < vectors_; ++v) {
          const int32_t reg = acc[static_cast<size_t>(r * vectors_ + v)];
          b_.set(reg, by.multiply(x, w[static_cast<size_t>(v)], b_.get(reg)));
        }
      }
    };
    const auto step = [&](const Expr& k, const auto& x_of) {
      multiply(packed_.weights, w0 + k * Expr(panels_.width), x_of);
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
    repeated_.emit(b_, {p_.steps(), panels_.width}, panel_index_, [&](const Expr& k, const Expr& first) {
      multiply(repeated_.weights, first,
               [&](int64_t r) { return by.spread(b_, a_, a0 + Expr(r * p_.a_m) + k, lanes_, by.group); });
    });
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
        site.index = batch_.at(row + Expr(r), column);
        site.vec_dim = static_cast<int32_t>(domain.rank()) - 1;
        site.lanes = lanes_;
        site.mask = mask;
        e_.epilogue({{anchor, b_.get(acc[static_cast<size_t>(r * vectors_ + v)])}}, domain, site);
      }
    }
  }

  Emitter& e_;
  LoopBuilder& b_;
  const MatrixProduct& p_;
  const Panels& panels_;
  int64_t vectors_;
  int32_t lanes_;
  Buf a_;
  Buf wide_;  ///< a vector of each row of A in f32; no buffer unless MatrixProduct::widens_a
  WeightStream packed_;
  RepeatedSteps repeated_;
  Buf starts_;
  BatchLoops batch_;
  Expr panel_, panel_index_, panel_base_;
};

class MatmulTiled final : public Analysed {
 public:
  MatmulTiled(const Task& task, const CpuLimits& limits, MatrixProduct product)
      : Analysed(task, limits), p_(std::move(product)) {}

  std::vector<Knob> space() const override {
    Knob vectors{"vectors", {}}, rows{"rows", {}};
    for (int64_t v = 1; v <= most_vectors(p_, limits()); ++v) vectors.values.push_back(v);
    for (int64_t r = 1; r <= std::min(p_.m, most_rows(p_, 1, limits())); ++r) rows.values.push_back(r);
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
    const int64_t most = std::min(p_.m, most_rows(p_, vectors, limits()));
    return {most, ceil_div(p_.m, ceil_div(p_.m, most))};
  }

  /// Returns the place of a row's data of a step.
  std::function<int64_t(int64_t)> place_of_step() const {
    return [group = p_.operands.group](int64_t step) { return step * group; };
  }
  bool widens_first() const { return p_.operands.type == DType::i16; }
  std::optional<Rejected> conflict(const Schedule& schedule) const override {
    const int64_t vectors = schedule.knob("vectors"), rows = schedule.knob("rows");
    const int64_t most = most_rows(p_, vectors, limits());
    if (rows <= most) return std::nullopt;
    return Rejected{fmt::format("register tile (rows with {} vectors each)", vectors), std::to_string(most),
                    std::to_string(rows)};
  }

  Estimate model(const Schedule& schedule) const override {
    const int64_t vectors = schedule.knob("vectors"), rows = schedule.knob("rows");
    const double all = cycles(p_, vectors, rows, limits());
    MatrixProduct full = p_;
    full.m = rows, full.n = vectors * lanes_of(limits());
    const double tiles = static_cast<double>(p_.m * p_.n) / static_cast<double>(full.m * full.n);
    const double ideal = cycles(full, vectors, rows, limits()) * tiles;
    Estimate out{all * static_cast<double>(p_.steps() * elems(p_.batch)), std::max(0.0, 1 - ideal / all)};
    if (widens_first()) out.cycles += widening_cycles(task(), task().node().inputs[0], limits());
    return out;
  }

  Lowered emit(const Schedule& schedule) const override {
    const int64_t vectors = schedule.knob("vectors"), rows = schedule.knob("rows");
    const int32_t lanes = lanes_of(limits());
    const Panels panels = panels_of(p_, vectors, lanes, p_.operands.group);
    Lowered lowered;
    if (!p_.constant_b) {
      lowered.temp_bytes.push_back(panels.elems * p_.operands.bytes());
      lowered.stages.push_back(pack_stage(task(), p_, panels, lanes, lowered));
      lowered.stages.back().packs = true;
    }
    Emitter e(task(), "matmul_tiled");
    ProductEmitter product(e, p_, panels, vectors, lanes);
    const TileSplit tiles(p_.m, rows, p_.overlap);
    const int64_t full = tiles.whole(), rest = tiles.rest(), items = tiles.items(kTilesPerItem);
    const Expr item = e.b.parallel("item", items);
    const ValueId left = task().node().inputs[0];
    if (widens_first()) widen_first(task(), left, limits(), lowered);
    const Buf a = widens_first() ? widened_operand(e, left) : e.input(left);
    RepeatedSteps repeated;
    const Buf packed = !p_.constant_b ? e.temp(0, p_.operands.type, panels.elems, false, "packed")
                       : p_.operands.pairs
                           ? pair_weights(e, pack_constant(task(), p_, panels), {p_.steps(), panels.width},
                                          place_of_step(), "packed", repeated)
                           : e.constant(pack_constant(task(), p_, panels), "packed");
    const auto packing = column_starts(task(), p_, panels);
    const Buf starts = packing ? e.constant(*packing, "starts") : Buf{};
    product.bind(a,
                 {packed, schedule.knob("prefetch"), p_.padded_k() * panels.width, ceil_div(p_.m, rows),
                  limits().line_bytes, task().open},
                 repeated, starts, rows);
    const Expr first = item * Expr(kTilesPerItem);
    if (full > 0) {
      e.b.loop("t", first, tiles.end_of_item(item, kTilesPerItem),
               [&](const Expr& t) { product.tile(t, tiles.begin(e.b, t), rows); });
    }
    if (rest > 0) {
      e.b.if_then(binary(Op::eq, item, Expr(items - 1)), [&] { product.tile(Expr(full), Expr(full * rows), rest); });
    }
    lowered.stages.push_back(e.finish(lowered));
    return lowered;
  }

  const MatrixProduct p_;
};

}  // namespace

const Template matmul_tiled{"matmul_tiled", "matrix products with register tiles over packed panels",
                            analyse_as<MatmulTiled, product_of>};

}  // namespace kilter
