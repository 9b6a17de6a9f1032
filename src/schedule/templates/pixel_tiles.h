// The register tiles of convolutions with few output channels, and their model. A tile holds several output channels of
// some pixels, but its vectors do not run over output channels. There are two forms:
//
//   pixels   A vector holds neighbouring pixels of an output row. Each step reads a vector of the image, which several
//            accumulators use, and broadcasts weights.
//   sums     A vector holds partial sums of one pixel, over the channels of a block or over neighbouring taps. The
//            lanes of several pixels are added at the end.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/emit.h"

namespace kilter {

/// Output pixel (h, w) and tap (r, s) read input pixel (h * step_h + first_h + r * dilation_h, ...), which may lie in
/// the input's halo.
struct PixelNest {
  int64_t n = 1;
  int64_t in_channels = 0, out_channels = 0;
  int64_t in_block = 1;  ///< contiguous channels in the input: 1 (plain) or the vector width
  int64_t kernel_h = 1, kernel_w = 1, dilation_h = 1, dilation_w = 1;
  int64_t step_h = 1, step_w = 1, first_h = 0, first_w = 0;
  int64_t out_h = 1, out_w = 1;
};

struct PixelTile {
  bool sums = false;    ///< the form
  int64_t outputs = 1;  ///< output channels, a divisor of their number
  int64_t rows = 1;     ///< image rows
  int64_t tile = 1;     ///< vectors of a row; for sums, pixels of a row
  bool operator==(const PixelTile&) const = default;
};

/// Lanes of the vectors of pixels: as many as a row has, if that is less than a register.
int64_t pixel_lanes(const PixelNest& nest, const CpuLimits& limits);
/// The tiles whose values fit in registers, of all forms that apply to the nest.
std::vector<PixelTile> pixel_tiles(const PixelNest& nest, const CpuLimits& limits);
/// Whether the values of a tile fit in registers, with the weights and the image vectors of a step.
bool fits_registers(const PixelNest& nest, const PixelTile& tile, const CpuLimits& limits);
/// Cycles in which one core reads the image once.
double image_cycles(const PixelNest& nest, const CpuLimits& limits);
/// The model's prediction for a tile.
Estimate estimate_pixels(const PixelNest& nest, const PixelTile& tile, const CpuLimits& limits);
/// The tile with the lowest prediction.
PixelTile pick_pixels(const PixelNest& nest, const CpuLimits& limits);

/// Packs weights [out][in][r][s] in the order in which the tile's kernel reads them.
Packing pack_pixels(const Task& task, ValueId weights, const PixelNest& nest, const PixelTile& tile,
                    const CpuLimits& limits);

struct PixelBuffers {
  ValueId input = kNone;
  Buf weights;  ///< packed by pack_pixels()
  Buf bias;     ///< one element per output channel; id < 0 if there is none
};
/// Emits the kernel with its parallel dimensions. The epilogue receives the results.
void emit_pixels(Emitter& e, const PixelNest& nest, const PixelTile& tile, const PixelBuffers& buffers,
                 const CpuLimits& limits);

}  // namespace kilter
