// The hash of a whole compiled file, computed by several threads at about memory speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kilter {

/// Hashes the bytes of `pieces` in order; the boundaries between pieces also affect the hash. Each piece is hashed in
/// chunks of 1 MiB (hash_bytes), and the chunks' hashes are combined in order. Large pieces are read by at most as many
/// threads as this process has CPUs; if none can be started, the caller reads everything. A change within one aligned
/// 8-byte word of a piece is always found, and any other change is found with probability 1 - 2^-64. This detects
/// damage, not forgery.
uint64_t hash_pieces(std::span<const std::span<const std::byte>> pieces, uint64_t seed);

}  // namespace kilter
