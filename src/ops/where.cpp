#include "ops/support/elementwise.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  check_types(Bool{}, ctx, 0);
  if (ctx.dtype(1) != ctx.dtype(2)) {
    ctx.error(fmt::format("inputs 1 and 2 have element types {} and {}; they must be the same", name(ctx.dtype(1)),
                          name(ctx.dtype(2))));
  }
  ctx.set(0, ctx.dtype(1), broadcast_inputs(ctx));
}

void reference(ReferenceContext& ctx) {
  const Shape& shape = ctx.out().shape();
  const bool* condition = ctx.in(0).data<bool>();
  int64_t i = 0;
  for_each_offset<3>(shape,
                     {broadcast_strides(ctx.in(0).shape(), shape), broadcast_strides(ctx.in(1).shape(), shape),
                      broadcast_strides(ctx.in(2).shape(), shape)},
                     [&](const std::array<int64_t, 3>& at) {
                       const size_t from = condition[at[0]] ? 1 : 2;
                       copy_element(ctx.in(from), at[from], ctx.out(), i++);
                     });
}

std::optional<Expr> scalar(const OpView&, std::span<const Expr> in) { return select(in[0], in[1], in[2]); }

}  // namespace

KILTER_OP(Where){
    .name = "Where",
    .since = 9,
    .family = Family::map,
    .min_inputs = 3,
    .max_inputs = 3,
    .summary = "y = condition ? x : y, broadcast; x and y of any element type, strings included.",
    .infer = infer,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"bool[2,3,5] f32[2,3,5] f32[2,3,5]", "bool[17] f32[]=-inf f32[17]", "bool[3,1] f16[1,4] f16[3,4]",
              "bool[1,1,7,7] f32[2,4,7,7] f32[1]=-1e9", "bool[9] i64[9] i64[1]", "bool[33] bool[33] bool[33]",
              "bool[] f64[5] f64[5]"},
};

}  // namespace kilter
