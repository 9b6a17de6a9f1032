#include "ops/support/attention.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "ops/support/elementwise.h"
#include "ops/support/onnx_dtype.h"

namespace kilter {

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

void check_softmax_precision(const Node& node) {
  const auto type = dtype_of_code(node.int_attr("softmax_precision", 1));
  if (!type || !is_float(*type)) {
    node_error(node,
               fmt::format("attribute softmax_precision is {}; legal values are 1 (f32), 10 (f16), 11 (f64), 16 (bf16)",
                           node.int_attr("softmax_precision", 1)));
  }
}

template <class Context>
AttentionShape shape_of_node(const Context& ctx, const std::function<const Shape*(size_t)>& shape) {
  return attention_shape(ctx.node, *shape(0), *shape(1), *shape(2), shape(4), shape(5));
}

void infer(InferContext& ctx) {
  for (size_t i = 0; i < 3; ++i) check_types(Floats{}, ctx, i);
  const AttentionShape s = shape_of_node(ctx, [&](size_t i) { return ctx.has(i) ? &ctx.shape(i) : nullptr; });
  if (ctx.has(3)) {
    Shape mask = ctx.shape(3);
    if (!mask.empty() && mask.back() < s.keys() && mask.back() != 1) mask.back() = s.keys();
    if (broadcast_shapes(std::vector<Shape>{mask, s.scores()}) != s.scores()) {
      ctx.error(
          fmt::format("attn_mask has shape {}, which does not broadcast to {}", text(ctx.shape(3)), text(s.scores())));
    }
  }
  if (ctx.has(6) && (ctx.dtype(6) != DType::i64 || ctx.shape(6) != Shape{s.batch})) {
    ctx.error(fmt::format("nonpad_kv_seqlen has type {}, expected i64[{}]", text(ctx.type(6)), s.batch));
  }
  attention_rules(ctx.node, s.size);
  check_softmax_precision(ctx.node);
  ctx.set(0, ctx.dtype(0), s.output());
  if (ctx.outputs.size() > 1) ctx.set(1, ctx.dtype(1), s.present_key());
  if (ctx.outputs.size() > 2) ctx.set(2, ctx.dtype(2), s.present_value());
  if (ctx.outputs.size() > 3) ctx.set(3, ctx.dtype(0), s.scores());
}

/// Returns operand `fresh` as [batch, heads, past + positions, size], preceded by `past` if present.
std::vector<double> joined(const ReferenceContext& ctx, size_t fresh, size_t past, const AttentionShape& s,
                           int64_t heads, int64_t positions, int64_t size) {
  const std::vector<double> x = load_doubles(ctx.in(fresh));
  const std::vector<double> before = ctx.has(past) ? load_doubles(ctx.in(past)) : std::vector<double>();
  const int64_t lead = ctx.has(past) ? s.past : 0;
  std::vector<double> all;
  for (int64_t bh = 0; bh < s.batch * heads; ++bh) {
    all.insert(all.end(), before.begin() + bh * lead * size, before.begin() + (bh + 1) * lead * size);
    for (int64_t p = 0; p < positions; ++p) {
      const int64_t row = s.rank3 ? (bh / heads * positions + p) * heads + bh % heads : bh * positions + p;
      all.insert(all.end(), x.begin() + row * size, x.begin() + (row + 1) * size);
    }
  }
  return all;
}

/// Returns the bias that is added to the scores, dense [batch, heads, q, keys]: 0 or the mask if a key is visible, else
/// -inf.
std::vector<double> bias_of(const ReferenceContext& ctx, const AttentionShape& s, const AttentionRules& rules) {
  std::vector<double> mask;
  Shape mask_strides(4, 0);
  int64_t mask_keys = s.keys();
  if (ctx.has(3)) {
    mask = load_doubles(ctx.in(3));
    if (ctx.in(3).dtype() == DType::boolean) {
      for (double& entry : mask) entry = entry != 0 ? 0 : kNever;
    }
    Shape target = s.scores();
    const Shape& shape = ctx.in(3).shape();
    if (!shape.empty() && shape.back() != 1) target.back() = mask_keys = shape.back();
    mask_strides = broadcast_strides(shape, target);
  }
  std::vector<double> bias;
  for_each_index(s.scores(), [&](std::span<const int64_t> at) {
    const int64_t key = at[3];
    const bool nonpad = ctx.has(6);
    const int64_t valid = nonpad ? ctx.in(6).as_int(at[0]) : s.keys();
    const int64_t position = at[2] + (ctx.has(4) ? s.past : nonpad ? valid - s.queries : 0);
    const bool seen = key < valid && key < mask_keys && !(rules.bounded_right && key > position + rules.right) &&
                      !(rules.bounded_left && key < position - rules.left);
    if (!seen) {
      bias.push_back(kNever);
    } else {
      bias.push_back(mask.empty() ? 0.0 : mask[static_cast<size_t>(offset_of(at, mask_strides))]);
    }
  });
  return bias;
}

/// The scores of one query after each step; output 3 returns those of the requested step.
struct ScoreRow {
  std::vector<double> raw, capped, biased, weights;

