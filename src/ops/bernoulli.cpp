#include "ops/support/dtype_attr.h"
#include "ops/support/elementwise.h"
#include "ops/support/random_values.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  const DType type = dtype_attr(ctx.node, "dtype", ctx.dtype(0));
  if (!is_arithmetic(type))
    ctx.error(fmt::format("output element type is {}, expected a number of 8 bits or more, or bool", name(type)));
  ctx.set(0, type, ctx.shape(0));
}

void reference(ReferenceContext& ctx) {
  const Random stream = random_stream(ctx.node);
  std::vector<double> values = load_doubles(ctx.in(0));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(stream.uniform(i)) < values[i] ? 1 : 0;
  store_doubles(ctx.out(), values);
}

}  // namespace

KILTER_OP(Bernoulli){
    .name = "Bernoulli",
    .since = 15,
    .family = Family::reference,
    .attrs = {{"dtype", "int", "0"}, {"seed", "float", ""}},
    .summary = "y = 1 with probability x, else 0; the same draws for the same seed.",
    .infer = infer,
    .reference = reference,
    .deterministic = false,
    .cases = {"f32[2,3]:0.5 | seed=1.0", "f32[4]:0,1,0.25,0.75 | seed=2.0 dtype=9", "f64[17] | seed=3.0 dtype=6",
              "f16[7] | seed=0.0"},
};

}  // namespace kilter
