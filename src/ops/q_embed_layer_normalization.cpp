#include "ops/support/elementwise.h"
#include "ops/support/onnx_dtype.h"

namespace kilter {
namespace {

enum Input : size_t {
  kIds,
  kSegmentIds,
  kWord,
  kPosition,
  kSegment,
  kGamma,
  kBeta,
  kMask,
  kFirstScale,
  kFirstZero = 13
};
constexpr int32_t kInputs = 18;

class Expansion {
 public:
  explicit Expansion(ExpandContext& ctx) : ctx_(ctx) {}

  std::vector<ValueId> run() {
    check();
    const Shape ids = ctx_.type(kIds).shape;
    const ValueId words = rows(kWord, ctx_.in(kIds));
    std::vector<int64_t> steps(static_cast<size_t>(ids[1]));
    for (size_t i = 0; i < steps.size(); ++i) steps[i] = static_cast<int64_t>(i);
    ValueId sum = ctx_.add("Add", {words, rows(kPosition, ctx_.builder.list(steps))});
    if (ctx_.has(kSegmentIds)) sum = ctx_.add("Add", {sum, rows(kSegment, ctx_.in(kSegmentIds))});
    const ValueId y =
        ctx_.add("LayerNormalization", {sum, dequantised(kGamma, ctx_.in(kGamma)), dequantised(kBeta, ctx_.in(kBeta))},
                 {{"axis", int64_t{-1}}, {"epsilon", ctx_.node.float_attr("epsilon", 1e-12F)}});
    return {y, lengths(ids)};
  }

 private:
  /// Throws bad_model for operands whose errors the added nodes would not explain.
  void check() {
    const bool segments = ctx_.has(kSegmentIds);
    for (size_t i = 0; i < kInputs; ++i) {
      const bool segment_input = i == kSegment || i == scale_of(kSegment) || i == zero_of(kSegment);
      if (i == kSegmentIds || i == kMask || (segment_input && !segments)) continue;
      if (!ctx_.has(i)) node_error(ctx_.node, fmt::format("input {} is left out but required", i));
    }
    const Shape& ids = ctx_.type(kIds).shape;
    if (ids.size() != 2)
      node_error(ctx_.node, fmt::format("input_ids have shape {}, expected [batch, sequence]", text(ids)));
    for (const size_t i : {kSegmentIds, kMask}) {
      if (!ctx_.has(i) || ctx_.type(i).shape == ids) continue;
      node_error(ctx_.node, fmt::format("{} (input {}) has shape {}, expected {} to match input_ids",
                                        i == kMask ? "mask" : "segment_ids", i, text(ctx_.type(i).shape), text(ids)));
    }
    const Shape& positions = ctx_.type(kPosition).shape;
    if (!positions.empty() && positions[0] < ids[1]) {
      node_error(ctx_.node, fmt::format("the position embedding has shape {}, too few rows for a sequence of {}",
                                        text(positions), ids[1]));
    }
  }

  /// Embeddings, gamma and beta are inputs 2 to 6; their scales and zero points follow in the same order.
  static size_t scale_of(size_t i) { return kFirstScale + i - kWord; }
  static size_t zero_of(size_t i) { return kFirstZero + i - kWord; }
  ValueId dequantised(size_t i, ValueId values) {
    return ctx_.add("DequantizeLinear", {values, ctx_.in(scale_of(i)), ctx_.in(zero_of(i))});
  }
  ValueId rows(size_t i, ValueId ids) { return dequantised(i, ctx_.add("Gather", {ctx_.in(i), ids})); }

  /// Returns the number of ones in each row of the mask, or zeros without a mask.
  ValueId lengths(const Shape& ids) {
    if (!ctx_.has(kMask)) return ctx_.builder.constant(Tensor(DType::i32, {ids[0]}), ctx_.node.name);
    const ValueId ones = ctx_.add("Equal", {ctx_.in(kMask), ctx_.scalar(DType::i32, 1)});
    return ctx_.add("ReduceSum",
                    {ctx_.add("Cast", {ones}, {{"to", code_of_dtype(DType::i32)}}), ctx_.builder.list(Shape{1})},
                    {{"keepdims", int64_t{0}}});
  }

  ExpandContext& ctx_;
};

std::vector<ValueId> expand(ExpandContext& ctx) { return Expansion(ctx).run(); }

}  // namespace

KILTER_OP(QEmbedLayerNormalization){
    .name = "QEmbedLayerNormalization",
    .domain = "com.microsoft",
    .family = Family::normalize,
    .min_inputs = 1,
    .max_inputs = kInputs,
    .max_outputs = 2,
    .attrs = {{"epsilon", "float", "1e-12"}},
    .summary =
        "LayerNormalization of the sum of word, position and segment embeddings, rows of i8 or u8 tables, with "
        "quantised gamma and beta: y [batch, sequence, hidden], and the number of ones in each row of the mask; inputs "
        "input_ids, segment_ids, the three tables, gamma, beta, mask, then five scales and five zero points.",
    .expand = expand,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases =
        {"i32[2,3]:0,4,1,2,3,0 i32[2,3]:0,1,1,0,0,1 u8[5,8] u8[4,8] u8[2,8] u8[8] u8[8] i32[2,3]:1,1,0,1,1,1 f32[]=0.1 "
         "f32[]=0.2 f32[]=0.3 f32[]=0.01 f32[]=0.02 u8[]=50 u8[]=40 u8[]=30 u8[]=20 u8[]=60 | | | 2",
         "i32[2,3]:0,4,1,2,3,0 ? i8[5,8] i8[3,8] ? i8[8] i8[8] ? f32[1]=0.1 f32[]=0.2 ? f32[]=0.01 f32[]=0.02 i8[]=50 "
         "i8[1]=40 ? i8[]=20 i8[]=60 | epsilon=0.01 | | 2"},
};

}  // namespace kilter
