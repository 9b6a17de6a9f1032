#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  check_types(Numbers{}, ctx, 0);
  check_types(Numbers{}, ctx, 1);
  ctx.set(0, ctx.dtype(0), broadcast_inputs(ctx));
}

/// Returns base^exponent modulo 2^64. A negative exponent gives the reciprocal, truncated to an integer (0 for base 0).
int64_t integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    return 0;
  }
  uint64_t result = 1;
  uint64_t square = static_cast<uint64_t>(base);
  for (auto bits = static_cast<uint64_t>(exponent); bits != 0; bits >>= 1) {
    if ((bits & 1U) != 0) result *= square;
    square *= square;
  }
  return static_cast<int64_t>(result);
}

void reference(ReferenceContext& ctx) {
  const Tensor& x = ctx.in(0);
  const Tensor& y = ctx.in(1);
  const Shape& shape = ctx.out().shape();
  const std::array<Shape, 2> strides = {broadcast_strides(x.shape(), shape), broadcast_strides(y.shape(), shape)};
  int64_t i = 0;
  if (is_integer(x.dtype()) && is_integer(y.dtype())) {
    visit_types(Ints{}, ctx.node, x.dtype(), [&]<class T>() {
      for_each_offset<2>(shape, strides, [&](const std::array<int64_t, 2>& at) {
        ctx.out().data<T>()[i++] = static_cast<T>(integer_power(x.as_int(at[0]), y.as_int(at[1])));
      });
    });
    return;
  }
  std::vector<double> powers(static_cast<size_t>(ctx.out().elems()));
  for_each_offset<2>(shape, strides, [&](const std::array<int64_t, 2>& at) {
    powers[static_cast<size_t>(i++)] = std::pow(x.as_double(at[0]), y.as_double(at[1]));
  });
  store_doubles(ctx.out(), powers);
}

/// Returns x^e for the exponents that need no logarithm; undefined for others.
Expr simple_power(const Expr& x, double e) {
  const Expr square = x * x;
  if (e == 1) return x;
  if (e == 2) return square;
  if (e == 3) return square * x;
  if (e == 4) return square * square;
  if (!is_float(x.elem())) return {};
  if (e == 0) return like(x, 1);
  if (e == 0.5) return unary(Op::sqrt, x);
  if (e == -0.5) return like(x, 1) / unary(Op::sqrt, x);
  if (e == -1) return like(x, 1) / x;
  if (e == -2) return like(x, 1) / square;
  return {};
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  const Expr x = wide(in[0]);
  const Tensor* exponent = op.values.size() > 1 ? op.values[1] : nullptr;
  if (exponent != nullptr && exponent->elems() == 1) {
    const Expr power = simple_power(x, exponent->as_double(0));
    if (power.defined()) return cast(op.outputs[0].dtype, power);
  }
  if (!has_f32_math(in[0].elem())) return std::nullopt;
  return cast(op.outputs[0].dtype, binary(Op::pow, x, cast(DType::f32, in[1])));
}

}  // namespace

KILTER_OP(Pow){
    .name = "Pow",
    .since = 7,
    .family = Family::map,
    .min_inputs = 2,
    .max_inputs = 2,
    .summary = "z = x to the power y, broadcast, in the element type of x; integers wrap.",
    .infer = infer,
    .reference = reference,
    .scalar = scalar,
    .tolerance = {.rtol = 2e-5, .atol = 1e-6},
    .cases = {"f32[2,3,5] f32[]=2", "f32[17] f32[1]=3", "f32[3]:0.25,4,9 f32[]=0.5", "f32[3]:0.25,4,-9 f32[1]=-1",
              "f32[6]:0.5,2,3,10,0,1 f32[6]=1.5,-2.5,0,3.3,2,7", "f32[4]:-2,-2,-0.5,-1 i64[4]=3,2,-2,5",
              "f16[7] f16[]=2", "f64[3]:1,2,3 f32[3]=4,5,6", "i32[3]:1,2,3 i32[3]=4,5,6", "i64[3]:1,2,-3 f32[3]=4,5,3",
              "f32[5,1]:2 u8[1,3]=0,1,5"},
};

}  // namespace kilter
