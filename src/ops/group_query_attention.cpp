// GroupQueryAttention: attention with fewer heads of keys than of queries, a cache, and rotary embeddings.
//
// Sequence b has seqlens_k[b] + 1 positions, of which the queries are the last. total_sequence_length is the largest
// such number, by the operator's definition. If the number is the same for all sequences, the cache is cut and joined
// at constant places. Otherwise, masks and places of writing are computed from seqlens_k when the network runs.
#include <algorithm>
#include <limits>

#include "ops/support/attention_expander.h"

namespace kilter {
namespace {

enum Input : size_t {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kLengths,
  kTotal,
  kCosines,
  kSines,
  kPositions,
  kAttentionBias,
  kSink,
  kKeyScale,
  kValueScale,
  kQueryNorm,
  kKeyNorm
};

class Expansion : AttentionExpander {
 public:
  explicit Expansion(ExpandContext& ctx)
      : AttentionExpander(ctx), heads_(heads_of()), kv_heads_(heads_of("kv_num_heads")) {}

  std::vector<ValueId> run() {
    check_supported();
    read_operands();
    read_extents();
    check_others();
    normalise();
    rotate();
    fill_caches();
    Call call{.q = q_, .k = keys_, .v = values_, .heads = heads_, .kv_heads = kv_heads_, .attrs = scale()};
    call.attrs["softcap"] = node().float_attr("softcap", 0);
    call.attrs["qk_matmul_output_mode"] = int64_t{node().int_attr("qk_output", 0) == 1 ? 2 : 3};
    see(call);
    if (has(kSink) || node().int_attr("smooth_softmax", -1) == 1) add_sink(call);
    const Result r = attend(std::move(call));
    return {r.y, present_key_, present_value_, shown(r.scores)};
  }

 private:
  void check_supported() {
    for (const char* key : {"k_quant_type", "v_quant_type"}) {
      const std::string given = node().string_attr(key, "NONE");
      if (given == "NONE") continue;
      unsupported(
          fmt::format("attribute {} is '{}': quantised caches are not supported; export the model with a cache of "
                      "floats",
                      key, given));
    }
    if (node().int_attr("sliding_window_cache", 0) != 0) {
      unsupported("attribute sliding_window_cache is not supported; export the model with a cache of all positions");
    }
    if (has(kKeyScale) || has(kValueScale))
      unsupported("k_scale and v_scale belong to quantised caches, which are not supported");
  }

  void read_operands() {
    q_ = in(kQuery), keys_ = in(kKey), values_ = in(kValue);
    const Shape q = shape(q_);
    if (has(kKey) != has(kValue)) error("has only one of key and value, expected both, or none if query has all three");
    const int64_t divisor = has(kKey) ? heads_ : heads_ + 2 * kv_heads_;
    if (heads_ % kv_heads_ != 0 || q.size() != 3 || q[2] % divisor != 0) {
      error(fmt::format(
          "has a query of shape {} with {} heads and {} heads of keys; expected [batch, queries, {} * size] "
          "and a multiple of the heads of keys",
          text(q), heads_, kv_heads_, divisor));
    }
    batch_ = q[0], queries_ = q[1], size_ = q[2] / divisor;
    const int64_t kv = kv_heads_ * size_;
    if (!has(kKey)) {
      const std::vector<ValueId> parts = split(q_, 2, {heads_ * size_, kv, kv});
      q_ = parts[0], keys_ = parts[1], values_ = parts[2];
    }
    check_shape_of(kKey, "key", {batch_, queries_, kv});
    check_shape_of(kValue, "value", {batch_, queries_, kv});
  }

  void read_extents() {
    require(kLengths, "seqlens_k");
    require(kTotal, "total_sequence_length");
    if (const Shape lengths = shape(in(kLengths)); elems(lengths) != batch_) {
      error(fmt::format("seqlens_k (input 5) has shape {}, expected {}, one element for each sequence", text(lengths),
                        batch_));
    }
    if (has(kPastKey) != has(kPastValue)) error("has only one of past_key and past_value, expected both or none");
    capacity_ = has(kPastKey) && shape(in(kPastKey)).size() == 4 ? shape(in(kPastKey))[2] : 0;
    check_shape_of(kPastKey, "past_key", {batch_, kv_heads_, capacity_, size_});
    check_shape_of(kPastValue, "past_value", {batch_, kv_heads_, capacity_, size_});
    total_ = needed_int(kTotal, "total_sequence_length");
    if (total_ < queries_ || (total_ > capacity_ && total_ != capacity_ + queries_)) {
      const std::string fixed =
          capacity_ < queries_ ? ""
                               : fmt::format(", or {} to {}, for a cache of a fixed capacity", queries_, capacity_);
      error(fmt::format("total_sequence_length is {}; expected {}, the past and the new positions{}", total_,
                        capacity_ + queries_, fixed));
    }
    causal_ = node().int_attr("causal", 1) != 0;
    window_ = node().int_attr("local_window_size", -1);
    if (window_ < -1 || window_ == 0 || window_ > kMaxWindow || (window_ > 0 && !causal_)) {
      error(fmt::format(
          "attribute local_window_size is {} and causal is {}; legal values are -1, and 1 to {} with causal=1", window_,
          int64_t{causal_}, kMaxWindow));
    }
    // Queries that follow no other positions see only keys before themselves, so padding after them does not matter.
    constant_ = batch_ == 1 || (causal_ && total_ == queries_) || equal_lengths();
  }

