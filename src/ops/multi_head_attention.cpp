// MultiHeadAttention and DecoderMaskedMultiHeadAttention, its form for one query, whose inputs have different numbers.
#include "ops/support/attention_expander.h"

namespace kilter {
namespace {

/// The numbers of the inputs after q, k and v.
struct Places {
  size_t bias, mask, attention_bias, past_key, past_value, past_length, indirection;
};
constexpr Places kMultiHead{3, 4, 5, 6, 7, 8, 9};
constexpr Places kDecoder{10, 3, 4, 5, 6, 7, 9};

class Expansion : AttentionExpander {
 public:
  Expansion(ExpandContext& ctx, const Places& places) : AttentionExpander(ctx), at_(places), heads_(heads_of()) {}

  Result run(bool causal) {
    if (has(at_.indirection)) {
      unsupported(
          fmt::format("cache_indirection (input {}) is not supported: beam search needs a separate cache for each "
                      "beam; export the model without it",
                      at_.indirection));
    }
    read_operands();
    add_bias();
    check_operands();
    Call call{.q = q_, .k = k_, .v = v_, .heads = heads_, .kv_heads = heads_, .causal = causal, .attrs = scale()};
    call.attrs["qk_matmul_output_mode"] = int64_t{2};
    return has(at_.past_length) ? attend_in_buffer(std::move(call)) : attend_after_past(std::move(call));
  }

 private:
  /// Sets q, k and v from operands that are separate or packed. The keys and values of cross-attention may be a cache
  /// [batch, heads, positions, size].
  void read_operands() {
    q_ = in(0), k_ = in(1), v_ = in(2);
    const size_t rank = shape(q_).size();
    if (!has(1) && rank == 5) {
      const std::vector<ValueId> parts = unpacked(q_, 3);
      q_ = parts[0], k_ = parts[1], v_ = parts[2];
    } else if (!has(1) && rank == 3 && at_.bias == kDecoder.bias) {
      const int64_t third = shape(q_)[2] / 3;
      const std::vector<ValueId> parts = split(q_, 2, {third, third, shape(q_)[2] - 2 * third});
      q_ = parts[0], k_ = parts[1], v_ = parts[2];
    } else if (has(1) && !has(2) && shape(k_).size() == 5) {
      const std::vector<ValueId> parts = unpacked(k_, 2);
      k_ = parts[0], v_ = parts[1];
    } else if (!has(1) || !has(2)) {
      error("has no key or no value (inputs 1 and 2), and no packed operand in their place");
    }
    cached_ = shape(k_).size() == 4;
  }

  /// Splits [batch, positions, heads, parts, size] into its parts [batch, positions, heads * size].
  std::vector<ValueId> unpacked(ValueId all, int64_t parts) {
    const Shape own = shape(all);
    if (own[2] != heads_ || own[3] != parts) {
      error(fmt::format("has packed operands of shape {}, expected [batch, positions, {}, {}, size]", text(own), heads_,
                        parts));
    }
    std::vector<ValueId> apart = split(all, 3, std::vector<int64_t>(static_cast<size_t>(parts), 1));
    for (ValueId& part : apart) part = reshaped(part, {own[0], own[1], own[2] * own[4]});
    return apart;
  }

  void add_bias() {
    if (!has(at_.bias)) return;
    const bool ranks = shape(q_).size() == 3 && (cached_ || (shape(k_).size() == 3 && shape(v_).size() == 3));
    if (!ranks) return;  // check_operands() explains it
    const int64_t q = shape(q_)[2];
    const int64_t k = cached_ ? q : shape(k_)[2];
    const int64_t v = !cached_ ? shape(v_)[2] : shape(v_).size() == 4 ? shape(v_)[1] * shape(v_)[3] : 0;
    check_shape_of(at_.bias, "bias", {q + k + v});
    const ValueId bias = in(at_.bias);
    q_ = sum(q_, slice(bias, 0, 0, q));
    if (cached_) return;  // a cache includes the bias
    k_ = sum(k_, slice(bias, 0, q, q + k));
    v_ = sum(v_, slice(bias, 0, q + k, q + k + v));
  }

