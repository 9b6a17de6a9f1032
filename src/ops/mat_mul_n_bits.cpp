#include <algorithm>
#include <array>
#include <cmath>

#include "base/convert.h"
#include "graph/values.h"
#include "ops/support/bit_weights.h"
#include "ops/support/elementwise.h"
#include "ops/support/matmul_shape.h"
#include "ops/support/onnx_dtype.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

using FloatsOfA = Types<float, Half, BFloat16>;

/// The weights of a node. Input `scales` contains the scales; the zero points and g_idx, which may be omitted, follow
/// it.
struct Weights : BitWeights {
  size_t scales = 0;
  size_t zeros() const { return scales + 1; }
  size_t group_index() const { return scales + 2; }
};

Weights weights_of(const Node& node, size_t scales) { return {bit_weights(node), scales}; }

/// Checks that input i is [n, columns], or in one dimension.
void check_rows(const InferContext& ctx, size_t i, const char* what, int64_t n, int64_t columns) {
  if (ctx.shape(i) == Shape{n, columns} || ctx.shape(i) == Shape{checked_mul(ctx.node, n, columns)}) return;
  ctx.error(fmt::format("{} (input {}) has shape {}, expected {}x{}", what, i, text(ctx.shape(i)), n, columns));
}

/// Checks input i, which contains the integers of the weights.
void check_integers(const InferContext& ctx, const Weights& w, size_t i) {
  check_types(Types<uint8_t>{}, ctx, i);
  const Shape packed = {w.n, w.blocks, w.block_bytes()};
  if (ctx.shape(i) != packed) {
    ctx.error(fmt::format("packed weights (input {}) have shape {}, expected {}: N, blocks of K, bytes of a block", i,
                          text(ctx.shape(i)), text(packed)));
  }
}

/// Checks scales, zero points and g_idx.
void check_parameters(const InferContext& ctx, const Weights& w) {
  check_types(FloatsOfA{}, ctx, w.scales);
  check_rows(ctx, w.scales, "scales", w.n, w.blocks);
  if (ctx.has(w.zeros())) {
    const bool in_bits = ctx.dtype(w.zeros()) == DType::u8;
    if (!in_bits && ctx.dtype(w.zeros()) != ctx.dtype(w.scales)) {
      ctx.error(
          fmt::format("zero_points (input {}) have element type {}, expected u8 (packed) or {} to match the scales",
                      w.zeros(), name(ctx.dtype(w.zeros())), name(ctx.dtype(w.scales))));
    }
    check_rows(ctx, w.zeros(), "zero_points", w.n, in_bits ? w.zero_bytes() : w.blocks);
  }
  if (!ctx.has(w.group_index())) return;
  check_types(Types<int32_t>{}, ctx, w.group_index());
  const Shape& groups = ctx.shape(w.group_index());
  if (groups != Shape{w.k} && groups != Shape{w.blocks * w.block}) {
    ctx.error(fmt::format("g_idx (input {}) has shape {}, expected {}, one block of scales for each row of the weights",
                          w.group_index(), text(groups), w.k));
  }
}

/// Returns, for each row of the weights, the block whose scale and zero point apply to it.
std::vector<int64_t> groups_of(const ReferenceContext& ctx, const Weights& w) {
  std::vector<int64_t> groups(static_cast<size_t>(w.k));
  for (int64_t p = 0; p < w.k; ++p) {
    const int64_t group = ctx.has(w.group_index()) ? ctx.in(w.group_index()).as_int(p) : p / w.block;
    if (group < 0 || group >= w.blocks) {
      fail(ErrorKind::bad_input, "{}: g_idx[{}] is {}; legal values are 0 to {}", label(ctx.node), p, group,
           w.blocks - 1);
    }
    groups[static_cast<size_t>(p)] = group;
  }
  return groups;
}

/// Returns the zero point of each block of each column.
std::vector<double> zero_points(const ReferenceContext& ctx, const Weights& w) {
  if (!ctx.has(w.zeros()))
    return std::vector<double>(static_cast<size_t>(w.n * w.blocks), static_cast<double>(w.middle()));
  const Tensor& packed = ctx.in(w.zeros());
  if (packed.dtype() != DType::u8) return load_doubles(packed);
  std::vector<double> zeros;
  for (int64_t j = 0; j < w.n; ++j) {
    for (int64_t b = 0; b < w.blocks; ++b)
      zeros.push_back(unpacked(packed.data<uint8_t>() + j * w.zero_bytes(), b, w.bits));
  }
  return zeros;
}

