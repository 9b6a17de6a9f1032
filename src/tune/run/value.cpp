#include "tune/run/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "base/align.h"
#include "base/error.h"
#include "tune/run/walk.h"

namespace kilter::tune {
namespace {

/// Dimension 1 counts blocks; lanes, if any, come last.
Shape physical_dims(const ValueLayout& v) {
  Shape dims = v.shape;
  if (v.block > 1) {
    dims[1] = ceil_div(dims[1], v.block);
    dims.push_back(v.block);
  }
  return dims;
}

bool has_halo(const ValueLayout& v) {
  return v.shape.size() == 4 && std::any_of(v.halo.begin(), v.halo.end(), [](int64_t n) { return n != 0; });
}

constexpr uint32_t kInfinity = 0x7f800000;
constexpr uint32_t kMagnitude = 0x7fffffff;

/// Returns the bits of the largest |want - got|; at least kInfinity if an element of either is not finite.
uint32_t largest_bits(const float* want, const float* got, int64_t count, int64_t step_a, int64_t step_b) {
  uint32_t most = 0;
  if (step_a == 1 && step_b == 1) {
    for (int64_t i = 0; i < count; ++i) {
      most = std::max(most, std::bit_cast<uint32_t>(want[i] - got[i]) & kMagnitude);
    }
    return most;
  }
  for (int64_t i = 0; i < count; ++i) {
    most = std::max(most, std::bit_cast<uint32_t>(want[i * step_a] - got[i * step_b]) & kMagnitude);
  }
  return most;
}

template <class T>
double number(const T& value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

void compare_one(double want, double got, ValueDifference& out) {
  if (want == got || (std::isnan(want) && std::isnan(got))) return;
  if (!std::isfinite(want) || !std::isfinite(got)) {
    ++out.unlike;
    return;
  }
  out.most = std::max(out.most, std::abs(want - got));
}

template <class T>
void compare_run(const T* want, const T* got, int64_t count, int64_t step_a, int64_t step_b, ValueDifference& out) {
  if constexpr (std::is_same_v<T, float>) {
    const uint32_t bits = largest_bits(want, got, count, step_a, step_b);
    if (bits < kInfinity) {
      out.most = std::max(out.most, static_cast<double>(std::bit_cast<float>(bits)));
      return;
    }
  }
  for (int64_t i = 0; i < count; ++i) compare_one(number(want[i * step_a]), number(got[i * step_b]), out);
}

template <class T>
void copy_run(const T* from, T* to, int64_t count, int64_t step_a, int64_t step_b) {
  if (step_a == 1 && step_b == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < count; ++i) to[i * step_b] = from[i * step_a];
}

template <class T>
double largest_run(const T* data, int64_t count, int64_t step) {
  double most = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double value = std::abs(number(data[i * step]));
    if (std::isfinite(value)) most = std::max(most, value);
  }
  return most;
}

}  // namespace

ValueLayout packed(const ValueLayout& layout) {
  ValueLayout out = layout;
  out.strides = dense_strides(physical_dims(layout));
  out.offset = 0;
  out.halo = {};
  return out;
}

int64_t packed_elems(const ValueLayout& layout) { return elems(physical_dims(layout)); }

bool same_value(const ValueLayout& a, const ValueLayout& b) { return a.type == b.type && a.shape == b.shape; }

ElementRange range_of(const ValueLayout& v) {
  if (v.block < 1 || (v.block > 1 && v.shape.size() < 2)) {
    fail(ErrorKind::bad_input, "a value of shape {} in blocks of {}; expected blocks of 1 or more channels",
         text(v.shape), v.block);
  }
  const Shape dims = physical_dims(v);
  if (v.strides.size() != dims.size()) {
    fail(ErrorKind::bad_input, "a value of shape {} in blocks of {} has {} strides; expected {}", text(v.shape),
         v.block, v.strides.size(), dims.size());
  }
  int64_t low = v.offset, high = v.offset;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 0) return {};
    const int64_t far = (dims[d] - 1) * v.strides[d];
    (far < 0 ? low : high) += far;
  }
  if (has_halo(v)) {
    low -= v.halo[0] * v.strides[2] + v.halo[2] * v.strides[3];
    high += v.halo[1] * v.strides[2] + v.halo[3] * v.strides[3];
  }
  if (low < 0) {
    fail(ErrorKind::bad_input, "a value of shape {} reaches {} elements before the start of its buffer", text(v.shape),
         -low);
  }
  return {low, high + 1};
}

namespace {

/// Calls visit_dtype() with the type of a value, and with u8 for a narrow type, whose elements are then their bit
/// patterns.
template <class F>
void visit_elements(DType type, F&& f) {
  visit_dtype(is_narrow(type) ? DType::u8 : type, std::forward<F>(f));
}

}  // namespace

