#include "ops/support/exact_quotient.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace kilter {

Wide wide_product(double a, double b) {
  const double high = a * b;
  return {high, std::fma(a, b, -high)};
}

Wide wide_sum(double a, double b) {
  const double high = a + b;
  const double from_b = high - a;
  const double from_a = high - from_b;
  return {high, (a - from_a) + (b - from_b)};
}

Wide operator*(Wide a, double b) {
  const Wide high = wide_product(a.high, b);
  return wide_sum(high.high, std::fma(a.low, b, high.low));
}

Wide operator+(Wide a, double b) {
  const Wide high = wide_sum(a.high, b);
  return wide_sum(high.high, high.low + a.low);
}

float rounded_f32(Wide value) {
  double high = value.high;
  // An odd last bit keeps the direction of what is left out, so that the second rounding gives the result of a single
  // one.
  const bool even = (std::bit_cast<uint64_t>(high) & 1) == 0;
  if (value.low != 0 && std::isfinite(value.low) && even) {
    high = std::nextafter(high, std::copysign(std::numeric_limits<double>::infinity(), value.low));
  }
  return static_cast<float>(high);
}

double rounded_quotient(Wide value, double divisor) {
  constexpr double kLimit = 2147483648.0;
  const double quotient = value.high / divisor;
  if (!(std::abs(quotient) < kLimit)) return quotient;
  const double below = std::floor(quotient);
  // The sign of value - (below + 1/2) * divisor says on which side of the tie the exact quotient is.
  const Wide tie = wide_product(below + 0.5, divisor);
  const Wide first = wide_sum(value.high, -tie.high);
  const double difference = first.high + (first.low + (value.low - tie.low));
  const double excess = divisor < 0 ? -difference : difference;
  if (excess == 0) return 2 * std::nearbyint(below / 2 + 0.25);
  return excess > 0 ? below + 1 : below;
}

}  // namespace kilter
