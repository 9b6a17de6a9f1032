// Direct convolution of an image with few channels, with tile registers (AMX), such as the first layer of a network for
// pictures. The image is plain, or has all channels in one block. A first stage copies it. In the copy, the channels of
// a pixel are side by side and padded to a power of two, and zeros follow the last pixel of a row. A row of a tile
// register is then a stretch of a row of the image with as many neighbouring pixels as fit, and the stretch for the
// next output pixel begins `stride` pixels later in the same copy. Weights of the pixels beyond the filter are 0.
#include <bit>

#include "ops/support/window.h"
#include "schedule/templates/amx_core.h"
#include "schedule/templates/conv_core.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

constexpr int64_t kMostChannels = 8;

struct Conv {
  ConvNest nest;
  ValueId image = kNone;
  int64_t channels = 0;  ///< of a pixel of the copy

  int64_t pixels_of_unit() const { return amx_unit(nest.operands) / channels; }
  int64_t row_units() const { return ceil_div(nest.kernel_w, pixels_of_unit()); }
  int64_t rows() const { return (nest.out_h - 1) * nest.step_h + (nest.kernel_h - 1) * nest.dilation_h + 1; }
  /// Pixels of a row that filters read.
  int64_t columns() const { return (nest.out_w - 1) * nest.step_w + nest.kernel_w; }
  /// Elements of the copy of all images.
  int64_t copied(int64_t pitch) const { return nest.n * rows() * pitch * channels; }
  /// Pixels of a row of the copy: all those that tile registers of `rows` rows read.
  int64_t pitch(int64_t rows, int32_t lanes) const {
    return round_up((round_up(nest.out_w, rows) - 1) * nest.step_w + row_units() * pixels_of_unit(), lanes);
  }
};

Result<Conv> analyse(const Task& task, const CpuLimits& limits) {
  const auto operands = amx_conv_operands(task, limits);
  if (!operands) return operands.rejected();
  const Node& node = task.node();
  Conv c;
  c.image = node.inputs[0];
  const Operand &x = task.operand(c.image), &w = task.operand(node.inputs[1]);
  const TensorType& y = task.graph->type(node.outputs[0]);
  const int64_t channels = x.type.shape[1], block = x.type.layout.block;
  if (channels > kMostChannels || block > kMostChannels)
    return not_for("channels and block of the image", fmt::format("at most {}", kMostChannels),
                   fmt::format("{}, c{}", channels, block));
  const int32_t lanes = lanes_of(limits);
  if (y.layout.block != lanes)
    return Rejected{"block of the output layout", std::to_string(lanes), std::to_string(y.layout.block)};
  if (node.int_attr("group", 1) != 1) return Rejected{"groups", "1", std::to_string(node.int_attr("group", 1))};
  auto nest = direct_nest(node, x.type, w.type, y);
  if (!nest) return nest.rejected();
  c.nest = *nest;
  if (c.nest.dilation_w != 1) return Rejected{"dilation of columns", "1", std::to_string(c.nest.dilation_w)};
  c.nest.operands = *operands;
  c.channels = std::max({static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(channels))), operands->group, block});
  if (block > 1 && block != c.channels)
    return Rejected{"block of the image", fmt::format("1 or {}", c.channels), std::to_string(block)};
  return c;
}

AmxProduct product_of(const Conv& c, const AmxTile& tile, int32_t lanes) {
  const ConvNest& n = c.nest;
  AmxProduct p;
  p.operands = n.operands;
  p.rows = p.useful_rows = n.out_w;
  p.steps = n.kernel_h * c.row_units();
  p.panels = n.out_blocks;
  p.units = n.kernel_h;
  p.row_bytes = n.kernel_h * c.pitch(tile.rows, lanes) * c.channels * n.operands.bytes();
  return p;
}

