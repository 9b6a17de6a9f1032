// Seeded random numbers that are the same on every machine and for every number of threads: number `i` of a stream
// depends only on (seed, i).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/hash.h"

namespace kilter {

class Random {
 public:
  explicit Random(uint64_t seed) : seed_(mix_bits(seed + 0x9e3779b97f4a7c15ULL)) {}
  /// A separate stream for a name (a weight, an input), so that adding a name changes no other stream.
  Random(uint64_t seed, std::string_view name) : Random(seed ^ hash_text(name)) {}

  /// Returns 64 random bits, number `i` of the stream.
  uint64_t bits(uint64_t i) const { return mix_bits(seed_ + (i + 1) * 0x9e3779b97f4a7c15ULL); }
  /// Returns a number in [0, 1) with 24 random bits.
  float uniform(uint64_t i) const { return static_cast<float>(bits(i) >> 40) * 0x1p-24F; }
  float uniform(uint64_t i, float low, float high) const { return low + (high - low) * uniform(i); }
  /// Returns an integer in [low, high], both ends included; low <= high.
  int64_t integer(uint64_t i, int64_t low, int64_t high) const;
  /// Returns a number from N(0, 1): the polar method (Marsaglia and Bray 1964), in double with Kilter's own logarithm,
  /// rounded to float.
  float normal(uint64_t i) const;

  /// Set values[i] to normal(first + i) * scale, and to uniform(first + i, low, high).
  void fill_normal(std::span<float> values, float scale = 1, uint64_t first = 0) const;
  void fill_uniform(std::span<float> values, float low, float high, uint64_t first = 0) const;

 private:
  uint64_t seed_;
};

}  // namespace kilter
