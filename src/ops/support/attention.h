// Extents of scaled dot product attention, shared by its shape rule, reference kernel and expansion.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/op.h"
#include "ops/support/builder.h"

namespace kilter {

/// Operands are [batch, heads, sequence, size], or [batch, sequence, heads * size] with `rank3`. Head h of the queries
/// reads head h / (q_heads / kv_heads) of keys and values.
struct AttentionShape {
  bool rank3 = false;
  int64_t batch = 0;
  int64_t q_heads = 0;
  int64_t kv_heads = 0;
  int64_t queries = 0;  ///< positions of q
  int64_t fresh = 0;    ///< positions of k and v
  int64_t past = 0;     ///< positions of past_key and past_value
  int64_t size = 0;     ///< of a query or key
  int64_t v_size = 0;   ///< of a value

  int64_t keys() const { return past + fresh; }
  Shape scores() const { return {batch, q_heads, queries, keys()}; }
  Shape output() const {
    return rank3 ? Shape{batch, queries, q_heads * v_size} : Shape{batch, q_heads, queries, v_size};
  }
  Shape present_key() const { return {batch, kv_heads, keys(), size}; }
  Shape present_value() const { return {batch, kv_heads, keys(), v_size}; }
};

/// Computes the extents from the operands' shapes; nullptr means omitted. Throws bad_model.
AttentionShape attention_shape(const Node& node, const Shape& q, const Shape& k, const Shape& v, const Shape* past_key,
                               const Shape* past_value);

/// The rules for which keys a query may see, by position, and for how scores are computed.
struct AttentionRules {
  double scale = 1;
  double softcap = 0;  ///< 0: none
  bool bounded_right = false;
  bool bounded_left = false;
  int64_t right = 0;  ///< a query at position p sees keys up to p + right
  int64_t left = 0;   ///< and from p - left
  int64_t output_mode = 0;
};
AttentionRules attention_rules(const Node& node, int64_t size);

/// Expands attention into matrix products, a bias and a softmax. Returns Y, present_key, present_value,
/// qk_matmul_output.
std::vector<ValueId> expand_attention(ExpandContext& ctx);

}  // namespace kilter