/// Writes the weights as [k, n]. integer(j, p) returns the integer of column j and row p.
template <class T, class Integer>
void dequantise(const ReferenceContext& ctx, const Weights& w, T* values, Integer integer) {
  constexpr int64_t kColumns = 16;  // so that reads and writes stay in few cache lines
  const std::vector<int64_t> groups = groups_of(ctx, w);
  const std::vector<double> scales = load_doubles(ctx.in(w.scales));
  const std::vector<double> zeros = zero_points(ctx, w);
  for (int64_t begin = 0; begin < w.n; begin += kColumns) {
    const int64_t end = std::min(begin + kColumns, w.n);
    for (int64_t p = 0; p < w.k; ++p) {
      for (int64_t j = begin; j < end; ++j) {
        const auto at = static_cast<size_t>(j * w.blocks + groups[static_cast<size_t>(p)]);
        values[p * w.n + j] = static_cast<T>((integer(j, p) - zeros[at]) * scales[at]);
      }
    }
  }
}

constexpr size_t kParts = 3;

void infer_weights(InferContext& ctx) {
  const Weights w = weights_of(ctx.node, 0);
  check_parameters(ctx, w);
  const auto parts = static_cast<size_t>(w.per_byte());
  if (ctx.input_count() != kParts + parts) {
    ctx.error(fmt::format("has {} inputs, expected {} for {} bits", ctx.input_count(), kParts + parts, w.bits));
  }
  for (size_t i = kParts; i < kParts + parts; ++i) check_integers(ctx, w, i);
  ctx.set(0, DType::f32, {w.k, w.n});
}

void reference_weights(ReferenceContext& ctx) {
  const Weights w = weights_of(ctx.node, 0);
  std::vector<const uint8_t*> parts;
  for (size_t i = kParts; i < ctx.inputs.size(); ++i) parts.push_back(ctx.in(i).data<uint8_t>());
  dequantise(ctx, w, ctx.out().data<float>(), [&](int64_t j, int64_t p) -> int32_t {
    return parts[static_cast<size_t>(p % w.per_byte())][j * w.row_bytes() + p / w.per_byte()];
  });
}

int64_t flops_weights(const OpView& view) { return 2 * elems(view.outputs[0].shape); }

constexpr size_t kA = kBitA, kPacked = kBitPacked, kScales = kBitScales, kZeros = kBitZeros, kGroupIndex = kBitGroups,
                 kBias = kBitBias;

void infer(InferContext& ctx) {
  check_types(FloatsOfA{}, ctx, kA);
  const Weights w = weights_of(ctx.node, kScales);
  check_integers(ctx, w, kPacked);
  check_parameters(ctx, w);
  if (ctx.node.int_attr("weight_prepacked", 0) != 0) {
    fail(ErrorKind::unsupported,
         "{}: attribute weight_prepacked is {}: the weights are arranged for one GPU; export the model without it",
         label(ctx.node), ctx.node.int_attr("weight_prepacked", 0));
  }
  if (ctx.dtype(kScales) != ctx.dtype(kA)) {
    ctx.error(fmt::format("scales (input 2) have element type {}, expected {} to match input 0",
                          name(ctx.dtype(kScales)), name(ctx.dtype(kA))));
  }
  if (ctx.has(kBias) && (ctx.dtype(kBias) != ctx.dtype(kA) || ctx.shape(kBias) != Shape{w.n})) {
    ctx.error(fmt::format("bias has type {}, expected {}[{}]", text(ctx.type(kBias)), name(ctx.dtype(kA)), w.n));
  }
  ctx.set(0, ctx.dtype(kA), matmul_shape(ctx.node, ctx.shape(kA), {w.k, w.n}).out);
}

/// Rounds each block of each row [k] to 8 bits.
void round_blocks(const BitWeights& w, std::vector<double>& rows) {
  for (size_t row = 0; row < rows.size(); row += static_cast<size_t>(w.k)) {
    for (int64_t first = 0; first < w.k; first += w.block) {
      const std::span block(rows.data() + row + first, static_cast<size_t>(std::min(w.block, w.k - first)));
      float largest = 0;
      for (const double x : block) largest = std::max(largest, std::abs(static_cast<float>(x)));
      const BlockRounding by = block_rounding(largest);
      for (double& x : block)
        x = convert<int32_t>(std::nearbyint(static_cast<float>(x) * by.inverse)) * static_cast<double>(by.scale);
    }
  }
}

