#include <algorithm>
#include <cmath>

#include "ops/support/dtype_attr.h"
#include "ops/support/elementwise.h"
#include "ops/support/operands.h"
#include "ops/support/random_values.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  if (ctx.rank(0) != 2 || ctx.shape(0)[1] == 0) {
    ctx.error(
        fmt::format("input 0 has shape {}, expected [batch, classes] with one class or more", text(ctx.shape(0))));
  }
  const DType type = dtype_attr(ctx.node, "dtype", DType::i32);
  if (type != DType::i32 && type != DType::i64) {
    ctx.error(fmt::format("output element type is {}; legal values are i32 and i64", name(type)));
  }
  const int64_t samples = ctx.node.int_attr("sample_size", 1);
  if (samples < 1) ctx.error(fmt::format("attribute sample_size is {}; expected 1 or more", samples));
  const Shape shape = {ctx.shape(0)[0], samples};
  check_shape(ctx.node, shape);
  ctx.set(0, type, shape);
}

/// Returns the sums of the first 1, 2, ... probabilities of a row, each relative to the largest one. Throws bad_input
/// unless the largest logarithm is finite and none is NaN.
std::vector<double> cumulative(const Node& node, std::span<const double> logarithms, size_t row) {
  double largest = logarithms[0];
  for (double x : logarithms) largest = std::isnan(x) ? x : std::max(largest, x);
  std::vector<double> sums;
  double sum = 0;
  for (double x : logarithms) sums.push_back(sum += std::exp(x - largest));
  if (std::isfinite(sum)) return sums;
  fail(ErrorKind::bad_input,
       "Multinomial '{}': row {} is not a distribution: the logarithms must not be NaN, and the largest one must be "
       "finite",
       node.name, row);
}

void reference(ReferenceContext& ctx) {
  const Random stream = random_stream(ctx.node);
  const std::vector<double> x = load_doubles(ctx.in(0));
  const auto classes = static_cast<size_t>(ctx.in(0).shape()[1]);
  const auto samples = static_cast<size_t>(ctx.out().shape()[1]);
  std::vector<double> drawn;
  for (size_t row = 0; row < x.size() / classes; ++row) {
    const std::vector<double> sums = cumulative(ctx.node, std::span(x).subspan(row * classes, classes), row);
    for (size_t s = 0; s < samples; ++s) {
      const double share = static_cast<double>(stream.bits(drawn.size()) >> 11) * 0x1p-53;
      const auto at = std::upper_bound(sums.begin(), sums.end() - 1, share * sums.back());
      drawn.push_back(static_cast<double>(at - sums.begin()));
    }
  }
  store_doubles(ctx.out(), drawn);
}

}  // namespace

KILTER_OP(Multinomial){
    .name = "Multinomial",
    .since = 7,
    .family = Family::reference,
    .attrs = {{"dtype", "int", "6"}, {"sample_size", "int", "1"}, {"seed", "float", ""}},
    .summary =
        "y [batch, sample_size] = classes drawn with the probabilities whose logarithms, up to a constant, are the "
        "rows of x [batch, classes]; the same draws for the same seed.",
    .infer = infer,
    .reference = reference,
    .deterministic = false,
    .cases = {"f32[2,3] | seed=1.0 sample_size=5", "f16[1,7] | seed=2.0 dtype=7", "f64[3,1] | seed=0.0 sample_size=2"},
};

}  // namespace kilter