  /// Whether seqlens_k is a constant that gives all sequences the same length.
  bool equal_lengths() const {
    const Tensor* lengths = known(kLengths);
    for (int64_t b = 0; lengths != nullptr && b < batch_; ++b) {
      if (lengths->as_int(b) != total_ - 1) return false;
    }
    return lengths != nullptr;
  }

  void check_others() {
    if (has(kCosines) != has(kSines)) error("has only one of cos_cache and sin_cache, expected both or none");
    rotated_ = node().int_attr("do_rotary", 0) != 0;
    if (rotated_) {
      require(kCosines, "cos_cache");
      require(kSines, "sin_cache");
      if (shape(in(kCosines)).size() != 2) {
        error(fmt::format("cos_cache has shape {}, expected [positions, rotated elements / 2]",
                          text(shape(in(kCosines)))));
      }
    }
    check_shape_of(kPositions, "position_ids", {batch_, queries_});
    check_attention_bias(kAttentionBias, {batch_, queries_, total_, total_ - queries_}, heads_);
    check_shape_of(kSink, "head_sink", {heads_});
    if (has(kQueryNorm) != has(kKeyNorm))
      error("has only one of q_norm_weight and k_norm_weight, expected both or none");
    check_shape_of(kQueryNorm, "q_norm_weight", {size_});
    check_shape_of(kKeyNorm, "k_norm_weight", {size_});
  }

  void normalise() {
    if (!has(kQueryNorm)) return;
    const auto norm = [&](ValueId v, int64_t heads, size_t weight) {
      const Shape own = shape(v);
      const ValueId apart = reshaped(v, {batch_, queries_, heads, size_});
      const ValueId y = add("RMSNormalization", {apart, in(weight)},
                            {{"axis", int64_t{-1}}, {"epsilon", node().float_attr("qk_norm_epsilon", 1e-6F)}});
      return reshaped(y, own);
    };
    q_ = norm(q_, heads_, kQueryNorm), keys_ = norm(keys_, kv_heads_, kKeyNorm);
  }

  /// Returns the number of positions before the queries of each sequence, i64 [batch, 1].
  ValueId before() {
    if (before_ != kNone) return before_;
    const ValueId lengths = cast(reshaped(in(kLengths), {batch_, 1}), DType::i64);
    const ValueId past = add("Add", {lengths, scalar(DType::i64, static_cast<double>(1 - queries_))});
    return before_ = add("Max", {past, scalar(DType::i64, 0)});  // padding may follow the first queries
  }

  void rotate() {
    if (!rotated_) return;
    ValueId positions = in(kPositions);
    if (positions == kNone && constant_) {
      positions = add("Expand", {counting(DType::i64, total_ - queries_, {1, queries_}), list({batch_, queries_})});
    } else if (positions == kNone) {
      positions = add("Add", {before(), counting(DType::i64, 0, {1, queries_})});
    }
    const auto rotate = [&](ValueId v, int64_t heads) {
      return add("RotaryEmbedding", {v, in(kCosines), in(kSines), positions},
                 {{"num_heads", heads},
                  {"interleaved", node().int_attr("rotary_interleaved", 0)},
                  {"rotary_embedding_dim", 2 * shape(in(kCosines))[1]}});
    };
    q_ = rotate(q_, heads_), keys_ = rotate(keys_, kv_heads_);
  }

  /// Builds the caches with the new positions, and sets keys and values to their first total_sequence_length positions.
  void fill_caches() {
    q_ = split_heads(q_, heads_);
    present_key_ = filled_cache(kPastKey, split_heads(keys_, kv_heads_));
    present_value_ = filled_cache(kPastValue, split_heads(values_, kv_heads_));
    keys_ = slice(present_key_, 2, 0, total_), values_ = slice(present_value_, 2, 0, total_);
  }