/// Weights [panel][row of the filter][unit][pixel][channels of a group][column][channel of the group].
Packing pack(const Task& task, const Conv& c, int32_t lanes) {
  const ConvNest& n = c.nest;
  const ValueId weights = task.node().inputs[1];
  const int64_t group = n.operands.group, taps = n.taps();
  enum : int32_t { kOut, kIn, kRow, kColumn };
  Gather gather{
      {{n.out_channels, n.in_channels * taps}, {n.in_channels, taps}, {n.kernel_h, n.kernel_w}, {n.kernel_w, 1}},
      {{n.out_blocks, kOut, lanes},
       {n.kernel_h, kRow, 1},
       {c.row_units(), kColumn, c.pixels_of_unit()},
       {c.pixels_of_unit(), kColumn, 1},
       {c.channels / group, kIn, group},
       {lanes, kOut, 1},
       {group, kIn, 1}}};
  return packed_by(std::move(gather), weights,
                   fmt::format("pixels of {} lanes={} {}", c.channels, lanes, name(n.operands.weights())),
                   n.operands.weights(), *task.operand(weights).constant);
}

/// Interleaves vectors: element i of each, then element i + 1 of each.
Expr interleave(const std::vector<Expr>& vectors) {
  if (vectors.size() == 1) return vectors[0];
  std::vector<Expr> even, odd;
  for (size_t i = 0; i < vectors.size(); ++i) (i % 2 == 0 ? even : odd).push_back(vectors[i]);
  return interleaved(interleave(even), interleave(odd));
}

/// The stage that copies the image.
Stage copy_stage(const Task& task, const Conv& c, int64_t pitch, int32_t lanes, Lowered& lowered) {
  const ConvNest& n = c.nest;
  Emitter e(task, "conv2d_plain_amx_copy");
  LoopBuilder& b = e.b;
  const Expr image = b.parallel("n", n.n), row = b.parallel("row", c.rows());
  const Physical& phys = task.operand(c.image).phys;
  const Buf x = e.input(c.image);
  const DType type = n.operands.type;
  const Buf to = e.temp(0, type, c.copied(pitch), true, "pixels");
  const Expr from =
      b.let("x0", Expr(phys.offset) + image * Expr(phys.strides[0]) + (row + Expr(n.first_h)) * Expr(phys.strides[2]) +
                      Expr(n.first_w * phys.strides[3]));
  const Expr out = b.let("to", (image * Expr(c.rows()) + row) * Expr(pitch * c.channels));
  b.loop("column", 0, pitch, lanes, [&](const Expr& column) {
    if (n.in_block > 1) {
      const auto width = static_cast<int32_t>(lanes * c.channels);
      const Expr left = Expr(c.columns() * c.channels) - column * Expr(c.channels);
      const Expr mask = first_lanes(max(Expr(0), left), width);
      const Expr at = from + column * Expr(phys.strides[3]);
      return b.store(to, out + column * Expr(c.channels), b.load_raw(x, at, width, 1, mask));
    }
    const Expr mask = first_lanes(max(Expr(0), Expr(c.columns()) - column), lanes);
    std::vector<Expr> channels(static_cast<size_t>(c.channels), amx_zeros(n.operands, lanes));
    for (int64_t i = 0; i < n.in_channels; ++i) {
      const Expr at = from + Expr(i * phys.strides[1]) + column * Expr(phys.strides[3]);
      channels[static_cast<size_t>(i)] = b.let("c", b.load_raw(x, at, lanes, phys.strides[3], mask));
    }
    b.store(to, out + column * Expr(c.channels), interleave(channels));
  });
  Stage stage = e.finish(lowered);
  stage.packs = true;
  return stage;
}