void reference(ReferenceContext& ctx) {
  const Weights w = weights_of(ctx.node, kScales);
  const uint8_t* packed = ctx.in(kPacked).data<uint8_t>();
  std::vector<double> right(static_cast<size_t>(w.k * w.n));
  dequantise(ctx, w, right.data(),
             [&](int64_t j, int64_t p) { return unpacked(packed + j * w.row_bytes(), p, w.bits); });
  std::vector<double> left = load_doubles(ctx.in(kA));
  if (rounds_activations(ctx.node)) round_blocks(w, left);
  const MatMulShape shape = matmul_shape(ctx.node, ctx.in(kA).shape(), {w.k, w.n});
  std::vector<double> y;
  matmul_rows<double>(shape, left.data(), right.data(), [&](int64_t, int64_t, std::span<const double> row) {
    for (int64_t j = 0; j < w.n; ++j)
      y.push_back(row[static_cast<size_t>(j)] + (ctx.has(kBias) ? ctx.in(kBias).as_double(j) : 0));
  });
  store_doubles(ctx.out(), y);
}

/// Returns the integers that are in the lowest bits of each byte, those in the next bits, and so on.
std::vector<ValueId> parts(ExpandContext& ctx) {
  const int64_t bits = checked_bits(ctx.node);
  const ValueId mask = ctx.scalar(DType::u8, static_cast<double>((1 << bits) - 1));
  std::vector<ValueId> all;
  for (int64_t shift = 0; shift < 8; shift += bits) {
    ValueId part = ctx.in(kPacked);
    if (shift != 0) {
      part = ctx.add("BitShift", {part, ctx.scalar(DType::u8, static_cast<double>(shift))},
                     {{"direction", std::string("RIGHT")}});
    }
    if (shift + bits < 8) part = ctx.add("BitwiseAnd", {part, mask});
    all.push_back(part);
  }
  return all;
}

/// Returns whether the template for packed weights can compute the node: it packs constants and does not support g_idx.
bool has_constant_weights(const ExpandContext& ctx) {
  if (checked_bits(ctx.node) < 4 || ctx.has(kGroupIndex)) return false;
  return std::ranges::all_of(std::array{kPacked, kScales, kZeros}, [&](size_t i) {
    return !ctx.has(i) || constant_of(ctx.builder.graph(), ctx.in(i)) != nullptr;
  });
}

/// Returns the weights as f32 [k, n].
ValueId dequantised(ExpandContext& ctx) {
  std::vector<ValueId> inputs;
  for (const size_t i : {kScales, kZeros, kGroupIndex}) inputs.push_back(ctx.has(i) ? ctx.in(i) : kNone);
  for (const ValueId part : parts(ctx)) inputs.push_back(part);
  Attrs attrs;
  for (const char* key : {"K", "N", "bits", "block_size"}) {
    if (const auto it = ctx.node.attrs.find(key); it != ctx.node.attrs.end()) attrs.insert(*it);
  }
  return ctx.builder.add_kilter("DequantizeBits", std::move(inputs), std::move(attrs), ctx.node.name);
}

/// Keeps a node of f32 without bias if a template can compute it, or if only the reference kernel rounds a as the node
/// requires. Otherwise, multiplies by weights of f32.
std::vector<ValueId> expand(ExpandContext& ctx) {
  const DType type = ctx.type(kA).dtype;
  const auto cast_to = [&](ValueId v, DType to) {
    return ctx.builder.type(v).dtype == to ? v : ctx.add("Cast", {v}, {{"to", code_of_dtype(to)}});
  };
  const ValueId a = cast_to(ctx.in(kA), DType::f32);
  ValueId y = kNone;
  if (has_constant_weights(ctx) || rounds_activations(ctx.node)) {
    ValueId zeros = ctx.has(kZeros) ? ctx.in(kZeros) : kNone;
    if (zeros != kNone && ctx.type(kZeros).dtype != DType::u8) zeros = cast_to(zeros, DType::f32);
    GraphBuilder::Options options;
    options.name = ctx.node.name;
    options.domain = ctx.node.op->domain;
    options.expand = false;
    y = ctx.builder
            .add(ctx.node.op->name, {a, ctx.in(kPacked), cast_to(ctx.in(kScales), DType::f32), zeros}, ctx.node.attrs,
                 options)
            .front();
  } else {
    y = ctx.add("MatMul", {a, dequantised(ctx)});
  }
  if (ctx.has(kBias)) y = ctx.add("Add", {y, cast_to(ctx.in(kBias), DType::f32)});
  return {cast_to(y, type)};
}

int64_t flops(const OpView& view) {
  const Weights w = weights_of(view.node, kScales);
  return matmul_shape(view.node, view.inputs[kA].shape, {w.k, w.n}).flops();
}

}  // namespace