  void check_operands() {
    const Shape q = shape(q_), k = shape(k_), v = shape(v_);
    const bool fit = q.size() == 3 && q[2] % heads_ == 0 &&
                     (cached_ ? v.size() == 4 && k[0] == q[0] && v[0] == q[0] && k[1] == heads_ && v[1] == heads_ &&
                                    k[3] == q[2] / heads_ && v[2] == k[2]
                              : k.size() == 3 && v.size() == 3 && k[0] == q[0] && v[0] == q[0] && k[2] == q[2] &&
                                    v[1] == k[1] && v[2] % heads_ == 0);
    if (!fit) {
      error(fmt::format(
          "has q, k and v of shapes {}, {} and {} with {} heads; expected [batch, queries, hidden], [batch, "
          "keys, hidden] and [batch, keys, v_hidden], or k and v [batch, heads, keys, size]",
          text(q), text(k), text(v), heads_));
    }
    if (has(at_.past_key) != has(at_.past_value))
      error("has only one of past_key and past_value, expected both or none");
    if (cached_ && has(at_.past_key)) error("has k and v of 4 dimensions and past keys, expected one of them");
    for (const auto& [i, what, own] : {std::tuple(at_.past_key, "past_key", k), {at_.past_value, "past_value", v}}) {
      if (!has(i)) continue;
      const Shape past = shape(in(i));
      check_shape_of(i, what, {q[0], heads_, past.size() == 4 ? past[2] : 0, own[2] / heads_});
    }
    batch_ = q[0];
    queries_ = q[1];
    fresh_ = k[cached_ ? 2 : 1];
  }

  Result attend_after_past(Call call) {
    call.past_key = in(at_.past_key), call.past_value = in(at_.past_value);
    const int64_t past = has(at_.past_key) ? shape(call.past_key)[2] : 0;
    add_masks(call, {batch_, queries_, past + fresh_, past});
    if (cached_) call.q = split_heads(call.q, heads_);
    return attend(std::move(call));
  }

  /// The past keys are a buffer of a fixed capacity, of which past_sequence_length positions are used.
  Result attend_in_buffer(Call call) {
    if (!has(at_.past_key) || cached_) {
      error(fmt::format("has past_sequence_length (input {}) without past keys", at_.past_length));
    }
    const int64_t past = needed_int(at_.past_length, "past_sequence_length");
    const int64_t capacity = shape(in(at_.past_key))[2];
    if (past < 0 || fresh_ > capacity || past > capacity - fresh_) {
      error(fmt::format("past_sequence_length is {}; legal values are 0 to {}: {} positions follow in a buffer of {}",
                        past, capacity - fresh_, fresh_, capacity));
    }
    const auto buffer = [&](size_t i, ValueId fresh) {
      const ValueId before = slice(in(i), 2, 0, past);
      return joined({before, split_heads(fresh, heads_), slice(in(i), 2, past + fresh_, capacity)}, 2);
    };
    const ValueId keys = buffer(at_.past_key, call.k), values = buffer(at_.past_value, call.v);
    call.q = split_heads(call.q, heads_);
    call.k = slice(keys, 2, 0, past + fresh_), call.v = slice(values, 2, 0, past + fresh_);
    const Extents extents{batch_, queries_, past + fresh_, past};
    add_masks(call, extents);
    call.lead = past;
    Result r = attend(std::move(call));
    r.present_key = keys, r.present_value = values;
    return r;
  }

  void add_masks(Call& call, const Extents& extents) {
    const std::string_view what = at_.bias == kDecoder.bias ? "mask_index" : "key_padding_mask";
    call.mask = added_masks(at_.mask, what, at_.attention_bias, extents, heads_, dtype(q_));
  }

