#include "base/convert.h"
#include "ops/support/elementwise.h"
#include "ops/support/matmul_shape.h"

namespace kilter {
namespace {

using Multiplied = Types<float, double, Half, BFloat16, int32_t, int64_t, uint32_t, uint64_t>;

void infer(InferContext& ctx) {
  check_types(Multiplied{}, ctx, 0);
  check_same_dtype(ctx);
  const GemmShape shape = gemm_shape(ctx.node, ctx.shape(0), ctx.shape(1));
  const Shape out = {shape.m, shape.n};
  if (ctx.has(2) && broadcast_shapes(std::vector<Shape>{ctx.shape(2), out}) != out) {
    ctx.error(fmt::format("c has shape {}, which does not broadcast to {}", text(ctx.shape(2)), text(out)));
  }
  ctx.set(0, ctx.dtype(0), out);
}

/// The operands in the accumulator's type: b as [k, n], c broadcast to [m, n] (empty if omitted).
template <class Acc>
struct Operands {
  std::vector<Acc> a, b, c;
};

template <class T, class Acc>
Operands<Acc> load(const ReferenceContext& ctx, const GemmShape& shape) {
  Operands<Acc> ops;
  for (const T value : ctx.in(0).span<T>()) ops.a.push_back(static_cast<Acc>(widen(value)));
  const T* b = ctx.in(1).data<T>();
  for (int64_t p = 0; p < shape.k; ++p) {
    for (int64_t j = 0; j < shape.n; ++j) {
      ops.b.push_back(static_cast<Acc>(widen(b[shape.trans_b ? j * shape.k + p : p * shape.n + j])));
    }
  }
  if (!ctx.has(2)) return ops;
  const T* c = ctx.in(2).data<T>();
  const Shape out = {shape.m, shape.n};
  for_each_offset<1>(out, {broadcast_strides(ctx.in(2).shape(), out)},
                     [&](const std::array<int64_t, 1>& at) { ops.c.push_back(static_cast<Acc>(widen(c[at[0]]))); });
  return ops;
}

/// Calls emit(position in y, product, c) for every element.
template <class T, class Acc, class Emit>
void multiply(ReferenceContext& ctx, Emit emit) {
  const GemmShape shape = gemm_shape(ctx.node, ctx.in(0).shape(), ctx.in(1).shape());
  const Operands<Acc> ops = load<T, Acc>(ctx, shape);
  std::vector<Acc> row(static_cast<size_t>(shape.n));
  for (int64_t i = 0; i < shape.m; ++i) {
    row_times_matrix(ops.a.data() + (shape.trans_a ? i : i * shape.k), shape.trans_a ? shape.m : 1, ops.b.data(),
                     shape.k, shape.n, row.data());
    for (int64_t j = 0; j < shape.n; ++j) {
      const int64_t at = i * shape.n + j;
      emit(at, row[static_cast<size_t>(j)], ops.c.empty() ? Acc{} : ops.c[static_cast<size_t>(at)]);
    }
  }
}

void reference(ReferenceContext& ctx) {
  const float alpha = ctx.node.float_attr("alpha", 1.0F);
  const float beta = ctx.node.float_attr("beta", 1.0F);
  visit_types(Multiplied{}, ctx.node, ctx.in(0).dtype(), [&]<class T>() {
    T* y = ctx.out().data<T>();
    if constexpr (std::is_integral_v<T>) {
      const bool plain = alpha == 1.0F && beta == 1.0F;
      multiply<T, uint64_t>(ctx, [&](int64_t at, uint64_t product, uint64_t c) {
        // Scaled integers are truncated toward zero.
        y[at] = plain ? static_cast<T>(product + c)
                      : static_cast<T>(saturate<int64_t>(
                            static_cast<double>(alpha) * static_cast<double>(static_cast<T>(product)) +
                            static_cast<double>(beta) * static_cast<double>(static_cast<T>(c))));
      });
    } else {
      multiply<T, double>(ctx, [&](int64_t at, double product, double c) {
        y[at] = narrow<T>(static_cast<double>(alpha) * product + static_cast<double>(beta) * c);
      });
    }
  });
}

int64_t flops(const OpView& view) {
  const GemmShape shape = gemm_shape(view.node, view.inputs[0].shape, view.inputs[1].shape);
  return 2 * shape.m * shape.n * shape.k;
}

}  // namespace

KILTER_OP(Gemm){
    .name = "Gemm",
    .since = 7,
    .family = Family::gemm,
    .min_inputs = 2,
    .max_inputs = 3,
    .attrs = {{"alpha", "float", "1.0"}, {"beta", "float", "1.0"}, {"transA", "int", "0"}, {"transB", "int", "0"}},
    .summary =
        "y [m, n] = alpha * a' b' + beta * c, where a' and b' are a and b, transposed if transA or transB, and c "
        "broadcasts to y.",
    .infer = infer,
    .reference = reference,
    .flops = flops,
    // As for Conv: a long sum in a different order.
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[5,33] f32[33,17] f32[17]", "f32[1,512] f32[100,512] f32[100] | transB=1",
              "f32[33,7] f32[33,19] f32[7,1] | transA=1 alpha=0.5 beta=2.0",
              "f32[16,9] f32[13,9] ? | transB=1 alpha=-1.5", "f32[9,3] f32[5,9] f32[3,5] | transA=1 transB=1",
              "f32[4,8] f32[8,3] f32[] | beta=0.25 | 7", "i64[3,4] i64[4,5] i64[5]"},
};

}  // namespace kilter
