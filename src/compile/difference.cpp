#include "compile/difference.h"

#include <algorithm>
#include <limits>

namespace kilter {
namespace {

double range_of(DType type) {
  if (type == DType::f16) return 65504;
  return type == DType::f64 ? std::numeric_limits<double>::max() : double{std::numeric_limits<float>::max()};
}

}  // namespace

ReferenceDifference difference(const Tensor& got, const Tensor& want, bool finite_inputs) {
  ReferenceDifference d;
  const double most = range_of(want.dtype());
  const auto overflows = [&](double x) { return !(std::abs(x) < most / 2); };
  for (int64_t i = 0; i < want.elems(); ++i) {
    const double g = got.as_double(i), w = want.as_double(i);
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    if (!std::isfinite(g) || !std::isfinite(w)) {
      if (!finite_inputs || !overflows(g) || !overflows(w)) d.unlike = true;
      continue;
    }
    d.most = std::max(d.most, std::abs(g - w)), d.scale = std::max(d.scale, std::abs(w));
  }
  if (d.most > 0 && d.scale == 0) d.scale = 1;
  return d;
}

double relative_rms(const Tensor& got, const Tensor& want) {
  double noise = 0, signal = 0;
  for (int64_t i = 0; i < want.elems(); ++i) {
    const double g = got.as_double(i), w = want.as_double(i);
    if (!std::isfinite(w)) continue;
    if (!std::isfinite(g)) return INFINITY;
    noise += (g - w) * (g - w), signal += w * w;
  }
  if (noise == 0) return 0;
  return signal > 0 ? std::sqrt(noise / signal) : INFINITY;
}

bool all_finite(const Tensor& tensor) {
  if (!is_float(tensor.dtype())) return true;
  for (int64_t i = 0; i < tensor.elems(); ++i) {
    if (!std::isfinite(tensor.as_double(i))) return false;
  }
  return true;
}

}  // namespace kilter
