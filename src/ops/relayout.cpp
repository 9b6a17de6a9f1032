// Relayout: the same elements in another memory layout, or in a separate buffer.

#include "ops/op.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) { ctx.set(0, ctx.dtype(0), ctx.shape(0)); }

void reference(ReferenceContext& ctx) {
  if (ctx.in(0).dtype() == DType::string) {
    ctx.out().strings() = ctx.in(0).strings();
    return;
  }
  std::copy_n(ctx.in(0).raw(), ctx.in(0).bytes(), ctx.out().raw());
}

std::optional<Expr> scalar(const OpView&, std::span<const Expr> in) { return in[0]; }

int64_t no_flops(const OpView&) { return 0; }

}  // namespace

KILTER_OP(Relayout){
    .name = "Relayout",
    .domain = "kilter",
    .family = Family::map,
    .movement = Movement::relayout,
    .summary = "Y = X, the same elements in another layout; created by the layout pass.",
    .infer = infer,
    .reference = reference,
    .scalar = scalar,
    .flops = no_flops,
    .zero_preserving = true,
    .tolerance = {0, 0, false},
    .cases = {"f32[2,3,4]"},
};

}  // namespace kilter
