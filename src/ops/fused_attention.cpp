#include "ops/support/fused_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/support/builder.h"
#include "ops/support/elementwise.h"
#include "ops/support/iterate.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  check_types(Types<float>{}, ctx, 0);
  check_same_dtype(ctx);
  const Shape* mask = ctx.has(3) ? &ctx.shape(3) : nullptr;
  ctx.set(0, ctx.dtype(0), fused_attention_shape(ctx.node, ctx.shape(0), ctx.shape(1), ctx.shape(2), mask).out());
}

/// Turns the scores of one query into weights that add up to 1.
void normalise(std::vector<double>& row, const FusedAttentionRules& rules) {
  const double largest = *std::max_element(row.begin(), row.end());
  const bool empty = largest == -std::numeric_limits<double>::infinity();
  double total = 0;
  for (double& score : row) total += score = std::exp(score - largest);
  for (double& weight : row) weight /= total;
  if ((rules.empty_is_zero && empty) || (rules.nan_is_zero && std::isnan(total)))
    std::fill(row.begin(), row.end(), 0.0);
}

void reference(ReferenceContext& ctx) {
  const FusedAttentionShape s = fused_attention_shape(ctx.node, ctx.in(0).shape(), ctx.in(1).shape(), ctx.in(2).shape(),
                                                      ctx.has(3) ? &ctx.in(3).shape() : nullptr);
  const FusedAttentionRules rules = fused_attention_rules(ctx.node);
  const std::vector<double> q = load_doubles(ctx.in(0));
  const std::vector<double> k = load_doubles(ctx.in(1));
  const std::vector<double> v = load_doubles(ctx.in(2));
  const std::vector<double> mask = ctx.has(3) ? load_doubles(ctx.in(3)) : std::vector<double>{0.0};
  const Shape mask_strides =
      ctx.has(3) ? broadcast_strides(ctx.in(3).shape(), s.scores()) : Shape(s.scores().size(), 0);
  const int64_t by_key = mask_strides.back();
  Shape rows = s.batch;  // one index vector per query
  rows.push_back(s.queries);
  const auto strides_of = [&](const Tensor& t) {
    const Shape& own = t.shape();
    Shape strides = broadcast_strides(own, s.with(own[own.size() - 2], own.back()));
    strides.resize(rows.size());
    return strides;
  };
  Shape k_strides = strides_of(ctx.in(1)), v_strides = strides_of(ctx.in(2));
  k_strides.back() = v_strides.back() = 0;
  Shape mask_rows(mask_strides.begin(), mask_strides.end() - 1);
  std::vector<double> weights(static_cast<size_t>(s.keys)), y;
  for_each_offset<4>(rows, {strides_of(ctx.in(0)), k_strides, v_strides, mask_rows}, [&](const auto& at) {
    for (int64_t j = 0; j < s.keys; ++j) {
      double sum = 0;
      for (int64_t c = 0; c < s.size; ++c) sum += q[at[0] + c] * k[at[1] + j * s.size + c];
      weights[static_cast<size_t>(j)] = sum * static_cast<double>(rules.scale) + mask[at[3] + j * by_key];
    }
    if (s.keys > 0) normalise(weights, rules);
    for (int64_t c = 0; c < s.v_size; ++c) {
      double sum = 0;
      for (int64_t j = 0; j < s.keys; ++j) sum += weights[static_cast<size_t>(j)] * v[at[2] + j * s.v_size + c];
      y.push_back(sum);
    }
  });
  store_doubles(ctx.out(), y);
}

int64_t flops(const OpView& view) {
  return fused_attention_shape(view.node, view.inputs[0].shape, view.inputs[1].shape, view.inputs[2].shape, nullptr)
      .flops();
}

}  // namespace

Shape FusedAttentionShape::with(int64_t rows, int64_t columns) const {
  Shape shape = batch;
  shape.push_back(rows);
  shape.push_back(columns);
  return shape;
}

