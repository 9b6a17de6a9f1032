// Direct convolution: register tiles of pixels x output-channel vectors over the whole reduction. The input is blocked
// or plain with its padding in the halo, the output is blocked, and weights are packed in streaming order. If a
// prologue multiplies each channel of a single image by a factor, a first stage multiplies the weights instead.

#include <algorithm>
#include <cmath>

#include "ops/support/window.h"
#include "schedule/templates/conv_core.h"
#include "schedule/templates/conv_taps.h"
#include "schedule/templates/templates.h"
#include "schedule/templates/widen_operand.h"

namespace kilter {
namespace {

struct Conv {
  ConvNest nest;
  ValueId image = kNone;    ///< the image that the nest reads
  ValueId factors = kNone;  ///< of the image's channels; kNone: the image is not scaled
  bool flat = false;        ///< the image is traversed as one long row
};

/// Cycles to transfer one vector of every tensor of the result's shape that the epilogue reads or writes; 0 unless
/// these far exceed L2 (measured).
double epilogue_line_cycles(const Task& task, ValueId image, const CpuLimits& limits) {
  const TensorType& result = task.graph->type(task.node().outputs[0]);
  int64_t bytes = 0, streams = 0;
  for (const auto* list : {&task.inputs, &task.outputs}) {
    for (const Operand& o : *list) {
      const bool same = o.type.shape == result.shape && o.constant == nullptr && o.value != image;
      if (same) bytes += o.phys.elems * stored_bytes(o.type), ++streams;
    }
  }
  if (bytes <= 2 * limits.l2_bytes) return 0;
  return static_cast<double>(streams * limits.vector_bytes) / reread_rate(bytes, limits);
}

/// Sets the image and the factors of its channels.
std::optional<Rejected> find_input(const Task& task, Conv& c) {
  if (!task.feeder.empty()) return check_input_stored(task);
  c.image = task.node().inputs[0];
  if (task.prologue.empty()) return std::nullopt;
  const Node& mul = task.graph->node(task.prologue.front());
  const TensorType& x = task.graph->type(c.image);
  for (size_t i = 0; i < 2 && task.prologue.size() == 1 && mul.op->combiner == Combiner::product; ++i) {
    const TensorType &image = task.graph->type(mul.inputs[i]), &factors = task.graph->type(mul.inputs[1 - i]);
    const bool fits = image.shape == x.shape && factors.shape == Shape{1, x.shape[1], 1, 1} && x.shape[0] == 1 &&
                      image.layout.block == x.layout.block && factors.layout.block == x.layout.block;
    if (!fits) continue;
    c.image = mul.inputs[i], c.factors = mul.inputs[1 - i];
    return std::nullopt;
  }
  return Rejected{"prologue", "none, or one factor per channel of a single image",
                  std::to_string(task.prologue.size()) + " nodes"};
}

bool rows_contiguous(const Task& task, const Domain& domain, ValueId image) {
  for (const auto* list : {&task.inputs, &task.outputs}) {
    for (const Operand& o : *list) {
      if (o.value == image || o.value == task.node().inputs[1]) continue;
      if (o.value == task.node().input(2)) continue;
      const Shape s = strides_in(domain, o);
      if (s[2] != s[3] * domain.dims[3]) return false;
    }
  }
  return true;
}

Result<Conv> analyse(const Task& task, const CpuLimits& limits) {
  const Node& node = task.node();
  if (node.op->family != Family::conv) return not_for("operator family", "conv", node.op->name);
  Conv c;
  if (auto rejected = find_input(task, c)) return *rejected;
  const Operand& x = task.operand(c.image);
  const Operand& w = task.operand(node.inputs[1]);
  const TensorType& y = task.graph->type(node.outputs[0]);
  const int32_t lanes = lanes_of(limits);
  const bool bytes = x.type.layout.block > 1 && Multiplicands::stores_bytes(x.type, y.dtype) && w.constant != nullptr &&
                     fit_i8(*w.constant) && c.factors == kNone;
  if (auto rejected = check_conv_operands(task, bytes)) return *rejected;
  if (y.layout.block != lanes)
    return Rejected{"block of the output layout", std::to_string(lanes), std::to_string(y.layout.block)};
  if (auto rejected = check_elementwise(task)) return *rejected;
  auto nest = direct_nest(node, x.type, w.type, y);
  if (!nest) return nest.rejected();
  c.nest = *nest;
  ConvNest& n = c.nest;
  n.overlap = task.open;
  if (n.merged > 1 && n.in_channels == n.merged && n.out_channels == n.merged)
    return not_for("channels of a group", "more than one in or out", "1 in, 1 out");
  if (bytes)
    n.operands = Multiplicands::of_bytes(x.type, w.type, limits, [&] { return !check_conv_operands(task); });
  else if (y.dtype == DType::f32 && (n.in_block > 1 || c.factors == kNone))
    n.operands = conv_multiplicands(n, x.type, w.type, y.dtype, limits);
  if (n.operands.type == DType::i16 && few_saturate(*w.constant, w.type.shape[1], n.taps()))
    n.operands = Multiplicands::byte_pairs();
  // The start of integer sums counts the stored zero of every tap, so taps cannot be skipped then; nor can they in
  // repeated steps.
  if (!n.operands.integers() || (x.type.layout.zero == 0 && !n.operands.pairs))
    skip_padding(n, x.type.shape[2], x.type.shape[3]);
  n.out_line_cycles = epilogue_line_cycles(task, c.image, limits);
  allow_half_tail(n, limits);
  const bool point = n.taps() == 1 && n.step_h == 1 && n.step_w == 1 && n.first_h == 0 && n.first_w == 0;
  if (point && x.phys.strides[2] == x.phys.strides[3] * n.out_w && rows_contiguous(task, domain_of(y), c.image)) {
    c.flat = true;
    n.out_w *= n.out_h;
    n.out_h = 1;
  }
  return c;
}

Schedule schedule_of(const ConvNest& nest, const ConvTile& tile, const CpuLimits& limits) {
  return Schedule{"conv2d_direct",
                  {{"vectors", tile.vectors},
                   {"rows", tile.rows},
                   {"tile", tile.tile},
                   {"prefetch", pick_prefetch(nest, tile, limits)}}};
}

/// The stage that multiplies the packed weights of each input channel by its factor.
Stage scale_weights(const Task& task, const Conv& c, const ConvTile& tile, Packing packed, Lowered& lowered) {
  const ConvNest& nest = c.nest;
  const auto lanes = static_cast<int32_t>(nest.in_block);
  const Multiplicands& by_group = nest.operands;
  const auto width = static_cast<int32_t>(lanes * by_group.group);  // lanes of the groups of a vector of outputs
  const int64_t elems = packed.elems, row = tile.vectors * lanes;
  Emitter e(task, "conv2d_direct_scale");
  LoopBuilder& b = e.b;
  const Expr ocg = b.parallel("ocg", nest.out_blocks / tile.vectors);
  const Expr icb = b.parallel("icb", nest.in_blocks());
  const Operand& factors = task.operand(c.factors);
  const Buf by = e.input(c.factors), from = e.constant(std::move(packed), "w");
  const Buf to = e.temp(0, by_group.type, elems, true, "scaled");
  std::vector<int32_t> each_group;
  for (int32_t l = 0; l < width; ++l) each_group.push_back(l % static_cast<int32_t>(by_group.group));
  const Expr first = b.let("first", Expr(factors.phys.offset) + icb * Expr(factors.phys.strides[1]));
  const Expr panel = b.let("panel", (ocg * Expr(nest.in_blocks()) + icb) * Expr(nest.taps() * lanes * row));
  b.loop("tap", 0, nest.taps(), [&](const Expr& tap) {
    b.loop("i", 0, lanes, by_group.group, [&](const Expr& i) {
      const Expr factors_of_group = b.load(by, first + i, static_cast<int32_t>(by_group.group));
      const Expr factor = b.let("f", by_group.group == 1 ? b.load(by, first + i, lanes, 0)
                                                         : shuffle(factors_of_group, factors_of_group, each_group));
      const Expr at = b.let("at", panel + (tap * Expr(lanes) + i) * Expr(row));
      for (int64_t v = 0; v < tile.vectors; ++v) {
        const Expr weights = cast(DType::f32, b.load(from, at + Expr(v * width), width));
        b.store(to, at + Expr(v * width), cast(by_group.type, weights * factor));
      }
    });
  });
  Stage stage = e.finish(lowered);
  stage.packs = true;
  return stage;
}

class DirectConv final : public Analysed {
 public:
  DirectConv(const Task& task, const CpuLimits& limits, Conv conv) : Analysed(task, limits), c_(std::move(conv)) {}

