#include "base/narrow.h"
#include "ops/support/cast_values.h"
#include "ops/support/dtype_attr.h"
#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  const std::string mode = ctx.node.string_attr("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest")
    ctx.error(fmt::format("round_mode '{}' is unknown; legal values are up, down, nearest", mode));
  ctx.set(0, dtype_attr(ctx.node, "to", DType::f32), ctx.shape(0));
}

void reference(ReferenceContext& ctx) { cast_values(ctx.node, ctx.in(0), ctx.out()); }

/// Returns the value of the code of a narrow integer as i32.
Expr narrow_integer(DType type, const Expr& code) {
  const Expr value = cast(DType::i32, code);
  if (least_narrow_integer(type) == 0) return value;
  const Expr sign = like(value, static_cast<double>(greatest_narrow_integer(type) + 1));
  return binary(Op::bit_xor, value, sign) - sign;
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  const DType from = op.inputs[0].dtype, to = op.outputs[0].dtype;
  const auto possible = [](DType type) { return is_arithmetic(type) || is_narrow_integer(type); };
  if (!possible(from) || !possible(to) || (is_float(from) && is_narrow(to))) return std::nullopt;
  const Expr value = is_narrow(from) ? narrow_integer(from, in[0]) : in[0];
  if (!is_narrow(to)) return cast(to, value);
  const Expr low = cast(DType::u8, value);
  return binary(Op::bit_and, low, like(low, static_cast<double>((1 << size_bits(to)) - 1)));
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
        "integers wrap, and strings contain numbers as text. Conversion to floats of 8 bits is governed by `saturate`, "
        "and "
        "to f8e8m0 by `round_mode`.",
    .infer = infer,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5] | to=10",
              "f32[17] | to=11",
              "f16[7] | to=1",
              "f64[33] | to=1",
              "f64[9] | to=16",
              "bf16[9] | to=1",
              "f32[9]:-3e9,-1.9,-0.5,0,0.5,1.9,300,3e9,nan | to=6",
              "f32[6]:-300,-1.5,0,1.5,300,nan | to=2",
              "i32[5]:-129,-1,0,128,70000 | to=3",
              "i64[17] | to=1",
              "u8[33] | to=1",
              "f32[4]:0,-0.0,nan,0.1 | to=9",
              "bool[17] | to=1",
              "bool[5] | to=7",
              "u64[2]:18446744073709551615,1 | to=11",
              "i64[7] | to=6 | 9",
              "f32[9]:0.1,-0.0,448,464.5,-1e6,1e-7,nan,inf,-inf | to=17",
              "f32[9]:0.1,-0.0,448,464.5,-1e6,1e-7,nan,inf,-inf | to=18 saturate=0",
              "f16[33] | to=19",
              "f64[17] | to=20",
              "bf16[7] | to=23",
              "i64[4]:-9,7,8,100 | to=22",
              "f32[5]:-1.5,3.9,4,-4,nan | to=26",
              "f8e5m2[33] | to=1",
              "f4e2m1[7] | to=10",
              "i4[9] | to=2",
              "u2[5] | to=22",

              "str[4]:\"3.14\",\"1e-5\",\"-INF\",\"nan\" | to=1",
              "f32[3]:1.5,-2,1e-7 | to=8"},
};

}  // namespace kilter
