#include "ops/support/conv_reference.h"
#include "ops/support/elementwise.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  check_same_dtype(ctx);
  const ConvShape shape = conv_shape(ctx.node, ctx.shape(0), ctx.shape(1));
  if (ctx.has(2) && ctx.shape(2) != Shape{shape.filters}) {
    ctx.error(fmt::format("bias has shape {}, expected {}", text(ctx.shape(2)), shape.filters));
  }
  ctx.set(0, ctx.dtype(0), shape.out());
}

void reference(ReferenceContext& ctx) {
  const ConvShape shape = conv_shape(ctx.node, ctx.in(0).shape(), ctx.in(1).shape());
  const std::vector<double> x = load_doubles(ctx.in(0));
  const std::vector<double> w = load_doubles(ctx.in(1));
  const std::vector<double> bias = ctx.has(2) ? load_doubles(ctx.in(2)) : std::vector<double>();
  std::vector<double> y(static_cast<size_t>(ctx.out().elems()));
  conv_rows<double>(shape, x.data(), w.data(), [&](int64_t m, int64_t offset, std::span<const double> row) {
    const double b = bias.empty() ? 0.0 : bias[static_cast<size_t>(m)];
    for (size_t i = 0; i < row.size(); ++i) y[static_cast<size_t>(offset) + i] = row[i] + b;
  });
  store_doubles(ctx.out(), y);
}

int64_t flops(const OpView& view) { return conv_shape(view.node, view.inputs[0].shape, view.inputs[1].shape).flops(); }

}  // namespace

KILTER_OP(Conv){
    .name = "Conv",
    .family = Family::conv,
    .min_inputs = 2,
    .max_inputs = 3,
    .attrs = conv_attrs(),
    .summary = "Cross-correlation of x [N, C, d0, ...] with w [M, C/group, k0, ...], plus b [M]: y [N, M, o0, ...].",
    .infer = infer,
    .reference = reference,
    .flops = flops,
    // Sums of K products in a different order and precision differ by about sqrt(K) roundings of the largest term.
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[1,3,9,11] f32[7,3,3,3] f32[7] | pads=[1,1,1,1]",
              "f32[2,17,7,13] f32[33,17,3,3] ? | pads=[0,1,2,0] strides=[2,1]",
              "f32[1,33,8,9] f32[33,1,3,3] f32[33] | group=33 pads=[1,1,1,1]",
              "f32[1,12,10,7] f32[18,4,3,2] f32[18] | group=3 dilations=[2,3] pads=[2,1,2,2]",
              "f32[1,64,7,7] f32[17,64,1,1] f32[17]", "f32[1,3,23,23] f32[16,3,7,7] | pads=[3,3,3,3] strides=[2,2]",
              "f32[1,40,9,10] f32[40,4,3,3] f32[40] | group=10 pads=[1,1,1,1] strides=[1,2]",
              "f32[1,48,6,19] f32[48,8,1,3] | group=6 pads=[0,2,0,2] dilations=[1,2]",
              "f32[1,5,19] f32[8,5,5] f32[8] | strides=[3] auto_pad=SAME_UPPER",
              "f32[1,2,5,6,7] f32[3,2,3,2,3] f32[3] | auto_pad=SAME_LOWER",
              "f32[2,1,9,40] f32[1,1,3,39] f32[1] | pads=[1,19,1,19]",
              "f32[1,20,9,11] f32[2,20,3,3] f32[2] | pads=[1,1,1,1]", "f32[1,1,301] f32[2,1,37] | strides=[2]"},
};

}  // namespace kilter
