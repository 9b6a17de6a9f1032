#include "schedule/templates/bit_panels.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

namespace kilter {
namespace {

constexpr int64_t kWordBits = 32;
constexpr int64_t kWordBytes = kWordBits / 8;

/// Moves the eight 4-bit integers of a word from the order of the rows to that of place_in_word(): the first four to
/// the low halves of the bytes, the others to the high halves.
uint32_t interleaved(uint32_t word) {
  const auto spread = [](uint32_t half) {
    half = (half | half << 8) & 0x00ff00ffU;
    return (half | half << 4) & 0x0f0f0f0fU;
  };
  return spread(word & 0xffffU) | spread(word >> 16) << 4;
}

}  // namespace

int64_t place_in_word(int64_t i, int64_t bits) { return bits == 4 ? i / 2 + i % 2 * 4 : i; }

Tensor shifts_of_words(int64_t bits) {
  Tensor shifts(DType::f32, {kWordPeriod});
  const int64_t group = kWordBits / bits;
  for (int64_t i = 0; i < kWordPeriod; ++i) {
    const int64_t position = i % group;
    const float factor = position == group - 1 ? 1.0F : std::ldexp(1.0F, static_cast<int>(-bits * position));
    shifts.data<float>()[i / group * group + place_in_word(position, bits)] = factor;
  }
  return shifts;
}

Packing pack_words(ValueId from, const Tensor& packed, const BitPanels& panels) {
  const int64_t words = panels.w.block_bytes() / kWordBytes;
  return {from, fmt::format("words of {} bits, panels of {}", panels.w.bits, panels.width), DType::u32,
          panels.count() * panels.w.blocks * words * panels.width, [packed, panels, words](std::byte* to) {
            const BitWeights& w = panels.w;
            auto* out = reinterpret_cast<uint32_t*>(to);
            for (int64_t n = 0; n < w.n; ++n) {
              const uint8_t* column = packed.data<uint8_t>() + n * w.row_bytes();
              uint32_t* panel = out + n / panels.width * w.blocks * words * panels.width + n % panels.width;
              for (int64_t i = 0; i < w.blocks * words; ++i) {
                uint32_t word = 0;
                std::memcpy(&word, column + i * kWordBytes, kWordBytes);
                panel[i * panels.width] = w.bits == 4 ? interleaved(word) : word;
              }
            }
          }};
}

Packing pack_blocks(ValueId from, const Tensor& values, const BitPanels& panels) {
  return {from, fmt::format("blocks in panels of {}", panels.width), values.dtype(),
          panels.count() * panels.w.blocks * panels.width, [values, panels](std::byte* to) {
            const BitWeights& w = panels.w;
            for (int64_t n = 0; n < w.n; ++n) {
              const int64_t first = n / panels.width * w.blocks * panels.width + n % panels.width;
              for (int64_t block = 0; block < w.blocks; ++block) {
                const int64_t at = first + block * panels.width;
                if (values.dtype() == DType::f32) {
                  reinterpret_cast<float*>(to)[at] = values.data<float>()[n * w.blocks + block];
                } else {
                  const uint8_t* column = values.data<uint8_t>() + n * w.zero_bytes();
                  reinterpret_cast<uint8_t*>(to)[at] = static_cast<uint8_t>(unpacked(column, block, w.bits));
                }
              }
            }
          }};
}

}  // namespace kilter
