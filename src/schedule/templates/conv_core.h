// The register-tiled loop nest of dense convolutions: direct convolution, and transposed convolution as one nest per
// output phase.
#pragma once

#include <cstdint>
#include <functional>

#include "base/align.h"
#include "ops/support/window.h"
#include "schedule/emit.h"
#include "schedule/model/register_tile.h"
#include "schedule/templates/byte_pairs.h"
#include "schedule/templates/tile_split.h"
#include "schedule/templates/weight_stream.h"

namespace kilter {

/// One nest over a rectangle of output pixels. Output pixel (h, w) of the nest is pixel (h * out_step_h + out_first_h,
/// ...) of the output. Its tap (r, s) reads input pixel (h * step_h + first_h + r * dilation_h, ...), which may lie in
/// the input's halo.
///
/// Groups of the convolution that share a block of channels are merged into one group, with zero weights between them.
struct ConvNest {
  int64_t n = 1, groups = 1;
  int64_t merged = 1;        ///< groups of the convolution that form one group
  int64_t in_channels = 0;   ///< per group
  int64_t out_channels = 0;  ///< per group
  int64_t out_blocks = 0;    ///< blocks of output channels per group
  int64_t in_block = 1;      ///< contiguous channels in the input: 1 (plain) or the vector width
  int64_t kernel_h = 1, kernel_w = 1, dilation_h = 1, dilation_w = 1;
  int64_t step_h = 1, step_w = 1, first_h = 0, first_w = 0;
  int64_t in_h = 0, in_w = 0;  ///< pixels of the image if tiles skip taps in the padding (conv_taps.h), otherwise 0
  int64_t out_h = 1, out_w = 1;
  int64_t out_step_h = 1, out_step_w = 1, out_first_h = 0, out_first_w = 0;
  bool overlap = false;  ///< the last tile of a row overlaps the one before it (Task::open)
  /// Groups of Multiplicands::group are channels of a block, which has a multiple of that number of channels, or
  /// neighbours in a row of a plain image.
  Multiplicands operands;
  int64_t weights_first = 0;  ///< element of the packed weights where those of this nest begin
  /// Whether at most half of the channels in the last output block exist, so that a tile of all blocks computes half a
  /// vector there.
  bool half_tail = false;
  /// For the model: cycles to transfer one vector of every tensor that the epilogue reads or writes.
  double out_line_cycles = 0;

