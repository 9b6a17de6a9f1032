#include "ops/support/quantized_elementwise.h"

#include <limits>

#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

/// The inputs of one operand, or of the output, which has no values.
struct Inputs {
  size_t scale;
  size_t zero;
};
constexpr Inputs kFirst = {1, 2};
constexpr Inputs kSecond = {4, 5};
constexpr Inputs kUnaryOutput = {3, 4};
constexpr Inputs kBinaryOutput = {6, 7};

/// The expressions of a node's inputs.
class Operands {
 public:
  Operands(const OpView& op, std::span<const Expr> in) : op_(op) {
    size_t next = 0;
    for (const bool present : op.present) at_.push_back(present ? &in[next++] : nullptr);
  }

  /// Whether every scale and zero point broadcasts to the output.
  bool broadcast() const {
    const size_t rank = op_.outputs[0].shape.size();
    for (const TensorType& type : op_.inputs) {
      if (type.shape.size() > rank) return false;
    }
    return true;
  }
  Expr real(size_t i) const { return cast(DType::f64, *at_.at(i)); }
  /// Returns the zero point, which is 0 if it is omitted.
  Expr zero(size_t i) const { return i < at_.size() && at_[i] != nullptr ? real(i) : Expr(imm(DType::f64, 0)); }
  Expr dequantized(size_t values, Inputs of) const { return (real(values) - zero(of.zero)) * real(of.scale); }
  Expr quantized(const Expr& value, Inputs of) const {
    const DType to = op_.outputs[0].dtype;
    const Expr y = unary(Op::round_even, value / real(of.scale)) + zero(of.zero);
    const double low = to == DType::i8 ? std::numeric_limits<int8_t>::min() : std::numeric_limits<uint8_t>::min();
    const double high = to == DType::i8 ? std::numeric_limits<int8_t>::max() : std::numeric_limits<uint8_t>::max();
    return cast(to, min(like(y, high), max(like(y, low), y)));
  }

 private:
  const OpView& op_;
  std::vector<const Expr*> at_;
};

}  // namespace

void infer_quantized_unary(InferContext& ctx) {
  check_quantized(ctx, 0);
  check_per_tensor(ctx, ctx.dtype(0), kFirst.scale, kFirst.zero, "x");
  check_per_tensor(ctx, ctx.dtype(0), kUnaryOutput.scale, kUnaryOutput.zero, "y");
  ctx.set(0, ctx.dtype(0), ctx.shape(0));
}

void infer_quantized_binary(InferContext& ctx) {
  check_quantized(ctx, 0);
  if (ctx.dtype(3) != ctx.dtype(0)) {
    ctx.error(fmt::format("input 3 has element type {}, expected {} to match input 0", name(ctx.dtype(3)),
                          name(ctx.dtype(0))));
  }
  check_per_tensor(ctx, ctx.dtype(0), kFirst.scale, kFirst.zero, "a");
  check_per_tensor(ctx, ctx.dtype(0), kSecond.scale, kSecond.zero, "b");
  check_per_tensor(ctx, ctx.dtype(0), kBinaryOutput.scale, kBinaryOutput.zero, "c");
  const auto shape = broadcast_shapes(std::vector<Shape>{ctx.shape(0), ctx.shape(3)});
  if (!shape) {
    ctx.error(
        fmt::format("inputs 0 and 3 of shapes {} and {} do not broadcast", text(ctx.shape(0)), text(ctx.shape(3))));
  }
  ctx.set(0, ctx.dtype(0), *shape);
}

void reference_quantized_unary(ReferenceContext& ctx, const std::function<Wide(Quantity)>& f) {
  const PerTensor x = per_tensor(ctx, kFirst.scale, kFirst.zero);
  const PerTensor y = per_tensor(ctx, kUnaryOutput.scale, kUnaryOutput.zero);
  for (int64_t i = 0; i < ctx.out().elems(); ++i) {
    const auto value = static_cast<double>(ctx.in(0).as_int(i) - x.zero);
    store_quotient(ctx.out(), i, f({value, x.scale}), y.scale, y.zero);
  }
}

void reference_quantized_binary(ReferenceContext& ctx, const std::function<Wide(Quantity, Quantity)>& f) {
  const PerTensor a = per_tensor(ctx, kFirst.scale, kFirst.zero);
  const PerTensor b = per_tensor(ctx, kSecond.scale, kSecond.zero);
  const PerTensor c = per_tensor(ctx, kBinaryOutput.scale, kBinaryOutput.zero);
  const Shape& shape = ctx.out().shape();
  int64_t i = 0;
  for_each_offset<2>(shape, {broadcast_strides(ctx.in(0).shape(), shape), broadcast_strides(ctx.in(3).shape(), shape)},
                     [&](const std::array<int64_t, 2>& at) {
                       const Quantity left{static_cast<double>(ctx.in(0).as_int(at[0]) - a.zero), a.scale};
                       const Quantity right{static_cast<double>(ctx.in(3).as_int(at[1]) - b.zero), b.scale};
                       store_quotient(ctx.out(), i++, f(left, right), c.scale, c.zero);
                     });
}

std::optional<Expr> scalar_quantized_unary(const OpView& op, std::span<const Expr> in, Expr (*f)(const OpView&, Expr)) {
  const Operands operands(op, in);
  if (!operands.broadcast()) return std::nullopt;
  return operands.quantized(f(op, operands.dequantized(0, kFirst)), kUnaryOutput);
}

}  // namespace kilter
