#include "schedule/templates/conv_core.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/align.h"
#include "schedule/templates/conv_taps.h"

namespace kilter {
namespace {

constexpr int64_t kTilesPerItem = 4;  // pixel tiles per parallel item when the image is one long row
constexpr int64_t kMaxVectors = 8;

/// The number of consecutive tiles that read one panel of weights, over `items` items.
int64_t passes(const ConvNest& nest, const ConvTile& t, int64_t items) {
  if (t.rows > 1) return items;
  const int64_t row = ceil_div(nest.out_w, t.tile);
  return nest.out_h == 1 ? std::min(items * kTilesPerItem, row) : items * row;
}

/// Cycles of one reduction step of a register tile, which rereads its panel of weights. Between skipped taps, the panel
/// is read in pieces: beyond L2, prefetching does not keep up with that (measured).
double tile_step_cycles(const ConvNest& nest, int64_t pixels, int64_t vectors, const CpuLimits& limits) {
  const double step = step_cycles(pixels, vectors, limits, nest.has_half(vectors)) * spilling(pixels, vectors, limits);
  const int64_t panel = nest.panel_elems(vectors, limits.lanes_f32()) * nest.operands.bytes();
  const auto bytes = static_cast<double>(vectors * limits.vector_bytes);
  if (nest.in_h > 0 && panel > limits.l2_bytes) return beside(step, bytes / limits.memory_rate);
  return panel > limits.l1_bytes / 2 ? std::max(step, bytes / limits.l2_rate) : step;
}

/// Cycles of one tile of `pixels`. While the next tile is computed, as many of the vectors that the epilogue reads or
/// writes arrive as the core has fill buffers; the next tile waits for the rest.
double tile_cycles(const ConvNest& nest, int64_t pixels, int64_t vectors, const CpuLimits& limits) {
  if (pixels == 0) return 0;
  const auto waits = static_cast<double>(std::max<int64_t>(pixels * vectors - limits.fill_buffers, 0));
  const int64_t group = nest.in_block == 1 ? 1 : nest.operands.group;
  const double steps = panel_window(nest, vectors * limits.lanes_f32()).mean_channels *
                       static_cast<double>(nest.kernel_h * nest.row_steps()) / static_cast<double>(group);
  const double step = tile_step_cycles(nest, pixels, vectors, nest.operands.limits(limits));
  return steps * step + waits * nest.out_line_cycles;
}

/// Cycles of all tiles of one image and group.
double nest_cycles(const ConvNest& nest, const ConvTile& t, const CpuLimits& limits) {
  const auto cost = [&](int64_t pixels) { return tile_cycles(nest, pixels, t.vectors, limits); };
  double per_image = 0;
  if (t.rows > 1) {
    per_image =
        static_cast<double>(nest.out_h / t.rows) * cost(t.rows * nest.out_w) + cost(nest.out_h % t.rows * nest.out_w);
  } else {
    const TileSplit row(nest.out_w, t.tile, nest.overlap);
    per_image = static_cast<double>(nest.out_h) * (static_cast<double>(row.whole()) * cost(t.tile) + cost(row.rest()));
  }
  return per_image * read_share(nest, t) * static_cast<double>(nest.out_blocks / t.vectors);
}

}  // namespace

std::optional<Rejected> check_conv_operands(const Task& task, bool sums_integers) {
  const std::vector<ValueId>& inputs = task.node().inputs;
  const TensorType& x = task.graph->type(inputs[0]);
  if (x.dtype != DType::f32) return Rejected{"element type", "f32", std::string(name(x.dtype))};
  if (x.shape.size() != 4) return Rejected{"rank of the input", "4", std::to_string(x.shape.size())};
  if (task.operand(inputs[1]).constant == nullptr) return Rejected{"weights", "constant", "computed at run time"};
  if (const ValueId bias = task.node().input(2); bias != kNone && task.operand(bias).constant == nullptr)
    return Rejected{"bias", "constant", "computed at run time"};
  if (task.graph->type(task.node().outputs[0]).dtype != DType::i32 || sums_integers) return std::nullopt;
  const Tensor& w = *task.operand(inputs[1]).constant;
  const int64_t depth = w.elems() / std::max<int64_t>(w.shape()[0], 1);
  double largest = 0;
  for (const float* row = w.data<float>(); row < w.data<float>() + w.elems(); row += depth) {
    const auto add = [](double sum, float weight) { return sum + std::abs(double{weight}); };
    largest = std::max(largest, std::accumulate(row, row + depth, 0.0, add));
  }
  return check_exact_sums(largest);
}

std::optional<Rejected> check_halo(const Window& window, const TensorType& input) {
  const auto& halo = input.layout.halo;
  const std::array<int64_t, 4> pads{window.pads_begin[0], window.pads_end[0], window.pads_begin[1], window.pads_end[1]};
  for (size_t i = 0; i < 4; ++i) {
    if (halo[i] < pads[i])
      return Rejected{"halo of the input, which contains the padding", fmt::format("at least {}", pads[i]),
                      std::to_string(halo[i])};
  }
  return std::nullopt;
}

std::optional<Rejected> check_input_stored(const Task& task) {
  if (!task.feeder.empty()) return not_for("feeder", "none", task.graph->node(task.feeder.front()).op->name);
  if (!task.prologue.empty()) return Rejected{"prologue", "none", std::to_string(task.prologue.size()) + " nodes"};
  return std::nullopt;
}

int64_t ConvNest::panel_elems(int64_t vectors, int32_t lanes) const {
  return panel_window(*this, vectors * lanes).blocks * kernel_h * row_steps() * step_elems() * vectors * lanes;
}

PairPanels ConvNest::pair_panels(int64_t width) const {
  return {panel_window(*this, width).blocks * taps() * (in_block / operands.group), width};
}

PanelWindow panel_window(const ConvNest& nest, int64_t width) {
  // Without merged groups, all panels read the same channels.
  const int64_t panels = nest.merged == 1 ? 1 : ceil_div(nest.out_channels, width);
  PanelWindow window;
  int64_t channels = 0;
  for (int64_t panel = 0; panel < panels; ++panel) {
    const ChannelRange<int64_t> read = panel_reads(nest, panel, width);
    window.blocks = std::max(window.blocks, ceil_div(read.last, nest.in_block) - read.first / nest.in_block);
    channels += read.last - read.first;
  }
  window.mean_channels = static_cast<double>(channels) / static_cast<double>(panels);
  for (int64_t panel = 0; panel < panels; ++panel) {
    const ChannelRange<int64_t> read = panel_reads(nest, panel, width);
    const int64_t first = window_first(nest, window, read) * nest.in_block;
    window.from_first = window.from_first && read.first == first;
    window.to_last = window.to_last && read.last == first + window.blocks * nest.in_block;
  }
  return window;
}

void set_channels(ConvNest& nest, int64_t in, int64_t out, int64_t groups, int64_t lanes) {
  const int64_t in_each = in / groups, out_each = out / groups;
  const auto whole = [&](int64_t merged) {
    return merged * in_each % nest.in_block == 0 && merged * out_each % lanes == 0;
  };
  nest.merged = 1;
  while (nest.merged < groups && !(groups % nest.merged == 0 && whole(nest.merged))) ++nest.merged;
  nest.groups = groups / nest.merged;
  nest.in_channels = nest.merged * in_each, nest.out_channels = nest.merged * out_each;
  nest.out_blocks = ceil_div(nest.out_channels, lanes);
}

Result<ConvNest> direct_nest(const Node& conv, const TensorType& x, const TensorType& w, const TensorType& y) {
  const Window win = conv_window(conv, x.shape, w.shape);
  if (auto rejected = check_halo(win, x)) return *rejected;
  ConvNest n;
  n.n = x.shape[0];
  n.in_block = x.layout.block;
  set_channels(n, x.shape[1], y.shape[1], conv.int_attr("group", 1), y.layout.block);
  n.kernel_h = w.shape[2], n.kernel_w = w.shape[3];
  n.dilation_h = win.dilations[0], n.dilation_w = win.dilations[1];
  n.step_h = win.strides[0], n.step_w = win.strides[1];
  n.first_h = -win.pads_begin[0], n.first_w = -win.pads_begin[1];
  n.out_h = y.shape[2], n.out_w = y.shape[3];
  return n;
}

Multiplicands conv_multiplicands(const ConvNest& nest, const TensorType& x, const TensorType& w, DType sum,
                                 const CpuLimits& limits) {
  const Multiplicands all = Multiplicands::of(x, w, sum, limits);
  if (nest.in_block > 1) return all;
  const bool rows = nest.kernel_w > 1 && nest.dilation_w == 1 && nest.groups * nest.merged == 1;
  return all.type == DType::bf16 && (rows || all.group == 1) ? all : Multiplicands{};
}

void allow_half_tail(ConvNest& nest, const CpuLimits& limits) {
  const int64_t last = nest.out_channels % limits.lanes_f32();
  nest.half_tail =
      limits.halves() && nest.groups == 1 && nest.merged == 1 && last > 0 && last <= limits.lanes_f32() / 2;
}

std::optional<StageWork> merged_work(const ConvNest& nest, int64_t vectors, int32_t lanes, const StageWork& share,
                                     int64_t weight_bytes) {
  if (nest.merged == 1) return std::nullopt;
  const int64_t width = vectors * lanes;
  int64_t between = -nest.in_channels / nest.merged * nest.out_channels;  // pairs of channels in different groups
  for (int64_t k = 0; k < nest.out_channels; k += width) {
    const ChannelRange<int64_t> read = panel_reads(nest, k / width, width);
    between += (std::min(read.last, nest.in_channels) - read.first) * std::min(width, nest.out_channels - k);
  }
  StageWork work = share;
  work.flops += 2 * nest.n * nest.groups * nest.out_h * nest.out_w * nest.taps() * between;
  work.bytes += packed_bytes(nest, vectors, lanes) - weight_bytes;
  return work;
}

Knob prefetch_knob(const ConvNest& nest) { return nest.in_block > 1 ? panel_prefetch_knob() : Knob{"prefetch", {0}}; }

int64_t pick_prefetch(const ConvNest& nest, const ConvTile& tile, const CpuLimits& limits) {
  if (nest.in_block == 1) return 0;
  const int32_t lanes = lanes_of(limits);
  return pick_prefetch(packed_bytes(nest, tile.vectors, lanes),
                       nest.panel_elems(tile.vectors, lanes) * nest.operands.bytes(),
                       passes(nest, tile, block_items(nest, tile, limits)), limits);
}

int64_t block_items(const ConvNest& nest, const ConvTile& tile, const CpuLimits& limits) {
  const int64_t items = nest_items(nest, tile);
  const int64_t image =
      nest.out_h * nest.step_h * nest.out_w * nest.step_w * nest.in_channels * size_bytes(nest.operands.type);
  const int64_t weights = packed_bytes(nest, tile.vectors, limits.lanes_f32()) / nest.groups;
  const int64_t blocks = std::min(ceil_div(image, limits.l2_bytes / 4), items);
  const auto again = [&](int64_t bytes, int64_t times) {
    return bytes > limits.l2_bytes / 2 ? (times - 1) * bytes : 0;
  };
  if (2 * again(weights, blocks) >= again(image, nest.out_blocks / tile.vectors)) return items;
  return ceil_div(items, blocks);
}

std::vector<ConvTile> tile_candidates(const ConvNest& nest, const CpuLimits& limits) {
  std::vector<ConvTile> all;
  for (int64_t v = 1; v <= std::min(kMaxVectors, nest.out_blocks); ++v) {
    if (nest.out_blocks % v != 0) continue;
    int64_t most = register_rows(v, nest.operands.limits(limits));
    if (nest.in_block == 1)
      most = std::min<int64_t>(most, std::max<int64_t>(16 / v, 4));  // taps are unrolled: leaves registers free
    if (most < 1) continue;
    if (2 * nest.out_w <= most && nest.out_h > 1) {
      for (int64_t rows = 2; rows <= std::min(most / nest.out_w, nest.out_h); ++rows)
        all.push_back({v, rows, nest.out_w});
    }
    for (int64_t count = ceil_div(nest.out_w, most); count <= ceil_div(nest.out_w, std::max<int64_t>(most / 4, 1));
         ++count) {
      const ConvTile tile{v, 1, ceil_div(nest.out_w, count)};
      if (all.empty() || !(all.back() == tile)) all.push_back(tile);
      if (count > 4 * ceil_div(nest.out_w, most)) break;
    }
    if (most < nest.out_w) all.push_back({v, 1, most});
  }
  return all;
}

Estimate estimate_tile(const ConvNest& nest, const ConvTile& t, const CpuLimits& limits) {
  const double image = nest_cycles(nest, t, limits);
  // The same work, in full tiles only.
  ConvNest full = nest;
  full.out_h = t.rows, full.out_w = t.tile;
  full.in_h = full.in_w = 0;
  const double tiles = static_cast<double>(nest.out_h * nest.out_w) / static_cast<double>(t.rows * t.tile);
  const double ideal = nest_cycles(full, t, limits) * tiles * read_share(nest, t);
  return {image * static_cast<double>(nest.n * nest.groups), image > 0 ? std::max(0.0, 1 - ideal / image) : 0};
}

ConvTile pick_tile(const ConvNest& nest, const CpuLimits& limits) {
  ConvTile best;
  double best_cycles = 0;
  for (const ConvTile& tile : tile_candidates(nest, limits)) {
    const double cycles = nest_cycles(nest, tile, limits);
    const bool wins = best_cycles == 0 || cycles < best_cycles * 0.99 ||
                      (cycles <= best_cycles * 1.01 && tile.vectors == 2 && best.vectors != 2);
    if (wins) {
      best = tile;
      best_cycles = cycles;
    }
  }
  return best;
}

std::optional<Rejected> check_tile(const ConvNest& nest, const ConvTile& t, const CpuLimits& limits) {
  if (nest.out_blocks % t.vectors != 0) {
    return Rejected{"output channel blocks divisible by vectors", std::to_string(nest.out_blocks),
                    std::to_string(t.vectors)};
  }
  const int64_t pixels = t.rows * t.tile, most = register_rows(t.vectors, nest.operands.limits(limits));
  if (pixels > most) {
    return Rejected{"register tile (pixels with " + std::to_string(t.vectors) + " vectors each)", std::to_string(most),
                    std::to_string(pixels)};
  }
  if (t.rows > 1 && t.tile != nest.out_w) {
    return Rejected{"tile of several rows spans the row", std::to_string(nest.out_w), std::to_string(t.tile)};
  }
  return std::nullopt;
}

std::vector<Knob> tile_space(const ConvNest& nest, const CpuLimits& limits) {
  std::vector<Knob> space{{"vectors", {}}, {"rows", {}}, {"tile", {}}};
  const int64_t most = register_rows(1, nest.operands.limits(limits));
  for (int64_t v = 1; v <= std::min(kMaxVectors, nest.out_blocks); ++v) {
    if (nest.out_blocks % v == 0) space[0].values.push_back(v);
  }
  for (int64_t r = 1; r <= std::min(nest.out_h, most); ++r) space[1].values.push_back(r);
  for (int64_t t = 1; t <= std::min(nest.out_w, most); ++t) space[2].values.push_back(t);
  return space;
}

int64_t nest_items(const ConvNest& nest, const ConvTile& t) {
  if (nest.out_h == 1 && t.rows == 1) return TileSplit(nest.out_w, t.tile, nest.overlap).items(kTilesPerItem);
  return ceil_div(nest.out_h, t.rows);
}

namespace {

/// Emits one register tile at pixel (h0, w0) of the nest.
class TileEmitter {
 public:
  TileEmitter(Emitter& e, const ConvNest& nest, const ConvTile& t, const ConvBuffers& buffers, Expr n, Expr g, Expr ocg,
              const CpuLimits& limits)
      : e_(e),
        b_(e.b),
        nest_(nest),
        t_(t),
        buffers_(buffers),
        n_(std::move(n)),
        g_(std::move(g)),
        ocg_(std::move(ocg)),
        lanes_(lanes_of(limits)) {
    in_ = &e.task().operand(buffers.input);
    const Shape& s = in_->phys.strides;
    stride_n_ = s[0], stride_cb_ = s[1], stride_h_ = s[2], stride_w_ = s[3];
    x_ = buffers.widened.id >= 0 ? buffers.widened : e.input(buffers.input);
    if (nest.in_block > 1 && buffers.widened.id < 0 && nest.operands.widens(in_->type))
      wide_ = b_.scratch("wide", nest.operands.widened(), t.rows * t.tile * nest.in_block);
    stream_ = {buffers.weights,
               buffers.prefetch,
               nest.panel_elems(t.vectors, lanes_),
               passes(nest, t, buffers.block_items > 0 ? buffers.block_items : nest_items(nest, t)),
               limits.line_bytes,
               nest.overlap};
  }

