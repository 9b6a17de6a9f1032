// The weights of MatMulNBits: a matrix of integers of 2, 4 or 8 bits, with a scale and a zero point for each block of
// rows of a column.
#pragma once

#include "ops/support/packed_bits.h"

namespace kilter {

/// A matrix [k, n] in `blocks` blocks per column. The integers are u8[n, blocks, block_bytes()], the scales
/// [n, blocks]. The last block of a column may have fewer than `block` rows; its integers are padded.
struct BitWeights {
  int64_t k = 0;
  int64_t n = 0;
  int64_t bits = 4;
  int64_t block = 32;
  int64_t blocks = 0;

  int64_t per_byte() const { return 8 / bits; }
  int64_t block_bytes() const { return block / per_byte(); }
  /// Returns the bytes of the integers of a column.
  int64_t row_bytes() const { return blocks * block_bytes(); }
  /// Returns the bytes of the zero points of a column, if they are packed like the integers.
  int64_t zero_bytes() const { return packed_bytes(blocks, bits); }
  /// Returns the zero point if none is given.
  int64_t middle() const { return int64_t{1} << (bits - 1); }
};

/// Reads attributes K, N, bits and block_size. Throws bad_model if they are not legal.
BitWeights bit_weights(const Node& node);

/// The operands of MatMulNBits.
enum BitProductInput : size_t { kBitA, kBitPacked, kBitScales, kBitZeros, kBitGroups, kBitBias };

/// Returns whether a MatMulNBits node rounds each block of a to 8 bits before it multiplies: accuracy_level is 4, the
/// weights have 4 or 8 bits, and there is no g_idx.
bool rounds_activations(const Node& node);

/// The rounding of a block of activations: x becomes round(x * inverse) * scale, where `largest` is the largest
/// magnitude in the block.
struct BlockRounding {
  float scale = 0;
  float inverse = 0;
};
inline BlockRounding block_rounding(float largest) {
  return {largest / 127.0F, largest != 0 ? 127.0F / largest : 0.0F};
}

}  // namespace kilter
