#include "ops/support/attention_expander.h"

#include <algorithm>

namespace kilter {

int64_t AttentionExpander::heads_of(std::string_view attribute) const {
  const int64_t heads = node().int_attr(attribute, 0);
  constexpr int64_t kMost = int64_t{1} << 20;
  if (heads < 1 || heads > kMost) {
    error(fmt::format("attribute {} is {}; legal values are 1 to {}", attribute, heads, kMost));
  }
  return heads;
}

Attrs AttentionExpander::scale() const {
  const float scale = node().float_attr("scale", 0);
  return scale == 0 ? Attrs{} : Attrs{{"scale", scale}};
}

AttentionExpander::Result AttentionExpander::attend(Call call) {
  const bool apart = shape(call.q).size() == 4;
  Attrs attrs = std::move(call.attrs);
  if (call.causal && call.lead == 0) attrs["is_causal"] = int64_t{1};
  // Attention counts the queries from the first key.
  if (call.causal && call.lead > 0) attrs["right_window_size"] = call.lead;
  if (!apart) attrs["q_num_heads"] = call.heads, attrs["kv_num_heads"] = call.kv_heads;
  const std::vector<ValueId> y =
      add_many("Attention", {call.q, call.k, call.v, call.mask, call.past_key, call.past_value}, std::move(attrs), 4);
  return {apart ? merged_heads(y[0]) : y[0], y[1], y[2], y[3]};
}

ValueId AttentionExpander::split_heads(ValueId v, int64_t heads) {
  const Shape own = shape(v);
  return exchanged(reshaped(v, {own[0], own[1], heads, own[2] / heads}));
}

ValueId AttentionExpander::merged_heads(ValueId v) {
  const Shape own = shape(v);
  return reshaped(exchanged(v), {own[0], own[2], own[1] * own[3]});
}

ValueId AttentionExpander::added_mask(size_t i, std::string_view what, const Extents& e, DType type) {
  if (!has(i)) return kNone;
  const Shape given = shape(in(i));
  const DType ints = dtype(in(i));
  const auto positive = [&](ValueId v, const Shape& to) { return add("Greater", {reshaped(v, to), scalar(ints, 0)}); };
  ValueId visible = kNone;
  if (given == Shape{e.batch, e.keys}) {
    visible = positive(in(i), {e.batch, 1, 1, e.keys});
  } else if (given == Shape{e.batch, e.queries, e.keys}) {
    visible = positive(in(i), {e.batch, 1, e.queries, e.keys});
  } else if (given.size() == 4 && given[0] == e.batch && given[1] == 1 && given[2] == given[3] &&
             given[2] >= e.past + e.queries && given[3] >= e.keys) {
    const ValueId rows = slice(in(i), 2, e.past, e.past + e.queries);
    visible = positive(slice(rows, 3, 0, e.keys), {e.batch, 1, e.queries, e.keys});
  } else if (given == Shape{e.batch} || given == Shape{2 * e.batch} || given == Shape{3 * e.batch + 2}) {
    visible = between(in(i), given[0] == 2 * e.batch, e);
  } else {
    error(
        fmt::format("{} (input {}) has shape {}, expected {}, {} (ends, then starts) or {} (ends, then offsets), "
                    "{}x{}, {}x{}x{} or {}x1xNxN with N of at least {}",
                    what, i, text(given), e.batch, 2 * e.batch, 3 * e.batch + 2, e.batch, e.keys, e.batch, e.queries,
                    e.keys, e.batch, e.keys));
  }
  const auto hidden = static_cast<double>(node().float_attr("mask_filter_value", -10000.0F));
  return add("Where", {visible, scalar(type, 0), scalar(type, hidden)});
}

ValueId AttentionExpander::between(ValueId mask, bool has_starts, const Extents& e) {
  const ValueId positions = counting(DType::i32, 0, {e.keys});
  const auto limits = [&](int64_t from) {
    return reshaped(cast(slice(mask, 0, from, from + e.batch), DType::i32), {e.batch, 1, 1, 1});
  };
  const ValueId before_end = add("Less", {positions, limits(0)});
  return has_starts ? add("And", {before_end, add("GreaterOrEqual", {positions, limits(e.batch)})}) : before_end;
}

ValueId AttentionExpander::added_masks(size_t mask, std::string_view what, size_t bias, const Extents& e, int64_t heads,
                                       DType type) {
  check_attention_bias(bias, e, heads);
  return sum(added_mask(mask, what, e, type), in(bias));
}

void AttentionExpander::check_attention_bias(size_t i, const Extents& e, int64_t heads) const {
  std::vector<Shape> legal;
  for (const int64_t b : {e.batch, int64_t{1}}) {
    for (const int64_t h : {heads, int64_t{1}}) legal.push_back({b, h, e.queries, e.keys});
  }
  legal.erase(std::unique(legal.begin(), legal.end()), legal.end());
  check_shape_of(i, "attention_bias", legal);
}

}  // namespace kilter
