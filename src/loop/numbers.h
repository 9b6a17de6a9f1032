// Kernels for many shapes. Functions that a template generates for different shapes often differ only in numbers:
// bounds of loops, strides inside indices, the 1/n of a mean. Such functions can share one kernel, which reads these
// numbers from a buffer.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "loop/loop.h"

namespace kilter {

/// A 128-bit hash of a structure. Two different structures have the same one only with a probability of 2^-128.
struct Fingerprint {
  uint64_t low = 0x9e3779b97f4a7c15ULL, high = 0xcbf29ce484222325ULL;

  void add(uint64_t word);
  auto operator<=>(const Fingerprint&) const = default;
};

/// The numbers of a function: the extents of its parallel dimensions, and in its expressions, except for the bounds of
/// unrolled loops, scalar constants of i64, u64 and i32, constants of f32, and the strides of loads other than 0 and 1.
struct LoopNumbers {
  Fingerprint structure;         ///< the function without its numbers, the sizes of its buffers, and names of values
  std::vector<int64_t> values;   ///< in a fixed order; for f32 the bits. Equal structures have equally many
  std::vector<int64_t> scratch;  ///< elements of the scratch buffers

  /// Returns the fingerprint of everything that the function's machine code depends on.
  Fingerprint code() const;
};
LoopNumbers numbers_of(const LoopFunc& func);

/// Where a function reads a number: the number is `plus` more than element `slot` of `dims`. -1: it keeps the number.
struct NumberPlace {
  int32_t slot = -1;
  int64_t plus = 0;
};

/// Returns the function that reads number i at places[i], from `dims`, an additional last input of i64. The scratch
/// buffers have `scratch` elements. With the function's own numbers in `dims`, the result does what the function does.
LoopFunc reading_numbers(const LoopFunc& func, std::span<const NumberPlace> places, std::span<const int64_t> scratch);

/// Checks all that verify() checks except bounds and races, which depend on the numbers: verify the function that the
/// numbers come from instead.
void verify_structure(const LoopFunc& func);

}  // namespace kilter
