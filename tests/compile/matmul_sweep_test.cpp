// Matrix products with every kind of tail, batch, stride and operand that the template distinguishes.
#include <gtest/gtest.h>

#include "sweep.h"

namespace kilter {
namespace {

using Ints = std::vector<int64_t>;

int64_t draw_extent(Draw& draw) { return draw.pick({1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 24, 31, 32, 33, 48, 65}); }

/// An operand of shape batch x rows x columns, possibly as the transpose of a stored tensor.
ValueId draw_operand(SweepNet& net, const Shape& batch, int64_t rows, int64_t columns, bool constant) {
  const bool turned = net.draw.chance(35);
  Shape shape = batch;
  shape.push_back(turned ? columns : rows);
  shape.push_back(turned ? rows : columns);
  const ValueId v = constant ? net.constant(shape) : net.input(shape);
  if (!turned) return v;
  Ints perm;
  for (size_t d = 0; d < batch.size(); ++d) perm.push_back(static_cast<int64_t>(d));
  perm.push_back(static_cast<int64_t>(batch.size()) + 1);
  perm.push_back(static_cast<int64_t>(batch.size()));
  return net.b.add("Transpose", {v}, {{"perm", perm}});
}

/// The batch dimensions of one operand of a product: some may be 1 (broadcast), and the first may be missing.
Shape own_batch(Draw& draw, const Shape& batch) {
  Shape own = batch;
  for (int64_t& extent : own) extent = draw.chance(25) ? 1 : extent;
  if (!own.empty() && draw.chance(25)) own.erase(own.begin());
  return own;
}

void make_matmul(SweepNet& net) {
  Draw& draw = net.draw;
  Shape batch;
  for (int64_t rank = draw.pick({0, 0, 1, 1, 2}); rank > 0; --rank) batch.push_back(draw.between(1, 3));
  const int64_t m = draw_extent(draw), n = draw_extent(draw), k = draw_extent(draw);
  const ValueId a = draw_operand(net, own_batch(draw, batch), m, k, false);
  const ValueId b = draw_operand(net, own_batch(draw, batch), k, n, draw.chance(60));
  ValueId v = net.b.add("MatMul", {a, b});
  if (draw.chance(50)) v = net.b.add("Add", {v, net.constant({n})});
  v = net.elementwise(v);
  net.output(v);
}

/// Attention heads: products whose operands and results are slices, reshapes and transposes of one tensor.
void make_heads(SweepNet& net) {
  Draw& draw = net.draw;
  const int64_t batch = draw.between(1, 2), rows = draw_extent(draw), heads = draw.between(1, 3);
  const int64_t width = draw.pick({1, 3, 8, 16, 17});
  const ValueId x = net.input({batch, rows, 3 * heads * width});
  const auto part = [&](int64_t i, const Ints& perm) {
    const ValueId slice =
        net.b.add("Slice", {x, net.list({i * heads * width}), net.list({(i + 1) * heads * width}), net.list({2})});
    const ValueId split = net.b.add("Reshape", {slice, net.list({batch, rows, heads, width})});
    return net.b.add("Transpose", {split}, {{"perm", perm}});
  };
  ValueId v = net.b.add("MatMul", {part(0, {0, 2, 1, 3}), part(1, {0, 2, 3, 1})});
  if (draw.chance(50)) v = net.b.add("Softmax", {v}, {{"axis", int64_t{-1}}});
  v = net.b.add("MatMul", {v, part(2, {0, 2, 1, 3})});
  v = net.b.add("Transpose", {v}, {{"perm", Ints{0, 2, 1, 3}}});
  v = net.b.add("Reshape", {v, net.list({batch, rows, heads * width})});
  net.output(draw.chance(50) ? net.b.add("MatMul", {v, net.constant({heads * width, 17})}) : v);
}

void make_gemm(SweepNet& net) {
  Draw& draw = net.draw;
  const int64_t m = draw_extent(draw), n = draw_extent(draw), k = draw_extent(draw);
  Attrs attrs;
  const bool turn_a = draw.chance(40), turn_b = draw.chance(40);
  if (turn_a) attrs["transA"] = int64_t{1};
  if (turn_b) attrs["transB"] = int64_t{1};
  if (draw.chance(40)) attrs["alpha"] = 0.5F;
  if (draw.chance(40)) attrs["beta"] = -2.0F;
  const Shape b = turn_b ? Shape{n, k} : Shape{k, n};
  std::vector<ValueId> inputs{net.input(turn_a ? Shape{k, m} : Shape{m, k}),
                              draw.chance(70) ? net.constant(b) : net.input(b)};
  const Shape c = draw.pick<Shape>({{}, {n}, {m, 1}, {1, n}, {m, n}});
  if (draw.chance(70)) inputs.push_back(draw.chance(60) ? net.constant(c) : net.input(c));
  net.output(net.elementwise(net.b.add("Gemm", inputs, attrs)));
}

void make_vector_product(SweepNet& net) {
  Draw& draw = net.draw;
  const int64_t k = draw_extent(draw), n = draw_extent(draw);
  const bool left = draw.chance(50);
  const Shape matrix = left ? Shape{k, n} : Shape{n, k};
  const ValueId m = draw.chance(50) ? net.constant(matrix) : net.input(matrix);
  const ValueId x = net.input({k});
  net.output(left ? net.b.add("MatMul", {x, m}) : net.b.add("MatMul", {m, x}));
}

/// Random bytes.
ValueId draw_bytes(SweepNet& net, const Shape& shape) {
  Tensor bytes(DType::u8, shape);
  for (uint8_t& byte : bytes.span<uint8_t>()) byte = static_cast<uint8_t>(net.draw.between(0, 255));
  return net.b.constant(std::move(bytes));
}

/// Products with packed weights of 4 and 8 bits: partial blocks, all kinds of zero points, and rows rounded to bytes.
void make_bits(SweepNet& net) {
  Draw& draw = net.draw;
  const int64_t bits = draw.pick({4, 8}), block = draw.pick({16, 32, 64, 256});
  const int64_t n = draw_extent(draw), k = draw.pick({1, 16, 31, 32, 64, 100, 300});
  const int64_t blocks = (k + block - 1) / block, bytes = block * bits / 8;
  Shape rows;
  for (int64_t rank = draw.between(0, 2); rank > 0; --rank) rows.push_back(draw.pick({1, 1, 3, 7, 33}));
  rows.push_back(k);
  std::vector<ValueId> inputs = {net.input(rows), draw_bytes(net, {n, blocks, bytes}), net.constant({n, blocks})};
  if (draw.chance(60)) {
    inputs.push_back(draw.chance(70) ? draw_bytes(net, {n, (blocks * bits + 7) / 8}) : net.constant({n, blocks}, 8));
  }
  GraphBuilder::Options options;
  options.domain = "com.microsoft";
  Attrs attrs = {{"K", k}, {"N", n}, {"bits", bits}, {"block_size", block}};
  if (draw.chance(50)) attrs["accuracy_level"] = int64_t{4};
  ValueId v = net.b.add("MatMulNBits", inputs, attrs, options).front();
  if (draw.chance(50)) v = net.b.add("Add", {v, net.constant({n})});
  net.output(net.elementwise(v));
}

class ProductSweep : public testing::TestWithParam<NetKind> {};

TEST_P(ProductSweep, AgreesWithTheReference) { sweep(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Products, ProductSweep,
                         testing::Values(NetKind{"MatMul", make_matmul, 40, {"matmul_tiled"}},
                                         NetKind{"Heads", make_heads, 24, {"attention_rows", "matmul_tiled"}},
                                         NetKind{"Gemm", make_gemm, 24, {"matmul_tiled"}},
                                         NetKind{"Bits", make_bits, 40, {"matmul_nbits"}},
                                         NetKind{"VectorProduct", make_vector_product, 12}),
                         [](const auto& family) { return std::string(family.param.name); });

}  // namespace
}  // namespace kilter
