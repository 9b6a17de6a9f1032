#include "ops/support/elementwise.h"
#include "ops/support/integer_form.h"
#include "ops/support/matmul_shape.h"
#include "ops/support/quantized.h"

namespace kilter {
namespace {

enum Input : size_t { kA, kAScale, kAZero, kB, kBScale, kBZero, kC, kYScale, kYZero };

/// Checks the scale and the zero point of b: each has one element or one per column.
void check_columns(const InferContext& ctx, int64_t columns) {
  check_types(Types<float>{}, ctx, kBScale);
  check_zero_type(ctx, kBZero, kB);
  for (const size_t i : {kBScale, kBZero}) {
    if (elems(ctx.shape(i)) == 1 || ctx.shape(i) == Shape{columns}) continue;
    ctx.error(fmt::format("{} (input {}) has shape {}, expected one element or one per column, {}",
                          i == kBScale ? "b_scale" : "b_zero_point", i, text(ctx.shape(i)), columns));
  }
}

void infer(InferContext& ctx) {
  check_quantized(ctx, kA);
  check_quantized(ctx, kB);
  check_per_tensor(ctx, ctx.dtype(kA), kAScale, kAZero, "a");
  const GemmShape shape = gemm_shape(ctx.node, ctx.shape(kA), ctx.shape(kB));
  check_columns(ctx, shape.n);
  const Shape out = {shape.m, shape.n};
  if (ctx.has(kC)) {
    check_types(Types<int32_t>{}, ctx, kC);
    if (broadcast_shapes(std::vector<Shape>{ctx.shape(kC), out}) != out) {
      ctx.error(fmt::format("c has shape {}, which does not broadcast to {}", text(ctx.shape(kC)), text(out)));
    }
  }
  if (ctx.has(kYScale) != ctx.has(kYZero)) {
    ctx.error(fmt::format("has {} but not {}; give both for a quantised output, or neither for an output of f32",
                          ctx.has(kYScale) ? "y_scale" : "y_zero_point",
                          ctx.has(kYScale) ? "y_zero_point" : "y_scale"));
  }
  if (!ctx.has(kYScale)) {
    ctx.set(0, DType::f32, out);
    return;
  }
  check_quantized(ctx, kYZero);
  check_per_tensor(ctx, ctx.dtype(kYZero), kYScale, kYZero, "y");
  ctx.set(0, ctx.dtype(kYZero), out);
}

/// Returns b - b_zero_point as [k, n].
std::vector<int64_t> right_operand(const ReferenceContext& ctx, const GemmShape& shape) {
  Shape zero_shape;
  if (ctx.in(kBZero).elems() > 1) zero_shape = shape.trans_b ? Shape{shape.n, 1} : Shape{shape.n};
  std::vector<int64_t> b = shifted(ctx.in(kB), ctx.in(kBZero), zero_shape);
  if (!shape.trans_b) return b;
  std::vector<int64_t> turned(b.size());
  for (int64_t j = 0; j < shape.n; ++j) {
    for (int64_t p = 0; p < shape.k; ++p)
      turned[static_cast<size_t>(p * shape.n + j)] = b[static_cast<size_t>(j * shape.k + p)];
  }
  return turned;
}

/// Calls emit(position in y, real value) for every element.
template <class Emit>
void multiply(const ReferenceContext& ctx, Emit emit) {
  const GemmShape shape = gemm_shape(ctx.node, ctx.in(kA).shape(), ctx.in(kB).shape());
  const std::vector<int64_t> a = shifted(ctx.in(kA), ctx.in(kAZero), {});
  const std::vector<int64_t> b = right_operand(ctx, shape);
  const std::vector<double> b_scale = load_doubles(ctx.in(kBScale));
  const double a_scale = ctx.in(kAScale).as_double(0);
  const auto alpha = static_cast<double>(ctx.node.float_attr("alpha", 1.0F));
  const Shape out = {shape.m, shape.n};
  const Shape c_strides = ctx.has(kC) ? broadcast_strides(ctx.in(kC).shape(), out) : Shape{0, 0};
  std::vector<int64_t> row(static_cast<size_t>(shape.n));
  for (int64_t i = 0; i < shape.m; ++i) {
    row_times_matrix(a.data() + (shape.trans_a ? i : i * shape.k), shape.trans_a ? shape.m : 1, b.data(), shape.k,
                     shape.n, row.data());
    for (int64_t j = 0; j < shape.n; ++j) {
      const int64_t bias = ctx.has(kC) ? ctx.in(kC).as_int(i * c_strides[0] + j * c_strides[1]) : 0;
      const double scale = a_scale * b_scale[b_scale.size() == 1 ? 0 : static_cast<size_t>(j)];  // exact in f64
      emit(i * shape.n + j, wide_product(static_cast<double>(row[static_cast<size_t>(j)] + bias), scale) * alpha);
    }
  }
}

void reference(ReferenceContext& ctx) {
  if (!ctx.has(kYScale)) {
    float* y = ctx.out().data<float>();
    multiply(ctx, [&](int64_t at, Wide real) { y[at] = rounded_f32(real); });
    return;
  }
  const PerTensor y = per_tensor(ctx, kYScale, kYZero);
  multiply(ctx, [&](int64_t at, Wide real) { store_quotient(ctx.out(), at, real, y.scale, y.zero); });
}

std::vector<ValueId> expand(ExpandContext& ctx) {
  const GemmShape shape = gemm_shape(ctx.node, ctx.type(kA).shape, ctx.type(kB).shape);
  const auto turned = [&](ValueId v, bool turn) { return turn ? ctx.add("Transpose", {v}) : v; };
  const ValueId a = turned(integers(ctx, kA, kAZero), shape.trans_a);
  const Shape zero = shape.trans_b ? Shape{shape.n, 1} : Shape{shape.n};
  const ValueId b = turned(integers(ctx, kB, kBZero, zero), shape.trans_b);
  const ValueId sums = ctx.builder.add_kilter("IntegerMatMul", {a, b}, {}, ctx.node.name);
  ValueId factor = ctx.add("Mul", {in_f64(ctx, ctx.in(kAScale)), in_f64(ctx, ctx.in(kBScale), {shape.n})});
  factor = ctx.add("Mul", {factor, ctx.scalar(DType::f64, double{ctx.node.float_attr("alpha", 1.0F)})});
  if (ctx.has(kYScale)) factor = ctx.add("Div", {factor, in_f64(ctx, ctx.in(kYScale))});
  ValueId summand = ctx.scalar(DType::f64, 0);
  if (ctx.has(kC)) summand = ctx.add("Mul", {in_f64(ctx, ctx.in(kC), ctx.type(kC).shape), factor});
  if (ctx.has(kYScale)) return {quantised(ctx, {sums, factor}, summand, kYZero, ctx.type(kYZero).dtype)};
  return {ctx.builder.add_kilter("WeightedSum", {sums, factor, summand}, {}, ctx.node.name)};
}

int64_t flops(const OpView& view) {
  const GemmShape shape = gemm_shape(view.node, view.inputs[kA].shape, view.inputs[kB].shape);
  return 2 * shape.m * shape.n * shape.k;
}

/// Parameters for each column.
constexpr CaseText kColumns =
    "i8[3,9] f32[1]=0.03 i8[1]=1 i8[4,9] f32[4]=0.01,0.02,0.03,0.04 i8[4]=0,1,2,3 i32[4] f32[1]=0.1 i8[1]=-5 | "
    "transB=1";
constexpr CaseText kTurned =
    "u8[9,3] f32[]=0.03 u8[]=1 u8[9,4] f32[4]=0.01,0.02,0.03,0.04 u8[4]=0,1,2,3 i32[3,1] f32[]=0.1 u8[]=5 | transA=1 "
    "alpha=0.3";

}  // namespace

KILTER_OP(QGemm){
    .name = "QGemm",
    .domain = "com.microsoft",
    .min_inputs = 6,
    .max_inputs = 9,
    .attrs = {{"alpha", "float", "1.0"}, {"transA", "int", "0"}, {"transB", "int", "0"}},
    .summary =
        "Gemm of quantised a and b: alpha * (a' b' + c), where a' and b' are a and b, transposed if transA or transB; "
        "inputs a, a_scale, a_zero_point, b, b_scale, b_zero_point (one element or one per column), c i32 of scale "
        "a_scale * b_scale, y_scale, y_zero_point; without the last two, y is f32.",
    .infer = infer,
    .reference = reference,
    .expand = expand,
    .flops = flops,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"u8[5,33] f32[]=0.01 u8[]=50 i8[33,17] f32[]=0.02 i8[]=3 i32[17] f32[]=0.5 u8[]=128", kColumns, kTurned,
              "u8[3,7] f32[]=0.1 u8[]=9 i8[5,7] f32[]=0.25 i8[]=0 ? | transB=1",
              "i8[2,4] f32[] i8[] i8[4,3] f32[3] i8[3] i32[]",
              "u8[2,0] f32[]=0.1 u8[]=9 u8[0,3] f32[]=0.2 u8[]=9 i32[3]=7,-8,50 f32[]=0.02 u8[]=20"},
};

}  // namespace kilter
