// Products that ONNX Runtime's optimiser joins with transpositions, factors and activations.
#include <numeric>

#include "ops/support/activation_expander.h"

namespace kilter {
namespace {

class Expansion : ActivationExpander {
 public:
  explicit Expansion(ExpandContext& ctx) : ActivationExpander(ctx) {}

  ValueId product() {
    const ValueId a = operand(0, "transA", "transBatchA"), b = operand(1, "transB", "transBatchB");
    const ValueId y = add("MatMul", {a, b});
    const float alpha = node().float_attr("alpha", 1);
    return alpha == 1 ? y : add("Mul", {y, scalar(dtype(y), static_cast<double>(alpha))});
  }

  ValueId product_and_activation() { return activated(product(), activation_values()); }

  ValueId gemm() {
    Attrs attrs;
    for (const char* key : {"alpha", "beta"}) attrs[key] = node().float_attr(key, 1);
    for (const char* key : {"transA", "transB"}) attrs[key] = node().int_attr(key, 0);
    return activated(add("Gemm", {in(0), in(1), in(2)}, std::move(attrs)), activation_values());
  }

 private:
  /// Returns operand i with its first axis moved after the other axes of the batch, and then its last two axes
  /// exchanged, as the attributes determine.
  ValueId operand(size_t i, std::string_view turned, std::string_view turned_batch) {
    const auto rank = static_cast<int64_t>(shape(in(i)).size());
    std::vector<int64_t> perm(static_cast<size_t>(rank));
    std::iota(perm.begin(), perm.end(), 0);
    const bool batch = node().int_attr(turned_batch, 0) != 0;
    if (batch && rank < 3) {
      error(fmt::format("attribute {} is 1 for an operand of shape {}, expected at least 3 dimensions", turned_batch,
                        text(shape(in(i)))));
    }
    if (batch) std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
    if (node().int_attr(turned, 0) != 0 && rank > 1) std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return std::ranges::is_sorted(perm) ? in(i) : transposed(in(i), perm);
  }

  std::vector<float> activation_values() const {
    std::vector<float> values;
    for (const char* key : {"activation_alpha", "activation_beta"}) {
      if (!node().has_attr(key)) break;
      values.push_back(node().float_attr(key, 0));
    }
    return values;
  }
};

std::vector<ValueId> expand_product(ExpandContext& ctx) { return {Expansion(ctx).product()}; }
std::vector<ValueId> expand_activation(ExpandContext& ctx) { return {Expansion(ctx).product_and_activation()}; }
std::vector<ValueId> expand_gemm(ExpandContext& ctx) { return {Expansion(ctx).gemm()}; }

constexpr Tolerance kOfSums = {.rtol = 1e-4, .atol = 1e-5};

}  // namespace

KILTER_OP(FusedMatMul){
    .name = "FusedMatMul",
    .domain = "com.microsoft",
    .family = Family::matmul,
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = {{"alpha", "float", "1"},
              {"transA", "int", "0"},
              {"transB", "int", "0"},
              {"transBatchA", "int", "0"},
              {"transBatchB", "int", "0"}},
    .summary =
        "alpha times the MatMul of a and b, whose last two axes are exchanged if transA or transB, and whose first "
        "axis "
        "is the last of the batch if transBatchA or transBatchB.",
    .expand = expand_product,
    .tolerance = kOfSums,
    .cases = {"f32[2,3,4] f32[4,5] | alpha=0.5", "f32[2,4,3] f32[2,5,4] | transA=1 transB=1",
              "f32[2,3,4,5] f32[3,4,2,6] | transBatchA=1 transA=1 alpha=2.0",
              "f32[3,4,2] f32[3,2,5] | transBatchA=0 transBatchB=0", "f32[4] f32[4] | transA=1"},
};

KILTER_OP(TransposeMatMul){
    .name = "TransposeMatMul",
    .domain = "com.microsoft",
    .family = Family::matmul,
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = {{"alpha", "float", "1"}, {"transA", "int", "0"}, {"transB", "int", "0"}},
    .summary = "The older name of FusedMatMul.",
    .expand = expand_product,
    .tolerance = kOfSums,
    .cases = {"f32[2,4,3] f32[4,5] | alpha=0.5 transA=1"},
};

KILTER_OP(FusedMatMulActivation){
    .name = "FusedMatMulActivation",
    .domain = "com.microsoft",
    .family = Family::matmul,
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = {{"activation", "string", "required"},
              {"activation_alpha", "float", ""},
              {"activation_axis", "int", ""},
              {"activation_beta", "float", ""},
              {"activation_gamma", "float", ""},
              {"alpha", "float", "1"},
              {"transA", "int", "0"},
              {"transB", "int", "0"},
              {"transBatchA", "int", "0"},
              {"transBatchB", "int", "0"}},
    .summary = "FusedMatMul followed by an activation.",
    .expand = expand_activation,
    .tolerance = kOfSums,
    .cases = {"f32[2,4,3] f32[4,5] | transA=1 activation=LeakyRelu activation_alpha=0.3"},
};

KILTER_OP(FusedGemm){
    .name = "FusedGemm",
    .domain = "com.microsoft",
    .family = Family::gemm,
    .min_inputs = 2,
    .max_inputs = 3,
    .attrs = {{"activation", "string", ""},
              {"activation_alpha", "float", ""},
              {"activation_beta", "float", ""},
              {"activation_gamma", "float", ""},
              {"alpha", "float", "1"},
              {"beta", "float", "1"},
              {"transA", "int", "0"},
              {"transB", "int", "0"}},
    .summary = "Gemm followed by an activation.",
    .expand = expand_gemm,
    .tolerance = kOfSums,
    .cases = {"f32[3,4] f32[4,5] f32[5] | activation=Relu", "f32[4,3] f32[5,4] ? | transA=1 transB=1 alpha=0.5",
              "f32[3,4] f32[4,5] f32[3,1] | beta=0.5 activation=HardSigmoid activation_alpha=0.3 activation_beta=0.4"},
};

}  // namespace kilter
