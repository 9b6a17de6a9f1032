#include "ops/support/elementwise.h"
#include "ops/support/operands.h"
#include "ops/support/packed_bits.h"

namespace kilter {
namespace {

enum Input : size_t { kData, kIndices, kScales, kZeros };

/// The last dimension of the data, in which integers are packed, and its blocks.
struct Blocks {
  int64_t bits = 4;
  int64_t size = 128;
  int64_t extent = 0;  ///< integers in a row
  int64_t count = 0;   ///< blocks of a row
};

Blocks blocks_of(const Node& node, const Shape& data) {
  Blocks blocks;
  blocks.bits = checked_bits(node);
  blocks.size = node.int_attr("block_size", 128);
  if (blocks.size < 16 || (blocks.size & (blocks.size - 1)) != 0) {
    node_error(node, fmt::format("attribute block_size is {}; legal values are powers of two from 16", blocks.size));
  }
  const auto rank = static_cast<int64_t>(data.size());
  const int64_t gathered = rank == 0 ? 0 : normal_axis(node, node.int_attr("gather_axis", 0), rank);
  const int64_t quantised = rank == 0 ? 0 : normal_axis(node, node.int_attr("quantize_axis", 1), rank);
  if (rank < 2 || gathered != 0 || quantised != rank - 1) {
    node_error(node, fmt::format("gathers along axis {} of data {} with blocks along axis {}; packed data must have at "
                                 "least two dimensions, be gathered along the first and have blocks along the last",
                                 gathered, text(data), quantised));
  }
  blocks.extent = checked_mul(node, data.back(), 8 / blocks.bits);
  blocks.count = blocks.extent / blocks.size + (blocks.extent % blocks.size != 0 ? 1 : 0);
  return blocks;
}

void infer(InferContext& ctx) {
  check_types(Types<uint8_t>{}, ctx, kData);
  check_types(Types<int32_t, int64_t>{}, ctx, kIndices);
  check_types(Types<float, Half, BFloat16>{}, ctx, kScales);
  const Shape& data = ctx.shape(kData);
  const Blocks blocks = blocks_of(ctx.node, data);
  Shape expected = data;
  expected.back() = blocks.count;
  if (ctx.shape(kScales) != expected) {
    ctx.error(fmt::format("scales have shape {}, expected {} for data {} in blocks of {}", text(ctx.shape(kScales)),
                          text(expected), text(data), blocks.size));
  }
  if (ctx.has(kZeros)) {
    check_types(Types<uint8_t>{}, ctx, kZeros);
    expected.back() = packed_bytes(blocks.count, blocks.bits);
    if (ctx.shape(kZeros) != expected) {
      ctx.error(fmt::format("zero_points have shape {}, expected {}", text(ctx.shape(kZeros)), text(expected)));
    }
  }
  Shape shape = ctx.shape(kIndices);
  shape.insert(shape.end(), data.begin() + 1, data.end());
  shape.back() = blocks.extent;
  ctx.set(0, ctx.dtype(kScales), std::move(shape));
}

/// Dequantises row `row` (all leading dimensions counted as one) to `out`.
void dequantise_row(const ReferenceContext& ctx, const Blocks& blocks, int64_t row, double* out) {
  const uint8_t* data = ctx.in(kData).data<uint8_t>() + row * ctx.in(kData).shape().back();
  const uint8_t* zeros = nullptr;
  if (ctx.has(kZeros)) zeros = ctx.in(kZeros).data<uint8_t>() + row * ctx.in(kZeros).shape().back();
  for (int64_t i = 0; i < blocks.extent; ++i) {
    const int64_t block = i / blocks.size;
    const int32_t zero = zeros == nullptr ? 1 << (blocks.bits - 1) : unpacked(zeros, block, blocks.bits);
    out[i] = (unpacked(data, i, blocks.bits) - zero) * ctx.in(kScales).as_double(row * blocks.count + block);
  }
}

void reference(ReferenceContext& ctx) {
  const Shape& data = ctx.in(kData).shape();
  const Blocks blocks = blocks_of(ctx.node, data);
  const int64_t rows = product(data, 1, data.size() - 1);
  std::vector<double> y(static_cast<size_t>(ctx.out().elems()));
  for (int64_t k = 0; k < ctx.in(kIndices).elems(); ++k) {
    int64_t index = ctx.in(kIndices).as_int(k);
    if (index < -data[0] || index >= data[0]) continue;
    if (index < 0) index += data[0];
    for (int64_t r = 0; r < rows; ++r)
      dequantise_row(ctx, blocks, index * rows + r, y.data() + (k * rows + r) * blocks.extent);
  }
  store_doubles(ctx.out(), y);
}

}  // namespace

KILTER_OP(GatherBlockQuantized){
    .name = "GatherBlockQuantized",
    .domain = "com.microsoft",
    .min_inputs = 3,
    .max_inputs = 4,
    .attrs = {{"bits", "int", "4"},
              {"block_size", "int", "128"},
              {"gather_axis", "int", "0"},
              {"quantize_axis", "int", "1"}},
    .summary =
        "y = the rows of the data at indices (negative from the end; zeros for an index out of range), dequantised: (q "
        "- zero_point) * scale for each block of block_size integers of 2, 4 or 8 bits, which are packed along the "
        "last dimension of u8 data; inputs data, indices, scales, zero_points (packed).",
    .infer = infer,
    .reference = reference,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"u8[5,20] i64[3]:4,0,-1 f32[5,3] | block_size=16",
              "u8[5,2,32] i32[2,2]:0,4,-6,5 f32[5,2,2] u8[5,2,2] | bits=8 block_size=16 quantize_axis=2",
              "u8[5,33] i64[] f32[5,3] u8[5,2] | block_size=32 quantize_axis=-1",
              "u8[4,9] i64[2]:1,2 f16[4,3] u8[4,1] | bits=2 block_size=16"},
};

}  // namespace kilter
