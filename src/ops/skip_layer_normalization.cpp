// Normalisations of a sum, as ONNX Runtime's optimiser writes them, and its RMSNormalization.
#include "ops/support/expander.h"

namespace kilter {
namespace {

class Expansion : Expander {
 public:
  explicit Expansion(ExpandContext& ctx) : Expander(ctx) {}

  /// y, mean (not of squares), inverse deviation and sum of x + skip + bias.
  std::vector<ValueId> of_sum(bool centred) {
    const size_t bias = centred ? kBias : kBeta;
    check_sum(bias);
    const ValueId s = sum(sum(in(kX), in(kSkip)), in(bias));
    const float epsilon = node().float_attr("epsilon", 1e-12F);
    if (centred) {
      const ValueId y =
          add("LayerNormalization", {s, in(kGamma), in(kBeta)}, {{"axis", int64_t{-1}}, {"epsilon", epsilon}});
      const ValueId mean = mean_of(wide(s), -1);
      return {y, mean, inverse_deviation(add("Sub", {wide(s), mean}), -1, epsilon), s};
    }
    return {rms(s, kGamma, -1, epsilon), kNone, inverse_deviation(wide(s), -1, epsilon), s};
  }

  /// y and inverse deviation of x.
  std::vector<ValueId> simplified() {
    const int64_t axis = node().int_attr("axis", -1);
    const float epsilon = node().float_attr("epsilon", 1e-5F);
    return {rms(in(0), 1, axis, epsilon), inverse_deviation(wide(in(0)), axis, epsilon)};
  }

 private:
  static constexpr size_t kX = 0, kSkip = 1, kGamma = 2, kBeta = 3, kBias = 4;

  void check_sum(size_t bias) {
    const Shape x = shape(in(kX));
    if (x.size() != 2 && x.size() != 3) {
      error(fmt::format("input 0 has shape {}, expected [batch, sequence, hidden] or [tokens, hidden]", text(x)));
    }
    std::vector<Shape> legal = {x};
    if (x.size() == 3) legal.insert(legal.end(), {{1, x[1], x[2]}, {x[1], x[2]}});
    check_shape_of(kSkip, "skip", legal);
    for (const auto& [i, what] : {std::pair(size_t{kGamma}, "gamma"),
                                  {size_t{kBeta}, bias == kBeta ? "bias" : "beta"},
                                  {size_t{kBias}, "bias"}}) {
      check_shape_of(i, what, {x.back()});
    }
  }

  ValueId rms(ValueId x, size_t scale, int64_t axis, float epsilon) {
    Attrs attrs = {{"axis", axis}, {"epsilon", epsilon}};
    if (node().has_attr("stash_type")) attrs["stash_type"] = node().int_attr("stash_type", 1);
    return add("RMSNormalization", {x, in(scale)}, std::move(attrs));
  }

  ValueId wide(ValueId x) { return cast(x, dtype(x) == DType::f64 ? DType::f64 : DType::f32); }

  /// Returns the mean over the dimensions from axis on.
  ValueId mean_of(ValueId x, int64_t axis) {
    const auto rank = static_cast<int64_t>(shape(x).size());
    std::vector<int64_t> axes;
    for (int64_t a = normal_axis(node(), axis, rank); a < rank; ++a) axes.push_back(a);
    return add("ReduceMean", {x, list(axes)});
  }

  ValueId inverse_deviation(ValueId x, int64_t axis, float epsilon) {
    const ValueId squares = mean_of(add("Mul", {x, x}), axis);
    const ValueId more = scalar(dtype(x), static_cast<double>(epsilon));
    return add("Reciprocal", {add("Sqrt", {sum(squares, more)})});
  }
};

std::vector<ValueId> expand_layer(ExpandContext& ctx) { return Expansion(ctx).of_sum(true); }
std::vector<ValueId> expand_rms(ExpandContext& ctx) { return Expansion(ctx).of_sum(false); }
std::vector<ValueId> expand_simplified(ExpandContext& ctx) { return Expansion(ctx).simplified(); }

}  // namespace

KILTER_OP(SkipLayerNormalization){
    .name = "SkipLayerNormalization",
    .domain = "com.microsoft",
    .family = Family::normalize,
    .min_inputs = 3,
    .max_inputs = 5,
    .max_outputs = 4,
    .attrs = {{"epsilon", "float", "1e-12"}},
    .summary =
        "LayerNormalization of x + skip + bias over the last dimension: y, mean, inverse deviation, and the sum; "
        "inputs "
        "x [batch, sequence, hidden] or [tokens, hidden], skip, gamma, beta, bias.",
    .expand = expand_layer,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,3,17] f32[2,3,17] f32[17] f32[17] f32[17] | epsilon=1e-5 | | 4", "f32[2,3,8] f32[3,8] f32[8]",
              "f32[2,3,8] f32[1,3,8] f32[8] ? f32[8]", "f32[3,8] f32[3,8] f32[8] f32[8]"},
};

KILTER_OP(SkipSimplifiedLayerNormalization){
    .name = "SkipSimplifiedLayerNormalization",
    .domain = "com.microsoft",
    .family = Family::normalize,
    .min_inputs = 3,
    .max_inputs = 4,
    .max_outputs = 4,
    .attrs = {{"epsilon", "float", "1e-12"}},
    .summary =
        "RMSNormalization of x + skip + bias over the last dimension: y, no mean, inverse deviation, and the sum; "
        "inputs "
        "x [batch, sequence, hidden] or [tokens, hidden], skip, gamma, bias.",
    .expand = expand_rms,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,3,17] f32[2,3,17] f32[17] | epsilon=1e-5", "f32[2,3,8] f32[3,8] f32[8] f32[8]",
              "f32[3,8] f32[3,8] f32[8]"},
};

KILTER_OP(SimplifiedLayerNormalization){
    .name = "SimplifiedLayerNormalization",
    .family = Family::normalize,
    .min_inputs = 2,
    .max_inputs = 2,
    .max_outputs = 2,
    .attrs = {{"axis", "int", "-1"}, {"epsilon", "float", "1e-5"}, {"stash_type", "int", "1"}},
    .summary =
        "RMSNormalization of x with scale over the dimensions from axis on: y and the inverse deviation. ONNX "
        "Runtime's "
        "optimiser writes it in the domain of ONNX, whose standard does not have it.",
    .expand = expand_simplified,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,3,17] f32[17] | | | 2", "f32[2,3,4] f32[3,4] | axis=1 epsilon=0.1", "f16[2,8] f16[8] | | 17"},
};

}  // namespace kilter
