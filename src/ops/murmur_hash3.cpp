#include <bit>
#include <cstring>

#include "ops/support/elementwise.h"

namespace kilter {
namespace {

using Numbers32And64 = Types<int32_t, uint32_t, int64_t, uint64_t, float, double>;

void infer(InferContext& ctx) {
  if (ctx.dtype(0) != DType::string) check_types(Numbers32And64{}, ctx, 0);
  const int64_t seed = ctx.node.int_attr("seed", 0);
  if (seed < 0 || seed > UINT32_MAX) {
    ctx.error(fmt::format("attribute seed is {}; legal values are 0 to {}", seed, UINT32_MAX));
  }
  ctx.set(0, ctx.node.int_attr("positive", 1) != 0 ? DType::u32 : DType::i32, ctx.shape(0));
}

uint32_t mixed(uint32_t block) { return std::rotl(block * 0xcc9e2d51U, 15) * 0x1b873593U; }

/// The hash of 32 bits of the MurmurHash3 family, with blocks in little-endian order.
uint32_t hash_of(std::string_view bytes, uint32_t seed) {
  uint32_t hash = seed;
  const size_t blocks = bytes.size() / 4;
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])); };
  for (size_t i = 0; i < blocks; ++i) {
    const uint32_t block = byte(4 * i) | byte(4 * i + 1) << 8 | byte(4 * i + 2) << 16 | byte(4 * i + 3) << 24;
    hash = std::rotl(hash ^ mixed(block), 13) * 5 + 0xe6546b64U;
  }
  uint32_t tail = 0;
  for (size_t i = bytes.size(); i > 4 * blocks; --i) tail = tail << 8 | byte(i - 1);
  hash ^= mixed(tail);
  hash ^= static_cast<uint32_t>(bytes.size());
  hash = (hash ^ hash >> 16) * 0x85ebca6bU;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35U;
  return hash ^ hash >> 16;
}

void reference(ReferenceContext& ctx) {
  const auto seed = static_cast<uint32_t>(ctx.node.int_attr("seed", 0));
  auto* y = static_cast<uint32_t*>(static_cast<void*>(ctx.out().raw()));
  const Tensor& x = ctx.in(0);
  if (x.dtype() == DType::string) {
    for (int64_t i = 0; i < x.elems(); ++i) y[i] = hash_of(x.strings()[static_cast<size_t>(i)], seed);
    return;
  }
  visit_types(Numbers32And64{}, ctx.node, x.dtype(), [&]<class T>() {
    for (int64_t i = 0; i < x.elems(); ++i) {
      std::array<char, sizeof(T)> bytes;
      std::memcpy(bytes.data(), x.data<T>() + i, sizeof(T));
      y[i] = hash_of({bytes.data(), bytes.size()}, seed);
    }
  });
}

}  // namespace

KILTER_OP(MurmurHash3){
    .name = "MurmurHash3",
    .domain = "com.microsoft",
    .attrs = {{"positive", "int", "1"}, {"seed", "int", "0"}},
    .summary = "The MurmurHash3 hash of 32 bits of each element's bytes: u32, or i32 with positive=0.",
    .infer = infer,
    .reference = reference,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"i32[3]:3,4,-5 | seed=7", "i64[2,2] | positive=0", "f64[3]", "u32[2]", "f32[2] | seed=4294967295"},
};

}  // namespace kilter
