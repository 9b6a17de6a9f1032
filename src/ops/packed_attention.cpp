// Attention of sequences without their padding, one after the other, and the operators that remove and restore padding.
//
// token_offset [batch, sequence] lists the places of all tokens in the padded tensor, then those of the padding.
#include <algorithm>
#include <limits>

#include "ops/support/attention_expander.h"
#include "ops/support/elementwise.h"
#include "ops/support/indexing.h"

namespace kilter {
namespace {

class Expansion : AttentionExpander {
 public:
  explicit Expansion(ExpandContext& ctx) : AttentionExpander(ctx) {}

  /// Inputs x, weights, bias, token_offset, cumulative_sequence_length, attention_bias.
  ValueId self_attention() {
    const Shape x = shape(in(0)), w = shape(in(1));
    if (x.size() != 2 || w.size() != 2 || x[1] != w[0]) {
      error(fmt::format("has input {} and weights {}, expected [tokens, inputs] and [inputs, sizes of q, k and v]",
                        text(x), text(w)));
    }
    const std::vector<int64_t> sizes =
        node().has_attr("qkv_hidden_sizes") ? node().ints_attr("qkv_hidden_sizes") : std::vector<int64_t>(3, w[1] / 3);
    const auto fits = [&](int64_t size) { return size >= 0 && size <= w[1]; };
    if (sizes.size() != 3 || !std::ranges::all_of(sizes, fits) || sizes[0] + sizes[1] + sizes[2] != w[1]) {
      error(fmt::format(
          "has weights {} and qkv_hidden_sizes [{}], expected three sizes that add up to the columns of the "
          "weights",
          text(w), fmt::join(sizes, ",")));
    }
    check_shape_of(2, "bias", {w[1]});
    const std::vector<ValueId> parts = split(sum(add("MatMul", {in(0), in(1)}), in(2)), 1, sizes);
    return attention(parts[0], parts[1], parts[2], 3);
  }

  /// Inputs q, k, v, bias, token_offset, cumulative_sequence_length, attention_bias.
  ValueId multi_head() {
    ValueId q = in(0), k = in(1), v = in(2);
    const Shape packed = shape(q);
    if (packed.size() == 4 && packed[2] == 3 && !has(1) && !has(2)) {
      std::vector<ValueId> parts = split(q, 2, {1, 1, 1});
      for (ValueId& part : parts) part = reshaped(part, {packed[0], packed[1] * packed[3]});
      q = parts[0], k = parts[1], v = parts[2];
    } else if (packed.size() != 2 || !has(1) || !has(2) || shape(k).size() != 2 || shape(v).size() != 2) {
      error(
          fmt::format("has a query of shape {}, expected [tokens, hidden] with a key and a value [tokens, ...], or "
                      "[tokens, heads, 3, size] without them",
                      text(packed)));
    }
    const int64_t hidden = shape(q)[1], keys = shape(k)[1], values = shape(v)[1];
    check_shape_of(3, "bias", {hidden + keys + values});
    if (has(3)) {
      const std::vector<ValueId> bias = split(in(3), 0, {hidden, keys, values});
      q = sum(q, bias[0]), k = sum(k, bias[1]), v = sum(v, bias[2]);
    }
    return attention(q, k, v, 4);
  }

  ValueId restored() { return padded(in(0), 1); }

 private:
  /// Attention of operands [tokens, heads * size]. Inputs `offsets` and the next two are token_offset,
  /// cumulative_sequence_length and attention_bias.
  ValueId attention(ValueId q, ValueId k, ValueId v, size_t offsets) {
    const int64_t heads = heads_of();
    const int64_t tokens = shape(q)[0];
    Call call{.heads = heads, .kv_heads = heads, .attrs = scale()};
    call.q = padded(q, offsets), call.k = padded(k, offsets), call.v = padded(v, offsets);
    const int64_t batch = shape(call.q)[0], sequence = shape(call.q)[1];
    require(offsets + 1, "cumulative_sequence_length");
    check_shape_of(offsets + 1, "cumulative_sequence_length", {batch + 1});
    const ValueId ends = slice(in(offsets + 1), 0, 1, batch + 1), starts = slice(in(offsets + 1), 0, 0, batch);
    const ValueId lengths = reshaped(cast(add("Sub", {ends, starts}), DType::i64), {batch, 1, 1, 1});
    const ValueId visible = add("Less", {counting(DType::i64, 0, {sequence}), lengths});
    const ValueId bias = added_masks(kNoInput, "", offsets + 2, {batch, sequence, sequence, 0}, heads, dtype(q));
    const DType type = dtype(q);
    call.mask = add("Where", {visible, bias == kNone ? scalar(type, 0) : bias,
                              scalar(type, -std::numeric_limits<double>::infinity())});
    const ValueId y = attend(std::move(call)).y;
    return add("Gather", {reshaped(y, {batch * sequence, shape(y)[2]}), places(offsets, tokens)});
  }