  const std::vector<double>& at(int64_t mode) const {
    return mode == 0 ? raw : mode == 1 ? capped : mode == 2 ? biased : weights;
  }
};

ScoreRow score(const double* q, const double* k, const double* bias, int64_t keys, int64_t size,
               const AttentionRules& rules) {
  ScoreRow row;
  double largest = kNever;
  bool any = false;
  for (int64_t j = 0; j < keys; ++j) {
    double sum = 0;
    for (int64_t d = 0; d < size; ++d) sum += q[d] * k[j * size + d];
    row.raw.push_back(sum * rules.scale);
    row.capped.push_back(rules.softcap > 0 ? rules.softcap * std::tanh(row.raw.back() / rules.softcap)
                                           : row.raw.back());
    row.biased.push_back(row.capped.back() + bias[j]);
    largest = std::max(largest, row.biased.back());
    any = any || bias[j] != kNever;
  }
  double total = 0;
  for (const double value : row.biased) {
    row.weights.push_back(any ? std::exp(value - largest) : 0.0);
    total += row.weights.back();
  }
  for (double& weight : row.weights) weight = any ? weight / total : 0.0;
  return row;
}

void reference(ReferenceContext& ctx) {
  const AttentionShape s = shape_of_node(ctx, [&](size_t i) { return ctx.has(i) ? &ctx.in(i).shape() : nullptr; });
  const AttentionRules rules = attention_rules(ctx.node, s.size);
  const std::vector<double> q = joined(ctx, 0, SIZE_MAX, s, s.q_heads, s.queries, s.size);
  const std::vector<double> k = joined(ctx, 1, 4, s, s.kv_heads, s.fresh, s.size);
  const std::vector<double> v = joined(ctx, 2, 5, s, s.kv_heads, s.fresh, s.v_size);
  const std::vector<double> bias = bias_of(ctx, s, rules);
  std::vector<double> y(static_cast<size_t>(elems(s.output())), 0.0);
  std::vector<double> scores;
  const int64_t keys = s.keys();
  for (int64_t row = 0; row < s.batch * s.q_heads * s.queries; ++row) {
    const int64_t b = row / (s.q_heads * s.queries);
    const int64_t h = row / s.queries % s.q_heads;
    const int64_t i = row % s.queries;
    const int64_t source = b * s.kv_heads + h / (s.q_heads / s.kv_heads);
    const ScoreRow scored = score(q.data() + row * s.size, k.data() + source * keys * s.size, bias.data() + row * keys,
                                  keys, s.size, rules);
    const std::vector<double>& shown = scored.at(rules.output_mode);
    scores.insert(scores.end(), shown.begin(), shown.end());
    double* to = y.data() + (s.rank3 ? (b * s.queries + i) * s.q_heads + h : row) * s.v_size;
    for (int64_t j = 0; j < keys; ++j) {
      const double weight = scored.weights[static_cast<size_t>(j)];
      // Masked keys contribute nothing, whatever their values.
      for (int64_t d = 0; weight != 0 && d < s.v_size; ++d) {
        to[d] += weight * v[static_cast<size_t>((source * keys + j) * s.v_size + d)];
      }
    }
  }
  if (ctx.wants(0)) store_doubles(ctx.out(0), y);
  if (ctx.wants(1)) store_doubles(ctx.out(1), k);
  if (ctx.wants(2)) store_doubles(ctx.out(2), v);
  if (ctx.wants(3)) store_doubles(ctx.out(3), scores);
}

int64_t flops(const OpView& view) {
  const auto shape = [&](size_t i) {
    return i < view.present.size() && view.present[i] ? &view.inputs[i].shape : nullptr;
  };
  const AttentionShape s = shape_of_node(view, shape);
  return 2 * elems(s.scores()) * (s.size + s.v_size);
}

}  // namespace

