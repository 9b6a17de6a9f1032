// RoiAlign in f32. A mean of bilinear samples is a sum over rows of a sum over columns, so the weights of all samples
// that read a row or a column are added up first. Where many regions read one image, its channels are put next to each
// other, so that a pixel's channels are read as vectors.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "exec/kernels/parallel.h"
#include "exec/kernels/shapes.h"
#include "exec/kernels/wide.h"

namespace kilter {
namespace {

struct Rules {
  int64_t height = 1, width = 1, sampling = 0;
  float scale = 1;
  float offset = 0;  ///< subtracted from scaled coordinates
  bool half_pixel = false, max = false;
};

constexpr int64_t kMostBins = 1 << 15;

/// Nullopt for attributes that are illegal.
std::optional<Rules> rules_of(const KernelCall& call) {
  Rules rules;
  rules.height = call.int_attr("output_height", 1);
  rules.width = call.int_attr("output_width", 1);
  rules.sampling = call.int_attr("sampling_ratio", 0);
  rules.scale = call.float_attr("spatial_scale", 1);
  const auto legal = [](int64_t value, int64_t least) { return value >= least && value <= kMostBins; };
  if (!legal(rules.height, 1) || !legal(rules.width, 1) || !legal(rules.sampling, 0)) return std::nullopt;
  const std::string_view mode = call.string_attr("mode", "avg");
  const std::string_view shift =
      call.string_attr("coordinate_transformation_mode", call.opset < 16 ? "output_half_pixel" : "half_pixel");
  if ((mode != "avg" && mode != "max") || (shift != "half_pixel" && shift != "output_half_pixel")) return std::nullopt;
  rules.max = mode == "max";
  rules.half_pixel = shift == "half_pixel";
  rules.offset = rules.half_pixel ? 0.5F : 0.0F;
  return rules;
}

/// One axis of a region: its start, the extent of a bin, and the number of samples per bin.
struct BinAxis {
  double start = 0, bin = 0;
  int64_t samples = 0;
  double at(int64_t index, int64_t sample) const {
    return start + static_cast<double>(index) * bin +
           (static_cast<double>(sample) + 0.5) * bin / static_cast<double>(samples);
  }
};

BinAxis bin_axis(const KernelCall& call, const Rules& rules, float low, float high, int64_t bins) {
  const auto scaled = [&](float at) { return at * rules.scale - rules.offset; };
  float extent = scaled(high) - scaled(low);
  if (!rules.half_pixel) extent = std::max(extent, 1.0F);
  BinAxis axis;
  axis.start = scaled(low);
  axis.bin = extent / static_cast<float>(bins);
  if (!(std::abs(axis.bin) <= static_cast<double>(kMostBins)) || !std::isfinite(axis.start)) {
    fail(ErrorKind::bad_input, "RoiAlign '{}': a region from {} to {} has bins of {} elements; the limit is {}",
         call.name, double{low}, double{high}, axis.bin, kMostBins);
  }
  axis.samples = rules.sampling > 0 ? rules.sampling : std::max<int64_t>(0, static_cast<int64_t>(std::ceil(axis.bin)));
  return axis;
}

/// The element that a sample reads along an axis and its neighbour, with their weights.
struct Pair {
  int64_t low = 0, high = 0;
  double low_weight = 0, high_weight = 0;
};

/// Returns nullopt for a sample outside the image, which counts as 0.
std::optional<Pair> pair_at(double at, int64_t extent) {
  if (at < -1 || at > static_cast<double>(extent)) return std::nullopt;
  at = std::max(at, 0.0);
  Pair pair;
  pair.low = std::min(static_cast<int64_t>(at), extent - 1);
  pair.high = std::min(pair.low + 1, extent - 1);
  pair.high_weight = pair.low == extent - 1 ? 0.0 : at - static_cast<double>(pair.low);
  pair.low_weight = 1 - pair.high_weight;
  return pair;
}

struct Weighted {
  int64_t position;
  float weight;
};

/// The elements along one axis that the samples of a bin read.
struct Line {
  std::vector<Weighted> elements;
  bool leaves = false;   ///< some sample is outside the image
  bool sampled = false;  ///< there is a sample
};

Line line_of(const BinAxis& axis, int64_t bin, int64_t extent) {
  Line line;
  line.sampled = axis.samples > 0;
  std::vector<std::pair<int64_t, double>> sums;
  const auto add = [&](int64_t position, double weight) {
    // A weight of 0 is kept separately, since 0 * infinity is NaN.
    const auto same = [&](const auto& sum) { return sum.first == position && (sum.second == 0) == (weight == 0); };
    // Samples are in order, so an element that was read before is among the last.
    const auto tail = sums.end() - std::min<std::ptrdiff_t>(std::ssize(sums), 4);
    const auto found = std::find_if(tail, sums.end(), same);
    if (found == sums.end()) {
      sums.emplace_back(position, weight);
    } else {
      found->second += weight;
    }
  };
  for (int64_t s = 0; s < axis.samples; ++s) {
    const std::optional<Pair> pair = pair_at(axis.at(bin, s), extent);
    line.leaves = line.leaves || !pair;
    if (!pair) continue;
    add(pair->low, pair->low_weight);
    add(pair->high, pair->high_weight);
  }
  for (const auto& [position, weight] : sums)
    line.elements.push_back({position, static_cast<float>(weight / static_cast<double>(axis.samples))});
  return line;
}

/// An image whose element (c, p) is at data[c * channel + p * pixel].
struct Image {
  const float* data = nullptr;
  int64_t height = 0, width = 0, channels = 0;
  int64_t channel = 0, pixel = 0;
};

/// Adds the weighted pixels for kCount channels from `first` on.
template <int64_t kCount>
KILTER_WIDE inline void add_pixels(const Image& image, const std::vector<Weighted>& pixels, int64_t first,
                                   float* sums) {
  std::array<float, kCount> total{};
  const float* data = image.data + first * image.channel;
  for (const Weighted& p : pixels) {
    const float* from = data + p.position * image.pixel;
    for (int64_t c = 0; c < kCount; ++c) total[static_cast<size_t>(c)] += p.weight * from[c];
  }
  std::ranges::copy(total, sums + first);
}

/// Computes the mean of a bin for all channels. `pixels` is overwritten.
void mean_of_bin(const Image& image, const Line& rows, const Line& columns, std::vector<Weighted>& pixels,
                 float* sums) {
  pixels.clear();
  for (const Weighted& y : rows.elements) {
    for (const Weighted& x : columns.elements)
      pixels.push_back({y.position * image.width + x.position, y.weight * x.weight});
  }
  const bool leaves = rows.leaves || columns.leaves;
  if (leaves && rows.sampled && columns.sampled) pixels.push_back({0, 0});  // samples outside read the first pixel
  constexpr int64_t kTogether = 64;
  int64_t c = 0;
  if (image.channel == 1) {
    run_wide([&]() KILTER_WIDE {
      for (; c + kTogether <= image.channels; c += kTogether) add_pixels<kTogether>(image, pixels, c, sums);
    });
  }
  for (; c < image.channels; ++c) add_pixels<1>(image, pixels, c, sums);
}

/// The largest weighted element of all samples.
void max_of_bin(const Image& image, const BinAxis& rows, const BinAxis& columns, int64_t row, int64_t column,
                float* most) {
  std::fill(most, most + image.channels, 0.0F);
  bool first = true;
  for (int64_t s = 0; s < rows.samples * columns.samples; ++s) {
    const std::optional<Pair> y = pair_at(rows.at(row, s / columns.samples), image.height);
    const std::optional<Pair> x = pair_at(columns.at(column, s % columns.samples), image.width);
    const Pair v = y && x ? *y : Pair{}, h = y && x ? *x : Pair{};
    const std::array<std::pair<int64_t, double>, 4> corners = {{
        {v.low * image.width + h.low, v.low_weight * h.low_weight},
        {v.low * image.width + h.high, v.low_weight * h.high_weight},
        {v.high * image.width + h.low, v.high_weight * h.low_weight},
        {v.high * image.width + h.high, v.high_weight * h.high_weight},
    }};
    for (const auto& [position, weight] : corners) {
      const float* from = image.data + position * image.pixel;
      for (int64_t c = 0; c < image.channels; ++c) {
        const auto value = static_cast<float>(weight * double{from[c * image.channel]});
        if (first || value > most[c]) most[c] = value;
      }
      first = false;
    }
  }
}

/// Transposes [rows, columns].
void transpose(const float* from, int64_t rows, int64_t columns, float* to) {
  constexpr int64_t kTile = 16;
  for (int64_t first = 0; first < columns; first += kTile) {
    const int64_t last = std::min(first + kTile, columns);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = first; c < last; ++c) to[c * rows + r] = from[r * columns + c];
    }
  }
}

