#include "ops/support/elementwise.h"

namespace kilter {
namespace {

enum class Reduction : uint8_t { none, sum, mean };

Reduction reduction_of(const Node& node) {
  const std::string text = node.string_attr("reduction", "mean");
  if (text == "none") return Reduction::none;
  if (text == "sum") return Reduction::sum;
  if (text == "mean") return Reduction::mean;
  node_error(node, "attribute reduction is '" + text + "'; legal values are 'none', 'sum', 'mean'");
}

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  check_types(Types<int32_t, int64_t>{}, ctx, 1);
  const Shape& scores = ctx.shape(0);
  if (scores.size() < 2) ctx.error(fmt::format("input 0 has shape {}, expected [N, C, ...]", text(scores)));
  Shape expected = scores;
  expected.erase(expected.begin() + 1);
  if (ctx.shape(1) != expected) {
    ctx.error(fmt::format("target has shape {}, expected {} for input 0 of shape {}", text(ctx.shape(1)),
                          text(expected), text(scores)));
  }
  if (ctx.has(2) && ctx.shape(2) != Shape{scores[1]}) {
    ctx.error(fmt::format("weight has shape {}, expected {}", text(ctx.shape(2)), scores[1]));
  }
  ctx.set(0, ctx.dtype(0), reduction_of(ctx.node) == Reduction::none ? expected : Shape{});
}

void reference(ReferenceContext& ctx) {
  const Shape& shape = ctx.in(0).shape();
  const int64_t classes = shape[1];
  const int64_t inner = product(shape, 2, shape.size());
  const bool ignores = ctx.node.has_attr("ignore_index");
  const int64_t ignored = ctx.node.int_attr("ignore_index", 0);
  std::vector<double> losses(static_cast<size_t>(ctx.in(1).elems()));
  double sum = 0;
  double weights = 0;
  for (int64_t i = 0; i < ctx.in(1).elems(); ++i) {
    const int64_t target = ctx.in(1).as_int(i);
    if (ignores && target == ignored) continue;
    if (target < 0 || target >= classes) {
      fail(ErrorKind::bad_input, "{} '{}': target {} at element {} is outside [0, {})", ctx.node.op->name,
           ctx.node.name, target, i, classes);
    }
    const double weight = ctx.has(2) ? ctx.in(2).as_double(target) : 1;
    const double loss = -ctx.in(0).as_double((i / inner * classes + target) * inner + i % inner) * weight;
    losses[static_cast<size_t>(i)] = loss;
    sum += loss;
    weights += weight;
  }
  const Reduction reduction = reduction_of(ctx.node);
  if (reduction == Reduction::sum) losses = {sum};
  if (reduction == Reduction::mean) losses = {sum / weights};
  store_doubles(ctx.out(), losses);
}

}  // namespace

KILTER_OP(NegativeLogLikelihoodLoss){
    .name = "NegativeLogLikelihoodLoss",
    .since = 12,
    .family = Family::reference,
    .min_inputs = 2,
    .max_inputs = 3,
    .attrs = {{"ignore_index", "int", ""}, {"reduction", "string", "mean"}},
    .summary =
        "loss = -x[n, target[n, ...], ...] * weight[target], for x [N, C, ...]; kept, summed or averaged by weight.",
    .infer = infer,
    .reference = reference,
    .cases = {"f32[3,5] i64[3]=0,4,2", "f32[3,5,2] i64[3,2]=0,4,2,1,1,0 f32[5] | reduction=none",
              "f32[3,5] i32[3]=0,-1,2 f32[5]=1,2,3,4,5 | ignore_index=-1", "f64[2,3] i64[2]=1,1 | reduction=sum",
              "f16[2,3] i64[2]=1,0 | | 12"},
};

}  // namespace kilter
