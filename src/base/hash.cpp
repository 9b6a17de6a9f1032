#include "base/hash.h"

#include <array>
#include <bit>
#include <cstring>

namespace kilter {
namespace {

constexpr uint64_t kOdd = 0x9e3779b97f4a7c15ULL;

uint64_t word_at(const std::byte* at, size_t bytes) {
  uint64_t word = 0;
  for (size_t i = 0; i < bytes; ++i) word |= std::to_integer<uint64_t>(at[i]) << (8 * i);
  return word;
}

uint64_t full_word_at(const std::byte* at) {
  if constexpr (std::endian::native == std::endian::little) {
    uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    return word;
  } else {
    return word_at(at, 8);
  }
}

uint64_t step(uint64_t lane, uint64_t word) { return std::rotl((lane ^ word) * kOdd, 29); }

}  // namespace

uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t seed) {
  // One variable for each lane: an array would go through memory in every round.
  uint64_t a = seed, b = mix_bits(seed + 1), c = mix_bits(seed + 2), d = mix_bits(seed + 3);
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 32; left -= 32, at += 32) {
    a = step(a, full_word_at(at));
    b = step(b, full_word_at(at + 8));
    c = step(c, full_word_at(at + 16));
    d = step(d, full_word_at(at + 24));
  }
  std::array<uint64_t, 4> lanes = {a, b, c, d};
  for (size_t i = 0; left >= 8; left -= 8, at += 8, ++i) lanes[i] = step(lanes[i], full_word_at(at));
  if (left > 0) lanes[3] = step(lanes[3], word_at(at, left));
  uint64_t hash = hash_combine(seed, bytes.size());
  for (uint64_t lane : lanes) hash = hash_combine(hash, lane);
  return hash;
}

}  // namespace kilter