class RoiAlign {
 public:
  RoiAlign(const KernelCall& call, KernelOperands in) : call_(call), rules_(*rules_of(call)), in_(in) {
    const auto shape = in[0].shape;
    image_.channels = shape[1], image_.height = shape[2], image_.width = shape[3];
    plane_ = shape[2] * shape[3];
    image_.channel = plane_, image_.pixel = 1;
  }

  void run(float* out, ThreadPool* pool) {
    const int64_t rois = in_[1].shape[0];
    const int64_t bins = rules_.height * rules_.width;
    const float* data = in_[0].as<float>();
    // Each bin reads at least about four pixels.
    if (image_.channels > 1 && rois * bins > plane_ * in_[0].shape[0]) {
      interleave(pool);
      data = interleaved_.data();
      image_.channel = 1, image_.pixel = image_.channels;
    }
    parallel_ranges(pool, rois, 16 * bins * image_.channels, [&](int64_t begin, int64_t end) {
      std::vector<float> pooled(static_cast<size_t>(bins * image_.channels));
      for (int64_t r = begin; r < end; ++r) {
        Image image = image_;
        image.data = data + image_of(r) * image.channels * plane_;
        pool_region(r, image, pooled);
        transpose(pooled.data(), bins, image.channels, out + r * bins * image.channels);
      }
    });
  }

