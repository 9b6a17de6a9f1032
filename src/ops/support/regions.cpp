#include "ops/support/regions.h"

#include <algorithm>
#include <cmath>

#include "ops/support/iterate.h"

namespace kilter {
namespace {

/// A run of output indices [begin, begin + count) that reads first, first + step, ..., or the fill value.
struct Run {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t first = 0;
  int64_t step = 0;
};

std::vector<Run> runs_of(const IndexMap& map) {
  std::vector<Run> runs;
  const auto at = [&](int64_t i) { return map[static_cast<size_t>(i)]; };
  const auto size = static_cast<int64_t>(map.size());
  for (int64_t i = 0; i < size;) {
    Run run{.begin = i, .count = 1, .first = at(i)};
    if (run.first == kFill) {
      while (i + run.count < size && at(i + run.count) == kFill) ++run.count;
    } else if (i + 1 < size && at(i + 1) != kFill) {
      run.step = at(i + 1) - run.first;
      while (i + run.count < size && at(i + run.count) == run.first + run.count * run.step &&
             at(i + run.count) != kFill) {
        ++run.count;
      }
    }
    i += run.count;
    runs.push_back(run);
  }
  return runs;
}

struct Product {
  const std::vector<std::vector<Run>>& runs;
  const Shape& in_strides;
  const Shape& out_strides;
  const Shape& out_shape;
  std::vector<CopyRegion> done;

  /// Extends `region` by the dimensions from `d` on. A run of the fill value covers all later dimensions whole.
  void add(size_t d, const CopyRegion& region) {
    if (done.size() > kMaxRegions) return;
    if (d == runs.size()) {
      done.push_back(region);
      return;
    }
    for (const Run& run : runs[d]) {
      CopyRegion next = region;
      const bool fills = run.first == kFill;
      next.out_offset += run.begin * out_strides[d];
      next.extent.push_back(run.count);
      next.out_strides.push_back(out_strides[d]);
      next.in_strides.push_back(fills ? 0 : run.step * in_strides[d]);
      if (!fills) {
        next.in_offset += run.first * in_strides[d];
        add(d + 1, next);
        continue;
      }
      for (size_t k = d + 1; k < runs.size(); ++k) {
        next.extent.push_back(out_shape[k]);
        next.out_strides.push_back(out_strides[k]);
        next.in_strides.push_back(0);
      }
      next.input = kNone;
      next.in_offset = 0;
      done.push_back(next);
    }
  }
};

}  // namespace

void copy_mapped(const Tensor& in, const Tensor& out, const std::vector<IndexMap>& maps, const Tensor& fill) {
  const Tensor value = fill.defined() ? fill : Tensor(out.dtype(), {});
  const Shape strides = dense_strides(in.shape());
  int64_t to = 0;
  for_each_index(out.shape(), [&](std::span<const int64_t> index) {
    int64_t from = 0;
    bool fills = false;
    for (size_t d = 0; d < index.size(); ++d) {
      const int64_t i = maps[d][static_cast<size_t>(index[d])];
      fills = fills || i == kFill;
      from += i * strides[d];
    }
    copy_element(fills ? value : in, fills ? 0 : from, out, to++);
  });
}

std::optional<std::vector<CopyRegion>> mapped_regions(const Shape& in_shape, const std::vector<IndexMap>& maps,
                                                      int32_t input, double fill) {
  Shape out_shape;
  std::vector<std::vector<Run>> runs;
  for (const IndexMap& map : maps) {
    out_shape.push_back(static_cast<int64_t>(map.size()));
    runs.push_back(runs_of(map));
  }
  const Shape in_strides = dense_strides(in_shape);
  const Shape out_strides = dense_strides(out_shape);
  Product product{runs, in_strides, out_strides, out_shape, {}};
  CopyRegion seed;
  seed.input = input;
  seed.fill = fill;
  product.add(0, seed);
  if (product.done.size() > kMaxRegions) return std::nullopt;
  return tidy(product.done);
}

bool mappable(const Shape& out) {
  constexpr int64_t kMost = 16 << 20;
  return std::ranges::all_of(out, [](int64_t extent) { return extent <= kMost; });
}

CopyRegion merged(const CopyRegion& region) {
  CopyRegion out = region;
  out.extent.clear();
  out.in_strides.clear();
  out.out_strides.clear();
  for (size_t d = 0; d < region.extent.size(); ++d) {
    const int64_t n = region.extent[d];
    if (n == 1) continue;
    const bool joins = !out.extent.empty() && out.in_strides.back() == region.in_strides[d] * n &&
                       out.out_strides.back() == region.out_strides[d] * n;
    if (joins) {
      out.extent.back() *= n;
      out.in_strides.back() = region.in_strides[d];
      out.out_strides.back() = region.out_strides[d];
      continue;
    }
    out.extent.push_back(n);
    out.in_strides.push_back(region.in_strides[d]);
    out.out_strides.push_back(region.out_strides[d]);
  }
  return out;
}

CopyRegion whole_region(int32_t input, const Shape& extent, Shape in_strides, int64_t in_offset) {
  CopyRegion region;
  region.input = input;
  region.in_offset = in_offset;
  region.extent = extent;
  region.in_strides = std::move(in_strides);
  region.out_strides = dense_strides(extent);
  return region;
}

std::vector<CopyRegion> tidy(const std::vector<CopyRegion>& regions) {
  std::vector<CopyRegion> out;
  for (const CopyRegion& region : regions) {
    if (elems(region.extent) > 0) out.push_back(merged(region));
  }
  return out;
}

std::optional<double> exact_fill(const Tensor& value) {
  if (!is_arithmetic(value.dtype()) || value.elems() != 1) return std::nullopt;
  const double fill = value.as_double(0);
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (is_integer(value.dtype()) && std::fabs(fill) >= kExact) return std::nullopt;
  return fill;
}

}  // namespace kilter
