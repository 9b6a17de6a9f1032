// Direct convolution with tile registers (AMX), of images that are stored as bf16 or u8 in blocks of channels. A
// parallel item copies the part of the image that its output pixels read into scratch. There, a row of a tile register
// is 32 channels of bf16 or 64 of u8 of one pixel, and neighbouring rows are neighbouring pixels. If the stride is
// greater than 1, pixels with equal remainders modulo the stride are copied side by side (a phase), so that a tap is
// always a shift by a number of pixels. The pixels of an item are counted along rows of the copy, so tile registers
// also compute sums for the pixels between two rows of the output, which are not used.
#include <algorithm>

#include "ops/support/window.h"
#include "schedule/templates/amx_core.h"
#include "schedule/templates/conv_core.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

/// One dimension of an item's part of the image.
struct Span {
  int64_t kernel = 1, dilation = 1, step = 1;
  int64_t outputs = 1;  ///< output pixels

  int64_t phases() const { return std::min(step, (kernel - 1) * dilation + 1); }
  /// The largest shift of the taps of a phase (-1 if it has none), or of all taps.
  int64_t shift(int64_t phase) const {
    int64_t most = -1;
    for (int64_t k = 0; k < kernel; ++k) {
      if (k * dilation % step == phase) most = std::max(most, k * dilation / step);
    }
    return most;
  }
  int64_t shift() const { return (kernel - 1) * dilation / step; }
};

struct Conv {
  ConvNest nest;      ///< whose blocks have as many input channels as a row of a tile register
  int64_t block = 0;  ///< channels of a block of the image
  ValueId image = kNone;

  int64_t blocks_of_unit() const { return nest.in_block / block; }
  int64_t image_blocks() const { return ceil_div(nest.in_channels, block); }
};

/// The output pixels of a parallel item: `lines` rows of `columns` pixels. Several rows always span the image's width.
struct Part {
  int64_t lines = 1, columns = 1;
};

struct Geometry {
  Span h, w;
  int64_t pitch = 0;                      ///< copied pixels of a row
  int64_t plane = 0;                      ///< copied pixels of a phase, including those that only unused results read
  int64_t row_sets = 0, column_sets = 0;  ///< items along each dimension of an image

  int64_t phases() const { return h.phases() * w.phases(); }
};

Geometry geometry_of(const Conv& c, const Part& part) {
  const ConvNest& n = c.nest;
  Geometry g;
  g.h = {n.kernel_h, n.dilation_h, n.step_h, part.lines};
  g.w = {n.kernel_w, n.dilation_w, n.step_w, part.columns};
  g.pitch = part.columns + g.w.shift();
  g.row_sets = ceil_div(n.out_h, part.lines), g.column_sets = ceil_div(n.out_w, part.columns);
  return g;
}

/// `tile`: determines the size of the planes.
AmxProduct product_of(const Conv& c, const Part& part, const AmxTile& tile, Geometry& g) {
  const ConvNest& n = c.nest;
  AmxProduct p;
  p.operands = n.operands;
  p.rows = (part.lines - 1) * g.pitch + part.columns;
  p.steps = n.in_blocks() * n.taps();
  p.panels = n.out_blocks;
  p.useful_rows = part.lines * part.columns;
  g.plane = p.padded_rows(tile) + g.h.shift() * g.pitch + g.w.shift();
  p.row_bytes = n.in_blocks() * g.phases() * g.plane * kTileRowBytes;
  for (int64_t h = 0; h < g.h.phases(); ++h) {
    for (int64_t w = 0; w < g.w.phases(); ++w) {
      if (g.h.shift(h) >= 0 && g.w.shift(w) >= 0)
        p.copies += (part.lines + g.h.shift(h)) * (part.columns + g.w.shift(w));
    }
  }
  p.copies *= n.in_blocks() * c.blocks_of_unit();
  p.units = n.in_blocks() * g.phases();
  p.reach = g.plane - p.padded_rows(tile);
  // All taps of a row of the kernel read nearly the same lines.
  p.fresh = 1 / static_cast<double>(n.kernel_w);
  return p;
}

