#include "ops/support/derivatives.h"

#include <algorithm>
#include <array>
#include <numbers>

#include "ops/support/onnx_dtype.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

/// Arithmetic on values of one node's element type.
class Step {
 public:
  explicit Step(const DerivedNode& of) : of_(of) {}

  ValueId in(size_t i) const { return of_.inputs.at(i); }
  size_t inputs() const { return of_.inputs.size(); }
  /// Returns the value of an operand that the output's shape depends on, which is therefore known.
  const Tensor& constant(size_t i) const { return *of_.builder.graph().value(in(i)).constant; }
  ValueId y() const { return of_.output; }
  ValueId g() const { return of_.gradient; }
  const Node& node() const { return of_.node; }
  const TensorType& type(ValueId id) const { return of_.builder.type(id); }
  const Shape& shape(ValueId id) const { return type(id).shape; }

  ValueId add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {}) const {
    return of_.builder.add(op, std::move(inputs), std::move(attrs), of_.node.name);
  }
  ValueId plus(ValueId a, ValueId b) const { return add("Add", {a, b}); }
  ValueId minus(ValueId a, ValueId b) const { return add("Sub", {a, b}); }
  ValueId times(ValueId a, ValueId b) const { return add("Mul", {a, b}); }
  ValueId over(ValueId a, ValueId b) const { return add("Div", {a, b}); }
  ValueId negative(ValueId a) const { return add("Neg", {a}); }
  ValueId number(double value) const {
    const Tensor wide = Tensor::scalar(value);
    return add("Cast", {of_.builder.constant(wide)}, {{"to", code_of_dtype(type(g()).dtype)}});
  }
  ValueId list(const std::vector<int64_t>& values) const { return of_.builder.list(values); }
  ValueId reshaped(ValueId a, const Shape& shape) const {
    return add("Reshape", {a, list(shape)}, {{"allowzero", int64_t{1}}});
  }
  ValueId expanded(ValueId a, const Shape& shape) const { return add("Expand", {a, list(shape)}); }
  ValueId transposed(ValueId a, std::vector<int64_t> perm) const {
    return add("Transpose", {a}, {{"perm", std::move(perm)}});
  }
  /// Swaps the last two dimensions.
  ValueId swapped(ValueId a) const {
    std::vector<int64_t> perm = all_axes(static_cast<int64_t>(shape(a).size()));
    std::swap(perm.at(perm.size() - 1), perm.at(perm.size() - 2));
    return transposed(a, std::move(perm));
  }
  /// Sums a value over the dimensions in which an operand of that shape was broadcast.
  ValueId summed_to(ValueId a, const Shape& wanted) const {
    const Shape& from = shape(a);
    if (from == wanted) return a;
    const size_t lead = from.size() - wanted.size();
    std::vector<int64_t> axes;
    for (size_t d = 0; d < from.size(); ++d) {
      if (d < lead || wanted[d - lead] != from[d]) axes.push_back(static_cast<int64_t>(d));
    }
    return reshaped(axes.empty() ? a : add("ReduceSum", {a, list(axes)}), wanted);
  }
  /// Returns gradients for the operands of a broadcast operator from those at the shape of the output.
  std::vector<ValueId> broadcast(std::vector<ValueId> gradients) const {
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i] != kNone) gradients[i] = summed_to(gradients[i], shape(in(i)));
    }
    return gradients;
  }

 private:
  const DerivedNode& of_;
};

using Gradients = std::vector<ValueId>;

Gradients of_power(const Step& s) {
  const ValueId base = s.in(0);
  const ValueId exponent = s.in(1);
  if (s.type(exponent).dtype != s.type(base).dtype) {
    // The exponent may have a different element type; it then gets no gradient.
    const ValueId same = s.add("Cast", {exponent}, {{"to", code_of_dtype(s.type(base).dtype)}});
    return s.broadcast({s.times(s.g(), s.times(same, s.add("Pow", {base, s.minus(same, s.number(1))}))), kNone});
  }
  const ValueId lower = s.add("Pow", {base, s.minus(exponent, s.number(1))});
  return s.broadcast({s.times(s.g(), s.times(exponent, lower)), s.times(s.g(), s.times(s.y(), s.add("Log", {base})))});
}