  /// Returns the places of the tokens among batch * sequence.
  ValueId places(size_t offsets, int64_t tokens) {
    const Shape own = shape(in(offsets));
    if (own.size() != 2 || tokens > own[0] * own[1]) {
      error(fmt::format(
          "token_offset (input {}) has shape {}, expected [batch, sequence] with a place for each of {} tokens",
          offsets, text(own), tokens));
    }
    return cast(slice(reshaped(in(offsets), {own[0] * own[1]}), 0, 0, tokens), DType::i64);
  }

  /// Returns [tokens, width] as [batch, sequence, width], with zeros for padding.
  ValueId padded(ValueId v, size_t offsets) {
    require(offsets, "token_offset");
    const Shape own = shape(v);
    if (own.size() != 2) error(fmt::format("an operand has shape {}, expected [tokens, hidden]", text(own)));
    const ValueId at = places(offsets, own[0]);
    const Shape batches = shape(in(offsets));
    const ValueId zeros = filled(dtype(v), 0, {batches[0] * batches[1], own[1]});
    const ValueId all = add("ScatterND", {zeros, reshaped(at, {own[0], 1}), v});
    return reshaped(all, {batches[0], batches[1], own[1]});
  }

  static constexpr size_t kNoInput = SIZE_MAX;
};

std::vector<ValueId> expand_attention(ExpandContext& ctx) { return {Expansion(ctx).self_attention()}; }
std::vector<ValueId> expand_multi_head(ExpandContext& ctx) { return {Expansion(ctx).multi_head()}; }
std::vector<ValueId> expand_restored(ExpandContext& ctx) { return {Expansion(ctx).restored()}; }

/// Returns the length of sequence b. Throws bad_input if it is out of range.
int64_t length_of(const Node& node, const Tensor& lengths, int64_t b, int64_t sequence) {
  const int64_t length = lengths.as_int(b);
  if (length >= 0 && length <= sequence) return length;
  fail(ErrorKind::bad_input, "{}: sequence_token_count[{}] is {}; legal values are 0 to {}", label(node), b, length,
       sequence);
}

void infer_removed(InferContext& ctx) {
  const Shape& x = ctx.shape(0);
  check_types(Types<int32_t>{}, ctx, 1);
  if (x.size() != 3 || ctx.shape(1) != Shape{x[0]}) {
    ctx.error(fmt::format("has input {} and sequence_token_count {}, expected [batch, sequence, hidden] and [batch]",
                          text(x), text(ctx.shape(1))));
  }
  const Tensor& lengths = ctx.needed(1);
  int64_t tokens = 0;
  for (int64_t b = 0; b < x[0]; ++b) tokens += length_of(ctx.node, lengths, b, x[1]);
  ctx.set(0, ctx.dtype(0), {tokens, x[2]});
  if (ctx.outputs.size() > 1) ctx.set(1, DType::i32, {x[0], x[1]});
  if (ctx.outputs.size() > 2) ctx.set(2, DType::i32, {x[0] + 1});
  if (ctx.outputs.size() > 3) ctx.set(3, DType::i32, {1});
}

void reference_removed(ReferenceContext& ctx) {
  const Shape& x = ctx.in(0).shape();
  std::vector<int32_t> tokens, padding, sums = {0};
  int32_t longest = 0;
  for (int64_t b = 0; b < x[0]; ++b) {
    const int64_t length = length_of(ctx.node, ctx.in(1), b, x[1]);
    for (int64_t s = 0; s < x[1]; ++s) (s < length ? tokens : padding).push_back(static_cast<int32_t>(b * x[1] + s));
    sums.push_back(static_cast<int32_t>(tokens.size()));
    longest = std::max(longest, static_cast<int32_t>(length));
  }
  for (size_t t = 0; ctx.wants(0) && t < tokens.size(); ++t)
    copy_elements(ctx.in(0), tokens[t] * x[2], ctx.out(0), static_cast<int64_t>(t) * x[2], x[2]);
  if (ctx.wants(1)) {
    std::copy(tokens.begin(), tokens.end(), ctx.out(1).data<int32_t>());
    std::copy(padding.begin(), padding.end(), ctx.out(1).data<int32_t>() + tokens.size());
  }
  if (ctx.wants(2)) std::copy(sums.begin(), sums.end(), ctx.out(2).data<int32_t>());
  if (ctx.wants(3)) *ctx.out(3).data<int32_t>() = longest;
}

constexpr Tolerance kOfSums = {.rtol = 1e-4, .atol = 1e-5};

}  // namespace

KILTER_OP(PackedAttention){
    .name = "PackedAttention",
    .domain = "com.microsoft",
    .family = Family::attention,
    .min_inputs = 5,
    .max_inputs = 6,
    .attrs = {{"num_heads", "int", "required"}, {"qkv_hidden_sizes", "ints", ""}, {"scale", "float", "0"}},
    .summary =
        "Attention of com.microsoft for the tokens of all sequences without padding: y [tokens, size of v]; inputs x "
        "[tokens, inputs], weights, bias, token_offset [batch, sequence], cumulative_sequence_length [batch + 1], "
        "attention_bias.",
    .expand = expand_attention,
    .tolerance = kOfSums,
    .cases = {"f32[4,8] f32[8,24] f32[24] i32[2,3]:0,3,4,5,1,2 i32[3]:0,1,4 f32[1,2,3,3] | num_heads=2",
              "f32[3,8] f32[8,20] f32[20] i32[2,2]:0,1,2,3 i32[3]:0,2,3 | num_heads=2 qkv_hidden_sizes=[8,8,4]"},
};

KILTER_OP(PackedMultiHeadAttention){
    .name = "PackedMultiHeadAttention",
    .domain = "com.microsoft",
    .family = Family::attention,
    .min_inputs = 1,
    .max_inputs = 7,
    .attrs = {{"mask_filter_value", "float", "-10000"}, {"num_heads", "int", "required"}, {"scale", "float", "0"}},
    .summary =
        "MultiHeadAttention for the tokens of all sequences without padding: y [tokens, heads * size]; inputs q "
        "[tokens, "
        "heads * size] or [tokens, heads, 3, size], k, v, bias, token_offset [batch, sequence], "
        "cumulative_sequence_length [batch + 1], attention_bias.",
    .expand = expand_multi_head,
    .tolerance = kOfSums,
    .cases = {"f32[4,8] f32[4,8] f32[4,6] f32[22] i32[2,3]:0,3,4,5,1,2 i32[3]:0,1,4 | num_heads=2 scale=0.3",
              "f32[4,2,3,4] ? ? ? i32[2,3]:0,3,4,5,1,2 i32[3]:0,1,4 f32[2,1,3,3] | num_heads=2"},
};

KILTER_OP(RestorePadding){
    .name = "RestorePadding",
    .domain = "com.microsoft",
    .min_inputs = 2,
    .max_inputs = 2,
    .summary = "y [batch, sequence, hidden] with the tokens x [tokens, hidden] at their places (token_offset), else 0.",
    .expand = expand_restored,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[4,5] i32[2,3]:0,3,4,5,1,2"},
};

KILTER_OP(RemovePadding){
    .name = "RemovePadding",
    .domain = "com.microsoft",
    .min_inputs = 2,
    .max_inputs = 2,
    .max_outputs = 4,
    .summary =
        "The first sequence_token_count[b] rows of each sequence of x [batch, sequence, hidden]: y [tokens, hidden], "
        "token_offset, cumulative lengths and the largest length. The shape depends on the data.",
    .infer = infer_removed,
    .reference = reference_removed,
    .shape_operands = {1},
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5] i32[2]=1,3 | | | 4", "f32[2,2,3] i32[2]=0,2 | | | 4"},
};

}  // namespace kilter
