// Matrix products with tile registers (AMX). Operands are stored as bf16, or as u8 with i8 weights. Rows of A are read
// in place if they fill whole tile registers. Otherwise a parallel item copies some of them into scratch, and the last
// unit of the reduction is padded with zeros. B is stored in panels of 16 columns (matmul_core.h).
#include <algorithm>

#include "schedule/templates/amx_core.h"
#include "schedule/templates/matmul_core.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

Result<MatrixProduct> analyse(const Task& task, const CpuLimits& limits) {
  if (task.node().op->family != Family::matmul) return not_for("operator", "MatMul", task.node().op->name);
  if (!limits.bf16_tiles && !limits.byte_tiles) return not_for("target", "with AMX", "without");
  auto product = tile_product_of(task, limits);
  if (!product) return product;
  const TensorType& a = task.operand(task.node().inputs[0]).type;
  if (!amx_multiplies(product->operands, limits))
    return not_for("stored elements of the operands", "bf16, or u8 for integers",
                   std::string(name(a.layout.stored.value_or(a.dtype))));
  return product;
}

Panels amx_panels(const MatrixProduct& p, int32_t lanes) { return panels_of(p, 1, lanes, amx_unit(p.operands)); }

/// Whether items of `lines` rows read A in place.
bool in_place(const MatrixProduct& p, int64_t lines, const AmxTile& tile) {
  return p.a_k == 1 && p.k % amx_unit(p.operands) == 0 && p.m % lines == 0 && lines % tile.rows == 0;
}