  /// `pass`: index of this tile among those that read the panel.
  void emit(const Expr& h0, const Expr& w0, int64_t rows, int64_t cols, const Expr& pass) {
    h0_ = h0, w0_ = w0, pass_ = pass;
    rows_ = rows, cols_ = cols;
    init();
    find_channels();
    const Expr first_block = g_ * Expr(nest_.in_blocks()) + skipped_;
    const Expr origin = b_.let("x0", Expr(in_->phys.offset) + n_ * Expr(stride_n_) + first_block * Expr(stride_cb_) +
                                         (h0 * Expr(nest_.step_h) + Expr(nest_.first_h)) * Expr(stride_h_) +
                                         (w0 * Expr(nest_.step_w) + Expr(nest_.first_w)) * Expr(stride_w_));
    const int64_t panel = nest_.panel_elems(t_.vectors, lanes_);
    const Expr panel_index = g_ * Expr(nest_.out_blocks / t_.vectors) + ocg_;
    weights_ = buffers_.weights;
    const Expr weights = b_.let("w0", Expr(nest_.weights_first) + panel_index * Expr(panel));
    if (nest_.in_block == 1) {
      reduce_plain(origin, weights);
    } else {
      reduce_blocked(origin, weights);
    }
    weights_ = buffers_.repeated.weights;
    buffers_.repeated.emit(b_, nest_.pair_panels(width()), panel_index,
                           [&](const Expr& place, const Expr& at) { step(origin + place, at); });
    finish();
  }

