#include <algorithm>
#include <cmath>

#include "base/convert.h"
#include "ops/support/elementwise.h"

namespace kilter {
namespace {

enum class Mode { nearest, linear, cubic };
enum class Padding { zeros, border, reflection };

struct Rules {
  Mode mode;
  Padding padding;
  bool align_corners;
};

Rules rules_of(const Node& node) {
  Rules rules{};
  const std::string mode = node.string_attr("mode", "linear");
  if (mode == "nearest") {
    rules.mode = Mode::nearest;
  } else if (mode == "linear" || mode == "bilinear") {
    rules.mode = Mode::linear;
  } else if (mode == "cubic" || mode == "bicubic") {
    rules.mode = Mode::cubic;
  } else {
    node_error(
        node,
        fmt::format("attribute mode is '{}'; legal values are nearest, linear (bilinear) and cubic (bicubic)", mode));
  }
  const std::string padding = node.string_attr("padding_mode", "zeros");
  if (padding == "zeros") {
    rules.padding = Padding::zeros;
  } else if (padding == "border") {
    rules.padding = Padding::border;
  } else if (padding == "reflection") {
    rules.padding = Padding::reflection;
  } else {
    node_error(node,
               fmt::format("attribute padding_mode is '{}'; legal values are zeros, border and reflection", padding));
  }
  rules.align_corners = node.int_attr("align_corners", 0) != 0;
  return rules;
}

void infer(InferContext& ctx) {
  check_types(NumbersAndBool{}, ctx, 0);
  check_types(Floats{}, ctx, 1);
  const Rules rules = rules_of(ctx.node);
  const Shape& x = ctx.shape(0);
  const Shape& grid = ctx.shape(1);
  const auto axes = static_cast<int64_t>(x.size()) - 2;
  if (axes < 1 || grid.size() != x.size() || grid[0] != x[0] || grid.back() != axes) {
    ctx.error(fmt::format("inputs have shapes {} and {}, expected [N, C, d0, ...] and [N, o0, ..., {}]", text(x),
                          text(grid), std::max<int64_t>(axes, 1)));
  }
  if (rules.mode != Mode::nearest) check_types(Numbers{}, ctx, 0);
  Shape out = {x[0], x[1]};
  out.insert(out.end(), grid.begin() + 1, grid.end() - 1);
  ctx.set(0, ctx.dtype(0), out);
}

/// Reflects x at the ends of [low, high] until it is inside.
double reflect(double x, double low, double high) {
  const double range = high - low;
  if (!(range > 0)) return low;
  const double twice = std::fmod(std::abs(x - low), 2 * range);
  return twice > range ? high - (twice - range) : low + twice;
}

/// Returns the input index read for index `i` of an axis of `extent`; -1 means zero.
int64_t inside_index(double i, int64_t extent, const Rules& rules) {
  const auto last = static_cast<double>(extent - 1);
  if (std::isnan(i)) return rules.padding == Padding::zeros ? -1 : 0;
  if (rules.padding == Padding::zeros) return i >= 0 && i <= last ? static_cast<int64_t>(i) : -1;
  if (rules.padding == Padding::reflection && (i < 0 || i > last)) {
    i = reflect(i, rules.align_corners ? 0.0 : -0.5, rules.align_corners ? last : last + 0.5);
  }
  return saturate<int64_t>(std::clamp(i, 0.0, last));
}

/// The contribution of one axis: input indices (-1: zero) and weights.
struct AxisTaps {
  int64_t count = 1;
  std::array<int64_t, 4> index{};
  std::array<double, 4> weight{};
};

AxisTaps axis_taps(double normalized, int64_t extent, const Rules& rules) {
  const auto length = static_cast<double>(extent);
  double x = rules.align_corners ? (normalized + 1) / 2 * (length - 1) : ((normalized + 1) * length - 1) / 2;
  if (rules.mode == Mode::nearest) x = std::nearbyint(x);
  const double low = rules.align_corners ? 0.0 : -0.5;
  const double high = rules.align_corners ? length - 1 : length - 0.5;
  if (x < low || x > high) {
    if (rules.padding == Padding::border) x = std::clamp(x, 0.0, length - 1);
    if (rules.padding == Padding::reflection) x = reflect(x, low, high);
  }
  AxisTaps taps;
  if (rules.mode == Mode::nearest) {
    taps.index[0] = inside_index(x, extent, rules);
    taps.weight[0] = 1;
    return taps;
  }
  const double base = std::floor(x);
  const double t = x - base;
  if (rules.mode == Mode::linear) {
    taps.count = 2;
    taps.weight = {1 - t, t, 0, 0};
  } else {
    // Keys 1981, equation 4.
    constexpr double a = -0.75;
    const auto near = [&](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
    const auto far = [&](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
    taps.count = 4;
    taps.weight = {far(1 + t), near(t), near(1 - t), far(2 - t)};
  }
  const double first = rules.mode == Mode::linear ? base : base - 1;
  for (int64_t i = 0; i < taps.count; ++i) {
    taps.index[static_cast<size_t>(i)] = inside_index(first + static_cast<double>(i), extent, rules);
  }
  return taps;
}

/// Collects the positions in a plane and the weights of all samples that contribute to one output.
void gather_taps(const std::vector<AxisTaps>& axes, const Shape& spatial, std::vector<int64_t>& positions,
                 std::vector<double>& weights) {
  positions.assign(1, 0);
  weights.assign(1, 1.0);
  for (size_t a = 0; a < axes.size(); ++a) {
    std::vector<int64_t> next;
    std::vector<double> next_weights;
    for (size_t p = 0; p < positions.size(); ++p) {
      for (size_t t = 0; t < static_cast<size_t>(axes[a].count); ++t) {
        if (axes[a].index[t] < 0) continue;
        next.push_back(positions[p] * spatial[a] + axes[a].index[t]);
        next_weights.push_back(weights[p] * axes[a].weight[t]);
      }
    }
    positions.swap(next);
    weights.swap(next_weights);
  }
}

void reference(ReferenceContext& ctx) {
  const Rules rules = rules_of(ctx.node);
  const Shape& shape = ctx.in(0).shape();
  const Shape spatial(shape.begin() + 2, shape.end());
  const std::vector<double> x = load_doubles(ctx.in(0));
  const std::vector<double> grid = load_doubles(ctx.in(1));
  const auto rank = static_cast<int64_t>(spatial.size());
  const int64_t outputs = product(ctx.out().shape(), 2, shape.size());
  const int64_t plane = elems(spatial);
  std::vector<double> y(static_cast<size_t>(ctx.out().elems()), 0.0);
  std::vector<AxisTaps> axes(spatial.size());
  std::vector<int64_t> positions;
  std::vector<double> weights;
  for (int64_t n = 0; plane > 0 && n < shape[0]; ++n) {
    for (int64_t o = 0; o < outputs; ++o) {
      for (int64_t a = 0; a < rank; ++a) {
        // The grid lists the last axis first.
        const double normalized = grid[static_cast<size_t>((n * outputs + o) * rank + rank - 1 - a)];
        axes[static_cast<size_t>(a)] = axis_taps(normalized, spatial[static_cast<size_t>(a)], rules);
      }
      gather_taps(axes, spatial, positions, weights);
      for (int64_t c = 0; c < shape[1]; ++c) {
        double sum = 0;
        for (size_t p = 0; p < positions.size(); ++p) {
          sum += weights[p] * x[static_cast<size_t>((n * shape[1] + c) * plane + positions[p])];
        }
        y[static_cast<size_t>((n * shape[1] + c) * outputs + o)] = sum;
      }
    }
  }
  store_doubles(ctx.out(), y);
}

}  // namespace

KILTER_OP(GridSample){
    .name = "GridSample",
    .since = 16,
    .family = Family::sample,
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = {{"align_corners", "int", "0"}, {"mode", "string", "linear"}, {"padding_mode", "string", "zeros"}},
    .summary =
        "y [N, C, o0, ...] sampled from x [N, C, d0, ...] at the positions of grid [N, o0, ..., rank], -1 to 1 along "
        "each axis, last axis first: nearest, linear or cubic.",
    .infer = infer,
    .reference = reference,
    // Positions are rounded to float.
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[1,3,5,7] f32[1,4,6,2]", "f32[2,2,5,4] f32[2,3,3,2] | mode=cubic padding_mode=border",
              "f32[1,2,6,5] f32[1,4,4,2] | padding_mode=reflection align_corners=1",
              "f32[1,2,6,5] f32[1,4,4,2] | mode=bilinear padding_mode=reflection | 16",
              "f32[1,1,3,4,5] f32[1,2,3,4,3] | mode=nearest"},
};

}  // namespace kilter
