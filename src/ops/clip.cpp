#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

/// Returns min(high, max(low, x)); NaN stays NaN.
template <class T>
T clip(T x, T low, T high) {
  const T raised = low > x ? low : x;
  return high < raised ? high : raised;
}
Expr clip(const Expr& x, const Expr& low, const Expr& high) {
  const Expr raised = low.defined() ? max(low, x) : x;
  return high.defined() ? min(high, raised) : raised;
}

template <class T>
constexpr T kLowest =
    std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
template <class T>
constexpr T kHighest = std::is_floating_point_v<T> ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();

void infer(InferContext& ctx) {
  for (size_t i = 1; i < ctx.input_count(); ++i) {
    if (ctx.has(i) && elems(ctx.shape(i)) != 1) {
      ctx.error(
          fmt::format("input {} ({}) has shape {}, expected a scalar", i, i == 1 ? "min" : "max", text(ctx.shape(i))));
    }
  }
  check_same_dtype(ctx);
  infer_same_of<Numbers>(ctx);
}

void reference(ReferenceContext& ctx) {
  visit_types(Numbers{}, ctx.node, ctx.in(0).dtype(), [&]<class T>() {
    const Compute<T> low = ctx.has(1) ? widen(ctx.in(1).data<T>()[0]) : kLowest<Compute<T>>;
    const Compute<T> high = ctx.has(2) ? widen(ctx.in(2).data<T>()[0]) : kHighest<Compute<T>>;
    for (int64_t i = 0; i < ctx.out().elems(); ++i) {
      ctx.out().data<T>()[i] = narrow<T>(clip(widen(ctx.in(0).data<T>()[i]), low, high));
    }
  });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  const bool has_low = op.present.size() > 1 && op.present[1];
  const bool has_high = op.present.size() > 2 && op.present[2];
  const Expr low = has_low ? wide(in[1]) : Expr();
  const Expr high = has_high ? wide(in[has_low ? 2 : 1]) : Expr();
  return cast(op.outputs[0].dtype, clip(wide(in[0]), low, high));
}

constexpr float kFloatMax = std::numeric_limits<float>::max();

void reference_of_attributes(ReferenceContext& ctx) {
  const double low = ctx.node.float_attr("min", -kFloatMax);
  const double high = ctx.node.float_attr("max", kFloatMax);
  reference_unary<Floats>(ctx, [=](auto x) { return clip(static_cast<double>(x), low, high); });
}

std::optional<Expr> scalar_of_attributes(const OpView& op, std::span<const Expr> in) {
  const double low = op.node.float_attr("min", -kFloatMax);
  const double high = op.node.float_attr("max", kFloatMax);
  return scalar_unary(op, in, [=](const Expr& x) { return clip(x, like(x, low), like(x, high)); });
}

}  // namespace

KILTER_OP(Clip){
    .name = "Clip",
    .since = 11,
    .family = Family::map,
    .min_inputs = 1,
    .max_inputs = 3,
    .summary = "y = min(max, max(min, x)) with scalars min and max, either of which may be left out.",
    .infer = infer,
    .reference = reference,
    .scalar = scalar,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5] f32[]=-0.5 f32[]=0.5", "f32[17] ? f32[]=0.5", "f32[17] f32[]=0", "f32[7]",
              "f32[7] f32[]=2 f32[]=1", "f32[3]:nan,-inf,inf f32[]=0 f32[]=6", "f16[9] f16[]=0 f16[]=1",
              "f64[5] f64[1]=-1 f64[1]=1", "i8[33] i8[]=10 i8[]=50", "u64[7] ? u64[]=50", "i64[5] i64[] i64[]"},
};

KILTER_OP(ClipOfAttributes){
    .name = "Clip",
    .since = 6,
    .until = 10,
    .family = Family::map,
    .attrs = {{"min", "float", "-3.40282347e+38"}, {"max", "float", "3.40282347e+38"}},
    .summary = "y = min(max, max(min, x)) with attributes min and max.",
    .infer = infer_same_of<Floats>,
    .reference = reference_of_attributes,
    .scalar = scalar_of_attributes,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5] | min=0.0 max=6.0 | 7", "f32[17] | min=-0.5 | 10", "f32[7] | max=0.5 | 9",
              "f32[3]:nan,-inf,inf | | 8", "f16[9] | min=-0.5 max=0.5 | 6", "f64[5] | min=-1.0 max=1.0 | 6"},
};

}  // namespace kilter
