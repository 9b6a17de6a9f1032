// The hash over a whole compiled file, taken by several threads at about the speed of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kilter {

/// Of the bytes of `pieces`, one after the other; where one piece ends and the next begins counts too. Each piece is
/// hashed in chunks of 1 MiB (hash_bytes), the chunks' hashes are combined in their order. Large pieces are read by up
/// to as many threads as this process has CPUs; where none can be started, the caller reads all. A change within one
/// aligned 8-byte word of a piece is always found, others with probability 1 - 2^-64: it finds damage, not forgery.
uint64_t hash_pieces(std::span<const std::span<const std::byte>> pieces, uint64_t seed);

}  // namespace kilter
