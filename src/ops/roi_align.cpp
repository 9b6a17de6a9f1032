#include <algorithm>
#include <cmath>

#include "ops/support/elementwise.h"

namespace kilter {
namespace {

struct Rules {
  int64_t height = 1;
  int64_t width = 1;
  int64_t sampling = 0;
  float scale = 1;
  float offset = 0;  ///< subtracted from scaled coordinates
  bool half_pixel = false;
  bool max = false;
};

Rules rules_of(const Node& node) {
  Rules rules;
  rules.height = node.int_attr("output_height", 1);
  rules.width = node.int_attr("output_width", 1);
  rules.sampling = node.int_attr("sampling_ratio", 0);
  rules.scale = node.float_attr("spatial_scale", 1);
  constexpr int64_t kMost = 1 << 15;
  if (rules.height < 1 || rules.width < 1 || rules.sampling < 0 || rules.height > kMost || rules.width > kMost ||
      rules.sampling > kMost) {
    node_error(
        node,
        fmt::format(
            "output_height={0}, output_width={1}, sampling_ratio={2}; legal values are 1 to {3}, 1 to {3} and 0 to {3}",
            rules.height, rules.width, rules.sampling, kMost));
  }
  const std::string mode = node.string_attr("mode", "avg");
  if (mode != "avg" && mode != "max")
    node_error(node, fmt::format("attribute mode is '{}'; legal values are avg and max", mode));
  rules.max = mode == "max";
  // Opset 10 had no shift.
  const std::string shift =
      node.string_attr("coordinate_transformation_mode", node.opset < 16 ? "output_half_pixel" : "half_pixel");
  if (shift != "half_pixel" && shift != "output_half_pixel") {
    node_error(node, fmt::format("attribute coordinate_transformation_mode is '{}'; legal values are half_pixel and "
                                 "output_half_pixel",
                                 shift));
  }
  rules.half_pixel = shift == "half_pixel";
  rules.offset = rules.half_pixel ? 0.5F : 0.0F;
  return rules;
}

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  check_types(Types<int64_t>{}, ctx, 2);
  if (ctx.dtype(1) != ctx.dtype(0)) ctx.error("rois must have the element type of x");
  const Shape& rois = ctx.shape(1);
  if (ctx.rank(0) != 4 || rois.size() != 2 || rois[1] != 4 || ctx.shape(2) != Shape{rois[0]}) {
    ctx.error(fmt::format("inputs have shapes {}, {} and {}, expected [N, C, H, W], [rois, 4] and [rois]",
                          text(ctx.shape(0)), text(rois), text(ctx.shape(2))));
  }
  const Rules rules = rules_of(ctx.node);
  ctx.set(0, ctx.dtype(0), {rois[0], ctx.shape(0)[1], rules.height, rules.width});
}

/// A bilinear sample of a plane: up to four elements and weights (zero weights beyond the border).
struct Sample {
  std::array<int64_t, 4> position{};
  std::array<double, 4> weight{};
};

Sample sample_at(double y, double x, int64_t height, int64_t width) {
  Sample sample;
  const auto h = static_cast<double>(height);
  const auto w = static_cast<double>(width);
  if (y < -1 || y > h || x < -1 || x > w) return sample;
  const auto split = [](double at, int64_t extent, int64_t& low, int64_t& high) {
    at = std::max(at, 0.0);
    low = std::min(static_cast<int64_t>(at), extent - 1);
    high = std::min(low + 1, extent - 1);
    return low == extent - 1 ? 0.0 : at - static_cast<double>(low);
  };
  int64_t top = 0, bottom = 0, left = 0, right = 0;
  const double dy = split(y, height, top, bottom);
  const double dx = split(x, width, left, right);
  sample.position = {top * width + left, top * width + right, bottom * width + left, bottom * width + right};
  sample.weight = {(1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx};
  return sample;
}

/// One axis of a region: its start, the extent of a bin, and the number of samples per bin.
struct BinAxis {
  double start = 0;
  double bin = 0;
  int64_t samples = 0;
  double at(int64_t bin_index, int64_t sample) const {
    return start + static_cast<double>(bin_index) * bin +
           (static_cast<double>(sample) + 0.5) * bin / static_cast<double>(samples);
  }
};

BinAxis bin_axis(const Node& node, const Rules& rules, double low, double high, int64_t bins) {
  // Computed in float: the number of samples is the ceiling of a bin's extent, so it depends on rounding.
  const auto scaled = [&](double at) { return static_cast<float>(at) * rules.scale - rules.offset; };
  float extent = scaled(high) - scaled(low);
  if (!rules.half_pixel) extent = std::max(extent, 1.0F);
  BinAxis axis;
  axis.start = scaled(low);
  axis.bin = extent / static_cast<float>(bins);
  constexpr double kMostSamples = 1 << 15;
  if (!(std::abs(axis.bin) <= kMostSamples) || !std::isfinite(axis.start)) {
    fail(ErrorKind::bad_input, "RoiAlign '{}': a region from {} to {} has bins of {} elements; the limit is {}",
         node.name, low, high, axis.bin, kMostSamples);
  }
  axis.samples = rules.sampling > 0 ? rules.sampling : std::max<int64_t>(0, static_cast<int64_t>(std::ceil(axis.bin)));
  return axis;
}

/// Accumulates the channels of an image for one bin, sample by sample, since all samples together may not fit in
/// memory.
class Pool {
 public:
  Pool(bool max, int64_t channels) : max_(max), values_(static_cast<size_t>(channels), 0.0) {}

  void add(const Sample& sample, const double* image, int64_t plane) {
    for (double& pooled : values_) {
      for (size_t i = 0; i < 4; ++i) {
        const double value = sample.weight[i] * image[sample.position[i]];
        if (!max_) pooled += value;
        if (max_ && ((samples_ == 0 && i == 0) || value > pooled)) pooled = value;
      }
      image += plane;
    }
    ++samples_;
  }
  double value(int64_t channel) const {
    const double pooled = values_[static_cast<size_t>(channel)];
    return max_ ? pooled : pooled / static_cast<double>(std::max<int64_t>(samples_, 1));
  }

 private:
  bool max_;
  int64_t samples_ = 0;
  std::vector<double> values_;
};

void reference(ReferenceContext& ctx) {
  const Rules rules = rules_of(ctx.node);
  const Shape& shape = ctx.in(0).shape();
  const std::vector<double> x = load_doubles(ctx.in(0));
  const std::vector<double> rois = load_doubles(ctx.in(1));
  std::vector<double> y(static_cast<size_t>(ctx.out().elems()), 0.0);
  const int64_t plane = shape[2] * shape[3];
  for (int64_t r = 0; plane > 0 && r < ctx.in(1).shape()[0]; ++r) {
    const int64_t image = ctx.in(2).as_int(r);
    if (image < 0 || image >= shape[0]) {
      fail(ErrorKind::bad_input, "RoiAlign '{}': batch_indices contains {}; legal values are 0 to {}", ctx.node.name,
           image, shape[0] - 1);
    }
    const double* roi = rois.data() + 4 * r;
    const BinAxis rows = bin_axis(ctx.node, rules, roi[1], roi[3], rules.height);
    const BinAxis columns = bin_axis(ctx.node, rules, roi[0], roi[2], rules.width);
    constexpr int64_t kMostOfABin = 1 << 22;
    if (rows.samples * columns.samples > kMostOfABin) {
      fail(ErrorKind::bad_input, "RoiAlign '{}': bins of region {} have {} x {} samples each; the limit is {} per bin",
           ctx.node.name, r, rows.samples, columns.samples, kMostOfABin);
    }
    for (int64_t bin = 0; bin < rules.height * rules.width; ++bin) {
      Pool pool(rules.max, shape[1]);
      for (int64_t i = 0; i < rows.samples * columns.samples; ++i) {
        pool.add(sample_at(rows.at(bin / rules.width, i / columns.samples),
                           columns.at(bin % rules.width, i % columns.samples), shape[2], shape[3]),
                 x.data() + image * shape[1] * plane, plane);
      }
      for (int64_t c = 0; c < shape[1]; ++c) {
        y[static_cast<size_t>((r * shape[1] + c) * rules.height * rules.width + bin)] = pool.value(c);
      }
    }
  }
  store_doubles(ctx.out(), y);
}

}  // namespace

KILTER_OP(RoiAlign){
    .name = "RoiAlign",
    .since = 10,
    .min_inputs = 3,
    .max_inputs = 3,
    .attrs = {{"coordinate_transformation_mode", "string", "half_pixel"},
              {"mode", "string", "avg"},
              {"output_height", "int", "1"},
              {"output_width", "int", "1"},
              {"sampling_ratio", "int", "0"},
              {"spatial_scale", "float", "1"}},
    .summary =
        "y [rois, C, height, width]: mean or maximum of bilinear samples of x [N, C, H, W] in each bin of each region "
        "x1, y1, x2, y2 of the image that batch_indices names.",
    .infer = infer,
    .reference = reference,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,3,9,11] f32[2,4]=0,0,8,6,2.5,1,9,7.5 i64[2]=0,1 | output_height=3 output_width=4",
              "f32[1,2,8,8] f32[1,4]=1,1,6,5 i64[1]=0 | output_height=2 output_width=2 sampling_ratio=2 mode=max "
              "spatial_scale=0.5",
              "f32[1,2,8,8] f32[1,4]=1,1,6,5 i64[1]=0 | output_height=2 output_width=3 | 10"},
};

}  // namespace kilter
