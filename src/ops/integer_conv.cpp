#include "ops/support/conv_reference.h"
#include "ops/support/elementwise.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  check_types(Types<float>{}, ctx, 0);
  check_types(Types<float>{}, ctx, 1);
  ctx.set(0, DType::i32, conv_shape(ctx.node, ctx.shape(0), ctx.shape(1)).out());
}

void reference(ReferenceContext& ctx) {
  const ConvShape shape = conv_shape(ctx.node, ctx.in(0).shape(), ctx.in(1).shape());
  int32_t* y = ctx.out().data<int32_t>();
  const std::vector<int64_t> x = ctx.in(0).ints(), w = ctx.in(1).ints();
  conv_rows<int64_t>(shape, x.data(), w.data(), [&](int64_t, int64_t offset, std::span<const int64_t> row) {
    for (size_t i = 0; i < row.size(); ++i) y[offset + static_cast<int64_t>(i)] = static_cast<int32_t>(row[i]);
  });
}

int64_t flops(const OpView& view) { return conv_shape(view.node, view.inputs[0].shape, view.inputs[1].shape).flops(); }

}  // namespace

KILTER_OP(IntegerConv){
    .name = "IntegerConv",
    .domain = "kilter",
    .family = Family::conv,
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = conv_attrs(),
    .summary =
        "Conv of x and w, whose f32 elements are integers from -255 to 255: y i32, exact. Created by the pass "
        "integer_arithmetic.",
    .infer = infer,
    .reference = reference,
    .flops = flops,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[1,4,3,3]:7 f32[5,4,3,3]=-3 | pads=[1,1,1,1]",
              "f32[1,2,2,2]:1,-2,3,255,-255,6,7,8 f32[1,2,2,2]=1,2,-128,127,5,6,-7,8",
              "f32[1,2,3]:1,-2,3,4,5,6 f32[2,1,2]=1,2,3,-4 | group=2"},
};

}  // namespace kilter
