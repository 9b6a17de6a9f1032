#include "ops/support/iterate.h"
#include "ops/support/onnx_dtype.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  if (ctx.rank(0) != 2) ctx.error(fmt::format("input 0 has rank {}, expected 2", ctx.rank(0)));
  DType type = ctx.dtype(0);
  if (ctx.node.has_attr("dtype")) {
    const int64_t code = ctx.node.int_attr("dtype", 0);
    const std::optional<DType> wanted = dtype_of_code(code);
    if (!wanted) ctx.error(fmt::format("attribute dtype is {}, which is not a supported element type", code));
    type = *wanted;
  }
  if (type == DType::string) ctx.error("strings have no 1; dtype must be a number or bool");
  if (is_narrow(type))
    ctx.error(fmt::format("dtype is {}; it must be a number of 8 bits or more, or bool", name(type)));
  ctx.set(0, type, ctx.shape(0));
}

void reference(ReferenceContext& ctx) {
  const int64_t rows = ctx.out().shape()[0];
  const int64_t columns = ctx.out().shape()[1];
  const int64_t shift = ctx.node.int_attr("k", 0);
  Tensor one(ctx.out().dtype(), {});
  fill(one, 1);
  fill(ctx.out(), 0);
  if (shift <= -rows || shift >= columns) return;
  for (int64_t i = std::max<int64_t>(0, -shift); i < rows && i + shift < columns; ++i) {
    copy_element(one, 0, ctx.out(), i * columns + i + shift);
  }
}

}  // namespace

KILTER_OP(EyeLike){
    .name = "EyeLike",
    .since = 9,
    .attrs = {{"dtype", "int", ""}, {"k", "int", "0"}},
    .summary =
        "y of the shape of the matrix x: 1 where column = row + k, 0 elsewhere; element type dtype, else that of x.",
    .infer = infer,
    .reference = reference,
    .shape_only = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[5,7]", "i32[7,3] | k=-2", "i64[4,4] | dtype=1 k=1", "f16[3,3] | k=17", "f64[2,5] | | 9"},
};

}  // namespace kilter