Result<Conv> analyse(const Task& task, const CpuLimits& limits) {
  const auto operands = amx_conv_operands(task, limits);
  if (!operands) return operands.rejected();
  const Node& node = task.node();
  Conv c;
  c.image = node.inputs[0];
  const Operand &x = task.operand(c.image), &w = task.operand(node.inputs[1]);
  const TensorType& y = task.graph->type(node.outputs[0]);
  const int32_t lanes = lanes_of(limits);
  c.block = x.type.layout.block;
  if (c.block != lanes || y.layout.block != lanes)
    return Rejected{"blocks of the layouts", fmt::format("{0}, {0}", lanes),
                    fmt::format("{}, {}", c.block, y.layout.block)};
  auto nest = direct_nest(node, x.type, w.type, y);
  if (!nest) return nest.rejected();
  c.nest = *nest;
  if (c.nest.merged > 1)
    return Rejected{
        "channels of a group", fmt::format("multiples of {}", lanes),
        fmt::format("{} in, {} out", c.nest.in_channels / c.nest.merged, c.nest.out_channels / c.nest.merged)};
  c.nest.operands = *operands;
  c.nest.in_block = amx_unit(*operands);
  return c;
}

/// Emits the kernel of a convolution.
class ConvEmitter {
 public:
  ConvEmitter(Emitter& e, const Conv& c, const Part& part, const AmxTile& tile)
      : e_(e), b_(e.b), c_(c), n_(c.nest), part_(part), tile_(tile), g_(geometry_of(c, part)) {
    product_ = product_of(c, part, tile, g_);
  }

  /// Emits the stages of the task: if several items share a part of the image, the first stage copies it for all.
  void emit(const CpuLimits& limits, int64_t prefetch, Lowered& lowered) {
    const Task& task = e_.task();
    const Node& node = task.node();
    const int64_t parts = amx_parts(product_, tile_, sets(), limits);
    if (parts > 1) {
      lowered.temp_bytes.push_back(sets() * item_elems() * n_.operands.bytes());
      Emitter copier(task, "conv2d_amx_rows");
      ConvEmitter(copier, c_, part_, tile_).emit_copies();
      lowered.stages.push_back(copier.finish(lowered));
      lowered.stages.back().packs = true;
    }
    image_ = b_.parallel("n", n_.n);
    group_ = b_.parallel("g", n_.groups);
    const Expr share = b_.parallel("share", parts);
    take_part();
    if (parts == 1) base_ = Expr(0), x_ = e_.input(c_.image);
    const auto lanes = lanes_of(limits);
    const Buf weights = e_.constant(pack_direct(task, node.inputs[1], n_, {1, 1, 1}, lanes), "w");
    start_ = start_of(e_, node, n_.operands, task.operand(c_.image).type, lanes);
    rows_ = parts == 1 ? b_.scratch("rows", n_.operands.type, item_elems())
                       : e_.temp(0, n_.operands.type, sets() * item_elems(), false, "rows");
    AmxEmitter product(e_, product_, tile_, {rows_, n_.in_block}, weights, prefetch, limits);
    if (parts == 1) copy();
    product.emit(
        share, parts, group_ * Expr(n_.out_blocks * product_.panel_elems()),
        [&](const AmxEmitter::Step& step) { reduce(step); },
        [&](const AmxEmitter::Block& block, const Expr& begin, const Expr& end) {
          finish(product, block, begin, end, lanes);
        });
  }

 private:
  /// Emits the stage that copies the parts of all items.
  void emit_copies() {
    image_ = b_.parallel("n", n_.n);
    group_ = b_.parallel("g", n_.groups);
    const Expr unit = b_.parallel("unit", n_.in_blocks());
    take_part();
    x_ = e_.input(c_.image);
    rows_ = e_.temp(0, n_.operands.type, sets() * item_elems(), true, "rows");
    const int64_t each = c_.blocks_of_unit(), whole = c_.image_blocks() / each, rest = c_.image_blocks() % each;
    if (rest == 0) return copy_unit(unit, each);
    if (whole > 0) b_.if_then(binary(Op::lt, unit, Expr(whole)), [&] { copy_unit(unit, each); });
    b_.if_then(binary(Op::eq, unit, Expr(whole)), [&] { copy_unit(unit, rest); });
  }

