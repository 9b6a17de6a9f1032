// Shared by the operators of the training domain that make one step of gradient descent (Adagrad, Adam, Momentum).
// Their operands are the learning rate, the number of steps made so far, then all tensors x, all gradients, and one
// group of tensors for each state that the optimizer keeps. Their outputs are the new tensors x and the new states.
#pragma once

#include <array>
#include <vector>

#include "ops/op.h"
#include "ops/support/builder.h"
#include "ops/support/iterate.h"

namespace kilter {

constexpr size_t kFirstTensor = 2;  ///< operand 0 is the learning rate, operand 1 the number of steps
constexpr size_t kMostStates = 2;

/// The shape rule for an optimizer with `states` states.
void infer_optimizer(InferContext& ctx, size_t states);

/// Returns how many tensors x a node with `inputs` operands has.
constexpr size_t tensor_count(size_t inputs, size_t states) { return (inputs - kFirstTensor) / (2 + states); }

/// Calls step(x, gradient, states) for each element, in double. The function changes x and the states.
template <class F>
void reference_optimizer(ReferenceContext& ctx, size_t states, F step) {
  const size_t count = tensor_count(ctx.inputs.size(), states);
  for (size_t t = 0; t < count; ++t) {
    const auto group = [&](size_t g) { return load_doubles(ctx.in(kFirstTensor + g * count + t)); };
    std::vector<double> x = group(0);
    const std::vector<double> gradient = group(1);
    std::array<std::vector<double>, kMostStates> kept;
    for (size_t s = 0; s < states; ++s) kept[s] = group(2 + s);
    for (size_t i = 0; i < x.size(); ++i) {
      std::array<double, kMostStates> now{};
      for (size_t s = 0; s < states; ++s) now[s] = kept[s][i];
      step(x[i], gradient[i], now);
      for (size_t s = 0; s < states; ++s) kept[s][i] = now[s];
    }
    if (ctx.wants(t)) store_doubles(ctx.out(t), x);
    for (size_t s = 0; s < states; ++s) {
      if (ctx.wants((1 + s) * count + t)) store_doubles(ctx.out((1 + s) * count + t), kept[s]);
    }
  }
}

/// Builds the expansion of an optimizer: arithmetic on its operands, in the element type of one tensor x.
class OptimizerStep {
 public:
  OptimizerStep(ExpandContext& ctx, size_t states, size_t tensor);

  /// The tensor x, its gradient plus `norm` times x, and a state.
  ValueId x() const { return operand(0); }
  ValueId gradient(float norm) { return add(mul(x(), norm), operand(1)); }
  ValueId state(size_t s) const { return operand(2 + s); }

  /// Returns a scalar in the element type of x.
  ValueId typed(ValueId scalar);

  ValueId add(ValueId a, ValueId b) { return ctx_.add("Add", {a, b}); }
  ValueId sub(ValueId a, ValueId b) { return ctx_.add("Sub", {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return ctx_.add("Mul", {a, b}); }
  ValueId div(ValueId a, ValueId b) { return ctx_.add("Div", {a, b}); }
  ValueId mul(ValueId a, double factor) { return mul(a, ctx_.scalar(type_, factor)); }
  /// Returns the square root of a, plus epsilon.
  ValueId root(ValueId a, float epsilon) { return add(ctx_.add("Sqrt", {a}), ctx_.scalar(type_, epsilon)); }

 private:
  ValueId operand(size_t group) const { return ctx_.in(kFirstTensor + group * count_ + tensor_); }

  ExpandContext& ctx_;
  size_t count_;
  size_t tensor_;
  DType type_;
};

/// Return the learning rate and the number of steps as scalars of f64, for the expansion.
ValueId learning_rate(ExpandContext& ctx);
ValueId steps_made(ExpandContext& ctx);
/// Returns `later` if the number of steps is positive, else `first`.
ValueId after_first_step(ExpandContext& ctx, ValueId later, ValueId first);

/// Calls step(builder) for each tensor x, which returns the new x and the new states, and returns all outputs in order.
template <class F>
std::vector<ValueId> expand_optimizer(ExpandContext& ctx, size_t states, F step) {
  const size_t count = tensor_count(ctx.node.inputs.size(), states);
  std::vector<ValueId> outputs(count * (1 + states), kNone);
  for (size_t t = 0; t < count; ++t) {
    OptimizerStep builder(ctx, states, t);
    const std::vector<ValueId> made = step(builder);
    for (size_t k = 0; k < made.size(); ++k) outputs[k * count + t] = made[k];
  }
  return outputs;
}

}  // namespace kilter
