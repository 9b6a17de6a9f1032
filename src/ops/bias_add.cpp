// Additions followed by an operator, as ONNX Runtime's optimiser writes them.
#include "ops/support/expander.h"

namespace kilter {
namespace {

class Expansion : Expander {
 public:
  explicit Expansion(ExpandContext& ctx) : Expander(ctx) {}

  ValueId sum_of_three() {
    const Shape x = shape(in(0));
    check_shape_of(1, "bias", {x.empty() ? 1 : x.back()});
    check_shape_of(2, "skip", x);
    return sum(sum(in(0), in(1)), in(2));
  }

  std::vector<ValueId> dropout() {
    const Shape x = shape(in(0));
    const std::vector<Shape> legal = {{x.empty() ? 1 : x.back()}, x};
    check_shape_of(1, "bias", legal);
    check_shape_of(2, "residual", x);
    const std::vector<ValueId> y = add_many("Dropout", {sum(in(0), in(1)), in(3), in(4)}, {}, 2);
    return {sum(y[0], in(2)), y[1]};
  }

  /// The softmax is over all dimensions from `axis` on.
  ValueId softmax() {
    const Shape x = shape(in(0));
    const auto rank = static_cast<int64_t>(x.size());
    const int64_t axis = normal_axis(node(), node().int_attr("axis", 1), rank);
    const ValueId s = sum(in(0), bias_like(x));
    if (shape(s) != x) error(fmt::format("bias has shape {}, which does not fit {}", text(shape(in(1))), text(x)));
    Shape rows(x.begin(), x.begin() + axis);
    int64_t inner = 1;
    for (int64_t d = axis; d < rank; ++d) inner *= x[static_cast<size_t>(d)];
    rows.push_back(inner);
    return reshaped(add("Softmax", {reshaped(s, rows)}, {{"axis", int64_t{-1}}}), x);
  }

 private:
  /// Returns the bias with the rank of x. The shape alone determines where it is broadcast, so is_inner_broadcast has
  /// no effect.
  ValueId bias_like(const Shape& x) {
    Shape own = shape(in(1));
    if (own.size() > x.size()) error(fmt::format("bias has shape {}, more dimensions than {}", text(own), text(x)));
    own.insert(own.begin(), x.size() - own.size(), 1);
    return reshaped(in(1), own);
  }
};

std::vector<ValueId> expand_sum(ExpandContext& ctx) { return {Expansion(ctx).sum_of_three()}; }
std::vector<ValueId> expand_dropout(ExpandContext& ctx) { return Expansion(ctx).dropout(); }
std::vector<ValueId> expand_softmax(ExpandContext& ctx) { return {Expansion(ctx).softmax()}; }

}  // namespace

KILTER_OP(BiasAdd){
    .name = "BiasAdd",
    .domain = "com.microsoft",
    .family = Family::map,
    .min_inputs = 3,
    .max_inputs = 3,
    .summary = "y = x + bias + skip, the bias along the last dimension.",
    .expand = expand_sum,
    .cases = {"f32[2,3,5] f32[5] f32[2,3,5]"},
};

KILTER_OP(BiasDropout){
    .name = "BiasDropout",
    .domain = "com.microsoft",
    .family = Family::map,
    .min_inputs = 2,
    .max_inputs = 5,
    .max_outputs = 2,
    .attrs = {{"seed", "int", ""}},
    .summary =
        "y = Dropout(x + bias, ratio) + residual, and its mask; inputs x, bias, residual, ratio, training_mode. "
        "Without "
        "training_mode, Dropout does nothing.",
    .expand = expand_dropout,
    .cases = {"f32[2,3,5] f32[5] f32[2,3,5] f32[]=0.5 | | | 2", "f32[2,5] f32[2,5]"},
};

KILTER_OP(BiasSoftmax){
    .name = "BiasSoftmax",
    .domain = "com.microsoft",
    .family = Family::softmax,
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = {{"axis", "int", "1"}, {"is_inner_broadcast", "int", "required"}},
    .summary = "Softmax of x + bias over all dimensions from axis on.",
    .expand = expand_softmax,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,3,4,5] f32[2,1,1,5] | axis=3 is_inner_broadcast=1",
              "f32[2,3,5] f32[3,5] | axis=2 is_inner_broadcast=0", "f32[2,3,5] f32[1,3,5] | is_inner_broadcast=0"},
};

}  // namespace kilter