  ValueId filled_cache(size_t past, ValueId fresh) {
    if (constant_) {
      const int64_t lead = total_ - queries_;
      if (capacity_ == 0) return fresh;
      const ValueId first = slice(in(past), 2, 0, lead);
      if (capacity_ <= total_) return joined({first, fresh}, 2);
      return joined({first, fresh, slice(in(past), 2, total_, capacity_)}, 2);
    }
    const int64_t more = std::max<int64_t>(total_ - capacity_, 0);
    ValueId cache = in(past);
    if (more > 0) {
      const ValueId zeros = filled(dtype(fresh), 0, {batch_, kv_heads_, more, size_});
      cache = cache == kNone ? zeros : joined({cache, zeros}, 2);
    }
    if (places_ == kNone) {
      const ValueId at = add("Add", {reshaped(before(), {batch_, 1, 1}), counting(DType::i64, 0, {1, 1, queries_})});
      places_ = indices_along(shape(fresh), at, 2);
    }
    return add("ScatterND", {cache, places_, fresh});
  }

  /// Sets what hides keys from queries.
  void see(Call& call) {
    call.mask = in(kAttentionBias);
    const int64_t lead = total_ - queries_;
    if (constant_ && !needs_mask()) {
      call.causal = causal_, call.lead = lead;
      if (window_ > 0 && window_ <= total_) call.attrs["left_window_size"] = window_ - 1 - lead;
      return;
    }
    const ValueId keys = counting(DType::i64, 0, {total_});
    ValueId at = counting(DType::i64, constant_ ? lead : 0, {queries_, 1});
    if (!constant_) at = add("Add", {reshaped(before(), {batch_, 1, 1, 1}), at});
    ValueId seen = kNone;
    if (causal_) {
      seen = add("LessOrEqual", {keys, at});
    } else if (!constant_) {
      seen = add("LessOrEqual", {keys, reshaped(cast(in(kLengths), DType::i64), {batch_, 1, 1, 1})});
    }
    if (window_ > 0) {
      const ValueId bound = add("Sub", {at, scalar(DType::i64, static_cast<double>(window_))});
      seen = add("And", {seen, add("Greater", {keys, bound})});
    }
    if (seen == kNone) return;
    const DType type = dtype(q_);
    const ValueId shown = call.mask == kNone ? scalar(type, 0) : call.mask;
    call.mask = add("Where", {seen, shown, scalar(type, -std::numeric_limits<double>::infinity())});
  }

  /// Whether what hides keys must be a mask, because attributes of Attention cannot express it.
  bool needs_mask() const {
    const bool sink = has(kSink) || node().int_attr("smooth_softmax", -1) == 1;
    return sink || (window_ > 0 && window_ <= total_ && window_ - 1 < total_ - queries_);
  }

  /// Adds a key of zeros whose score is that of the sink, and a value of zeros, which only increases the divisor of the
  /// softmax.
  void add_sink(Call& call) {
    const DType type = dtype(q_);
    const Shape extra = {batch_, kv_heads_, 1, size_};
    call.k = joined({call.k, filled(type, 0, extra)}, 2);
    call.v = joined({call.v, filled(type, 0, extra)}, 2);
    const ValueId sink = has(kSink) ? reshaped(in(kSink), {1, heads_, 1, 1}) : scalar(type, 0);
    const ValueId column = add("Expand", {sink, list({batch_, heads_, queries_, 1})});
    const ValueId mask = call.mask == kNone ? scalar(type, 0) : call.mask;
    call.mask = joined({add("Expand", {mask, list({batch_, heads_, queries_, total_})}), column}, 3);
  }

  /// Returns the scores as an output: without the sink, 0 where a key is hidden.
  ValueId shown(ValueId scores) {
    const ValueId own = slice(scores, 3, 0, total_);
    const DType type = dtype(own);
    const ValueId hidden = add("Equal", {own, scalar(type, -std::numeric_limits<double>::infinity())});
    return add("Where", {hidden, scalar(type, 0), own});
  }

  static constexpr int64_t kMaxWindow = int64_t{1} << 30;

