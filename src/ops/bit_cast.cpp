#include <cstring>

#include "ops/support/dtype_attr.h"
#include "ops/support/elementwise.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  const DType to = dtype_attr(ctx.node, "to", ctx.dtype(0));
  if (size_bits(to) == 0 || size_bits(to) != size_bits(ctx.dtype(0))) {
    ctx.error(fmt::format("cannot reinterpret {} as {}: the types must have the same width and not be strings",
                          name(ctx.dtype(0)), name(to)));
  }
  ctx.set(0, to, ctx.shape(0));
}

void reference(ReferenceContext& ctx) {
  if (ctx.out().dtype() == DType::boolean) {  // booleans in memory are 0 or 1
    for (int64_t i = 0; i < ctx.out().elems(); ++i) ctx.out().data<bool>()[i] = ctx.in(0).raw()[i] != std::byte{0};
  } else if (ctx.out().elems() > 0) {
    std::memcpy(ctx.out().raw(), ctx.in(0).raw(), static_cast<size_t>(ctx.out().bytes()));
  }
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  const DType to = op.outputs[0].dtype;
  if (is_narrow(to) || is_narrow(op.inputs[0].dtype)) return std::nullopt;
  const bool booleans = to == DType::boolean || in[0].elem() == DType::boolean;
  return booleans ? cast(to, in[0]) : bitcast(to, in[0]);
}

}  // namespace

KILTER_OP(BitCast){
    .name = "BitCast",
    .since = 26,
    .family = Family::map,
    .attrs = {{"to", "int", "required"}},
    .summary = "y = the bits of x as the element type `to` of the same width; as bool, any bits other than 0 are true.",
    .infer = infer,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5] | to=6", "i32[17] | to=1", "f64[7] | to=7", "u16[33] | to=5", "i8[9] | to=2",
              "bool[5] | to=2", "f8e4m3fn[9] | to=2", "u8[17] | to=19", "i4[5] | to=21",
              "u16[3]:15360,0,49152 | to=10"},
};

}  // namespace kilter