void copy_value(const ValueLayout& from_layout, const std::byte* from, const ValueLayout& to_layout, std::byte* to) {
  visit_elements(from_layout.type, [&]<class T>(T) {
    for (const ElementWalk& walk : walks(from_layout, to_layout)) {
      follow(walk, [&](int64_t a, int64_t b, int64_t count, int64_t step_a, int64_t step_b) {
        copy_run(reinterpret_cast<const T*>(from) + a, reinterpret_cast<T*>(to) + b, count, step_a, step_b);
      });
    }
  });
}

double largest_magnitude(const ValueLayout& layout, const std::byte* data) {
  double most = 0;
  visit_elements(layout.type, [&]<class T>(T) {
    for (const ElementWalk& walk : walks(layout, layout)) {
      follow(walk, [&](int64_t a, int64_t, int64_t count, int64_t step, int64_t) {
        most = std::max(most, largest_run(reinterpret_cast<const T*>(data) + a, count, step));
      });
    }
  });
  return most;
}

ValueDifference compare_values(const ValueLayout& want_layout, const std::byte* want, const ValueLayout& got_layout,
                               const std::byte* got) {
  ValueDifference out;
  out.elems = elems(want_layout.shape);
  visit_elements(want_layout.type, [&]<class T>(T) {
    for (const ElementWalk& walk : walks(want_layout, got_layout)) {
      follow(walk, [&](int64_t a, int64_t b, int64_t count, int64_t step_a, int64_t step_b) {
        compare_run(reinterpret_cast<const T*>(want) + a, reinterpret_cast<const T*>(got) + b, count, step_a, step_b,
                    out);
      });
    }
  });
  return out;
}

namespace {

/// Returns the index of the first of `count` elements, `step` apart, that is not 0; -1 if all are 0.
int64_t first_nonzero(const float* data, int64_t count, int64_t step) {
  for (int64_t i = 0; i < count; ++i) {
    if (data[i * step] != 0) return i;
  }
  return -1;
}

/// Checks the lanes of the last block that belong to no channel, for one image.
std::string lane_damage(const ValueLayout& v, const float* image) {
  const int64_t used = v.shape[1] % v.block;
  if (used == 0) return "";
  const int64_t rows = v.shape.size() > 2 ? v.shape[2] : 1;
  const int64_t columns = v.shape.size() > 3 ? v.shape[3] : 1;
  const float* block = image + v.shape[1] / v.block * v.strides[1];
  for (int64_t h = 0; h < rows; ++h) {
    for (int64_t w = 0; w < columns; ++w) {
      const float* pixel =
          block + (v.shape.size() > 2 ? h * v.strides[2] : 0) + (v.shape.size() > 3 ? w * v.strides[3] : 0);
      const int64_t bad = first_nonzero(pixel + used, v.block - used, 1);
      if (bad < 0) continue;
      return fmt::format("unused lane {} at [{}, {}] is {}, expected 0", used + bad, h, w, pixel[used + bad]);
    }
  }
  return "";
}

/// Checks the zeros around one image.
std::string halo_damage(const ValueLayout& v, const float* image) {
  const int64_t rows = v.shape[2], columns = v.shape[3];
  for (int64_t c = 0; c < ceil_div(v.shape[1], v.block); ++c) {
    for (int64_t h = -v.halo[0]; h < rows + v.halo[1]; ++h) {
      const bool inside = h >= 0 && h < rows;
      for (int64_t w = -v.halo[2]; w < columns + v.halo[3]; ++w) {
        if (inside && w == 0) w = columns;  // skips the image itself
        if (w >= columns + v.halo[3]) break;
        const float* pixel = image + c * v.strides[1] + h * v.strides[2] + w * v.strides[3];
        const int64_t bad = first_nonzero(pixel, v.block, 1);
        if (bad < 0) continue;
        return fmt::format("halo at [{}, {}, {}] is {}, expected 0", c * v.block + bad, h, w, pixel[bad]);
      }
    }
  }
  return "";
}

}  // namespace

std::string padding_damage(const ValueLayout& v, const std::byte* data) {
  if (v.type != DType::f32 || v.block == 1 || v.shape.size() > 4 || elems(v.shape) == 0) return "";
  for (int64_t n = 0; n < v.shape[0]; ++n) {
    const float* image = reinterpret_cast<const float*>(data) + v.offset + n * v.strides[0];
    std::string damage = lane_damage(v, image);
    if (damage.empty() && has_halo(v)) damage = halo_damage(v, image);
    if (!damage.empty()) return damage;
  }
  return "";
}

}  // namespace kilter::tune