  /// The number of items that differ in more than their output channels.
  int64_t sets() const { return n_.n * n_.groups * g_.row_sets * g_.column_sets; }
  int64_t item_elems() const { return n_.in_blocks() * g_.phases() * g_.plane * n_.in_block; }

  /// Declares the dimensions over the parts of an image, and sets the members that describe this item's part.
  void take_part() {
    const Expr lines = b_.parallel("lines", g_.row_sets), columns = b_.parallel("columns", g_.column_sets);
    h0_ = lines * Expr(part_.lines), w0_ = columns * Expr(part_.columns);
    lines_ = within(h0_, part_.lines, n_.out_h), columns_ = within(w0_, part_.columns, n_.out_w);
    const Expr image = image_ * Expr(n_.groups) + group_;
    base_ = ((image * Expr(g_.row_sets) + lines) * Expr(g_.column_sets) + columns) * Expr(item_elems());
  }

  /// The number of pixels of an item that begins at `first`.
  Expr within(const Expr& first, int64_t count, int64_t extent) const {
    return extent % count == 0 ? Expr(count) : min(Expr(count), Expr(extent) - first);
  }

  void copy() {
    const int64_t each = c_.blocks_of_unit(), whole = c_.image_blocks() / each;
    b_.loop("unit", 0, whole, [&](const Expr& unit) { copy_unit(unit, each); });
    if (c_.image_blocks() % each != 0) copy_unit(Expr(whole), c_.image_blocks() % each);
  }

  /// Copies `blocks` blocks of channels of the pixels that the taps read, and fills the unit with zeros.
  void copy_unit(const Expr& unit, int64_t blocks) {
    for (int64_t h = 0; h < g_.h.phases(); ++h) {
      for (int64_t w = 0; w < g_.w.phases(); ++w) {
        if (g_.h.shift(h) >= 0 && g_.w.shift(w) >= 0) copy_phase(unit, blocks, h, w);
      }
    }
  }

  void copy_phase(const Expr& unit, int64_t blocks, int64_t phase_h, int64_t phase_w) {
    const Physical& phys = e_.task().operand(c_.image).phys;
    const Shape& stride = phys.strides;
    const auto block = static_cast<int32_t>(c_.block);
    const Expr first_block = group_ * Expr(c_.image_blocks()) + unit * Expr(c_.blocks_of_unit());
    const Expr from = b_.let("x0", Expr(phys.offset) + image_ * Expr(stride[0]) + first_block * Expr(stride[1]) +
                                       (h0_ * Expr(n_.step_h) + Expr(n_.first_h + phase_h)) * Expr(stride[2]) +
                                       (w0_ * Expr(n_.step_w) + Expr(n_.first_w + phase_w)) * Expr(stride[3]));
    const int64_t phase = phase_h * g_.w.phases() + phase_w;
    const Expr to = b_.let("to", base_ + (unit * Expr(g_.phases()) + Expr(phase)) * Expr(g_.plane * n_.in_block));
    b_.loop("row", 0, lines_ + Expr(g_.h.shift(phase_h)), [&](const Expr& row) {
      b_.loop("column", 0, columns_ + Expr(g_.w.shift(phase_w)), [&](const Expr& column) {
        const Expr x = from + row * Expr(n_.step_h * stride[2]) + column * Expr(n_.step_w * stride[3]);
        const Expr y = to + (row * Expr(g_.pitch) + column) * Expr(n_.in_block);
        for (int64_t i = 0; i < c_.blocks_of_unit(); ++i) {
          const Expr channels =
              i < blocks ? b_.load_raw(x_, x + Expr(i * stride[1]), block) : amx_zeros(n_.operands, block);
          b_.store(rows_, y + Expr(i * c_.block), channels);
        }
      });
    });
  }

