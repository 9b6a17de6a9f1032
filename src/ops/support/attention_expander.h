// Shared by the expansions of the attention operators of com.microsoft.
#pragma once

#include "ops/support/expander.h"

namespace kilter {

/// Builds masks in the forms of com.microsoft, keeps caches of keys and values, and adds the Attention of ONNX.
class AttentionExpander : protected Expander {
 protected:
  explicit AttentionExpander(ExpandContext& ctx) : Expander(ctx) {}

  /// One call of attention. The operands are all [batch, positions, heads * size], or all [batch, heads, positions,
  /// size].
  struct Call {
    ValueId q = kNone, k = kNone, v = kNone;
    int64_t heads = 1, kv_heads = 1;
    ValueId mask = kNone;  ///< added to the scores, or a condition; broadcasts to [batch, heads, queries, keys]
    ValueId past_key = kNone, past_value = kNone;
    bool causal = false;
    int64_t lead = 0;  ///< the number of keys of k before that of the first query
    Attrs attrs = {};  ///< more attributes of Attention
  };
  struct Result {
    ValueId y = kNone;  ///< [batch, queries, heads * size of a value]
    ValueId present_key = kNone, present_value = kNone, scores = kNone;
  };
  Result attend(Call call);

  /// Returns attribute num_heads. Throws bad_model unless it is positive.
  int64_t heads_of(std::string_view attribute = "num_heads") const;
  /// Returns the attribute `scale` for Attention: empty if it is 0 or missing, which means the default.
  Attrs scale() const;

  /// The extents that masks depend on.
  struct Extents {
    int64_t batch = 0, queries = 0, keys = 0;
    int64_t past = 0;  ///< the number of keys before those of the first query
  };
  /// Returns what is added to the scores: mask_filter_value where mask input `i` hides a key, otherwise 0; kNone if the
  /// input is left out. The mask has an entry for each key, or for each pair of a query and a key, or it gives the end
  /// and optionally the start of the visible keys of each sequence.
  ValueId added_mask(size_t i, std::string_view what, const Extents& extents, DType type);
  /// Throws bad_model unless input i, if present, is [batch or 1, heads or 1, queries, keys].
  void check_attention_bias(size_t i, const Extents& extents, int64_t heads) const;
  /// Returns the sum of both masks, either of which may be left out.
  ValueId added_masks(size_t mask, std::string_view what, size_t bias, const Extents& extents, int64_t heads,
                      DType type);

  /// Turns [batch, positions, heads * size] into [batch, heads, positions, size] and back.
  ValueId split_heads(ValueId v, int64_t heads);
  ValueId merged_heads(ValueId v);

 private:
  ValueId between(ValueId mask, bool has_starts, const Extents& extents);
};

}  // namespace kilter
