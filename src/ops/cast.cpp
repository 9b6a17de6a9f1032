#include "ops/support/cast_values.h"
#include "ops/support/dtype_attr.h"
#include "ops/support/elementwise.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) { ctx.set(0, dtype_attr(ctx.node, "to", DType::f32), ctx.shape(0)); }

void reference(ReferenceContext& ctx) { cast_values(ctx.node, ctx.in(0), ctx.out()); }

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  if (op.inputs[0].dtype == DType::string || op.outputs[0].dtype == DType::string) return std::nullopt;
  return cast(op.outputs[0].dtype, in[0]);
}

}  // namespace

KILTER_OP(Cast){
    .name = "Cast",
    .since = 6,
    .family = Family::map,
    .passes_values = true,
    .attrs = {{"to", "int", "required"}, {"saturate", "int", "1"}, {"round_mode", "string", "up"}},
    .summary =
        "y = x converted to the element type `to` (a number of TensorProto.DataType); floats truncate and saturate, "
        "integers wrap, and strings contain numbers as text.",
    .infer = infer,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5] | to=10", "f32[17] | to=11", "f16[7] | to=1", "f64[33] | to=1", "f64[9] | to=16",
              "bf16[9] | to=1", "f32[9]:-3e9,-1.9,-0.5,0,0.5,1.9,300,3e9,nan | to=6",
              "f32[6]:-300,-1.5,0,1.5,300,nan | to=2", "i32[5]:-129,-1,0,128,70000 | to=3", "i64[17] | to=1",
              "u8[33] | to=1", "f32[4]:0,-0.0,nan,0.1 | to=9", "bool[17] | to=1", "bool[5] | to=7",
              "u64[2]:18446744073709551615,1 | to=11", "i64[7] | to=6 | 9",
              "str[4]:\"3.14\",\"1e-5\",\"-INF\",\"nan\" | to=1", "f32[3]:1.5,-2,1e-7 | to=8"},
};

}  // namespace kilter