  /// The phase and the shift of tap `k`.
  static std::pair<Expr, Expr> tap(const Span& span, const Expr& k) {
    if (span.step == 1) return {Expr(0), k * Expr(span.dilation)};
    const Expr distance = k * Expr(span.dilation);
    return {distance % Expr(span.step), distance / Expr(span.step)};
  }

  void reduce(const AmxEmitter::Step& step) {
    b_.loop("unit", 0, n_.in_blocks(), [&](const Expr& unit) {
      b_.loop("r", 0, n_.kernel_h, [&](const Expr& r) {
        b_.loop("s", 0, n_.kernel_w, [&](const Expr& s) {
          const auto [phase_h, shift_h] = tap(g_.h, r);
          const auto [phase_w, shift_w] = tap(g_.w, s);
          const Expr phase = unit * Expr(g_.phases()) + phase_h * Expr(g_.w.phases()) + phase_w;
          const Expr pixel = phase * Expr(g_.plane) + shift_h * Expr(g_.pitch) + shift_w;
          step(base_ + pixel * Expr(n_.in_block), (unit * Expr(n_.kernel_h) + r) * Expr(n_.kernel_w) + s);
        });
      });
    });
  }

  /// Emits the epilogue of the output pixels among rows `begin` to `end` of a block: for each line of the image that
  /// they touch, the pixels before its end.
  void finish(AmxEmitter& product, const AmxEmitter::Block& block, const Expr& begin, const Expr& end, int32_t lanes) {
    const Expr first_block = b_.let("block", group_ * Expr(n_.out_blocks) + block.first);
    const auto site = [&](int64_t v, const Expr& h, const Expr& w) {
      return Site{{image_, first_block + Expr(v), h, w, Expr(0)}, 4, lanes, {}};
    };
    const auto shared = product.shared(start_, first_block, block.count, [&](int64_t v) { return site(v, 0, 0); });
    const Expr pitch(g_.pitch), first = b_.let("first_row", block.row + begin), last = b_.let("last", block.row + end);
    b_.loop("h", first / pitch, min(lines_, (last + pitch - Expr(1)) / pitch), [&](const Expr& h) {
      const Expr line = b_.let("line", h * pitch);
      b_.loop("w", max(first - line, Expr(0)), min(columns_, last - line), [&](const Expr& w) {
        for (int64_t v = 0; v < block.count; ++v)
          product.epilogue(line + w - block.row, v, shared, site(v, h0_ + h, w0_ + w));
      });
    });
  }

  Emitter& e_;
  LoopBuilder& b_;
  const Conv& c_;
  const ConvNest& n_;
  const Part& part_;
  const AmxTile& tile_;
  Geometry g_;
  AmxProduct product_;
  Expr image_, group_, h0_, w0_;  ///< of the item; the first output pixel
  Expr lines_, columns_;          ///< output pixels of the item
  Expr base_;                     ///< where its rows begin
  Buf x_, rows_, start_;
};

class AmxConv final : public Analysed {
 public:
  AmxConv(const Task& task, const CpuLimits& limits, Conv conv) : Analysed(task, limits), c_(std::move(conv)) {}

  std::vector<Knob> space() const override {
    std::vector<Knob> space = amx_knobs(c_.nest.out_blocks);
    Knob lines{"lines", {}}, columns{"columns", {}};
    for (const Part& part : parts()) {
      lines.values.push_back(part.lines), columns.values.push_back(part.columns);
    }
    for (Knob* knob : {&lines, &columns}) {
      std::ranges::sort(knob->values);
      const auto again = std::ranges::unique(knob->values);
      knob->values.erase(again.begin(), again.end());
    }
    space.insert(space.end() - 1, {lines, columns});
    return space;
  }

  Result<Schedule> pick() const override {
    return pick_amx(task(), limits(), "conv2d_direct", candidates(),
                    [&](const Schedule& s) { return model(s).cycles; });
  }