 private:
  int64_t width() const { return t_.vectors * lanes_; }
  bool is_half(int64_t v) const { return nest_.has_half(t_.vectors) && v == t_.vectors - 1; }
  int32_t lanes(int64_t v) const { return is_half(v) ? lanes_ / 2 : lanes_; }
  size_t slot(int64_t r, int64_t c, int64_t v) const { return static_cast<size_t>((r * cols_ + c) * t_.vectors + v); }

  void init() {
    acc_.clear();
    for (int64_t p = 0; p < rows_ * cols_; ++p) {
      for (int64_t v = 0; v < t_.vectors; ++v) {
        Expr start = imm(nest_.operands.sum(), 0, lanes(v));
        if (buffers_.bias.id >= 0) start = b_.load(buffers_.bias, block(v) * Expr(lanes_), lanes(v));
        acc_.push_back(b_.reg("acc", start));
      }
    }
  }

  /// Output block (over all groups) of vector v.
  Expr block(int64_t v) const { return g_ * Expr(nest_.out_blocks) + ocg_ * Expr(t_.vectors) + Expr(v); }

  /// Finds the input channels that the panel reads: constants, unless groups are merged and there are several panels.
  void find_channels() {
    const bool one = nest_.merged == 1 || nest_.out_blocks == t_.vectors;
    const auto named = [&](std::string name, const Expr& e) { return one ? e : b_.let(std::move(name), e); };
    const auto read = panel_reads(nest_, one ? Expr(0) : ocg_, width());
    window_ = panel_window(nest_, width());
    skipped_ = named("skip", window_first(nest_, window_, read));
    channels_.first = named("c0", read.first - skipped_ * Expr(nest_.in_block));
    channels_.last = named("c1", read.last - skipped_ * Expr(nest_.in_block));
  }

