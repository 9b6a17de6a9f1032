// Matrix products by tile registers (AMX), of operands that are stored as bf16, or as u8 with weights of i8. A parallel
// item copies some rows of A into scratch, where neighbouring rows are adjacent and the last unit of the reduction is
// filled up with zeros. B is stored in panels of 16 columns (matmul_core.h).
#include <algorithm>

#include "schedule/templates/amx_core.h"
#include "schedule/templates/matmul_core.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

Result<MatrixProduct> analyse(const Task& task, const CpuLimits& limits) {
  if (task.node().op->family != Family::matmul) return not_for("operator", "MatMul", task.node().op->name);
  if (!limits.bf16_tiles && !limits.byte_tiles) return not_for("target", "with AMX", "without");
  auto product = product_of(task, limits);
  if (!product) return product;
  const TensorType& a = task.operand(task.node().inputs[0]).type;
  if (!amx_multiplies(product->operands, limits))
    return Rejected{"stored elements of the operands", "bf16, or u8 for integers",
                    std::string(name(a.layout.stored.value_or(a.dtype)))};
  return product;
}

Panels amx_panels(const MatrixProduct& p, int32_t lanes) { return panels_of(p, 1, lanes, amx_unit(p.operands)); }

/// The products of `lines` rows of A.
AmxProduct amx_product(const MatrixProduct& p, int64_t lines, int32_t lanes) {
  AmxProduct out;
  const Panels panels = amx_panels(p, lanes);
  out.operands = p.operands;
  out.rows = out.useful_rows = lines;
  out.steps = panels.depth / amx_unit(p.operands);
  out.panels = panels.per_matrix;
  out.copies = lines * out.steps;
  out.copied_bytes = out.copies * kTileRowBytes;
  return out;
}

/// Emits the kernel of a product whose B has been packed.
class ProductEmitter {
 public:
  ProductEmitter(Emitter& e, const MatrixProduct& p, int64_t lines, const AmxTile& tile, const CpuLimits& limits)
      : e_(e),
        b_(e.b),
        p_(p),
        lines_(lines),
        tile_(tile),
        lanes_(lanes_of(limits)),
        panels_(amx_panels(p, lanes_)),
        product_(amx_product(p, lines, lanes_)),
        batch_(e.b, e.task(), p) {}

  void emit(const CpuLimits& limits, int64_t prefetch) {
    const Task& task = e_.task();
    const int64_t sets = ceil_div(p_.m, lines_), all_sets = sets * elems(p_.batch);
    const int64_t parts = amx_parts(product_, tile_, all_sets, limits);
    const Expr share = b_.parallel("share", parts);
    first_ = b_.parallel("lines", sets) * Expr(lines_);
    count_ = p_.m % lines_ == 0 ? Expr(lines_) : min(Expr(lines_), Expr(p_.m) - first_);
    const Buf a = e_.input(task.node().inputs[0]);
    const Buf packed = p_.constant_b ? e_.constant(pack_constant(task, p_, panels_), "packed")
                                     : e_.temp(0, p_.operands.type, panels_.elems, false, "packed");
    if (const auto packing = column_starts(task, p_, panels_)) starts_ = e_.constant(*packing, "starts");
    rows_ = b_.scratch("rows", p_.operands.type, product_.steps * plane() * unit());
    AmxEmitter product(e_, product_, tile_, rows_, packed, prefetch, limits);
    copy(a);
    const Expr first_weight = batch_.matrix * Expr(panels_.per_matrix * product_.panel_elems());
    product.emit(
        share, parts, first_weight,
        [&](const AmxEmitter::Step& step) {
          b_.loop("unit", 0, product_.steps, [&](const Expr& i) { step(i * Expr(plane() * unit()), i); });
        },
        [&](const Expr& panel, int64_t count) { finish(product, panel, count); });
  }

 private:
  int64_t unit() const { return amx_unit(p_.operands); }
  /// Rows of a unit of the copy.
  int64_t plane() const { return product_.padded_rows(tile_); }

  void copy(const Buf& a) {
    const auto width = static_cast<int32_t>(unit());
    const Expr from = b_.let("a0", batch_.a_base + first_ * Expr(p_.a_m));
    const auto rows = [&](const Expr& i, const Expr& mask) {
      b_.loop("row", 0, count_, [&](const Expr& row) {
        const Expr elements = b_.load_raw(a, from + row * Expr(p_.a_m) + i * Expr(width), width, 1, mask);
        b_.store(rows_, (i * Expr(plane()) + row) * Expr(width), elements);
      });
    };
    const int64_t whole = p_.k / width;
    b_.loop("unit", 0, whole, [&](const Expr& i) { rows(i, {}); });
    if (p_.k % width != 0) rows(Expr(whole), first_lanes(Expr(p_.k % width), width));
  }