/// The products of `lines` rows of A.
AmxProduct amx_product(const MatrixProduct& p, int64_t lines, const AmxTile& tile, int32_t lanes) {
  AmxProduct out;
  const Panels panels = amx_panels(p, lanes);
  out.operands = p.operands;
  out.rows = out.useful_rows = lines;
  out.steps = panels.depth / amx_unit(p.operands);
  out.panels = panels.per_matrix;
  out.copies = in_place(p, lines, tile) ? 0 : lines * out.steps;
  out.row_bytes = lines * out.steps * kTileRowBytes;
  out.units = out.steps;
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
        product_(amx_product(p, lines, tile, lanes_)),
        batch_(e.b, e.task(), p) {}

  /// Emits the stages of the task after the packing of B: if several items share rows of A that are not read in place,
  /// the first of them copies the rows for all.
  void emit(const CpuLimits& limits, int64_t prefetch, Lowered& lowered) {
    const Task& task = e_.task();
    const int64_t parts = amx_parts(product_, tile_, sets() * elems(p_.batch), limits);
    const bool place = in_place(p_, lines_, tile_), shared = !place && parts > 1;
    const auto index = static_cast<int32_t>(lowered.temp_bytes.size());
    if (shared) {
      lowered.temp_bytes.push_back(copied_elems() * p_.operands.bytes());
      Emitter copier(task, "matmul_amx_rows");
      ProductEmitter(copier, p_, lines_, tile_, limits).emit_copies(index);
      lowered.stages.push_back(copier.finish(lowered));
      lowered.stages.back().packs = true;
    }
    const Expr share = b_.parallel("share", parts);
    take_rows();
    if (!shared) base_ = Expr(0);
    const Buf packed = p_.constant_b ? e_.constant(pack_constant(task, p_, panels_), "packed")
                                     : e_.temp(0, p_.operands.type, panels_.elems, false, "packed");
    if (const auto packing = column_starts(task, p_, panels_)) starts_ = e_.constant(*packing, "starts");
    if (shared)
      rows_ = e_.temp(index, p_.operands.type, copied_elems(), false, "rows");
    else if (!place)
      rows_ = b_.scratch("rows", p_.operands.type, item_elems());
    const Buf a = shared ? Buf{} : e_.input(task.node().inputs[0]);
    const AmxEmitter::Rows factor = place ? AmxEmitter::Rows{a, p_.a_m} : AmxEmitter::Rows{rows_, unit()};
    AmxEmitter product(e_, product_, tile_, factor, packed, prefetch, limits);
    const Expr from = b_.let("a0", batch_.a_base + first_ * Expr(p_.a_m));
    if (!place && !shared) copy(a, from);
    const Expr first_weight = batch_.matrix * Expr(panels_.per_matrix * product_.panel_elems());
    product.emit(
        share, parts, first_weight,
        [&](const AmxEmitter::Step& step) {
          b_.loop("unit", 0, product_.steps, [&](const Expr& i) {
            step(place ? from + i * Expr(unit()) : base_ + i * Expr(plane() * unit()), i);
          });
        },
        [&](const AmxEmitter::Block& block, const Expr& begin, const Expr& end) {
          finish(product, block, begin, end);
        });
  }

 private:
  /// Emits the stage that copies the rows of all items.
  void emit_copies(int32_t index) {
    take_rows();
    const Buf a = e_.input(e_.task().node().inputs[0]);
    rows_ = e_.temp(index, p_.operands.type, copied_elems(), true, "rows");
    copy(a, b_.let("a0", batch_.a_base + first_ * Expr(p_.a_m)));
  }

  int64_t unit() const { return amx_unit(p_.operands); }
  /// Rows of a unit of the copy.
  int64_t plane() const { return product_.padded_rows(tile_); }
  int64_t item_elems() const { return product_.steps * plane() * unit(); }
  int64_t sets() const { return ceil_div(p_.m, lines_); }
  int64_t copied_elems() const { return elems(p_.batch) * sets() * item_elems(); }

  /// Declares the dimension over the sets of rows, and sets the members that describe this item's rows.
  void take_rows() {
    const Expr set = b_.parallel("lines", sets());
    first_ = set * Expr(lines_);
    count_ = p_.m % lines_ == 0 ? Expr(lines_) : min(Expr(lines_), Expr(p_.m) - first_);
    Expr matrix = 0;
    for (size_t d = 0; d < p_.batch.size(); ++d) matrix = matrix * Expr(p_.batch[d]) + batch_.index[d];
    base_ = (matrix * Expr(sets()) + set) * Expr(item_elems());
  }

  void copy(const Buf& a, const Expr& from) {
    const auto width = static_cast<int32_t>(unit());
    const auto rows = [&](const Expr& i, const Expr& mask) {
      b_.loop("row", 0, count_, [&](const Expr& row) {
        const Expr elements = b_.load_raw(a, from + row * Expr(p_.a_m) + i * Expr(width), width, 1, mask);
        b_.store(rows_, base_ + (i * Expr(plane()) + row) * Expr(width), elements);
      });
    };
    const int64_t whole = p_.k / width;
    b_.loop("unit", 0, whole, [&](const Expr& i) { rows(i, {}); });
    if (p_.k % width != 0) rows(Expr(whole), first_lanes(Expr(p_.k % width), width));
  }

  void finish(AmxEmitter& product, const AmxEmitter::Block& block, const Expr& begin, const Expr& end) {
    const auto rank = static_cast<int32_t>(domain_of(e_.task().graph->type(e_.task().node().outputs[0])).rank());
    const Expr panel = batch_.matrix * Expr(panels_.per_matrix) + block.first;
    const auto site = [&](int64_t v, const Expr& row) {
      const Expr column = b_.let("n", (block.first + Expr(v)) * Expr(lanes_));
      Site at{batch_.at(row, column), rank - 1, lanes_, {}};
      if (p_.n % lanes_ != 0) at.mask = first_lanes(max(Expr(0), Expr(p_.n) - column), lanes_);
      return at;
    };
    const auto shared = product.shared(starts_, panel, block.count, [&](int64_t v) { return site(v, 0); });
    b_.loop("row", begin, min(end, count_ - block.row), [&](const Expr& row) {
      for (int64_t v = 0; v < block.count; ++v) product.epilogue(row, v, shared, site(v, first_ + block.row + row));
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
  Expr base_;           ///< where its copied rows begin
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
    constexpr int64_t kLeastRows = 8;  // with fewer, the time is that of reading B
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
          if (tile.vectors > ceil_div(p_.n, lanes_of(limits())) || conflict(lines, tile)) continue;
          for (const bool outside : {false, true}) {
            tile.rows_outside = outside;
            all.push_back(schedule_of(lines, tile));
          }
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
    const AmxProduct product = amx_product(p_, lines, tile, lanes_of(limits()));
    return amx_schedule("matmul_amx", tile, {{"lines", lines}},
                        p_.constant_b ? pick_amx_prefetch(product, tile, limits()) : 0);
  }

  std::optional<Rejected> conflict(int64_t lines, const AmxTile& tile) const {
    if (auto rejected = check_amx_tile(tile)) return rejected;
    const AmxProduct product = amx_product(p_, lines, tile, lanes_of(limits()));
    const int64_t bytes = product.row_bytes, most = limits().l2_bytes / 2;
    if (product.copies > 0 && bytes > most)
      return Rejected{"bytes of rows in scratch", std::to_string(most), std::to_string(bytes)};
    return std::nullopt;
  }
  std::optional<Rejected> conflict(const Schedule& schedule) const override {
    return conflict(schedule.knob("lines"), amx_tile_of(schedule));
  }

  Estimate model(const Schedule& schedule) const override {
    const int64_t lines = schedule.knob("lines");
    const AmxTile tile = amx_tile_of(schedule);
    const AmxProduct product = amx_product(p_, lines, tile, lanes_of(limits()));
    return amx_estimate(product, tile, ceil_div(p_.m, lines) * elems(p_.batch), limits());
  }

  Lowered emit(const Schedule& schedule) const override {
    const int32_t lanes = lanes_of(limits());
    const AmxTile tile = amx_tile_of(schedule);
    Lowered lowered;
    if (!p_.constant_b) {
      const Panels panels = amx_panels(p_, lanes);
      lowered.temp_bytes.push_back(panels.elems * p_.operands.bytes());
      lowered.stages.push_back(pack_stage(task(), p_, panels, lanes, lowered));
      lowered.stages.back().packs = true;
    }
    Emitter e(task(), "matmul_amx");
    ProductEmitter(e, p_, schedule.knob("lines"), tile, limits()).emit(limits(), schedule.knob("prefetch"), lowered);
    lowered.stages.push_back(e.finish(lowered));
    return lowered;
  }

  const MatrixProduct p_;
};

}  // namespace

const Template matmul_amx{"matmul_amx", "matrix products with tile registers (AMX)", analyse_as<MatmulAmx, analyse>};

}  // namespace kilter
