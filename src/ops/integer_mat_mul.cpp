#include "ops/support/elementwise.h"
#include "ops/support/matmul_shape.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  check_types(Types<float>{}, ctx, 0);
  check_types(Types<float>{}, ctx, 1);
  ctx.set(0, DType::i32, matmul_shape(ctx.node, ctx.shape(0), ctx.shape(1)).out);
}

void reference(ReferenceContext& ctx) {
  const MatMulShape shape = matmul_shape(ctx.node, ctx.in(0).shape(), ctx.in(1).shape());
  int32_t* y = ctx.out().data<int32_t>();
  const std::vector<int64_t> a = ctx.in(0).ints(), b = ctx.in(1).ints();
  matmul_rows<int64_t>(shape, a.data(), b.data(), [&](int64_t batch, int64_t i, std::span<const int64_t> row) {
    int32_t* to = y + (batch * shape.m + i) * shape.n;
    for (size_t j = 0; j < row.size(); ++j) to[j] = static_cast<int32_t>(row[j]);
  });
}

int64_t flops(const OpView& view) {
  return matmul_shape(view.node, view.inputs[0].shape, view.inputs[1].shape).flops();
}

}  // namespace

KILTER_OP(IntegerMatMul){
    .name = "IntegerMatMul",
    .domain = "kilter",
    .family = Family::matmul,
    .min_inputs = 2,
    .max_inputs = 2,
    .summary =
        "MatMul of a and b, whose f32 elements are integers from -255 to 255: y i32, exact. Created by the pass "
        "integer_arithmetic.",
    .infer = infer,
    .reference = reference,
    .flops = flops,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[5,33]:7 f32[33,17]=-3", "f32[2,3]:1,-2,3,255,-255,6 f32[3,2]=127,-128,3,4,5,6",
              "f32[2,1,3]:1,-2,3,4,5,6 f32[3]=1,2,3"},
};

}  // namespace kilter
