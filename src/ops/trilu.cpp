#include "ops/support/indexing.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  if (ctx.rank(0) < 2) ctx.error(fmt::format("input 0 has rank {}, expected 2 or more", ctx.rank(0)));
  if (ctx.has(1)) {
    check_types(Types<int64_t>{}, ctx, 1);
    if (elems(ctx.shape(1)) != 1) ctx.error("input 1 (k) must be one element");
  }
  infer_same(ctx);
}

void reference(ReferenceContext& ctx) {
  const bool upper = ctx.node.int_attr("upper", 1) != 0;
  const int64_t k = ctx.has(1) ? ctx.in(1).as_int(0) : 0;
  const Shape& shape = ctx.in(0).shape();
  const int64_t columns = shape[shape.size() - 1];
  const int64_t rows = shape[shape.size() - 2];
  const Tensor zero(ctx.out().dtype(), {});
  for (int64_t i = 0; i < ctx.in(0).elems(); ++i) {
    const int64_t row = i / columns % rows;
    const int64_t column = i % columns;
    const bool kept = upper ? column - row >= k : column - row <= k;
    copy_element(kept ? ctx.in(0) : zero, kept ? i : 0, ctx.out(), i);
  }
}

}  // namespace

KILTER_OP(Trilu){
    .name = "Trilu",
    .since = 14,
    .max_inputs = 2,
    .attrs = {{"upper", "int", "1"}},
    .summary =
        "y = the upper (column - row >= k) or lower (column - row <= k) triangles of the matrices x, 0 elsewhere; k is "
        "input 1.",
    .infer = infer,
    .reference = reference,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[7,5]", "f32[2,3,17] i64[]=-1 | upper=0", "i64[4,4] i64[]:2", "f16[1,33] i64[]=1 | upper=0",
              "bool[5,7] i64[1]=-9", "f32[0,3]"},
};

}  // namespace kilter
