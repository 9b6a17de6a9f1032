#include "base/random.h"

#include <bit>
#include <cmath>

// Fused multiply-add rounds differently, and not every machine has it.
#if defined(__clang__)
#pragma clang fp contract(off)
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

namespace kilter {
namespace {

/// Returns the natural logarithm of a normal positive double by log(m) = 2 atanh((m - 1) / (m + 1)), m in [sqrt(1/2),
/// sqrt(2)). Uses IEEE operations only, so the bits are the same everywhere. The error is below 4 ulp.
double portable_log(double x) {
  const auto raw = std::bit_cast<uint64_t>(x);
  int64_t exponent = static_cast<int64_t>(raw >> 52) - 1023;
  double m = std::bit_cast<double>((raw & 0xfffffffffffffULL) | 0x3ff0000000000000ULL);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double z = (m - 1) / (m + 1);
  const double z2 = z * z;
  double sum = 0;
  for (int k = 21; k >= 3; k -= 2) sum = (sum + 1.0 / k) * z2;
  return static_cast<double>(exponent) * 0.6931471805599453 + 2 * z * (1 + sum);
}

struct Pair {
  float first, second;
};

/// Returns two independent normal numbers from the bits of one counter. If a point falls outside the circle, the next
/// `attempt` draws another.
Pair normal_pair(const Random& random, uint64_t pair) {
  for (uint64_t attempt = 0;; ++attempt) {
    const uint64_t bits = mix_bits(random.bits(pair) + attempt * 0xd1342543de82ef95ULL);
    const double u = static_cast<double>(static_cast<int32_t>(bits >> 32)) * 0x1p-31;
    const double v = static_cast<double>(static_cast<int32_t>(bits & 0xffffffffU)) * 0x1p-31;
    const double s = u * u + v * v;
    if (s >= 1 || s == 0) continue;
    const double scale = std::sqrt(-2 * portable_log(s) / s);
    return {static_cast<float>(u * scale), static_cast<float>(v * scale)};
  }
}

}  // namespace

int64_t Random::integer(uint64_t i, int64_t low, int64_t high) const {
  const uint64_t count = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
  if (count == 0) return static_cast<int64_t>(bits(i));
  __extension__ using Wide = unsigned __int128;
  const auto scaled = static_cast<uint64_t>((static_cast<Wide>(bits(i)) * count) >> 64);
  return static_cast<int64_t>(static_cast<uint64_t>(low) + scaled);
}

float Random::normal(uint64_t i) const {
  const Pair pair = normal_pair(*this, i / 2);
  return i % 2 == 0 ? pair.first : pair.second;
}

void Random::fill_normal(std::span<float> values, float scale, uint64_t first) const {
  size_t i = 0;
  if (first % 2 == 1 && !values.empty()) values[i++] = normal(first) * scale;
  for (; i + 1 < values.size(); i += 2) {
    const Pair pair = normal_pair(*this, (first + i) / 2);
    values[i] = pair.first * scale;
    values[i + 1] = pair.second * scale;
  }
  if (i < values.size()) values[i] = normal(first + i) * scale;
}

void Random::fill_uniform(std::span<float> values, float low, float high, uint64_t first) const {
  for (size_t i = 0; i < values.size(); ++i) values[i] = uniform(first + i, low, high);
}

}  // namespace kilter
