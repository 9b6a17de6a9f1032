#include "ops/support/elementwise.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

/// Returns the row-major positions of the elements that differ from 0. NaN counts as different.
std::vector<int64_t> positions(const Node& node, const Tensor& x) {
  std::vector<int64_t> found;
  visit_types(NumbersAndBool{}, node, x.dtype(), [&]<class T>() {
    for (int64_t i = 0; i < x.elems(); ++i) {
      if (widen(x.data<T>()[i]) != Compute<T>{}) found.push_back(i);
    }
  });
  return found;
}

void infer(InferContext& ctx) {
  ctx.set(0, DType::i64, {ctx.rank(0), static_cast<int64_t>(positions(ctx.node, ctx.needed(0)).size())});
}

void reference(ReferenceContext& ctx) {
  const Shape& shape = ctx.in(0).shape();
  const Shape strides = dense_strides(shape);
  int64_t* out = ctx.out().data<int64_t>();
  const std::vector<int64_t> found = positions(ctx.node, ctx.in(0));
  for (size_t d = 0; d < shape.size(); ++d) {
    for (int64_t at : found) *out++ = at / strides[d] % shape[d];
  }
}

}  // namespace

KILTER_OP(NonZero){
    .name = "NonZero",
    .since = 9,
    .summary =
        "y[d, k] = index d of the k-th element of x that is not 0, in row-major order; the shape depends on the data.",
    .infer = infer,
    .reference = reference,
    .shape_operands = {0},
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"bool[2,2]=1,0,1,1", "f32[2,3]=0,1,nan,0,0,-2", "i64[7]=0,0,3,0,1,0,9", "u8[2]=0,0 | | 9"},
};

}  // namespace kilter
