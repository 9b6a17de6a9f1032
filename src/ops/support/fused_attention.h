// Extents of the attention that Kilter's passes recognise, used by its shape rule, reference kernel and schedule.
#pragma once

#include "ops/op.h"

namespace kilter {

/// The extents of q [batch..., queries, size], k [batch..., keys, size], v [batch..., keys, v_size], and mask broadcast
/// to [batch..., queries, keys]. Batch dimensions broadcast as in MatMul.
struct FusedAttentionShape {
  Shape batch;
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t size = 0;
  int64_t v_size = 0;

  Shape scores() const { return with(queries, keys); }
  Shape out() const { return with(queries, v_size); }
  /// Returns batch... followed by two extents.
  Shape with(int64_t rows, int64_t columns) const;
  /// Counts one multiply-add as 2 operations.
  int64_t flops() const { return 2 * elems(batch) * queries * keys * (size + v_size); }
};

/// `mask` is nullptr if there is none. Throws bad_model if the shapes do not fit.
FusedAttentionShape fused_attention_shape(const Node& node, const Shape& q, const Shape& k, const Shape& v,
                                          const Shape* mask);

/// The factor of the scores, and the result of a query whose weights are not numbers.
struct FusedAttentionRules {
  float scale = 1;
  bool empty_is_zero = false;  ///< 0 instead of NaN if every score is -inf
  bool nan_is_zero = false;    ///< 0 instead of NaN whatever the reason
};
FusedAttentionRules fused_attention_rules(const Node& node);

}  // namespace kilter