  void finish(const AmxEmitter& product, const Expr& first, int64_t count) {
    const ValueId anchor = e_.task().node().outputs[0];
    const Domain domain = domain_of(e_.task().graph->type(anchor));
    std::vector<Expr> starts;
    for (int64_t v = 0; v < count && starts_.id >= 0; ++v) {
      const Expr panel = batch_.matrix * Expr(panels_.per_matrix) + first + Expr(v);
      starts.push_back(b_.let("start", b_.load(starts_, panel * Expr(lanes_), lanes_)));
    }
    b_.loop("row", 0, count_, [&](const Expr& row) {
      for (int64_t v = 0; v < count; ++v) {
        const Expr column = b_.let("n", (first + Expr(v)) * Expr(lanes_));
        Expr sum = product.sums(row, v);
        if (!starts.empty()) sum = sum + starts[static_cast<size_t>(v)];
        Site site;
        site.index = batch_.at(first_ + row, column);
        site.vec_dim = static_cast<int32_t>(domain.rank()) - 1;
        site.lanes = lanes_;
        if (p_.n % lanes_ != 0) site.mask = first_lanes(max(Expr(0), Expr(p_.n) - column), lanes_);
        e_.epilogue({{anchor, sum}}, domain, site);
      }
    });
  }

  Emitter& e_;
  LoopBuilder& b_;
  const MatrixProduct& p_;
  int64_t lines_;
  const AmxTile& tile_;
  int32_t lanes_;
  Panels panels_;
  AmxProduct product_;
  BatchLoops batch_;
  Expr first_, count_;  ///< rows of the item
  Buf rows_, starts_;
};

class MatmulAmx final : public Analysed {
 public:
  MatmulAmx(const Task& task, const CpuLimits& limits, MatrixProduct product)
      : Analysed(task, limits), p_(std::move(product)) {}

  std::vector<Knob> space() const override {
    std::vector<Knob> space = amx_knobs(ceil_div(p_.n, lanes_of(limits())));
    Knob lines{"lines", line_counts()};
    std::ranges::reverse(lines.values);
    space.insert(space.end() - 1, lines);
    return space;
  }

  Result<Schedule> pick() const override {
    constexpr int64_t kLeastRows = 8;  // with fewer, reading B takes the time
    if (p_.m < kLeastRows)
      return Rejected{"rows of the product", fmt::format("{} or more", kLeastRows), std::to_string(p_.m)};
    return pick_amx(task(), limits(), "matmul_tiled", candidates(), [&](const Schedule& s) { return model(s).cycles; });
  }

  std::vector<Schedule> candidates() const override {
    std::vector<Schedule> all;
    for (const int64_t lines : line_counts()) {
      for (AmxTile tile : amx_tiles()) {
        for (const int64_t rows : amx_row_counts(lines)) {
          tile.rows = rows;
          if (tile.vectors <= ceil_div(p_.n, lanes_of(limits())) && !conflict(lines, tile))
            all.push_back(schedule_of(lines, tile));
        }
      }
    }
    return all;
  }

 private:
  /// The numbers of rows of an item worth trying, the largest first.
  std::vector<int64_t> line_counts() const {
    constexpr int64_t kMost = 1024, kLeast = 32;
    std::vector<int64_t> all;
    for (int64_t sets = 1; all.empty() || ceil_div(p_.m, sets) >= kLeast; ++sets) {
      const int64_t lines = ceil_div(p_.m, sets);
      if (lines <= kMost && (all.empty() || all.back() != lines)) all.push_back(lines);
    }
    return all;
  }

  Schedule schedule_of(int64_t lines, const AmxTile& tile) const {
    const AmxProduct product = amx_product(p_, lines, lanes_of(limits()));
    return {"matmul_amx",
            {{"vectors", tile.vectors},
             {"tiles", tile.tiles},
             {"rows", tile.rows},
             {"lines", lines},
             {"prefetch", p_.constant_b ? pick_amx_prefetch(product, tile, limits()) : 0}}};
  }
  static AmxTile tile_of(const Schedule& s) { return {s.knob("vectors"), s.knob("tiles"), s.knob("rows")}; }

  std::optional<Rejected> conflict(int64_t lines, const AmxTile& tile) const {
    if (auto rejected = check_amx_tile(tile)) return rejected;
    const int64_t bytes = amx_product(p_, lines, lanes_of(limits())).copied_bytes, most = limits().l2_bytes / 2;
    if (bytes > most) return Rejected{"bytes of rows in scratch", std::to_string(most), std::to_string(bytes)};
    return std::nullopt;
  }
  std::optional<Rejected> conflict(const Schedule& schedule) const override {
    return conflict(schedule.knob("lines"), tile_of(schedule));
  }

  Estimate model(const Schedule& schedule) const override {
    const int64_t lines = schedule.knob("lines");
    const AmxProduct product = amx_product(p_, lines, lanes_of(limits()));
    return amx_estimate(product, tile_of(schedule), ceil_div(p_.m, lines) * elems(p_.batch), limits());
  }

  Lowered emit(const Schedule& schedule) const override {
    const int32_t lanes = lanes_of(limits());
    const AmxTile tile = tile_of(schedule);
    Lowered lowered;
    if (!p_.constant_b) {
      const Panels panels = amx_panels(p_, lanes);
      lowered.temp_bytes.push_back(panels.elems * p_.operands.bytes());
      lowered.stages.push_back(pack_stage(task(), p_, panels, lanes, lowered));
      lowered.stages.back().packs = true;
    }
    Emitter e(task(), "matmul_amx");
    ProductEmitter(e, p_, schedule.knob("lines"), tile, limits()).emit(limits(), schedule.knob("prefetch"));
    lowered.stages.push_back(e.finish(lowered));
    return lowered;
  }

  const MatrixProduct p_;
};

}  // namespace

const Template matmul_amx{"matmul_amx", "matrix products by tile registers (AMX)", analyse_as<MatmulAmx, analyse>};

}  // namespace kilter
