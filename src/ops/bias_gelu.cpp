// The forms of GELU that ONNX Runtime's optimiser writes.
#include "ops/support/expander.h"

namespace kilter {
namespace {

class Expansion : Expander {
 public:
  explicit Expansion(ExpandContext& ctx) : Expander(ctx) {}

  /// GELU of x + bias, where the bias may be left out.
  ValueId gelu(bool by_tanh) {
    const size_t last = has(0) && !shape(in(0)).empty() ? shape(in(0)).size() - 1 : 0;
    if (has(1)) check_shape_of(1, "bias", {shape(in(0)).empty() ? 1 : shape(in(0))[last]});
    return gelu_of(sum(in(0), in(1)), by_tanh);
  }

  ValueId quick_gelu() { return add("Swish", {in(0)}, {{"alpha", node().float_attr("alpha", 1.702F)}}); }

  ValueId gelu_of_product() {
    const ValueId product = add("MatMul", {in(0), in(1)});
    return gelu_of(sum(product, in(2)), true);
  }

  /// The left half of x + bias times GELU of its right half.
  ValueId split_gelu() {
    const Shape x = shape(in(0));
    if (x.size() != 3 || x[2] % 2 != 0) {
      error(fmt::format("input 0 has shape {}, expected [batch, positions, an even number]", text(x)));
    }
    check_shape_of(1, "bias", {x[2]});
    const std::vector<ValueId> halves = split(sum(in(0), in(1)), 2, {x[2] / 2, x[2] / 2});
    return add("Mul", {halves[0], gelu_of(halves[1], false)});
  }

 private:
  ValueId gelu_of(ValueId x, bool by_tanh) {
    return add("Gelu", {x}, {{"approximate", std::string(by_tanh ? "tanh" : "none")}});
  }
};

std::vector<ValueId> expand_gelu(ExpandContext& ctx) { return {Expansion(ctx).gelu(false)}; }
std::vector<ValueId> expand_fast(ExpandContext& ctx) { return {Expansion(ctx).gelu(true)}; }
std::vector<ValueId> expand_quick(ExpandContext& ctx) { return {Expansion(ctx).quick_gelu()}; }
std::vector<ValueId> expand_product(ExpandContext& ctx) { return {Expansion(ctx).gelu_of_product()}; }
std::vector<ValueId> expand_split(ExpandContext& ctx) { return {Expansion(ctx).split_gelu()}; }

}  // namespace

KILTER_OP(MicrosoftGelu){
    .name = "Gelu",
    .domain = "com.microsoft",
    .family = Family::map,
    .summary = "y = x * P(X <= x) of a standard normal X.",
    .expand = expand_gelu,
    .cases = {"f32[2,3,5]"},
};

KILTER_OP(BiasGelu){
    .name = "BiasGelu",
    .domain = "com.microsoft",
    .family = Family::map,
    .min_inputs = 2,
    .max_inputs = 2,
    .summary = "Gelu of x + bias, the bias along the last dimension.",
    .expand = expand_gelu,
    .cases = {"f32[2,3,5] f32[5]"},
};

KILTER_OP(FastGelu){
    .name = "FastGelu",
    .domain = "com.microsoft",
    .family = Family::map,
    .max_inputs = 2,
    .summary = "The tanh approximation of Gelu of x + bias, the bias along the last dimension.",
    .expand = expand_fast,
    .cases = {"f32[2,3,5] f32[5]", "f32[2,3,5]"},
};

KILTER_OP(QuickGelu){
    .name = "QuickGelu",
    .domain = "com.microsoft",
    .family = Family::map,
    .attrs = {{"alpha", "float", "1.702"}},
    .summary = "y = x / (1 + exp(-alpha * x)).",
    .expand = expand_quick,
    .cases = {"f32[2,3,5]", "f32[7] | alpha=1.0"},
};

KILTER_OP(GemmFastGelu){
    .name = "GemmFastGelu",
    .domain = "com.microsoft",
    .family = Family::matmul,
    .min_inputs = 2,
    .max_inputs = 3,
    .summary = "The tanh approximation of Gelu of the product of x and weights, plus a bias.",
    .expand = expand_product,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,3,5] f32[5,4] f32[4]", "f32[3,5] f32[5,4]"},
};

KILTER_OP(BiasSplitGelu){
    .name = "BiasSplitGelu",
    .domain = "com.microsoft",
    .family = Family::map,
    .min_inputs = 2,
    .max_inputs = 2,
    .summary =
        "The left half of x + bias times Gelu of its right half: y [batch, positions, n] for x [batch, positions, "
        "2 n].",
    .expand = expand_split,
    .cases = {"f32[2,3,10] f32[10]"},
};

}  // namespace kilter