  /// Offset of the tile's pixel (r, c) from its first pixel in the input.
  int64_t offset(int64_t r, int64_t c) const { return r * nest_.step_h * stride_h_ + c * nest_.step_w * stride_w_; }
  /// Place of the tile's pixel (r, c) in the block that widen() fills.
  Expr wide_place(int64_t r, int64_t c) const { return {(r * cols_ + c) * nest_.in_block}; }

  /// Widens the block of input channels at `x` of each pixel.
  void widen(const Expr& x) {
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < cols_; ++c) {
        const auto lanes = static_cast<int32_t>(nest_.in_block);
        b_.store(wide_, wide_place(r, c), nest_.operands.widen(b_, x_, x + Expr(offset(r, c)), lanes));
      }
    }
  }

  /// Emits one reduction step: input elements at x + pixel offsets (in widen()'s block if there is one), weights at w.
  void step(const Expr& x, const Expr& w) {
    const int64_t whole = t_.vectors - (is_half(t_.vectors - 1) ? 1 : 0);
    if (whole > 0) step(x, w, 0, whole);
    if (whole < t_.vectors) step(x, w, whole, t_.vectors);
  }

  /// Emits one reduction step for the vectors [first, last), which all have the same width.
  void step(const Expr& x, const Expr& w, int64_t first, int64_t last) {
    std::vector<Expr> weights;
    const Multiplicands& by = nest_.operands;
    for (int64_t v = first; v < last; ++v)
      weights.push_back(b_.let("w", by.columns(b_, weights_, w + Expr(v * lanes_ * by.group), lanes(v))));
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < cols_; ++c) {
        const Expr pixel =
            b_.let("p", wide_.id >= 0 ? by.spread(b_, wide_, x + wide_place(r, c), lanes(first), by.group)
                                      : by.spread(b_, x_, x + Expr(offset(r, c)), lanes(first), by.group));
        for (int64_t v = first; v < last; ++v) {
          const int32_t reg = acc_[slot(r, c, v)];
          b_.set(reg, by.multiply(pixel, weights[static_cast<size_t>(v - first)], b_.get(reg)));
        }
      }
    }
  }

  /// The taps along a dimension of the tile, without those in the padding if the nest skips them.
  TapRange<Expr> taps(const char* name, const TapDim& d, const Expr& at, int64_t count) {
    if (nest_.in_h == 0) return {Expr(0), Expr(d.kernel)};
    const TapRange<Expr> read = taps_read(d, at, count);
    return {b_.let(std::string(name) + "0", read.first), b_.let(std::string(name) + "1", read.last)};
  }

  void reduce_blocked(const Expr& origin, const Expr& weights) {
    const int64_t block = nest_.in_block;
    const int64_t tap = block * width();
    const TapRange<Expr> tap_h = taps("r", tap_rows(nest_), h0_, rows_);
    const TapRange<Expr> tap_w = taps("s", tap_columns(nest_), w0_, cols_);
    b_.loop("icb", 0, window_.blocks, [&](const Expr& icb) {
      prefetch_epilogue(icb);
      const Expr x1 = b_.let("x1", origin + icb * Expr(stride_cb_));
      const Expr w1 = b_.let("w1", weights + icb * Expr(tap * nest_.taps()));
      const Expr before = icb * Expr(block);
      const Expr begin = window_.from_first ? Expr(0) : max(Expr(0), channels_.first - before);
      const Expr end = window_.to_last ? Expr(block) : min(Expr(block), channels_.last - before);
      b_.loop("r", tap_h.first, tap_h.last, [&](const Expr& r) {
        b_.loop("s", tap_w.first, tap_w.last, [&](const Expr& s) {
          const Expr x2 =
              b_.let("x2", x1 + r * Expr(nest_.dilation_h * stride_h_) + s * Expr(nest_.dilation_w * stride_w_));
          const Expr w2 = b_.let("w2", w1 + (r * Expr(nest_.kernel_w) + s) * Expr(tap));
          const int64_t unroll = nest_.unrolled();
          if (wide_.id >= 0) widen(x2);
          const Expr from = wide_.id >= 0 ? Expr(0) : x2;
          b_.loop("i", begin, end, unroll, [&](const Expr& i) {
            emit_prefetch(b_, stream_, weights, w2 - weights + i * Expr(width()), unroll * width(), pass_);
            for (int64_t u = 0; u < unroll; u += nest_.operands.group)
              step(from + i + Expr(u), w2 + (i + Expr(u)) * Expr(width()));
          });
        });
      });
    });
  }

  /// Prefetches the operands of the epilogue for the pixels assigned to this block of input channels, so that the
  /// requests spread over the tile's computation. Prefetching all of them at the same time would fill the core's fill
  /// buffers and delay the tile's own loads.
  void prefetch_epilogue(const Expr& icb) {
    if (!buffers_.prefetch_epilogue || rows_ > 1) return;
    const Domain domain = domain_of(e_.task().graph->type(buffers_.output));
    const int64_t pixels = ceil_div(cols_, window_.blocks);
    for (int64_t c = 0; c < pixels; ++c) {
      for (int64_t v = 0; v < t_.vectors; ++v) e_.prefetch_epilogue(domain, site(0, icb * Expr(pixels) + Expr(c), v));
    }
  }

  void reduce_plain(const Expr& origin, const Expr& weights) {
    const int64_t group = nest_.operands.group;
    const int64_t row = nest_.row_steps() * group * width();
    b_.loop("c", channels_.first, channels_.last, [&](const Expr& c) {
      b_.loop("r", 0, nest_.kernel_h, [&](const Expr& r) {
        const Expr x2 = b_.let("x2", origin + c * Expr(stride_cb_) + r * Expr(nest_.dilation_h * stride_h_));
        const Expr w2 = b_.let("w2", weights + (c * Expr(nest_.kernel_h) + r) * Expr(row));
        prefetch_rows_below(x2);
        for (int64_t s = 0; s < nest_.row_steps(); ++s)
          step(x2 + Expr(nest_.first_tap(s) * nest_.dilation_w * stride_w_), w2 + Expr(s * group * width()));
      });
    });
  }

  /// Prefetches what the tile one row of tiles below reads at `x`, if the image is an input of the network: nothing has
  /// brought it into the caches, and the processor does not recognise the rows of a tile as a stream.
  void prefetch_rows_below(const Expr& x) {
    if (e_.task().graph->value(buffers_.input).producer != kNone) return;
    const Expr below = x + Expr(rows_ * nest_.step_h * stride_h_);
    prefetch_lines(b_, x_, below, cols_ * nest_.step_w * stride_w_, stream_.line_bytes);
  }

  /// The site of vector `v` of the tile's pixel (r, c) in the output.
  Site site(int64_t r, const Expr& c, int64_t v) const {
    Site at;
    at.index = {n_, block(v), (h0_ + Expr(r)) * Expr(nest_.out_step_h) + Expr(nest_.out_first_h),
                (w0_ + c) * Expr(nest_.out_step_w) + Expr(nest_.out_first_w), Expr(0)};
    at.vec_dim = 4;
    at.lanes = lanes(v);
    return at;
  }

  void finish() {
    const ValueId anchor = buffers_.output;
    const Domain domain = domain_of(e_.task().graph->type(anchor));
    const auto store = [&](const Expr& value, const Site& at) {
      buffers_.store ? buffers_.store(value, at) : e_.epilogue({{anchor, value}}, domain, at);
    };
    e_.begin_checks(rows_ * cols_ * t_.vectors, {nest_.operands.sum(), lanes_});
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < cols_; ++c) {
        for (int64_t v = 0; v < t_.vectors; ++v) {
          Site at = site(r, Expr(c), v);
          store(b_.get(acc_[slot(r, c, v)]), at);
          if (!is_half(v)) continue;
          require(!buffers_.store, "half a vector goes to a store of whole vectors");
          at.index[4] = Expr(lanes(v));
          e_.unused_lanes(domain, at);
        }
      }
    }
    e_.end_checks(store);
  }

  Emitter& e_;
  LoopBuilder& b_;
  const ConvNest& nest_;
  const ConvTile& t_;
  const ConvBuffers& buffers_;
  Expr n_, g_, ocg_;
  int32_t lanes_;
  const Operand* in_;
  int64_t stride_n_, stride_cb_, stride_h_, stride_w_;
  Buf x_, weights_;
  /// A block of input channels of each pixel, widened; no buffer if the input is multiplied in the type in which it is
  /// stored.
  Buf wide_;
  WeightStream stream_;
  Expr h0_, w0_, pass_;  ///< of the tile
  PanelWindow window_;
  Expr skipped_;                 ///< blocks of the group's input channels before the panel's window
  ChannelRange<Expr> channels_;  ///< range that the panel reads, within its window
  int64_t rows_ = 0, cols_ = 0;
  std::vector<int32_t> acc_;
};

}  // namespace