/// Matrices, also in batches. Vectors have no gradient here.
Gradients of_product(const Step& s) {
  if (s.shape(s.in(0)).size() < 2 || s.shape(s.in(1)).size() < 2) {
    fail(ErrorKind::unsupported, "{}: the gradient of a product with a vector is not supported; reshape it to a matrix",
         label(s.node()));
  }
  return s.broadcast({s.add("MatMul", {s.g(), s.swapped(s.in(1))}), s.add("MatMul", {s.swapped(s.in(0)), s.g()})});
}

Gradients of_gemm(const Step& s) {
  const bool a_turned = s.node().int_attr("transA", 0) != 0;
  const bool b_turned = s.node().int_attr("transB", 0) != 0;
  const ValueId a = a_turned ? s.swapped(s.in(0)) : s.in(0);
  const ValueId b = b_turned ? s.swapped(s.in(1)) : s.in(1);
  const ValueId scaled = s.times(s.g(), s.number(s.node().float_attr("alpha", 1)));
  const ValueId of_a = s.add("MatMul", {scaled, s.swapped(b)});
  const ValueId of_b = s.add("MatMul", {s.swapped(a), scaled});
  Gradients all = {a_turned ? s.swapped(of_a) : of_a, b_turned ? s.swapped(of_b) : of_b};
  if (s.inputs() > 2) {
    all.push_back(s.summed_to(s.times(s.g(), s.number(s.node().float_attr("beta", 1))), s.shape(s.in(2))));
  }
  return all;
}

/// Returns the gradient of a sum over axes: the output's gradient at each element.
ValueId spread(const Step& s) {
  const Shape& from = s.shape(s.in(0));
  // The output has the same dimensions, in order, except those that are summed.
  if (s.node().int_attr("keepdims", 1) != 0) return s.expanded(s.g(), from);
  std::vector<int64_t> axes = s.node().ints_attr("axes");
  if (axes.empty() && s.inputs() > 1 && s.in(1) != kNone) {
    axes = operand_ints(s.node(), s.constant(1), "axes");
  }
  if (axes.empty()) axes = all_axes(static_cast<int64_t>(from.size()));
  Shape kept = from;
  for (int64_t axis : normal_axes(s.node(), axes, static_cast<int64_t>(from.size())))
    kept[static_cast<size_t>(axis)] = 1;
  return s.expanded(s.reshaped(s.g(), kept), from);
}

Gradients of_mean(const Step& s) {
  const int64_t count = elems(s.shape(s.in(0))) / std::max<int64_t>(elems(s.shape(s.y())), 1);
  return {s.over(spread(s), s.number(static_cast<double>(count)))};
}

Gradients of_transpose(const Step& s) {
  const auto rank = static_cast<int64_t>(s.shape(s.in(0)).size());
  std::vector<int64_t> reversed = all_axes(rank);
  std::reverse(reversed.begin(), reversed.end());
  const std::vector<int64_t> perm = s.node().ints_attr("perm", reversed);
  std::vector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return {s.transposed(s.g(), std::move(inverse))};
}

Gradients of_softmax(const Step& s) {
  const int64_t axis =
      normal_axis(s.node(), s.node().int_attr("axis", -1), static_cast<int64_t>(s.shape(s.y()).size()));
  const ValueId weighted = s.times(s.g(), s.y());
  return {s.minus(weighted, s.times(s.y(), s.add("ReduceSum", {weighted, s.list({axis})})))};
}

Gradients of_where(const Step& s) {
  const ValueId zero = s.number(0);
  return s.broadcast({kNone, s.add("Where", {s.in(0), s.g(), zero}), s.add("Where", {s.in(0), zero, s.g()})});
}

Gradients of_error_function(const Step& s) {
  const ValueId bell = s.add("Exp", {s.negative(s.times(s.in(0), s.in(0)))});
  return {s.times(s.g(), s.times(bell, s.number(2 * std::numbers::inv_sqrtpi)))};
}

struct Rule {
  std::string_view op;
  Gradients (*gradients)(const Step&);
};

