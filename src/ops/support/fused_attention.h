// Extents of the attention that our passes recognise, read by its shape rule, its reference kernel and its schedule.
#pragma once

#include "ops/op.h"

namespace kilter {

/// q [batch..., queries, size], k [batch..., keys, size], v [batch..., keys, v_size], mask broadcast to [batch...,
/// queries, keys]; batch dimensions broadcast as in MatMul.
struct FusedAttentionShape {
  Shape batch;
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t size = 0;
  int64_t v_size = 0;

  Shape scores() const { return with(queries, keys); }
  Shape out() const { return with(queries, v_size); }
  /// batch... followed by two extents.
  Shape with(int64_t rows, int64_t columns) const;
  /// One multiply-add counts as 2.
  int64_t flops() const { return 2 * elems(batch) * queries * keys * (size + v_size); }
};

/// `mask` is nullptr when there is none. Throws bad_model when the shapes do not fit.
FusedAttentionShape fused_attention_shape(const Node& node, const Shape& q, const Shape& k, const Shape& v,
                                          const Shape* mask);

/// The factor of the scores, and what a query answers whose weights are not numbers.
struct FusedAttentionRules {
  float scale = 1;
  bool empty_is_zero = false;  ///< 0 instead of NaN when every score is -inf
  bool nan_is_zero = false;    ///< 0 instead of NaN whatever the reason
};
FusedAttentionRules fused_attention_rules(const Node& node);

}  // namespace kilter
