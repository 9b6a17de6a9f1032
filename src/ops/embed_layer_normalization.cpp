#include "ops/support/expander.h"

namespace kilter {
namespace {

enum Input : size_t { kIds, kSegmentIds, kWord, kPosition, kSegment, kGamma, kBeta, kMask, kPositionIds };

class Expansion : Expander {
 public:
  explicit Expansion(ExpandContext& ctx) : Expander(ctx) {}

  std::vector<ValueId> run() {
    check();
    ValueId positions = in(kPositionIds);
    if (positions == kNone) positions = counting(DType::i64, 0, {ids_[1]});
    ValueId s = sum(rows(kWord, in(kIds)), rows(kPosition, positions));
    if (has(kSegmentIds)) s = sum(s, rows(kSegment, in(kSegmentIds)));
    const ValueId y = add("LayerNormalization", {s, in(kGamma), in(kBeta)},
                          {{"axis", int64_t{-1}}, {"epsilon", node().float_attr("epsilon", 1e-12F)}});
    return {y, lengths(), s};
  }

 private:
  void check() {
    for (const auto& [i, what] : {std::pair(size_t{kPosition}, "position_embedding"),
                                  {size_t{kGamma}, "gamma"},
                                  {size_t{kBeta}, "beta"},
                                  {size_t{kWord}, "word_embedding"}}) {
      require(i, what);
    }
    if (has(kSegmentIds)) require(kSegment, "segment_embedding");
    ids_ = shape(in(kIds));
    if (ids_.size() != 2) error(fmt::format("input_ids have shape {}, expected [batch, sequence]", text(ids_)));
    check_shape_of(kSegmentIds, "segment_ids", ids_);
    check_shape_of(kMask, "mask", ids_);
    const std::vector<Shape> legal = {ids_, {1, ids_[1]}};
    check_shape_of(kPositionIds, "position_ids", legal);
    const Shape word = shape(in(kWord)), positions = shape(in(kPosition));
    if (positions.size() != 2 || (!has(kPositionIds) && positions[0] < ids_[1])) {
      error(fmt::format("position_embedding has shape {}, expected at least {} rows, one for each position",
                        text(positions), ids_[1]));
    }
    if (word.size() != 2 || word[1] != positions[1]) {
      error(fmt::format("word_embedding has shape {}, expected [words, {}] to match position_embedding", text(word),
                        positions[1]));
    }
    check_shape_of(kGamma, "gamma", {word[1]});
    check_shape_of(kBeta, "beta", {word[1]});
  }

  ValueId rows(size_t table, ValueId ids) { return add("Gather", {in(table), ids}); }

  /// Returns the number of ones in each row of the mask, or zeros without a mask.
  ValueId lengths() {
    if (!has(kMask)) return ctx_.builder.constant(Tensor(DType::i32, {ids_[0]}), node().name);
    const ValueId ones = add("Equal", {in(kMask), scalar(dtype(in(kMask)), 1)});
    return add("ReduceSum", {cast(ones, DType::i32), list({1})}, {{"keepdims", int64_t{0}}});
  }

  Shape ids_;
};

std::vector<ValueId> expand(ExpandContext& ctx) { return Expansion(ctx).run(); }

}  // namespace

KILTER_OP(EmbedLayerNormalization){
    .name = "EmbedLayerNormalization",
    .domain = "com.microsoft",
    .family = Family::normalize,
    .min_inputs = 1,
    .max_inputs = 9,
    .max_outputs = 3,
    .attrs = {{"epsilon", "float", "1e-12"}, {"mask_index_type", "int", "0"}},
    .summary =
        "LayerNormalization of the sum of word, position and segment embeddings: y [batch, sequence, hidden], the "
        "number "
        "of ones in each row of the mask, and the sum; inputs input_ids, segment_ids, the three tables, gamma, beta, "
        "mask, position_ids.",
    .expand = expand,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"i32[2,3]:0,4,1,2,3,0 i32[2,3]:0,1,1,0,0,1 f32[5,8] f32[4,8] f32[2,8] f32[8] f32[8] "
              "i32[2,3]:1,1,0,1,1,1 | | | 3",
              "i32[2,3]:0,4,1,2,3,0 ? f32[5,8] f32[9,8] ? f32[8] f32[8] ? i32[1,3]:5,8,0 | epsilon=0.01 | | 2"},
};

}  // namespace kilter
