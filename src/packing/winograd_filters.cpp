#include "packing/winograd_filters.h"

#include <algorithm>
#include <cmath>

#include "base/align.h"
#include "base/error.h"

namespace kilter {
namespace {

double value_at(const std::vector<double>& even, double x) {
  double value = 0;
  for (size_t i = even.size(); i-- > 0;) value = value * x * x + even[i];
  return value;
}

/// Sets to[i] to the sum of weights[k] * values[k * n + i] for each i below n.
void weighted_sum(const std::vector<double>& weights, const double* values, size_t n, double* to) {
  std::fill_n(to, n, 0.0);
  for (const double weight : weights) {
    for (size_t i = 0; i < n; ++i) to[i] += weight * values[i];
    values += n;
  }
}

bool is_size(int64_t value) { return value >= 1 && value <= int64_t{1} << 20; }

}  // namespace

const WinogradTransform* find_winograd(int64_t outputs, int64_t taps) {
  static const WinogradTransform kIdentity, kTransforms[] = {{2, 3, {1}}, {4, 3, {0.625, 1.5}}, {2, 7, {0.5, 1, 2}}};
  if (taps == 1) return &kIdentity;
  for (const WinogradTransform& t : kTransforms) {
    if (t.outputs == outputs && t.taps == taps) return &t;
  }
  return nullptr;
}

std::vector<double> even_product(const WinogradTransform& t, size_t without) {
  std::vector<double> c{1};
  for (size_t k = 0; k < t.pairs.size(); ++k) {
    if (k == without) continue;
    const double square = t.pairs[k] * t.pairs[k];
    c.insert(c.begin(), 0);
    for (size_t i = 0; i + 1 < c.size(); ++i) c[i] -= square * c[i + 1];
  }
  return c;
}

std::vector<std::vector<double>> filter_rows(const WinogradTransform& t) {
  if (t.identity()) return {{1}};
  const auto taps = static_cast<size_t>(t.taps);
  std::vector<std::vector<double>> rows(1, std::vector<double>(taps, 0));
  rows[0][0] = 1 / value_at(even_product(t, SIZE_MAX), 0);
  for (size_t k = 0; k < t.pairs.size(); ++k) {
    const double p = t.pairs[k];
    const double scale = 2 * p * p * value_at(even_product(t, k), p);
    for (const double point : {p, -p}) {
      std::vector<double>& row = rows.emplace_back();
      for (size_t r = 0; r < taps; ++r) row.push_back(std::pow(point, static_cast<double>(r)) / scale);
    }
  }
  rows.emplace_back(taps, 0).back() = 1;
  return rows;
}

FilterTransform::FilterTransform(const WinogradTransform& down, const WinogradTransform& across)
    : down_(filter_rows(down)), across_(filter_rows(across)) {}

const std::vector<double>& FilterTransform::operator()(const float* filters, int64_t count, int64_t stride) {
  const size_t n = static_cast<size_t>(count), rows = down_[0].size(), columns = across_[0].size();
  taps_.resize(rows * columns * n);
  half_.resize(columns * n);
  out_.resize(down_.size() * across_.size() * n);
  for (size_t k = 0; k < n; ++k) {
    const float* filter = filters + static_cast<int64_t>(k) * stride;
    for (size_t tap = 0; tap < rows * columns; ++tap) taps_[tap * n + k] = double{filter[tap]};
  }
  double* to = out_.data();
  for (const std::vector<double>& row : down_) {
    weighted_sum(row, taps_.data(), columns * n, half_.data());
    for (const std::vector<double>& column : across_) {
      weighted_sum(column, half_.data(), n, to);
      to += n;
    }
  }
  return out_;
}

int64_t WinogradFilters::elems() const {
  return ceil_div(out_channels, width) * width * down().inputs() * across().inputs() * padded_in;
}

std::optional<std::string> fault_of(const WinogradFilters& f, int64_t source_elems) {
  const bool sizes = is_size(f.out_channels) && is_size(f.in_channels) && is_size(f.width) && is_size(f.padded_in);
  if (!sizes || f.padded_in < f.in_channels)
    return fmt::format("{} to {} channels in groups of {}, padded to {}", f.in_channels, f.out_channels, f.width,
                       f.padded_in);
  if (find_winograd(f.outputs, f.kernel_h) == nullptr || find_winograd(f.outputs, f.kernel_w) == nullptr)
    return fmt::format("no transform of {}x{} filters for {} outputs", f.kernel_h, f.kernel_w, f.outputs);
  const int64_t values = f.out_channels * f.in_channels * f.kernel_h * f.kernel_w;
  if (values != source_elems) return fmt::format("filters of {} values in a source of {}", values, source_elems);
  return std::nullopt;
}

void pack(const WinogradFilters& f, const float* source, float* packed) {
  FilterTransform transformed(f.down(), f.across());
  const int64_t taps = f.kernel_h * f.kernel_w, places = f.down().inputs() * f.across().inputs();
  const int64_t panel = f.padded_in * f.width;
  // The distances between panels are multiples of a cache way, so their lines evict each other. Each panel therefore
  // gets a whole row of output channels at once.
  for (int64_t group = 0; group < f.out_channels; group += f.width) {
    const int64_t count = std::min(f.width, f.out_channels - group);
    float* to = packed + group / f.width * places * panel;
    for (int64_t ch = 0; ch < f.in_channels; ++ch, to += f.width) {
      const float* filters = source + (group * f.in_channels + ch) * taps;
      const std::vector<double>& u = transformed(filters, count, f.in_channels * taps);
      for (int64_t xi = 0; xi < places; ++xi) {
        std::transform(u.data() + xi * count, u.data() + (xi + 1) * count, to + xi * panel,
                       [](double value) { return static_cast<float>(value); });
      }
    }
  }
}

}  // namespace kilter
