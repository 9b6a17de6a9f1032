// Integers of 2, 4 or 8 bits, several in a byte, the first in the lowest bits.
#pragma once

#include <cstdint>

#include "ops/op.h"

namespace kilter {

/// Returns attribute bits, which is 4 if it is absent. Throws bad_model unless it is 2, 4 or 8.
inline int64_t checked_bits(const Node& node) {
  const int64_t bits = node.int_attr("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8)
    node_error(node, fmt::format("attribute bits is {}; legal values are 2, 4 and 8", bits));
  return bits;
}

/// Returns the number of bytes that hold `count` integers.
inline int64_t packed_bytes(int64_t count, int64_t bits) {
  const int64_t per_byte = 8 / bits;
  return count / per_byte + (count % per_byte != 0 ? 1 : 0);
}

/// Returns integer i of those that begin at `bytes`, without sign.
inline int32_t unpacked(const uint8_t* bytes, int64_t i, int64_t bits) {
  const int64_t per_byte = 8 / bits;
  return bytes[i / per_byte] >> (i % per_byte * bits) & ((1 << bits) - 1);
}

}  // namespace kilter