  std::vector<Schedule> candidates() const override {
    std::vector<Schedule> all;
    for (const Part& part : parts()) {
      const Geometry g = geometry_of(c_, part);
      for (AmxTile tile : amx_tiles()) {
        if (tile.vectors > c_.nest.out_blocks) continue;
        for (const int64_t rows : amx_row_counts((part.lines - 1) * g.pitch + part.columns)) {
          tile.rows = rows;
          if (conflict(part, tile)) continue;
          for (const bool outside : {false, true}) {
            tile.rows_outside = outside;
            all.push_back(schedule_of(part, tile));
          }
        }
      }
    }
    return all;
  }

 private:
  /// The parts of an image worth trying: several whole rows, or a part of one.
  std::vector<Part> parts() const {
    constexpr int64_t kMostPixels = 1024, kLeastColumns = 32;
    const ConvNest& n = c_.nest;
    std::vector<Part> all;
    for (int64_t sets = 1; sets <= n.out_h; ++sets) {
      const int64_t lines = ceil_div(n.out_h, sets);
      if (!all.empty() && all.back().lines == lines) continue;
      if (lines == 1 || lines * n.out_w <= kMostPixels) all.push_back({lines, n.out_w});
    }
    for (int64_t sets = 2; ceil_div(n.out_w, sets) >= kLeastColumns; sets *= 2)
      all.push_back({1, ceil_div(n.out_w, sets)});
    return all;
  }

  Schedule schedule_of(const Part& part, const AmxTile& tile) const {
    Geometry g = geometry_of(c_, part);
    const int64_t prefetch = pick_amx_prefetch(product_of(c_, part, tile, g), tile, limits());
    return amx_schedule("conv2d_amx", tile, {{"lines", part.lines}, {"columns", part.columns}}, prefetch);
  }
  static Part part_of(const Schedule& s) { return {s.knob("lines"), s.knob("columns")}; }

  std::optional<Rejected> conflict(const Part& part, const AmxTile& tile) const {
    if (auto rejected = check_amx_tile(tile)) return rejected;
    if (part.lines > 1 && part.columns != c_.nest.out_w)
      return Rejected{"columns of several lines", std::to_string(c_.nest.out_w), std::to_string(part.columns)};
    Geometry g = geometry_of(c_, part);
    const AmxProduct product = product_of(c_, part, tile, g);
    const int64_t bytes = product.row_bytes, most = limits().l2_bytes / 2;
    if (bytes > most) return Rejected{"bytes of the image in scratch", std::to_string(most), std::to_string(bytes)};
    if (tile.tiles * tile.rows == 1 && product.rows > 1) return Rejected{"rows of a block", "2 or more", "1"};
    return std::nullopt;
  }
  std::optional<Rejected> conflict(const Schedule& schedule) const override {
    return conflict(part_of(schedule), amx_tile_of(schedule));
  }

  Estimate model(const Schedule& schedule) const override {
    const Part part = part_of(schedule);
    Geometry g = geometry_of(c_, part);
    const AmxProduct product = product_of(c_, part, amx_tile_of(schedule), g);
    const int64_t groups = c_.nest.n * c_.nest.groups;
    Estimate out = amx_estimate(product, amx_tile_of(schedule), groups * g.row_sets * g.column_sets, limits());
    out.constant_bytes *= c_.nest.groups;
    return out;
  }

  Lowered emit(const Schedule& schedule) const override {
    Emitter e(task(), "conv2d_amx");
    const Part part = part_of(schedule);
    const AmxTile tile = amx_tile_of(schedule);
    Lowered lowered;
    ConvEmitter(e, c_, part, tile).emit(limits(), schedule.knob("prefetch"), lowered);
    lowered.stages.push_back(e.finish(lowered));
    return lowered;
  }

  const Conv c_;
};

}  // namespace

const Template conv2d_amx{"conv2d_amx", "dense or grouped 2-D convolution with tile registers (AMX)",
                          analyse_as<AmxConv, analyse>};

}  // namespace kilter