  std::vector<Knob> space() const override {
    std::vector<Knob> space = tile_space(c_.nest, limits());
    space.push_back(prefetch_knob(c_.nest));
    return space;
  }
  Result<Schedule> pick() const override { return schedule_of(c_.nest, pick_tile(c_.nest, limits()), limits()); }
  std::vector<Schedule> candidates() const override {
    std::vector<Schedule> all;
    for (const ConvTile& tile : tile_candidates(c_.nest, limits())) all.push_back(schedule_of(c_.nest, tile, limits()));
    return all;
  }

 private:
  static ConvTile tile_of(const Schedule& schedule) {
    return {schedule.knob("vectors"), schedule.knob("rows"), schedule.knob("tile")};
  }
  /// Returns the offset of the image's data of a step from those of the panel's first step (pack_weights()).
  std::function<int64_t(int64_t)> place_of_step() const {
    const Shape stride = task().operand(c_.image).phys.strides;
    return [n = c_.nest, stride](int64_t step) {
      const int64_t groups = n.in_block / n.operands.group, tap = step / groups;
      const int64_t s = tap % n.kernel_w, r = tap / n.kernel_w % n.kernel_h, block = tap / n.taps();
      return block * stride[1] + r * n.dilation_h * stride[2] + s * n.dilation_w * stride[3] +
             step % groups * n.operands.group;
    };
  }
  bool widens_first() const { return c_.nest.operands.type == DType::i16; }
  std::optional<Rejected> conflict(const Schedule& schedule) const override {
    return check_tile(c_.nest, tile_of(schedule), limits());
  }