// In alphabetical order. Every operator has its meaning of the newest opset, except for the places of its axes.
constexpr std::array kRules = {
    Rule{"Abs", [](const Step& s) -> Gradients { return {s.times(s.g(), s.add("Sign", {s.in(0)}))}; }},
    Rule{"Add", [](const Step& s) -> Gradients { return s.broadcast({s.g(), s.g()}); }},
    Rule{"Cast",
         [](const Step& s) -> Gradients {
           return {s.add("Cast", {s.g()}, {{"to", code_of_dtype(s.type(s.in(0)).dtype)}})};
         }},
    Rule{"Cos", [](const Step& s) -> Gradients { return {s.negative(s.times(s.g(), s.add("Sin", {s.in(0)})))}; }},
    Rule{"Div",
         [](const Step& s) -> Gradients {
           const ValueId part = s.over(s.g(), s.in(1));
           return s.broadcast({part, s.negative(s.times(part, s.y()))});
         }},
    Rule{"Erf", of_error_function},
    Rule{"Exp", [](const Step& s) -> Gradients { return {s.times(s.g(), s.y())}; }},
    Rule{"Expand", [](const Step& s) -> Gradients { return {s.summed_to(s.g(), s.shape(s.in(0)))}; }},
    Rule{"Flatten", [](const Step& s) -> Gradients { return {s.reshaped(s.g(), s.shape(s.in(0)))}; }},
    Rule{"Gemm", of_gemm},
    Rule{"Identity", [](const Step& s) -> Gradients { return {s.g()}; }},
    Rule{"Log", [](const Step& s) -> Gradients { return {s.over(s.g(), s.in(0))}; }},
    Rule{"MatMul", of_product},
    Rule{"Mul",
         [](const Step& s) -> Gradients { return s.broadcast({s.times(s.g(), s.in(1)), s.times(s.g(), s.in(0))}); }},
    Rule{"Neg", [](const Step& s) -> Gradients { return {s.negative(s.g())}; }},
    Rule{"Pow", of_power},
    Rule{"Reciprocal", [](const Step& s) -> Gradients { return {s.negative(s.times(s.g(), s.times(s.y(), s.y())))}; }},
    Rule{"ReduceMean", of_mean},
    Rule{"ReduceSum", [](const Step& s) -> Gradients { return {spread(s)}; }},
    Rule{"Relu",
         [](const Step& s) -> Gradients {
           return {s.add("Where", {s.add("Greater", {s.in(0), s.number(0)}), s.g(), s.number(0)})};
         }},
    Rule{"Reshape", [](const Step& s) -> Gradients { return {s.reshaped(s.g(), s.shape(s.in(0)))}; }},
    Rule{"Sigmoid",
         [](const Step& s) -> Gradients { return {s.times(s.g(), s.times(s.y(), s.minus(s.number(1), s.y())))}; }},
    Rule{"Sin", [](const Step& s) -> Gradients { return {s.times(s.g(), s.add("Cos", {s.in(0)}))}; }},
    Rule{"Softmax", of_softmax},
    Rule{"Sqrt", [](const Step& s) -> Gradients { return {s.over(s.g(), s.times(s.number(2), s.y()))}; }},
    Rule{"Squeeze", [](const Step& s) -> Gradients { return {s.reshaped(s.g(), s.shape(s.in(0)))}; }},
    Rule{"Sub", [](const Step& s) -> Gradients { return s.broadcast({s.g(), s.negative(s.g())}); }},
    Rule{"Tanh",
         [](const Step& s) -> Gradients { return {s.times(s.g(), s.minus(s.number(1), s.times(s.y(), s.y())))}; }},
    Rule{"Transpose", of_transpose},
    Rule{"Unsqueeze", [](const Step& s) -> Gradients { return {s.reshaped(s.g(), s.shape(s.in(0)))}; }},
    Rule{"Where", of_where},
};

}  // namespace

std::vector<ValueId> derivatives(const DerivedNode& derived) {
  for (const Rule& rule : kRules) {
    if (!derived.node.op->domain.empty() || rule.op != derived.node.op->name) continue;
    return rule.gradients(Step(derived));
  }
  return {};
}

std::string derivable_ops() {
  std::string names;
  for (const Rule& rule : kRules) {
    if (!names.empty()) names += ", ";
    names += rule.op;
  }
  return names;
}

}  // namespace kilter
