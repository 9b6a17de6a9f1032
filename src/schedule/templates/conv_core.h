// The register-tiled loop nest that dense convolutions share: direct convolution, and transposed convolution as one
// nest per output phase.
#pragma once

#include <cstdint>
#include <functional>

#include "base/align.h"
#include "ops/support/window.h"
#include "schedule/emit.h"
#include "schedule/model/register_tile.h"
#include "schedule/templates/weight_stream.h"

namespace kilter {

/// One nest over a rectangle of output pixels. Output pixel (h, w) of the nest is pixel (h * out_step_h + out_first_h,
/// ...) of the output; tap (r, s) of it reads input pixel (h * step_h + first_h + r * dilation_h, ...), which may lie
/// in the input's halo.
///
/// Groups of a convolution that share a block of channels are one group here, whose weights between two of them are 0.
struct ConvNest {
  int64_t n = 1, groups = 1;
  int64_t merged = 1;        ///< groups of the convolution in one
  int64_t in_channels = 0;   ///< per group
  int64_t out_channels = 0;  ///< per group
  int64_t out_blocks = 0;    ///< blocks of output channels per group
  int64_t in_block = 1;      ///< channels that lie together in the input: 1 (plain) or the vector width
  int64_t kernel_h = 1, kernel_w = 1, dilation_h = 1, dilation_w = 1;
  int64_t step_h = 1, step_w = 1, first_h = 0, first_w = 0;
  int64_t out_h = 1, out_w = 1;
  int64_t out_step_h = 1, out_step_w = 1, out_first_h = 0, out_first_w = 0;
  int64_t weights_first = 0;  ///< element of the packed weights where this nest's begin
  /// At most half of the last output block's channels exist: a tile of all blocks computes half a vector there.
  bool half_tail = false;
  /// For the model: cycles until one vector of everything that the epilogue reads and writes is there.
  double out_line_cycles = 0;