 private:
  int64_t image_of(int64_t region) const {
    const int64_t image = in_[2].as<int64_t>()[region];
    if (image < 0 || image >= in_[0].shape[0]) {
      fail(ErrorKind::bad_input, "RoiAlign '{}': batch_indices contains {}; legal values are 0 to {}", call_.name,
           image, in_[0].shape[0] - 1);
    }
    return image;
  }

  /// Computes `pooled` [bins, channels] of a region.
  void pool_region(int64_t region, const Image& image, std::vector<float>& pooled) const {
    const float* corners = in_[1].as<float>() + 4 * region;
    const BinAxis rows = bin_axis(call_, rules_, corners[1], corners[3], rules_.height);
    const BinAxis columns = bin_axis(call_, rules_, corners[0], corners[2], rules_.width);
    constexpr int64_t kMostOfABin = 1 << 22;
    if (rows.samples * columns.samples > kMostOfABin) {
      fail(ErrorKind::bad_input, "RoiAlign '{}': bins of region {} have {} x {} samples each; the limit is {} per bin",
           call_.name, region, rows.samples, columns.samples, kMostOfABin);
    }
    std::vector<Line> lines;
    std::vector<Weighted> pixels;
    for (int64_t w = 0; !rules_.max && w < rules_.width; ++w) lines.push_back(line_of(columns, w, image.width));
    for (int64_t h = 0; h < rules_.height; ++h) {
      const Line row = rules_.max ? Line{} : line_of(rows, h, image.height);
      for (int64_t w = 0; w < rules_.width; ++w) {
        float* to = pooled.data() + (h * rules_.width + w) * image.channels;
        rules_.max ? max_of_bin(image, rows, columns, h, w, to)
                   : mean_of_bin(image, row, lines[static_cast<size_t>(w)], pixels, to);
      }
    }
  }

  /// Copies [N, C, H * W] to [N, H * W, C].
  void interleave(ThreadPool* pool) {
    interleaved_.resize(static_cast<size_t>(in_[0].elems));
    constexpr int64_t kTile = 16;
    const int64_t channels = image_.channels, tiles = (plane_ + kTile - 1) / kTile;
    parallel_ranges(pool, in_[0].shape[0] * tiles, 2 * kTile * channels, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const float* from = in_[0].as<float>() + t / tiles * channels * plane_;
        float* to = interleaved_.data() + t / tiles * channels * plane_;
        const int64_t first = t % tiles * kTile, last = std::min(first + kTile, plane_);
        for (int64_t c = 0; c < channels; ++c) {
          for (int64_t p = first; p < last; ++p) to[p * channels + c] = from[c * plane_ + p];
        }
      }
    });
  }

  const KernelCall& call_;
  Rules rules_;
  KernelOperands in_;
  Image image_;
  int64_t plane_ = 0;
  std::vector<float> interleaved_;
};

bool takes(const KernelCall& call, KernelOperands in) {
  if (in.size() != 3 || !has_type(in, 0, DType::f32) || !has_type(in, 1, DType::f32)) return false;
  if (!has_type(in, 2, DType::i64) || in[0].rank() != 4 || in[1].rank() != 2 || in[1].shape[1] != 4) return false;
  return in[2].rank() == 1 && in[2].elems == in[1].shape[0] && rules_of(call).has_value();
}

bool run(const KernelCall& call, KernelOperands in, KernelResults& results, ThreadPool* pool) {
  const Rules rules = *rules_of(call);
  const int64_t shape[] = {in[1].shape[0], in[0].shape[1], rules.height, rules.width};
  auto* out = results.make<float>(0, shape);
  const int64_t elems = shape[0] * shape[1] * shape[2] * shape[3];
  if (in[0].shape[2] * in[0].shape[3] == 0) {
    std::fill(out, out + elems, 0.0F);
  } else if (elems > 0) {
    RoiAlign(call, in).run(out, pool);
  }
  return true;
}

}  // namespace

extern const RuntimeKernel roi_align_kernel;
const RuntimeKernel roi_align_kernel{"RoiAlign", 10, "", takes, run};

}  // namespace kilter
