// 64-bit hashes of bytes. They are written into files and keys, so they are the same on every machine and in every
// version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace kilter {

constexpr uint64_t kHashSeed = 0xcbf29ce484222325ULL;

/// Returns the 64-bit FNV-1a hash (Fowler, Noll, Vo). For names and keys; `seed` continues an earlier hash.
constexpr uint64_t hash_text(std::string_view text, uint64_t seed = kHashSeed) {
  for (char c : text) seed = (seed ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  return seed;
}

/// Mixes 64 bits with a bijection (the finaliser of splitmix64, Steele, Lea and Flood 2014).
constexpr uint64_t mix_bits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Hashes large blocks: four lanes of multiply and rotate over 8-byte words. Any changed bit changes the result with
/// probability 1 - 2^-64. Not meant to withstand an adversary.
uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t seed = kHashSeed);

/// Combines two hashes; the order matters. For keys of several fields.
constexpr uint64_t hash_combine(uint64_t seed, uint64_t value) {
  return mix_bits(seed ^ (value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2)));
}

}  // namespace kilter
