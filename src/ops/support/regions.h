// Movement operators whose dimensions are independent: every output index reads one input index of its own dimension,
// or a fill value. Slice, Pad, Tile, CenterCropPad are such maps; their reference kernels and regions come from here.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/op.h"

namespace kilter {

/// For one dimension: the input index that each output index reads, kFill where it reads the fill value.
using IndexMap = std::vector<int64_t>;
constexpr int64_t kFill = -1;

/// out[i0, i1, ...] = in[maps[0][i0], maps[1][i1], ...], or `fill` (a tensor of one element, undefined: zero, false or
/// "") where a map says kFill. Any element type.
void copy_mapped(const Tensor& in, const Tensor& out, const std::vector<IndexMap>& maps, const Tensor& fill);

/// The same as regions of input `input`: runs of constant step per dimension, multiplied out. Nullopt when there would
/// be more than kMaxRegions.
std::optional<std::vector<CopyRegion>> mapped_regions(const Shape& in_shape, const std::vector<IndexMap>& maps,
                                                      int32_t input, double fill);
constexpr size_t kMaxRegions = 1024;
/// Whether a shape's extents are small enough for the maps that mapped_regions() takes to be made while compiling.
bool mappable(const Shape& out);

/// The same copy in as few dimensions as possible: extents of 1 dropped, neighbours joined where both sides are
/// contiguous. Negative and zero strides are kept.
CopyRegion merged(const CopyRegion& region);

/// One region that covers the whole of a dense output of shape `extent`.
CopyRegion whole_region(int32_t input, const Shape& extent, Shape in_strides, int64_t in_offset = 0);
/// The regions without those that are empty, each merged.
std::vector<CopyRegion> tidy(const std::vector<CopyRegion>& regions);

/// The fill value of a constant of one element as double; nullopt when a double cannot hold it exactly or it is a
/// string.
std::optional<double> exact_fill(const Tensor& value);

}  // namespace kilter