BitWeights bit_weights(const Node& node) {
  BitWeights w;
  const auto extent = [&](std::string_view key) {
    constexpr int64_t kMost = int64_t{1} << 31;
    const int64_t value = node.int_attr(key, 0);
    if (value >= 1 && value <= kMost) return value;
    node_error(node, fmt::format("attribute {} is {}; legal values are 1 to {}", key, value, kMost));
  };
  w.k = extent("K");
  w.n = extent("N");
  w.block = extent("block_size");
  w.bits = checked_bits(node);
  if (w.block < 16 || (w.block & (w.block - 1)) != 0) {
    node_error(node, fmt::format("attribute block_size is {}; legal values are powers of two from 16", w.block));
  }
  w.blocks = (w.k + w.block - 1) / w.block;
  return w;
}

bool rounds_activations(const Node& node) {
  const bool grouped = node.inputs.size() > kGroupIndex && node.inputs[kGroupIndex] != kNone;
  return node.int_attr("accuracy_level", 0) == 4 && checked_bits(node) >= 4 && !grouped;
}

KILTER_OP(MatMulNBits){
    .name = "MatMulNBits",
    .domain = "com.microsoft",
    .family = Family::matmul_bits,
    .min_inputs = 3,
    .max_inputs = 6,
    .attrs = {{"K", "int", "required"},
              {"N", "int", "required"},
              {"accuracy_level", "int", "0"},
              {"bits", "int", "4"},
              {"block_size", "int", "required"},
              {"weight_prepacked", "int", "0"}},
    .summary =
        "y = a w + bias for a [..., K] and weights w [K, N] of 2, 4 or 8 bits, packed as [N, blocks, bytes]; w = (q - "
        "zero_point) * scale for each block of block_size rows, or for the block that g_idx gives for a row; inputs a, "
        "packed weights, scales, zero_points (packed, or floats), g_idx, bias. With accuracy_level 4, each block of a "
        "is rounded to 8 bits (not with g_idx or 2 bits); other levels use f32. Constant weights of 4 and 8 bits stay "
        "packed.",
    .infer = infer,
    .reference = reference,
    .expand = expand,
    .flops = flops,
    // As for MatMul: a long sum in a different order.
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[3,40] u8[5,3,8] f32[5,3] | K=40 N=5 block_size=16",
              "f32[2,3,64] u8[7,2,32] f32[14] u8[14] ? f32[7] | K=64 N=7 bits=8 block_size=32",
              "f32[3,100] u8[5,4,16] f32[5,4] u8[5,2] | K=100 N=5 bits=4 block_size=32",
              "f32[3,33] u8[5,3,4] f32[5,3] u8[5,1] ? f32[5] | K=33 N=5 bits=2 block_size=16",
              "f32[1,32] u8[3,2,8] f32[3,2] f32[3,2] i32[32]=1 | K=32 N=3 block_size=16",
              "f32[17] u8[3,2,8] f32[3,2] f32[6] | K=17 N=3 block_size=16 accuracy_level=4",
              "f16[2,16] u8[3,1,8] f16[3,1] u8[3,1] ? f16[3] | K=16 N=3 block_size=16",
              "f32[2,7,70] u8[37,3,16] f32[37,3] u8[37,2] | K=70 N=37 block_size=32 accuracy_level=4",
              "f32[1,1,96] u8[130,3,32] f32[130,3] f32[130,3] | K=96 N=130 bits=8 block_size=32 accuracy_level=4"},
};

KILTER_OP(DequantizeBits){
    .name = "DequantizeBits",
    .domain = "kilter",
    .min_inputs = 1,
    .max_inputs = 7,
    .attrs = {{"K", "int", "required"},
              {"N", "int", "required"},
              {"bits", "int", "4"},
              {"block_size", "int", "required"}},
    .summary =
        "The weights of MatMulNBits as f32 [K, N]; inputs scales, zero_points, g_idx, then the integers [N, blocks, "
        "bytes]: one input for each position in a byte, the lowest bits first. Created by the expansion of "
        "MatMulNBits.",
    .infer = infer_weights,
    .reference = reference_weights,
    .flops = flops_weights,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[5,3] ? ? u8[5,3,8] u8[5,3,8] | K=40 N=5 block_size=16",
              "f16[20] u8[10] i32[100]=3 u8[5,4,16] u8[5,4,16] | K=100 N=5 block_size=32",
              "f32[17,2] f32[17,2] ? u8[17,2,32] | K=64 N=17 bits=8 block_size=32",
              "f32[3,1] ? ? u8[3,1,4] u8[3,1,4] u8[3,1,4] u8[3,1,4] | K=15 N=3 bits=2 block_size=16"},
};

}  // namespace kilter