  int64_t in_blocks() const { return ceil_div(in_channels, in_block); }
  int64_t taps() const { return kernel_h * kernel_w; }
  /// Steps in which the taps of a filter's row are multiplied: a group per step in a plain image.
  int64_t row_steps() const { return in_block == 1 ? ceil_div(kernel_w, operands.group) : kernel_w; }
  /// The first tap of a step. The last group of a plain image overlaps the previous one, so that it stays in the row.
  int64_t first_tap(int64_t step) const {
    return in_block == 1 ? std::min(step * operands.group, kernel_w - operands.group) : step;
  }
  /// Elements of the packed weights for one step and output channel.
  int64_t step_elems() const { return std::max(in_block, operands.group); }
  /// Channels of a block that the unrolled loop of the reduction multiplies in one iteration.
  int64_t unrolled() const { return std::min(kReductionUnroll * operands.group, in_block); }
  /// Panels of `width` channels whose products are summed in pairs.
  PairPanels pair_panels(int64_t width) const;
  bool has_half(int64_t vectors) const { return half_tail && vectors == out_blocks; }
  /// Elements of a panel of packed weights, which covers `vectors` output blocks.
  int64_t panel_elems(int64_t vectors, int32_t lanes) const;
};

/// Input channels [first, last) of a group. T is int64_t or Expr.
template <class T>
struct ChannelRange {
  T first, last;
};

/// The channels that a panel of `width` output channels reads: all channels of every group of the convolution to which
/// its outputs belong. Rounded to whole steps of the unrolled reduction, so `last` may exceed the number of channels.
template <class T>
ChannelRange<T> panel_reads(const ConvNest& nest, const T& panel, int64_t width) {
  using std::min;
  const T in(nest.in_channels / nest.merged), out(nest.out_channels / nest.merged);
  const T unit(nest.unrolled());
  const T first = panel * T(width) / out * in;
  const T last = min(((panel + T(1)) * T(width) + out - T(1)) / out * in, T(nest.in_channels));
  return {first / unit * unit, (last + unit - T(1)) / unit * unit};
}

/// The window of input blocks that covers the channels that a panel reads. All panels of a nest have windows of the
/// same size.
struct PanelWindow {
  int64_t blocks = 0;
  double mean_channels = 0;  ///< mean size of the ranges from panel_reads()
  bool from_first = true;    ///< whether all panels read their window from its first channel on
  bool to_last = true;       ///< whether all panels read their window to its last channel
};
PanelWindow panel_window(const ConvNest& nest, int64_t width);
/// The first block of the window for a panel that reads `read`.
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

/// Checks that a convolution has f32 operands, two spatial dimensions, and constant weights and bias, and that sums of
/// f32 are exact if its results are integers. `sums_integers`: the template also sums integers.
std::optional<Rejected> check_conv_operands(const Task& task, bool sums_integers = false);
/// Checks that the halo of the input covers the padding of the window.
std::optional<Rejected> check_halo(const Window& window, const TensorType& input);
/// Checks that the task has neither feeder nor prologue, so that the anchor's input is an operand.
std::optional<Rejected> check_input_stored(const Task& task);
/// Sets the channels and groups of a nest from those of the convolution; `in_block` must be set. Merges the smallest
/// number of groups that fill whole blocks of channels, or all groups.
void set_channels(ConvNest& nest, int64_t in, int64_t out, int64_t groups, int64_t lanes);
/// The nest of a convolution of `x` with filters `w` to `y`, whose channels are blocked. Rejects padding that the halo
/// of `x` does not cover.
Result<ConvNest> direct_nest(const Node& conv, const TensorType& x, const TensorType& w, const TensorType& y);
/// The operands that the nest of a convolution multiplies: groups in the type in which the data are stored if the
/// target has an instruction for it. In a plain image, groups are pairs of neighbours in a row.
Multiplicands conv_multiplicands(const ConvNest& nest, const TensorType& x, const TensorType& w, DType sum,
                                 const CpuLimits& limits);
/// Lets tiles of all output blocks compute half a vector of the last one if that is faster on the target.
void allow_half_tail(ConvNest& nest, const CpuLimits& limits);
/// Bytes of all weights, packed in panels of `vectors` output blocks.
int64_t packed_bytes(const ConvNest& nest, int64_t vectors, int32_t lanes);
/// The work of a nest with merged groups, where `share` is its share of the task. Products with the zero weights
/// between groups are also executed, and the packed weights replace `weight_bytes`. Nullopt if no groups are merged.
std::optional<StageWork> merged_work(const ConvNest& nest, int64_t vectors, int32_t lanes, const StageWork& share,
                                     int64_t weight_bytes);
/// Knob `prefetch` of a nest, and its value for a tile. For plain inputs, taps are unrolled and nothing is prefetched.
Knob prefetch_knob(const ConvNest& nest);
int64_t pick_prefetch(const ConvNest& nest, const ConvTile& tile, const CpuLimits& limits);
/// Packs a convolution's weights [out][in][r][s] for its nest and tile.
Packing pack_direct(const Task& task, ValueId weights, const ConvNest& nest, const ConvTile& tile, int32_t lanes);

/// A convolution's bias, one vector per output block with unused lanes 0; no buffer if it has none.
Buf bias_of(Emitter& e, const Node& conv, int32_t lanes, std::string name = "bias");
/// The start of the sums of `conv`: its bias or, if it multiplies stored bytes, what corrects the sums for the stored
/// zero of `x`. No buffer if sums start at 0.
Buf start_of(Emitter& e, const Node& conv, const Multiplicands& operands, const TensorType& x, int32_t lanes,
             const std::string& prefix = "");

/// The tile that the analytic model ranks first, by registers, load ports, FMA latency, tails and the weight stream.
ConvTile pick_tile(const ConvNest& nest, const CpuLimits& limits);
/// The tiles that the model ranks, in the order in which pick_tile() considers them.
std::vector<ConvTile> tile_candidates(const ConvNest& nest, const CpuLimits& limits);
/// The model's prediction for a tile, over all images and groups.
Estimate estimate_tile(const ConvNest& nest, const ConvTile& tile, const CpuLimits& limits);
/// Checks that the tile fits in registers and divides the output channels.
std::optional<Rejected> check_tile(const ConvNest& nest, const ConvTile& tile, const CpuLimits& limits);
/// The legal values of each knob.
std::vector<Knob> tile_space(const ConvNest& nest, const CpuLimits& limits);

/// Number of items in a block, which all panels of weights process before any panel starts on the next block. It is the
/// number of all items or, if rereading the weights for each block is clearly cheaper than rereading the image for each
/// panel, the largest number of items whose part of the image fits in a quarter of L2. Rereading data that fit in half
/// of L2 is free (measured).
int64_t block_items(const ConvNest& nest, const ConvTile& tile, const CpuLimits& limits);
/// Parallel items of a nest within one image, group and block group of channels: row tiles, or chunks of pixel tiles of
/// one row.
int64_t nest_items(const ConvNest& nest, const ConvTile& tile);

struct ConvBuffers {
  ValueId input = kNone, output = kNone;  ///< output: the convolution's result
  Buf weights;                            ///< packed by pack_weights()
  Buf widened;                            ///< the input as i16; id < 0: the nest widens it if that is needed
  RepeatedSteps repeated;                 ///< of the weights, if their products are summed in pairs
  Buf bias;                               ///< one vector per output block; id < 0 if there is none
  int64_t prefetch = 0;                   ///< knob value for the weights
  int64_t block_items = 0;                ///< items that a panel processes before the next panel starts; 0: all
  Expr first_item = 0;                    ///< of the block that contains the item
  bool prefetch_epilogue = false;         ///< for the operands of the epilogue, while a tile of one row is computed
  /// Receives a vector of the output at a site of the output's domain. If empty, the task's epilogue receives it.
  std::function<void(const Expr& value, const Site& site)> store = {};
};

/// Emits item `item` (0 <= item < nest_items) for batch `n`, group `g` and block group `ocg` (all i64 expressions).
void emit_nest(Emitter& e, const ConvNest& nest, const ConvTile& tile, const ConvBuffers& buffers, const Expr& n,
               const Expr& g, const Expr& ocg, const Expr& item, const CpuLimits& limits);

/// Packs weights [out][in][r][s] for one nest into `packed` from weights_first on. `at(group, k, c, r, s)` gives a
/// weight; k and c count within the merged group and belong to the same group of the convolution. The packer supplies
/// the zeros elsewhere. Order: per group, per panel: block of its window, r, step of the row, group of multiplicands,
/// vectors * lanes of out, element of the group.
template <class T, class At>
void pack_weights(const ConvNest& nest, const ConvTile& tile, int32_t lanes, T* packed, At at) {
  const int64_t width = tile.vectors * lanes;
  const PanelWindow window = panel_window(nest, width);
  const int64_t in = nest.in_channels / nest.merged, out = nest.out_channels / nest.merged;
  const int64_t group = nest.operands.group;
  const bool plain = nest.in_block == 1;
  T* to = packed + nest.weights_first;
  for (int64_t g = 0; g < nest.groups; ++g)
    for (int64_t panel = 0; panel < nest.out_blocks / tile.vectors; ++panel) {
      const int64_t skipped = window_first(nest, window, panel_reads(nest, panel, width));
      for (int64_t icb = 0; icb < window.blocks; ++icb)
        for (int64_t r = 0; r < nest.kernel_h; ++r)
          for (int64_t step = 0; step < nest.row_steps(); ++step, to += nest.step_elems() * width)
            for (int64_t i = 0; i < nest.step_elems(); ++i) {
              const int64_t c = (skipped + icb) * nest.in_block + (plain ? 0 : i);
              const int64_t s = nest.first_tap(step) + (plain ? i : 0);
              const bool counts = c < nest.in_channels && (!plain || s >= step * group);
              const int64_t first = counts ? c / in * out : nest.out_channels;
              T* row = to + i / group * group * width + i % group;
              for (int64_t k = panel * width; k < (panel + 1) * width; ++k, row += group)
                *row = T(k >= first && k < std::min(first + out, nest.out_channels) ? at(g, k, c, r, s) : 0.0F);
            }
    }
}

}  // namespace kilter