AttentionShape attention_shape(const Node& node, const Shape& q, const Shape& k, const Shape& v, const Shape* past_key,
                               const Shape* past_value) {
  AttentionShape s;
  s.rank3 = q.size() == 3;
  if (q.size() != k.size() || q.size() != v.size() || (q.size() != 3 && q.size() != 4)) {
    node_error(node, fmt::format("q, k and v have shapes {}, {} and {}, expected rank 3 or 4 throughout", text(q),
                                 text(k), text(v)));
  }
  s.batch = q[0];
  s.q_heads = s.rank3 ? node.int_attr("q_num_heads", 0) : q[1];
  s.kv_heads = s.rank3 ? node.int_attr("kv_num_heads", 0) : k[1];
  if (s.q_heads < 1 || s.kv_heads < 1 || s.q_heads % s.kv_heads != 0) {
    node_error(node, fmt::format("has {} query and {} key heads; expected q_num_heads to be a multiple of kv_num_heads",
                                 s.q_heads, s.kv_heads));
  }
  s.queries = q[s.rank3 ? 1 : 2];
  s.fresh = k[s.rank3 ? 1 : 2];
  s.size = s.rank3 ? q[2] / s.q_heads : q[3];
  s.v_size = s.rank3 ? v[2] / s.kv_heads : v[3];
  const auto shaped = [&](int64_t heads, int64_t positions, int64_t size) {
    return s.rank3 ? Shape{s.batch, positions, heads * size} : Shape{s.batch, heads, positions, size};
  };
  if (q != shaped(s.q_heads, s.queries, s.size) || k != shaped(s.kv_heads, s.fresh, s.size) ||
      v != shaped(s.kv_heads, s.fresh, s.v_size)) {
    node_error(node, fmt::format("q, k and v have shapes {}, {} and {}, which do not fit {} query and {} key heads",
                                 text(q), text(k), text(v), s.q_heads, s.kv_heads));
  }
  if ((past_key == nullptr) != (past_value == nullptr)) {
    node_error(node, "has only one of past_key and past_value, expected both or none");
  }
  if (past_key == nullptr) return s;
  s.past = past_key->size() == 4 ? (*past_key)[2] : 0;
  const Shape expected_key = {s.batch, s.kv_heads, s.past, s.size};
  const Shape expected_value = {s.batch, s.kv_heads, s.past, s.v_size};
  if (*past_key != expected_key || *past_value != expected_value) {
    node_error(node, fmt::format("past_key and past_value have shapes {} and {}, expected {} and {}", text(*past_key),
                                 text(*past_value), text(expected_key), text(expected_value)));
  }
  return s;
}

AttentionRules attention_rules(const Node& node, int64_t size) {
  AttentionRules rules;
  rules.scale = node.has_attr("scale") ? static_cast<double>(node.float_attr("scale", 1))
                                       : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(size, 1)));
  rules.softcap = node.float_attr("softcap", 0);
  const int64_t right = node.int_attr("right_window_size", -1);
  const int64_t left = node.int_attr("left_window_size", -1);
  const bool causal = node.int_attr("is_causal", 0) != 0;
  constexpr int64_t kMaxWindow = int64_t{1} << 30;
  if (right < -1 || left < -1 || right > kMaxWindow || left > kMaxWindow) {
    node_error(node, fmt::format("left_window_size={} and right_window_size={}; legal values are -1 (no bound) to {}",
                                 left, right, kMaxWindow));
  }
  rules.bounded_right = causal || right >= 0;
  rules.right = causal ? 0 : right;
  rules.bounded_left = left >= 0;
  rules.left = left;
  rules.output_mode = node.int_attr("qk_matmul_output_mode", 0);
  if (rules.output_mode < 0 || rules.output_mode > 3) {
    node_error(node, fmt::format("attribute qk_matmul_output_mode is {}; legal values are 0 to 3", rules.output_mode));
  }
  return rules;
}

KILTER_OP(Attention){
    .name = "Attention",
    .since = 23,
    .min_inputs = 3,
    .max_inputs = 7,
    .max_outputs = 4,
    .attrs = {{"is_causal", "int", "0"},
              {"kv_num_heads", "int", ""},
              {"left_window_size", "int", "-1"},
              {"q_num_heads", "int", ""},
              {"qk_matmul_output_mode", "int", "0"},
              {"right_window_size", "int", "-1"},
              {"scale", "float", ""},
              {"softcap", "float", "0"},
              {"softmax_precision", "int", ""}},
    .summary =
        "Softmax(scale q k' + bias) v per head for q, k, v [batch, heads, positions, size] or [batch, positions, heads "
        "* size]; optional mask, cache of past keys and values, causal and window bounds, grouped heads.",
    .infer = infer,
    .reference = reference,
    .expand = expand_attention,
    .flops = flops,
    // The errors of two matrix products and an exponential add up.
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,3,5,8] f32[2,3,7,8] f32[2,3,7,9]",
              "f32[1,4,24] f32[1,6,12] f32[1,6,14] | q_num_heads=4 kv_num_heads=2",
              "f32[2,4,5,8] f32[2,2,5,8] f32[2,2,5,8] | is_causal=1 softcap=2.0",
              "f32[2,2,3,8] f32[2,2,4,8] f32[2,2,4,8] bool[3,9] f32[2,2,5,8] f32[2,2,5,8] | | | 4",
              "f32[2,2,3,4] f32[2,2,6,4] f32[2,2,6,4] f32[2,1,3,6] ? ? i64[2]:4,1 | is_causal=1 left_window_size=2",
              "f32[1,2,3,4] f32[1,2,6,4] f32[1,2,6,4] f32[4] | qk_matmul_output_mode=3 scale=0.3 | 23 | 4"},
};

}  // namespace kilter
