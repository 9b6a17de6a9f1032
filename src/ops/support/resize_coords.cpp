#include "ops/support/resize_coords.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/convert.h"
#include "ops/support/iterate.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

enum class Mode { nearest, linear, cubic };
enum class Coordinates {
  half_pixel,
  half_pixel_symmetric,
  pytorch_half_pixel,
  align_corners,
  asymmetric,
  tf_half_pixel_for_nn,
  tf_crop_and_resize,
};
enum class Nearest { round_prefer_floor, round_prefer_ceil, floor, ceil };

/// Returns the enumerator at the position of attribute `key` (or its default) in `names`.
template <class E>
E choice(const Node& node, std::string_view key, std::string_view fallback,
         const std::vector<std::string_view>& names) {
  const std::string text = node.string_attr(key, fallback);
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) {
    node_error(node, fmt::format("attribute {} is '{}'; legal values are {}", key, text, fmt::join(names, ", ")));
  }
  return static_cast<E>(found - names.begin());
}

/// The attributes, with the values that older opsets prescribe.
struct Rules {
  Mode mode;
  Coordinates coordinates;
  Nearest nearest;
  bool old;  ///< up to opset 10: coordinates are asymmetric; nearest takes the floor, or the ceiling when shrinking
  bool antialias;
  bool exclude_outside;
  double cubic_a;
};

