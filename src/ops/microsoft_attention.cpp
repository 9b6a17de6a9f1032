// Attention of com.microsoft: projections and self-attention in one operator.
#include "ops/support/attention_expander.h"

namespace kilter {
namespace {

enum Input : size_t { kX, kW, kBias, kMask, kPast, kAttentionBias, kPastLength };

class Expansion : AttentionExpander {
 public:
  explicit Expansion(ExpandContext& ctx) : AttentionExpander(ctx) {}

  std::vector<ValueId> run() {
    check();
    const std::vector<ValueId> parts = split(sum(add("MatMul", {in(kX), in(kW)}), in(kBias)), 2, sizes_);
    Call call{.q = parts[0], .k = parts[1], .v = parts[2], .heads = heads_, .kv_heads = heads_};
    const Extents extents{batch_, sequence_, past_ + sequence_, past_};
    call.mask = added_masks(kMask, "mask_index", kAttentionBias, extents, heads_, dtype(in(kX)));
    call.causal = node().int_attr("unidirectional", 0) != 0;
    call.attrs = scale();
    const bool one_size = sizes_[1] == sizes_[2];  // otherwise keys and values do not fit into one tensor
    const ValueId present = one_size ? with_past(parts[1], parts[2]) : kNone;
    if (past_ > 0) {
      call.q = split_heads(call.q, heads_), call.lead = past_;
      call.k = half(present, 0), call.v = half(present, 1);
    }
    return {attend(std::move(call)).y, present};
  }

 private:
  /// Throws bad_model or unsupported for operands and attributes whose errors the added nodes would not explain.
  void check() {
    for (const char* key : {"do_rotary", "past_present_share_buffer"}) {
      if (node().int_attr(key, 0) == 0) continue;
      unsupported(fmt::format("attribute {} is not supported; export the model without it", key));
    }
    if (has(kPastLength)) unsupported("past_sequence_length (input 6) is not supported; export the model without it");
    heads_ = heads_of();
    const Shape x = shape(in(kX)), w = shape(in(kW));
    if (x.size() != 3 || w.size() != 2 || x[2] != w[0]) {
      error(
          fmt::format("has input {} and weights {}, expected [batch, sequence, inputs] and [inputs, sizes of q, k and "
                      "v]",
                      text(x), text(w)));
    }
    batch_ = x[0];
    sequence_ = x[1];
    sizes_ =
        node().has_attr("qkv_hidden_sizes") ? node().ints_attr("qkv_hidden_sizes") : std::vector<int64_t>(3, w[1] / 3);
    const bool fit = sizes_.size() == 3 && sizes_[0] == sizes_[1] && sizes_[0] > 0 && sizes_[2] > 0 &&
                     sizes_[0] <= w[1] && sizes_[2] <= w[1] && 2 * sizes_[0] + sizes_[2] == w[1] &&
                     sizes_[0] % heads_ == 0 && sizes_[2] % heads_ == 0;
    if (!fit) {
      error(
          fmt::format("has weights {}, qkv_hidden_sizes [{}] and num_heads {}; expected equal sizes of q and k, "
                      "multiples of num_heads, that add up with that of v to the columns of the weights",
                      text(w), fmt::join(sizes_, ","), heads_));
    }
    check_shape_of(kBias, "bias", {w[1]});
    if (!has(kPast)) return;
    const Shape past = shape(in(kPast));
    const Shape expected = {2, batch_, heads_, past.size() == 5 ? past[3] : 0, sizes_[0] / heads_};
    if (past != expected || sizes_[0] != sizes_[2]) {
      error(fmt::format("past has shape {}, expected [2, {}, {}, past positions, {}] and values as long as keys",
                        text(past), batch_, heads_, sizes_[0] / heads_));
    }
    past_ = past[3];
  }

  /// Returns keys and values as [2, batch, heads, positions, size], after those of the past.
  ValueId with_past(ValueId k, ValueId v) {
    const auto apart = [&](ValueId part) { return add("Unsqueeze", {split_heads(part, heads_), list({0})}); };
    const ValueId fresh = joined({apart(k), apart(v)}, 0);
    return past_ > 0 ? joined({in(kPast), fresh}, 3) : fresh;
  }
  ValueId half(ValueId both, int64_t which) {
    const Shape own = shape(both);
    return reshaped(slice(both, 0, which, which + 1), {own[1], own[2], own[3], own[4]});
  }

  int64_t heads_ = 1;
  int64_t batch_ = 0;
  int64_t sequence_ = 0;
  int64_t past_ = 0;
  std::vector<int64_t> sizes_;
};

std::vector<ValueId> expand(ExpandContext& ctx) { return Expansion(ctx).run(); }

constexpr CaseText kPastKeys =
    "f32[2,3,8] f32[8,24] f32[24] i32[4]:5,4,0,1 f32[2,2,2,2,4] f32[1,2,3,5] | num_heads=2 unidirectional=1 | | 2";

}  // namespace

KILTER_OP(MicrosoftAttention){
    .name = "Attention",
    .domain = "com.microsoft",
    .family = Family::attention,
    .min_inputs = 2,
    .max_inputs = 7,
    .max_outputs = 2,
    .attrs = {{"do_rotary", "int", "0"},
              {"mask_filter_value", "float", "-10000"},
              {"num_heads", "int", "required"},
              {"past_present_share_buffer", "int", "0"},
              {"qkv_hidden_sizes", "ints", ""},
              {"rotary_embedding_dim", "int", "0"},
              {"scale", "float", "0"},
              {"unidirectional", "int", "0"}},
    .summary =
        "Self-attention of x [batch, sequence, inputs] whose q, k and v are x w + bias for weights [inputs, sizes of "
        "q, k and v]: y [batch, sequence, size of v] and the keys and values [2, batch, heads, positions, size]; "
        "inputs x, weights, bias, mask_index, past keys and values, attention_bias.",
    .expand = expand,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,3,8] f32[8,24] f32[24] | num_heads=2 | | 2", kPastKeys,
              "f32[2,3,8] f32[8,20] ? i32[2]:3,1 | num_heads=2 qkv_hidden_sizes=[8,8,4] unidirectional=1",
              "f32[2,3,8] f32[8,12] f32[12] i32[2,3]:1,1,0,0,1,1 | num_heads=1 scale=0.1 mask_filter_value=-50",
              "f32[1,2,8] f32[8,12] f32[12] i32[1,2,2]:1,0,1,1 | num_heads=1",
              "f32[1,2,8] f32[8,12] f32[12] i32[1,1,3,3]:1,0,0,1,1,0,0,1,1 f32[2,1,1,1,4] | num_heads=1 | | 2",
              "f32[1,2,8] f32[8,12] ? ? f32[2,1,1,0,4] | num_heads=1 unidirectional=1 | | 2"},
};

}  // namespace kilter
