// The order in which matmul_nbits reads packed weights: panels of columns, and 32-bit words of integers of one column.
#pragma once

#include "base/align.h"
#include "ops/support/bit_weights.h"
#include "schedule/schedule.h"

namespace kilter {

/// Panels of `width` columns.
struct BitPanels {
  BitWeights w;
  int64_t width = 0;

  int64_t count() const { return ceil_div(w.n, width); }
};

/// The number of the row whose integer is at position `i` of a word, counted from the word's first row. Position 0 is
/// the lowest bits.
int64_t place_in_word(int64_t i, int64_t bits);

/// The number of rows after which shifts_of_words() repeats on all targets: a multiple of the rows of a word, and of
/// the lanes of a vector.
constexpr int32_t kWordPeriod = 16;
/// f32[kWordPeriod]: for each row, 2^-s, where s is the number of bits by which its integer is shifted in its word; 1
/// for the integer in the highest bits.
Tensor shifts_of_words(int64_t bits);

/// Packs u8[n, blocks, bytes of a block] as u32[panel][block][word][column].
Packing pack_words(ValueId from, const Tensor& packed, const BitPanels& panels);
/// Packs scales or zero points as [panel][block][column] in their type. u8 are packed with `w.bits` bits each.
Packing pack_blocks(ValueId from, const Tensor& values, const BitPanels& panels);

}  // namespace kilter