Rules rules_of(const Node& node) {
  Rules rules{};
  rules.old = node.op->name == "Upsample" || node.opset < 11;
  if (rules.old) {
    const auto mode = node.string_attr("mode", "nearest");
    rules.mode = mode == "bilinear" ? Mode::linear : choice<Mode>(node, "mode", "nearest", {"nearest", "linear"});
    rules.coordinates = Coordinates::asymmetric;
    return rules;
  }
  rules.mode = choice<Mode>(node, "mode", "nearest", {"nearest", "linear", "cubic"});
  rules.coordinates = choice<Coordinates>(node, "coordinate_transformation_mode", "half_pixel",
                                          {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                                           "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"});
  rules.nearest = choice<Nearest>(node, "nearest_mode", "round_prefer_floor",
                                  {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  rules.antialias = node.int_attr("antialias", 0) != 0 && rules.mode != Mode::nearest;
  rules.exclude_outside = node.int_attr("exclude_outside", 0) != 0 && rules.mode != Mode::nearest;
  rules.cubic_a = node.float_attr("cubic_coeff_a", -0.75F);
  return rules;
}

/// One axis before its tables are built.
struct Extent {
  int64_t in = 0;
  int64_t out = 0;
  double scale = 1;
  double begin = 0;  ///< of the region of interest, as a fraction of the axis
  double end = 1;
};

/// Returns the input coordinate of output o, computed in F. Scales are floats. If a coordinate decides between
/// elements, F must be float, since only float arithmetic gives 9 for 3 / (1/3).
template <class F>
F source(const Rules& rules, const Extent& axis, int64_t output) {
  const auto o = static_cast<F>(output);
  const auto in = static_cast<F>(axis.in);
  const auto out = static_cast<F>(axis.out);
  const auto scale = static_cast<F>(axis.scale);
  const auto begin = static_cast<F>(axis.begin);
  const auto end = static_cast<F>(axis.end);
  const F width = scale * in;  // fractional output extent
  const F half = F(0.5);
  switch (rules.coordinates) {
    case Coordinates::half_pixel:
      return (o + half) / scale - half;
    case Coordinates::half_pixel_symmetric:
      return in / 2 * (1 - out / width) + (o + half) / scale - half;
    case Coordinates::pytorch_half_pixel:
      return axis.out > 1 ? (o + half) / scale - half : F(0);
    case Coordinates::align_corners:
      return axis.out > 1 ? o * (in - 1) / (width - 1) : F(0);
    case Coordinates::asymmetric:
      return o / scale;
    case Coordinates::tf_half_pixel_for_nn:
      return (o + half) / scale;
    case Coordinates::tf_crop_and_resize:
      if (axis.out <= 1) return half * (begin + end) * (in - 1);
      return begin * (in - 1) + o * (end - begin) * (in - 1) / (out - 1);
  }
  return 0;
}

float nearest_coordinate(const Rules& rules, const Extent& axis, int64_t output) {
  const auto at = source<float>(rules, axis, output);
  if (rules.old) return axis.scale < 1 ? std::ceil(at) : std::floor(at);
  switch (rules.nearest) {
    case Nearest::round_prefer_floor:
      return std::ceil(at - 0.5F);
    case Nearest::round_prefer_ceil:
      return std::floor(at + 0.5F);
    case Nearest::floor:
      return std::floor(at);
    case Nearest::ceil:
      return std::ceil(at);
  }
  return at;
}

/// Returns the weight of a sample at distance d from the coordinate (Keys 1981, equation 4, for cubic).
double kernel(const Rules& rules, double d) {
  d = std::abs(d);
  if (rules.mode == Mode::linear) return std::max(0.0, 1 - d);
  const double a = rules.cubic_a;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

/// Computes the indices and weights of output o.
void fill_output(const Rules& rules, const Extent& axis, ResizeAxis& table, int64_t o, double at) {
  const auto clamped = [&](double index) { return std::clamp<int64_t>(saturate<int64_t>(index), 0, axis.in - 1); };
  const auto first_entry = static_cast<size_t>(o * table.taps);
  if (rules.mode == Mode::nearest) {
    table.index[first_entry] = clamped(nearest_coordinate(rules, axis, o));
    table.weight[first_entry] = 1;
    return;
  }
  const double shrink = rules.antialias ? std::min(axis.scale, 1.0) : 1.0;
  const double first = std::floor(at) - static_cast<double>(table.taps / 2) + 1;
  double total = 0;
  for (int64_t t = 0; t < table.taps; ++t) {
    const double index = first + static_cast<double>(t);
    const bool outside = index < 0 || index > static_cast<double>(axis.in - 1);
    const size_t entry = first_entry + static_cast<size_t>(t);
    table.index[entry] = clamped(index);
    table.weight[entry] = outside && rules.exclude_outside ? 0.0 : kernel(rules, (index - at) * shrink);
    total += table.weight[entry];
  }
  if (total == 0 || !(rules.antialias || rules.exclude_outside)) return;
  for (int64_t t = 0; t < table.taps; ++t) table.weight[first_entry + static_cast<size_t>(t)] /= total;
}

constexpr int64_t kMostEntries = int64_t{1} << 26;

ResizeAxis make_axis(const Node& node, const Rules& rules, const Extent& axis) {
  ResizeAxis table;
  table.in = axis.in;
  table.out = axis.out;
  const bool whole = axis.in == axis.out && std::abs(axis.scale - 1) < 1e-9 && axis.begin == 0 && axis.end == 1;
  if (!whole && rules.mode != Mode::nearest) {
    const double radius = rules.mode == Mode::linear ? 1 : 2;
    const double shrink = rules.antialias ? std::min(axis.scale, 1.0) : 1.0;
    table.taps = 2 * saturate<int64_t>(std::min(std::ceil(radius / shrink), static_cast<double>(kMostEntries)));
  }
  if (axis.out > kMostEntries / table.taps) {
    node_error(node, fmt::format("{} output elements on one axis need {} input elements each; the limit is 2^26 in all",
                                 axis.out, table.taps));
  }
  table.index.assign(static_cast<size_t>(axis.out * table.taps), 0);
  table.weight.assign(static_cast<size_t>(axis.out * table.taps), 1.0);
  const bool crop = rules.coordinates == Coordinates::tf_crop_and_resize && !whole;
  if (crop) table.outside.assign(static_cast<size_t>(axis.out), 0);
  for (int64_t o = 0; o < axis.out; ++o) {
    if (whole) {
      table.index[static_cast<size_t>(o)] = o;
      continue;
    }
    const auto rounded = source<float>(rules, axis, o);
    if (crop) table.outside[static_cast<size_t>(o)] = rounded < 0 || rounded > static_cast<float>(axis.in - 1) ? 1 : 0;
    fill_output(rules, axis, table, o, source<double>(rules, axis, o));
  }
  if (std::find(table.outside.begin(), table.outside.end(), 1) == table.outside.end()) table.outside.clear();
  return table;
}

bool given(const Tensor* tensor) { return tensor != nullptr && tensor->elems() > 0; }

std::vector<double> numbers(const Node& node, const Tensor& tensor, std::string_view what, size_t count) {
  check_count(node, what, count, static_cast<size_t>(tensor.elems()));
  return load_doubles(tensor);
}

/// Returns the scales of the chosen axes, from operand `scales` or Upsample's attribute of that name, or nullopt if
/// sizes apply.
std::optional<std::vector<double>> scales_of(const Node& node, const ResizeOperands& operands, size_t count) {
  std::vector<double> scales;
  if (given(operands.scales)) {
    if (given(operands.sizes)) node_error(node, "has both scales and sizes, expected one of them");
    scales = numbers(node, *operands.scales, "scales", count);
  } else if (node.has_attr("scales")) {
    const std::vector<float> list = node.floats_attr("scales");
    check_count(node, "scales", count, list.size());
    scales.assign(list.begin(), list.end());
  } else {
    return std::nullopt;
  }
  for (const double scale : scales) {
    if (!(scale > 0) || scale > 1e9) node_error(node, fmt::format("scale is {}, expected more than 0", scale));
  }
  return scales;
}

/// Computes the output extents from sizes and keep_aspect_ratio_policy.
void apply_sizes(const Node& node, const std::vector<double>& sizes, const std::vector<int64_t>& axes,
                 std::vector<Extent>& extents) {
  enum class Policy { stretch, not_larger, not_smaller };
  const auto policy =
      choice<Policy>(node, "keep_aspect_ratio_policy", "stretch", {"stretch", "not_larger", "not_smaller"});
  double common = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    Extent& extent = extents[static_cast<size_t>(axes[i])];
    if (sizes[i] < 0) node_error(node, fmt::format("size is {}, expected 0 or more", sizes[i]));
    if (extent.in == 0 && sizes[i] > 0) node_error(node, fmt::format("axis {} of extent 0 cannot grow", axes[i]));
    extent.out = saturate<int64_t>(sizes[i]);
    extent.scale = extent.in == 0 ? 1.0 : sizes[i] / static_cast<double>(extent.in);
    const bool better = policy == Policy::not_larger ? extent.scale < common : extent.scale > common;
    if (i == 0 || better) common = extent.scale;
  }
  if (policy == Policy::stretch) return;
  for (const int64_t axis : axes) {
    Extent& extent = extents[static_cast<size_t>(axis)];
    extent.scale = common;
    extent.out = saturate<int64_t>(std::floor(common * static_cast<double>(extent.in) + 0.5));
  }
}

std::vector<Extent> extents_of(const Node& node, const Rules& rules, const Shape& x, const ResizeOperands& operands) {
  const auto rank = static_cast<int64_t>(x.size());
  const std::vector<int64_t> axes =
      node.has_attr("axes") ? normal_axes(node, node.ints_attr("axes"), rank) : all_axes(rank);
  std::vector<Extent> extents(x.size());
  for (size_t d = 0; d < x.size(); ++d) extents[d].in = extents[d].out = x[d];
  if (const auto scales = scales_of(node, operands, axes.size())) {
    for (size_t i = 0; i < axes.size(); ++i) {
      Extent& extent = extents[static_cast<size_t>(axes[i])];
      extent.scale = (*scales)[i];
      // Computed in float, like the standard's shape inference, for which 5 * 2.6 is 13.
      extent.out = saturate<int64_t>(std::floor(static_cast<float>((*scales)[i]) * static_cast<float>(extent.in)));
    }
  } else if (given(operands.sizes)) {
    apply_sizes(node, numbers(node, *operands.sizes, "sizes", axes.size()), axes, extents);
  } else if (!axes.empty()) {
    node_error(node, "has neither scales nor sizes, expected one of them");
  }
  if (given(operands.roi) && rules.coordinates == Coordinates::tf_crop_and_resize) {
    const std::vector<double> roi = numbers(node, *operands.roi, "entries of roi", 2 * axes.size());
    for (size_t i = 0; i < axes.size(); ++i) {
      extents[static_cast<size_t>(axes[i])].begin = roi[i];
      extents[static_cast<size_t>(axes[i])].end = roi[axes.size() + i];
    }
  }
  return extents;
}

/// Throws bad_model if the shape is not legal.
Shape shape_of(const Node& node, const std::vector<Extent>& extents) {
  Shape out;
  for (const Extent& extent : extents) out.push_back(extent.out);
  check_shape(node, out);
  return out;
}

}  // namespace

bool ResizeAxis::identity() const {
  if (in != out || !outside.empty()) return false;
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t t = 0; t < taps; ++t) {
      const auto entry = static_cast<size_t>(o * taps + t);
      if (weight[entry] != 0 && (index[entry] != o || weight[entry] != 1)) return false;
    }
  }
  return true;
}

bool resize_is_nearest(const Node& node) { return rules_of(node).mode == Mode::nearest; }

Shape resize_shape(const Node& node, const Shape& x, const ResizeOperands& operands) {
  return shape_of(node, extents_of(node, rules_of(node), x, operands));
}

ResizePlan resize_plan(const Node& node, const Shape& x, const ResizeOperands& operands) {
  const Rules rules = rules_of(node);
  const std::vector<Extent> extents = extents_of(node, rules, x, operands);
  shape_of(node, extents);
  ResizePlan plan;
  plan.nearest = rules.mode == Mode::nearest;
  plan.extrapolation = node.float_attr("extrapolation_value", 0.0F);
  for (const Extent& extent : extents) plan.axes.push_back(make_axis(node, rules, extent));
  return plan;
}

}  // namespace kilter