void emit_nest(Emitter& e, const ConvNest& nest, const ConvTile& t, const ConvBuffers& buffers, const Expr& n,
               const Expr& g, const Expr& ocg, const Expr& item, const CpuLimits& limits) {
  TileEmitter tile(e, nest, t, buffers, n, g, ocg, limits);
  LoopBuilder& b = e.b;
  const Expr of_block = item - buffers.first_item;
  if (t.rows > 1) {
    const int64_t full = nest.out_h / t.rows;
    const int64_t rest = nest.out_h % t.rows;
    const auto emit = [&](int64_t rows) { tile.emit(item * Expr(t.rows), 0, rows, nest.out_w, of_block); };
    if (rest == 0) return emit(t.rows);
    return b.if_then(binary(Op::lt, item, Expr(full)), [&] { emit(t.rows); }, [&] { emit(rest); });
  }
  const TileSplit row(nest.out_w, t.tile, nest.overlap);
  const int64_t full = row.whole(), rest = row.rest();
  if (nest.out_h > 1) {
    const Expr pass = of_block * Expr(row.count());
    b.loop("t", 0, full, [&](const Expr& i) { tile.emit(item, row.begin(b, i), 1, t.tile, pass + i); });
    if (rest > 0) tile.emit(item, Expr(full * t.tile), 1, rest, pass + Expr(full));
    return;
  }
  const Expr first = item * Expr(kTilesPerItem), before = buffers.first_item * Expr(kTilesPerItem);
  b.loop("t", first, row.end_of_item(item, kTilesPerItem),
         [&](const Expr& i) { tile.emit(0, row.begin(b, i), 1, t.tile, i - before); });
  if (rest > 0) {
    const Expr last = binary(Op::eq, item, Expr(nest_items(nest, t) - 1));
    b.if_then(last, [&] { tile.emit(0, Expr(full * t.tile), 1, rest, Expr(full) - before); });
  }
}

}  // namespace kilter