  Places at_;
  int64_t heads_ = 1;
  int64_t batch_ = 0;
  int64_t queries_ = 0;
  int64_t fresh_ = 0;    ///< positions of k and v
  bool cached_ = false;  ///< k and v are [batch, heads, positions, size]
  ValueId q_ = kNone, k_ = kNone, v_ = kNone;
};

/// The lowest f32 takes the place of -inf in scores that are an output.
ValueId finite(ExpandContext& ctx, ValueId scores) {
  const DType type = ctx.builder.type(scores).dtype;
  return ctx.add("Max", {scores, ctx.scalar(type, type == DType::f16 ? -65504.0 : -3.4028234663852886e38)});
}

std::vector<ValueId> expand(ExpandContext& ctx) {
  const auto r = Expansion(ctx, kMultiHead).run(ctx.node.int_attr("unidirectional", 0) != 0);
  return {r.y, r.present_key, r.present_value, finite(ctx, r.scores)};
}

std::vector<ValueId> expand_decoder(ExpandContext& ctx) {
  const auto r = Expansion(ctx, kDecoder).run(false);
  return {r.y, r.present_key, r.present_value, finite(ctx, r.scores)};
}

constexpr CaseText kPastKeys =
    "f32[2,3,8] f32[2,3,8] f32[2,3,12] f32[28] i32[2,5]:1,0,1,1,1,1,1,1,1,0 f32[1,2,3,5] f32[2,2,2,4] f32[2,2,2,6] | "
    "num_heads=2 unidirectional=1 | | 4";
constexpr CaseText kBuffer =
    "f32[2,3,8] f32[2,3,8] f32[2,3,8] ? ? ? f32[2,2,7,4] f32[2,2,7,4] i32[1]=2 | num_heads=2 unidirectional=1 | | 3";

}  // namespace

KILTER_OP(MultiHeadAttention){
    .name = "MultiHeadAttention",
    .domain = "com.microsoft",
    .family = Family::attention,
    .max_inputs = 10,
    .max_outputs = 4,
    .attrs = {{"mask_filter_value", "float", "-10000"},
              {"num_heads", "int", "required"},
              {"scale", "float", "0"},
              {"unidirectional", "int", "0"}},
    .summary =
        "Attention of q, k, v [batch, positions, heads * size], packed in one or two operands, or with k and v [batch, "
        "heads, positions, size]: y [batch, queries, heads * size], the keys and values [batch, heads, positions, "
        "size], and the masked scores; inputs q, k, v, bias, key_padding_mask, attention_bias, past_key, past_value, "
        "past_sequence_length.",
    .expand = expand,
    .shape_operands = {8},
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,3,8] f32[2,5,8] f32[2,5,6] f32[22] i32[2]:5,3 | num_heads=2 | | 4", kPastKeys, kBuffer,
              "f32[2,3,2,3,4] | num_heads=2 scale=0.3 | | 3", "f32[2,3,8] f32[2,5,2,2,4] | num_heads=2",
              "f32[2,3,8] f32[2,0,8] f32[2,0,8] | num_heads=2", "f32[2,0,8] f32[2,3,8] f32[2,3,8] | num_heads=2",
              "f32[2,3,8] f32[2,2,5,4] f32[2,2,5,4] f32[24] i32[2,5]:1,1,0,1,1,1,1,1,1,1 | num_heads=2 | | 4",
              "f32[1,2,8] f32[1,2,8] f32[1,2,8] ? ? ? f32[1,2,0,4] f32[1,2,0,4] | num_heads=2 unidirectional=1 | | 3"},
};

KILTER_OP(DecoderMaskedMultiHeadAttention){
    .name = "DecoderMaskedMultiHeadAttention",
    .domain = "com.microsoft",
    .family = Family::attention,
    .max_inputs = 11,
    .max_outputs = 4,
    .attrs = {{"mask_filter_value", "float", "-10000"},
              {"num_heads", "int", "required"},
              {"output_qk", "int", "0"},
              {"past_present_share_buffer", "int", "0"},
              {"scale", "float", "0"}},
    .summary =
        "MultiHeadAttention of one query for each sequence; inputs q (or q, k and v packed along the last dimension), "
        "k, "
        "v, mask_index, attention_bias, past_key, past_value, past_sequence_length, beam_width, cache_indirection, "
        "bias.",
    .expand = expand_decoder,
    .shape_operands = {7},
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases =
        {"f32[2,1,8] f32[2,1,8] f32[2,1,8] i32[2,4]:1,1,0,1,0,1,1,1 ? f32[2,2,3,4] f32[2,2,3,4] | num_heads=2 | | 4",
         "f32[2,1,24] ? ? ? ? f32[2,2,7,4] f32[2,2,7,4] i32[1]=2 i32[1]:1 ? f32[24] | num_heads=2 "
         "past_present_share_buffer=1 | | 3",
         "f32[2,1,8] f32[2,2,5,4] f32[2,2,5,4] | num_heads=2 output_qk=1 | | 4"},
};

}  // namespace kilter