FusedAttentionShape fused_attention_shape(const Node& node, const Shape& q, const Shape& k, const Shape& v,
                                          const Shape* mask) {
  const auto wrong = [&] {
    node_error(node, fmt::format("q, k, v and mask have shapes {}, {}, {} and {}, expected [batch..., queries, size], "
                                 "[batch..., keys, size], [batch..., keys, v_size] and none or one that broadcasts to "
                                 "[batch..., queries, keys]",
                                 text(q), text(k), text(v), mask == nullptr ? "none" : text(*mask)));
  };
  if (q.size() < 2 || k.size() < 2 || v.size() < 2) wrong();
  const auto leading = [](const Shape& shape) { return Shape(shape.begin(), shape.end() - 2); };
  const auto batch = broadcast_shapes(std::vector<Shape>{leading(q), leading(k), leading(v)});
  if (!batch || q.back() != k.back() || k[k.size() - 2] != v[v.size() - 2]) wrong();
  FusedAttentionShape s{*batch, q[q.size() - 2], k[k.size() - 2], q.back(), v.back()};
  if (mask != nullptr && broadcast_shapes(std::vector<Shape>{*mask, s.scores()}) != s.scores()) wrong();
  return s;
}

FusedAttentionRules fused_attention_rules(const Node& node) {
  return {node.float_attr("scale", 1), node.int_attr("empty_is_zero", 0) != 0, node.int_attr("nan_is_zero", 0) != 0};
}

KILTER_OP(FusedAttention){
    .name = "FusedAttention",
    .domain = "kilter",
    .family = Family::attention,
    .min_inputs = 3,
    .max_inputs = 4,
    .attrs = {{"empty_is_zero", "int", "0"}, {"nan_is_zero", "int", "0"}, {"scale", "float", "1"}},
    .summary =
        "softmax(scale q k' + mask) v over the last dimension for q [..., m, d], k [..., n, d], v [..., n, e] and an "
        "optional mask that broadcasts to [..., m, n]; created by the attention pass. The result of a query whose "
        "weights are NaN is NaN; with nan_is_zero it is 0, and with empty_is_zero it is 0 if all its scores are -inf.",
    .infer = infer,
    .reference = reference,
    .flops = flops,
    // As for Attention: the errors of two matrix products and an exponential add up.
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[1,3,33,64] f32[1,3,197,64] f32[1,3,197,64] | scale=0.125",
              "f32[2,2,5,24] f32[2,2,7,24] f32[2,2,7,8] f32[2,1,1,7] | scale=0.2",
              "f32[2,3,17,8] f32[2,3,1,8] f32[2,3,1,80]",
              "f32[3,50,80] f32[3,33,80] f32[1,33,24] f32[50,33] | scale=0.1",
              "f32[2,1,33,16] f32[2,9,16] f32[1,2,9,5] f32[2,1,33,9] | scale=0.25",
              "f32[40,3] f32[6,3] f32[6,4] f32[1]:0.5",
              "f32[1,2,3,8] f32[1,2,5,8] f32[1,2,5,8] f32[1,1,1,5]:-inf,0,-inf,1,-3e38 | scale=0.3",
              "f32[2,8] f32[3,8] f32[3,20] f32[2,3]:-inf,-inf,-inf,0,-inf,0 | empty_is_zero=1",
              "f32[3,8] f32[3,8] f32[3,20] f32[3,3]:-inf,-inf,-inf,0,nan,0,0,-inf,0 | nan_is_zero=1",
              "f32[3,8] f32[3,8] f32[3,20] f32[3,3]:-inf,-inf,-inf,0,nan,0,0,-inf,0 | empty_is_zero=1",
              "f32[2,8] f32[3,8] f32[3,20] f32[2,3]:-3.4e38,-3.4e38,-3.4e38,0,-3.4e38,0",
              "f32[20,4] f32[3,4] f32[3,4] f32[20,1]=-2.5", "f32[2,4] f32[3,4] f32[3,4] f32[2,3]:0,0,0,-inf,-inf,-inf",
              "f32[0,4] f32[3,4] f32[3,4]", "f32[3,8] f32[9000,8] f32[9000,8] f32[1,9000] | scale=0.5"},
};

}  // namespace kilter
