#include <algorithm>
#include <cmath>

#include "ops/support/elementwise.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  if (ctx.rank(0) < 2) ctx.error(fmt::format("input 0 has shape {}, expected [N, C, ...]", text(ctx.shape(0))));
  if (ctx.node.int_attr("size", 1) < 1)
    ctx.error(fmt::format("attribute size is {}, expected 1 or more", ctx.node.int_attr("size", 1)));
  ctx.set(0, ctx.dtype(0), ctx.shape(0));
}

void reference(ReferenceContext& ctx) {
  const Shape& shape = ctx.in(0).shape();
  const int64_t size = std::min(ctx.node.int_attr("size", 1), 2 * shape[1] + 1);
  const double alpha = ctx.node.float_attr("alpha", 1e-4F) / static_cast<double>(ctx.node.int_attr("size", 1));
  const double beta = ctx.node.float_attr("beta", 0.75F);
  const double bias = ctx.node.float_attr("bias", 1.0F);
  const std::vector<double> x = load_doubles(ctx.in(0));
  std::vector<double> y(x.size());
  const int64_t plane = product(shape, 2, shape.size());
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t c = 0; c < shape[1]; ++c) {
      const int64_t first = std::max<int64_t>(0, c - (size - 1) / 2);
      const int64_t last = std::min(shape[1] - 1, c + size / 2);
      for (int64_t p = 0; p < plane; ++p) {
        double square = 0;
        for (int64_t k = first; k <= last; ++k) {
          const double value = x[static_cast<size_t>((n * shape[1] + k) * plane + p)];
          square += value * value;
        }
        const auto at = static_cast<size_t>((n * shape[1] + c) * plane + p);
        y[at] = x[at] / std::pow(bias + alpha * square, beta);
      }
    }
  }
  store_doubles(ctx.out(), y);
}

}  // namespace

KILTER_OP(LRN){
    .name = "LRN",
    .attrs = {{"alpha", "float", "1e-4"},
              {"beta", "float", "0.75"},
              {"bias", "float", "1.0"},
              {"size", "int", "required"}},
    .summary = "y = x / (bias + alpha / size * sum of x^2 over `size` neighbouring channels)^beta for x [N, C, ...].",
    .infer = infer,
    .reference = reference,
    .tolerance = {.rtol = 1e-4, .atol = 1e-6},
    .cases = {"f32[1,7,5,5] | size=3", "f32[2,17,3,4] | size=5 alpha=0.01 beta=0.5 bias=2.0",
              "f32[1,3,9] | size=4 | 7"},
};

}  // namespace kilter