  Estimate model(const Schedule& schedule) const override {
    const ConvTile tile = tile_of(schedule);
    Estimate out = estimate_tile(c_.nest, tile, limits());
    const double blocks = static_cast<double>(c_.nest.out_blocks) - (c_.nest.has_half(tile.vectors) ? 0.5 : 0);
    const double lanes = blocks * lanes_of(limits());
    out.constant_bytes = packed_bytes(c_.nest, tile.vectors, lanes_of(limits()));
    if (widens_first()) out.cycles += widening_cycles(task(), c_.image, limits());
    if (c_.factors != kNone) out.cycles += 2 * static_cast<double>(out.constant_bytes) / limits().l2_rate;
    out.tail = 1 - (1 - out.tail) * static_cast<double>(c_.nest.out_channels) / lanes;
    return out;
  }

  Lowered emit(const Schedule& schedule) const override {
    const ConvTile tile = tile_of(schedule);
    const int32_t lanes = lanes_of(limits());
    const Node& node = task().node();

    Lowered lowered;
    Packing packed = pack_direct(task(), node.inputs[1], c_.nest, tile, lanes);
    Emitter e(task(), "conv2d_direct");
    const Expr n = e.b.parallel("n", c_.nest.n);
    const Expr g = e.b.parallel("g", c_.nest.groups);
    const int64_t items = nest_items(c_.nest, tile);
    ConvBuffers buffers;
    buffers.block_items = block_items(c_.nest, tile, limits());
    const int64_t blocks = ceil_div(items, buffers.block_items);
    if (blocks > 1 || task().open) buffers.first_item = e.b.parallel("block", blocks) * Expr(buffers.block_items);
    const Expr ocg = e.b.parallel("ocg", c_.nest.out_blocks / tile.vectors);
    const Expr item = buffers.first_item + e.b.parallel("item", buffers.block_items);
    buffers.input = c_.image;
    buffers.output = node.outputs[0];
    buffers.prefetch_epilogue = true;
    if (widens_first()) {
      widen_first(task(), c_.image, limits(), lowered);
      buffers.widened = widened_operand(e, c_.image);
    } else {
      e.input(buffers.input);
    }
    if (c_.nest.operands.pairs) {
      buffers.weights = pair_weights(e, std::move(packed), c_.nest.pair_panels(tile.vectors * lanes), place_of_step(),
                                     "w", buffers.repeated);
    } else if (c_.factors == kNone) {
      buffers.weights = e.constant(std::move(packed), "w");
    } else {
      const int64_t elems = packed.elems;
      lowered.temp_bytes.push_back(elems * c_.nest.operands.bytes());
      lowered.stages.push_back(scale_weights(task(), c_, tile, std::move(packed), lowered));
      buffers.weights = e.temp(0, c_.nest.operands.type, elems, false, "scaled");
    }
    buffers.bias = start_of(e, node, c_.nest.operands, task().operand(c_.image).type, lanes);
    buffers.prefetch = schedule.knob("prefetch");
    const auto nest = [&] { emit_nest(e, c_.nest, tile, buffers, n, g, ocg, item, limits()); };
    if (blocks * buffers.block_items > items || task().open)
      e.b.if_then(binary(Op::lt, item, Expr(items)), nest);
    else
      nest();
    lowered.stages.push_back(e.finish(lowered));
    StageWork work{task().flops(), task().flops(), task().bytes()};
    const int64_t weight_bytes = task().operand(node.inputs[1]).constant->bytes();
    std::optional<StageWork>& done = lowered.stages.back().work;
    done = merged_work(c_.nest, tile.vectors, lanes, work, weight_bytes);
    if (c_.nest.in_h == 0) return lowered;
    if (done) work = *done;
    work.flops = std::llround(read_share(c_.nest, tile) * static_cast<double>(work.flops));
    done = work;
    return lowered;
  }

  const Conv c_;
};

}  // namespace

const Template conv2d_direct{"conv2d_direct", "dense or grouped 2-D convolution with register tiles",
                             analyse_as<DirectConv, analyse>};

}  // namespace kilter
