// Movement operators whose dimensions are independent: every output index reads one input index of its own dimension,
// or a fill value. Slice, Pad, Tile and CenterCropPad are of this kind and get their reference kernels and regions
// here.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/op.h"

namespace kilter {

/// For one dimension: the input index that each output index reads, or kFill if it reads the fill value.
using IndexMap = std::vector<int64_t>;
constexpr int64_t kFill = -1;

/// Computes out[i0, i1, ...] = in[maps[0][i0], maps[1][i1], ...], or `fill` (a tensor of one element; undefined: zero,
/// false or "") if a map says kFill. Any element type.
void copy_mapped(const Tensor& in, const Tensor& out, const std::vector<IndexMap>& maps, const Tensor& fill);

/// Returns the copies that copy_mapped() makes from input `input`, as regions: at most one for each combination of the
/// dimensions' runs of constant step. Returns nullopt if there would be more than kMaxRegions.
std::optional<std::vector<CopyRegion>> mapped_regions(const Shape& in_shape, const std::vector<IndexMap>& maps,
                                                      int32_t input, double fill);
constexpr size_t kMaxRegions = 1024;
/// Whether a shape's extents are small enough to build the maps for mapped_regions() at compile time.
bool mappable(const Shape& out);

/// Returns the same copy in as few dimensions as possible: drops extents of 1 and joins neighbours if both sides are
/// contiguous. Keeps negative and zero strides.
CopyRegion merged(const CopyRegion& region);

/// Returns one region that covers the whole of a dense output of shape `extent`.
CopyRegion whole_region(int32_t input, const Shape& extent, Shape in_strides, int64_t in_offset = 0);
/// Returns the regions that are not empty, each merged.
std::vector<CopyRegion> tidy(const std::vector<CopyRegion>& regions);

/// Returns the fill value of a constant of one element as double, or nullopt if it is a string or a double cannot
/// represent it exactly.
std::optional<double> exact_fill(const Tensor& value);

}  // namespace kilter
