#include "ops/support/elementwise.h"
#include "ops/support/strings.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  for (size_t i = 0; i < 2; ++i) check_strings(ctx, i);
  ctx.set(0, DType::string, broadcast_inputs(ctx));
}

void reference(ReferenceContext& ctx) {
  const Shape& shape = ctx.out().shape();
  const std::vector<std::string>& a = ctx.in(0).strings();
  const std::vector<std::string>& b = ctx.in(1).strings();
  size_t i = 0;
  for_each_offset<2>(shape, {broadcast_strides(ctx.in(0).shape(), shape), broadcast_strides(ctx.in(1).shape(), shape)},
                     [&](const std::array<int64_t, 2>& at) {
                       ctx.out().strings()[i++] = a[static_cast<size_t>(at[0])] + b[static_cast<size_t>(at[1])];
                     });
}

}  // namespace

KILTER_OP(StringConcat){
    .name = "StringConcat",
    .since = 20,
    .min_inputs = 2,
    .max_inputs = 2,
    .summary = "z = the text x followed by the text y, broadcast.",
    .infer = infer,
    .reference = reference,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"str[2]:\"abc\",\"\" str[2]:\".com\",\"x\"", "str[3,1] str[1,2]", "str[0] str[1]", "str[] str[7]"},
};

}  // namespace kilter
