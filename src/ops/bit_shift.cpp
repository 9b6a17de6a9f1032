#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

bool to_left(const Node& node) {
  const std::string direction = node.string_attr("direction", "");
  if (direction == "LEFT") return true;
  if (direction == "RIGHT") return false;
  node_error(node, "attribute direction is '" + direction + "'; legal values are 'LEFT' and 'RIGHT'");
}

void infer(InferContext& ctx) {
  to_left(ctx.node);
  infer_broadcast_of<Ints>(ctx);
}

template <class T>
bool in_range(T count) {
  return static_cast<uint64_t>(count) < sizeof(T) * 8;
}
template <class T>
T shift_left(T x, T count) {
  return in_range(count) ? static_cast<T>(static_cast<uint64_t>(x) << static_cast<uint64_t>(count)) : T{0};
}
template <class T>
T shift_right(T x, T count) {
  if (in_range(count)) return static_cast<T>(x >> count);
  if constexpr (std::is_signed_v<T>) {
    if (x < 0) return static_cast<T>(-1);
  }
  return 0;
}

void reference(ReferenceContext& ctx) {
  if (to_left(ctx.node)) {
    reference_binary<Ints>(ctx, [](auto x, auto count) { return shift_left(x, count); });
  } else {
    reference_binary<Ints>(ctx, [](auto x, auto count) { return shift_right(x, count); });
  }
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return binary(to_left(op.node) ? Op::shl : Op::shr, in[0], in[1]);
}

}  // namespace

KILTER_OP(BitShift){
    .name = "BitShift",
    .since = 11,
    .family = Family::map,
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = {{"direction", "string", "required"}},
    .summary =
        "z = x shifted by y bits, broadcast; signed right shifts keep the sign, and a y that is negative or at least "
        "the width shifts every bit out.",
    .infer = infer,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"u8[3]:16,4,1 u8[3]=1,2,3 | direction=RIGHT", "u8[3]:16,4,255 u8[3]=1,2,9 | direction=LEFT",
              "i8[5]:-128,-1,127,5,-5 i8[5]=1,9,1,-1,-1 | direction=RIGHT",
              "i32[4]:-1,1073741824,5,7 i32[4]=1,2,-3,33 | direction=LEFT", "u64[17] u64[1]=3 | direction=LEFT",
              "u16[3,1] u16[1,4]=0,1,5,16 | direction=RIGHT | 11"},
};

}  // namespace kilter