  int64_t in_blocks() const { return ceil_div(in_channels, in_block); }
  int64_t taps() const { return kernel_h * kernel_w; }
  bool has_half(int64_t vectors) const { return half_tail && vectors == out_blocks; }
  /// Packed weights of one panel, those of `vectors` output blocks, in elements.
  int64_t panel_elems(int64_t vectors, int32_t lanes) const;
};

/// Input channels [first, last) of a group. T: int64_t, or Expr.
template <class T>
struct ChannelRange {
  T first, last;
};

/// Those that a panel of `width` output channels reads, all channels of every group of the convolution that it has
/// outputs of; in whole steps of the unrolled reduction, so that `last` may lie beyond the channels.
template <class T>
ChannelRange<T> panel_reads(const ConvNest& nest, const T& panel, int64_t width) {
  using std::min;
  const T in(nest.in_channels / nest.merged), out(nest.out_channels / nest.merged);
  const T unit(std::min(kReductionUnroll, nest.in_block));
  const T first = panel * T(width) / out * in;
  const T last = min(((panel + T(1)) * T(width) + out - T(1)) / out * in, T(nest.in_channels));
  return {first / unit * unit, (last + unit - T(1)) / unit * unit};
}

/// The window of input blocks that holds what a panel reads: all panels of a nest have equally many.
struct PanelWindow {
  int64_t blocks = 0;
  double mean_channels = 0;  ///< of those that panel_reads() answers
  bool from_first = true;    ///< whether all panels read from the first channel of their window on
  bool to_last = true;       ///< whether all read up to the last
};
PanelWindow panel_window(const ConvNest& nest, int64_t width);
/// First block of the window of a panel that reads `read`.
template <class T>
T window_first(const ConvNest& nest, const PanelWindow& window, const ChannelRange<T>& read) {
  using std::min;
  return min(read.first / T(nest.in_block), T(nest.in_blocks() - window.blocks));
}

/// A register tile: rows x tile pixels by `vectors` vectors of output channels.
struct ConvTile {
  int64_t vectors = 1, rows = 1, tile = 1;
  bool operator==(const ConvTile&) const = default;
};

/// Whether a convolution's operands are f32, of two spatial dimensions, and its weights and bias constant.
std::optional<Rejected> check_conv_operands(const Task& task);
/// Whether the halo of the input holds the padding of the window.
std::optional<Rejected> check_halo(const Window& window, const TensorType& input);
/// Whether the task has neither feeder nor prologue: the anchor's input is an operand.
std::optional<Rejected> check_input_stored(const Task& task);
/// Sets the channels and groups of a nest whose `in_block` is set, from those of the convolution: merges as few groups
/// as have whole blocks of channels together, or all.
void set_channels(ConvNest& nest, int64_t in, int64_t out, int64_t groups, int64_t lanes);
/// The nest of a convolution of `x` with filters `w` to `y`, whose channels lie in blocks; rejects paddings that the
/// halo of `x` does not hold.
Answer<ConvNest> direct_nest(const Node& conv, const TensorType& x, const TensorType& w, const TensorType& y);
/// Lets tiles of all output blocks compute half a vector of the last one where the target has a use for it.
void allow_half_tail(ConvNest& nest, const TargetLimits& limits);
/// Bytes of all weights, packed in panels of `vectors` output blocks.
int64_t packed_bytes(const ConvNest& nest, int64_t vectors, int32_t lanes);
/// What a nest does whose groups are merged, `share` being its part of the task: products with the weights between
/// groups are executed, too, and the packed weights take the place of `weight_bytes`. None where no groups are merged.
std::optional<StageWork> merged_work(const ConvNest& nest, int64_t vectors, int32_t lanes, const StageWork& share,
                                     int64_t weight_bytes);
/// Knob `prefetch` of a nest, and its value for a tile: over plain inputs taps are written out, and nothing is
/// prefetched.
Knob prefetch_knob(const ConvNest& nest);
int64_t pick_prefetch(const ConvNest& nest, const ConvTile& tile, const TargetLimits& limits);
/// Weights [out][in][r][s] of a convolution, packed for its nest and tile.
Packing pack_direct(const Task& task, ValueId weights, const ConvNest& nest, const ConvTile& tile, int32_t lanes);

/// Bias of a convolution, one vector an output block, unused lanes 0; no buffer where it has none.
Buf bias_of(Emitter& e, const Node& conv, int32_t lanes, std::string name = "bias");

/// The tile that the analytic model ranks first: registers, load ports, FMA latency, tails, weight stream.
ConvTile pick_tile(const ConvNest& nest, const TargetLimits& limits);
/// The tiles that the model ranks, in the order in which pick_tile() looks at them.
std::vector<ConvTile> tile_candidates(const ConvNest& nest, const TargetLimits& limits);
/// What the model expects of a tile, for all images and groups.
Estimate estimate_tile(const ConvNest& nest, const ConvTile& tile, const TargetLimits& limits);
/// Whether the registers hold it and it divides the output channels.
std::optional<Rejected> check_tile(const ConvNest& nest, const ConvTile& tile, const TargetLimits& limits);
/// Legal values of each knob.
std::vector<Knob> tile_space(const ConvNest& nest, const TargetLimits& limits);

/// Items that all panels of weights pass over before those behind them come: all, or as many as have their part of the
/// image in a quarter of L2, where reading the weights once for each such block is clearly less than reading the image
/// once for each panel. What fits half of L2 costs nothing to read again (measured).
int64_t block_items(const ConvNest& nest, const ConvTile& tile, const TargetLimits& limits);
/// Parallel work items of a nest after batch, group and channel blocks: row tiles, or chunks of pixel tiles of one row.
int64_t nest_items(const ConvNest& nest, const ConvTile& tile);

struct ConvBuffers {
  ValueId input = kNone, output = kNone;  ///< output: the convolution's value
  Buf weights;                            ///< packed: see pack_weights
  Buf bias;                               ///< one vector per output block; id < 0 when there is none
  int64_t prefetch = 0;                   ///< of the weights: knob
  int64_t block_items = 0;                ///< items that a panel passes over in turn; 0: all
  Expr first_item = 0;                    ///< of the block that the item is of
  bool prefetch_epilogue = false;         ///< what the epilogue reads, while a tile of one row is computed
  /// Takes a vector of the output, the v-th of its pixel's, at a site of the output's domain. Empty: the epilogue of
  /// the task does.
  std::function<void(const Expr& value, const Site& site, int64_t v)> store = {};
};

/// Emits item `item` (0 <= item < nest_items) for batch `n`, group `g` and block group `ocg` (all i64 expressions).
void emit_nest(Emitter& e, const ConvNest& nest, const ConvTile& tile, const ConvBuffers& buffers, const Expr& n,
               const Expr& g, const Expr& ocg, const Expr& item, int32_t lanes);

/// Packs weights [out][in][r][s] given by `at(group, k, c, r, s)` (k, c within the group and of one group of the
/// convolution; zeros elsewhere are the packer's job) for one nest into `packed` from weights_first on: per group, per
/// panel: block of its window, r, s, lane of in, then vectors * lanes of out.
template <class At>
void pack_weights(const ConvNest& nest, const ConvTile& tile, int32_t lanes, float* packed, At at) {
  const int64_t width = tile.vectors * lanes;
  const PanelWindow window = panel_window(nest, width);
  const int64_t in = nest.in_channels / nest.merged, out = nest.out_channels / nest.merged;
  float* to = packed + nest.weights_first;
  for (int64_t g = 0; g < nest.groups; ++g)
    for (int64_t panel = 0; panel < nest.out_blocks / tile.vectors; ++panel) {
      const int64_t skipped = window_first(nest, window, panel_reads(nest, panel, width));
      for (int64_t icb = 0; icb < window.blocks; ++icb)
        for (int64_t r = 0; r < nest.kernel_h; ++r)
          for (int64_t s = 0; s < nest.kernel_w; ++s)
            for (int64_t i = 0; i < nest.in_block; ++i) {
              const int64_t c = (skipped + icb) * nest.in_block + i;
              const int64_t first = c < nest.in_channels ? c / in * out : nest.out_channels;
              for (int64_t k = panel * width; k < (panel + 1) * width; ++k)
                *to++ = k >= first && k < std::min(first + out, nest.out_channels) ? at(g, k, c, r, s) : 0.0F;
            }
    }
}

}  // namespace kilter