  int64_t heads_ = 1, kv_heads_ = 1;
  int64_t batch_ = 0, queries_ = 0, size_ = 0;
  int64_t total_ = 0;     ///< positions of the longest sequence, with the queries
  int64_t capacity_ = 0;  ///< positions of the past keys
  int64_t window_ = -1;   ///< a query sees this many keys up to its own position; -1: all
  bool causal_ = true;
  bool constant_ = false;  ///< all sequences have total_ positions, or their lengths do not matter
  bool rotated_ = false;
  ValueId q_ = kNone, keys_ = kNone, values_ = kNone;
  ValueId present_key_ = kNone, present_value_ = kNone;
  ValueId before_ = kNone;
  ValueId places_ = kNone;  ///< where new keys and values are written
};

std::vector<ValueId> expand(ExpandContext& ctx) { return Expansion(ctx).run(); }

constexpr CaseText kPrompt =
    "f32[2,3,32] ? ? f32[2,2,0,4] f32[2,2,0,4] i32[2]:2,1 i32[]=3 f32[9,2] f32[9,2] | num_heads=4 kv_num_heads=2 "
    "do_rotary=1 | | 3";
constexpr CaseText kStep =
    "f32[1,1,16] f32[1,1,8] f32[1,1,8] f32[1,2,5,4] f32[1,2,5,4] i32[1]:5 i32[]=6 f32[9,1] f32[9,1] ? f32[1,4,1,6] | "
    "num_heads=4 kv_num_heads=2 do_rotary=1 rotary_interleaved=1 | | 4";
constexpr CaseText kLengthsDiffer =
    "f32[2,1,16] f32[2,1,8] f32[2,1,8] f32[2,2,5,4] f32[2,2,5,4] i32[2]:5,3 i32[]=6 f32[9,2] f32[9,2] | num_heads=4 "
    "kv_num_heads=2 do_rotary=1 local_window_size=3 | | 4";
constexpr CaseText kChunk =
    "f32[1,3,16] f32[1,3,8] f32[1,3,8] f32[1,2,5,4] f32[1,2,5,4] i32[1]:7 i32[]=8 f32[9,2] f32[9,2] i64[1,3]:5,2,8 ? ? "
    "? ? f32[4] f32[4] | num_heads=4 kv_num_heads=2 do_rotary=1 softcap=2.0 local_window_size=7 qk_output=1 | | 4";
constexpr CaseText kBuffer =
    "f32[2,1,16] f32[2,1,8] f32[2,1,8] f32[2,2,9,4] f32[2,2,9,4] i32[2,1]:3,5 i64[1]=6 | num_heads=4 kv_num_heads=2 "
    "scale=0.3 | | 3";
constexpr CaseText kSinks =
    "f32[1,3,16] f32[1,3,8] f32[1,3,8] f32[1,2,9,4] f32[1,2,9,4] i32[1]:7 i32[]=8 ? ? ? f32[1,1,3,8] f32[4] | "
    "num_heads=4 kv_num_heads=2 local_window_size=3 qk_output=2 | | 4";

}  // namespace

KILTER_OP(GroupQueryAttention){
    .name = "GroupQueryAttention",
    .domain = "com.microsoft",
    .family = Family::attention,
    .min_inputs = 1,
    .max_inputs = 16,
    .max_outputs = 4,
    .attrs = {{"causal", "int", "1"},
              {"do_rotary", "int", "0"},
              {"k_quant_type", "string", "NONE"},
              {"kv_cache_bit_width", "int", "0"},
              {"kv_num_heads", "int", "required"},
              {"local_window_size", "int", "-1"},
              {"num_heads", "int", "required"},
              {"qk_norm_epsilon", "float", "1e-6"},
              {"qk_output", "int", "0"},
              {"rotary_interleaved", "int", "0"},
              {"scale", "float", "0"},
              {"sliding_window_cache", "int", "0"},
              {"smooth_softmax", "int", "-1"},
              {"softcap", "float", "0"},
              {"v_quant_type", "string", "NONE"}},
    .summary =
        "Causal attention of q [batch, queries, heads * size] and k, v [batch, queries, kv_heads * size], or all "
        "packed "
        "in q, after a cache [batch, kv_heads, positions, size]: y [batch, queries, heads * size], the caches with the "
        "new positions, and the scores; inputs q, k, v, past_key, past_value, seqlens_k (positions - 1), "
        "total_sequence_length, cos_cache, sin_cache, position_ids, attention_bias, head_sink, k_scale, v_scale, "
        "q_norm_weight, k_norm_weight.",
    .expand = expand,
    .shape_operands = {6},
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {kPrompt, kStep, kLengthsDiffer, kChunk, kBuffer, kSinks,
              "f32[2,3,16] f32[2,3,8] f32[2,3,8] ? ? i32[2]:2,1 i32[]=3 | num_heads=4 kv_num_heads=2 causal=0 | | 3",
              ("f32[1,2,16] f32[1,2,8] f32[1,2,8] f32[1,2,0,4] f32[1,2,0,4] i32[1]:1 i32[]=2 | num_heads=4 "
               "kv_num_heads=2 smooth_softmax=1 local_window_size=1 | | 3")},
};

}  // namespace kilter