/// The stage that multiplies: an item computes a row of the output.
Stage product_stage(const Task& task, const Conv& c, const AmxTile& tile, int64_t prefetch, const CpuLimits& limits,
                    Lowered& lowered) {
  const ConvNest& n = c.nest;
  const int32_t lanes = lanes_of(limits);
  const int64_t pitch = c.pitch(tile.rows, lanes);
  const AmxProduct p = product_of(c, tile, lanes);
  Emitter e(task, "conv2d_plain_amx");
  LoopBuilder& b = e.b;
  const Expr image = b.parallel("n", n.n), h = b.parallel("h", n.out_h);
  const Buf pixels = e.temp(0, n.operands.type, c.copied(pitch), false, "pixels");
  const Buf weights = e.constant(pack(task, c, lanes), "w");
  const Buf start = start_of(e, task.node(), n.operands, task.operand(c.image).type, lanes);
  AmxEmitter product(e, p, tile, {pixels, n.step_w * c.channels}, weights, prefetch, limits);
  const auto reduce = [&](const AmxEmitter::Step& step) {
    b.loop("r", 0, n.kernel_h, [&](const Expr& r) {
      const Expr row = image * Expr(c.rows()) + h * Expr(n.step_h) + r * Expr(n.dilation_h);
      const Expr begin = b.let("begin", row * Expr(pitch * c.channels));
      b.loop("unit", 0, c.row_units(), [&](const Expr& unit) {
        step(begin + unit * Expr(amx_unit(n.operands)), r * Expr(c.row_units()) + unit);
      });
    });
  };
  const auto finish = [&](const AmxEmitter::Block& block, const Expr& begin, const Expr& end) {
    const auto site = [&](int64_t v, const Expr& w) {
      return Site{{image, block.first + Expr(v), h, w, Expr(0)}, 4, lanes, {}};
    };
    const auto shared = product.shared(start, block.first, block.count, [&](int64_t v) { return site(v, 0); });
    b.loop("w", begin, min(end, Expr(n.out_w) - block.row), [&](const Expr& w) {
      for (int64_t v = 0; v < block.count; ++v) product.epilogue(w, v, shared, site(v, block.row + w));
    });
  };
  product.emit(Expr(0), 1, Expr(0), reduce, finish);
  return e.finish(lowered);
}

class PlainConvAmx final : public Analysed {
 public:
  PlainConvAmx(const Task& task, const CpuLimits& limits, Conv conv) : Analysed(task, limits), c_(std::move(conv)) {}

  std::vector<Knob> space() const override { return amx_knobs(c_.nest.out_blocks); }
  Result<Schedule> pick() const override {
    return pick_amx(task(), limits(), "conv2d_direct", candidates(),
                    [&](const Schedule& s) { return model(s).cycles; });
  }
  std::vector<Schedule> candidates() const override {
    std::vector<Schedule> all;
    for (AmxTile tile : amx_tiles()) {
      if (tile.vectors > c_.nest.out_blocks) continue;
      for (const int64_t rows : amx_row_counts(c_.nest.out_w)) {
        tile.rows = rows;
        all.push_back(schedule_of(tile));
      }
    }
    return all;
  }

 private:
  Schedule schedule_of(const AmxTile& tile) const {
    return amx_schedule("conv2d_plain_amx", tile, {}, pick_amx_prefetch(product(tile), tile, limits()));
  }
  AmxProduct product(const AmxTile& tile) const { return product_of(c_, tile, lanes_of(limits())); }
  std::optional<Rejected> conflict(const Schedule& schedule) const override {
    return check_amx_tile(amx_tile_of(schedule));
  }

  Estimate model(const Schedule& schedule) const override {
    constexpr double kVectorCycles = 5;  // to copy a vector of one channel
    const AmxTile tile = amx_tile_of(schedule);
    Estimate out = amx_estimate(product(tile), tile, c_.nest.n * c_.nest.out_h, limits());
    const int64_t copied = c_.copied(c_.pitch(tile.rows, lanes_of(limits())));
    out.cycles += kVectorCycles * static_cast<double>(copied / lanes_of(limits()));
    return out;
  }

  Lowered emit(const Schedule& schedule) const override {
    const AmxTile tile = amx_tile_of(schedule);
    const int32_t lanes = lanes_of(limits());
    const int64_t pitch = c_.pitch(tile.rows, lanes);
    Lowered lowered;
    lowered.temp_bytes.push_back(c_.copied(pitch) * c_.nest.operands.bytes());
    lowered.stages.push_back(copy_stage(task(), c_, pitch, lanes, lowered));
    lowered.stages.push_back(product_stage(task(), c_, tile, schedule.knob("prefetch"), limits(), lowered));
    return lowered;
  }

  const Conv c_;
};

}  // namespace

const Template conv2d_plain_amx{"conv2d_plain_amx",
                                "2-D convolution of an image with few channels, with tile registers (AMX)",
                                analyse_as<PlainConvAmx, analyse>};

}  // namespace kilter
