#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  if (ctx.dtype(0) != DType::string) check_types(NumbersAndBool{}, ctx, 0);
  infer_compare(ctx);
}

void compare_strings(ReferenceContext& ctx) {
  const Shape& shape = ctx.out().shape();
  const auto& a = ctx.in(0).strings();
  const auto& b = ctx.in(1).strings();
  bool* out = ctx.out().data<bool>();
  for_each_offset<2>(shape, {broadcast_strides(ctx.in(0).shape(), shape), broadcast_strides(ctx.in(1).shape(), shape)},
                     [&](const std::array<int64_t, 2>& at) {
                       *out++ = a[static_cast<size_t>(at[0])] == b[static_cast<size_t>(at[1])];
                     });
}

void reference(ReferenceContext& ctx) {
  if (ctx.in(0).dtype() == DType::string) return compare_strings(ctx);
  reference_compare<NumbersAndBool>(ctx, [](auto a, auto b) { return a == b; });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return scalar_binary(op, in, [](const Expr& a, const Expr& b) { return binary(Op::eq, a, b); });
}

}  // namespace

KILTER_OP(Equal){
    .name = "Equal",
    .since = 7,
    .family = Family::map,
    .min_inputs = 2,
    .max_inputs = 2,
    .summary = "c = a == b as booleans, broadcast; false where an operand is NaN.",
    .infer = infer,
    .reference = reference,
    .scalar = scalar,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[4]:nan,1,inf,0 f32[4]=nan,nan,inf,-0.0", "i32[2,3,5] i32[5]", "bool[17] bool[17]", "f16[7] f16[]=0",
              "u8[33] u8[33]", "i64[3,1] i64[1,4]", "f64[9] f64[9]"},
};

}  // namespace kilter
