#include "ops/support/iterate.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

/// Resolves the requested shape: replaces 0 by the input's dimension (unless allowzero) and -1 by the size that
/// remains.
Shape resolved(const Node& node, const Shape& from, Shape wanted) {
  const bool allow_zero = node.int_attr("allowzero", 0) != 0;
  const std::string asked = fmt::format("[{}]", text(wanted));
  int64_t known = 1;
  std::optional<size_t> open;
  for (size_t d = 0; d < wanted.size(); ++d) {
    int64_t& n = wanted[d];
    if (n == 0 && !allow_zero) {
      if (d >= from.size()) {
        node_error(node, fmt::format("shape {} copies dimension {} of an input of rank {}", asked, d, from.size()));
      }
      n = from[d];
    }
    if (n == -1) {
      if (open) node_error(node, fmt::format("shape {} has more than one -1; at most one is legal", asked));
      open = d;
    } else if (n < 0) {
      node_error(node, fmt::format("shape {} has dimension {}; legal values are -1, 0 and positive sizes", asked, n));
    } else {
      known = checked_mul(node, known, n);
    }
  }
  const int64_t total = elems(from);
  if (open) {
    if (known == 0 || total % known != 0) {
      node_error(node, fmt::format("shape {} cannot hold the {} elements of {}: -1 has no solution", asked, total,
                                   text(from)));
    }
    wanted[*open] = total / known;
  } else if (known != total) {
    node_error(node, fmt::format("shape {} has {} elements, expected {} to match the input {}", asked, known, total,
                                 text(from)));
  }
  return wanted;
}

void infer(InferContext& ctx) {
  set_same_dtype(ctx, resolved(ctx.node, ctx.shape(0), operand_ints(ctx.node, ctx.needed(1), "shape")));
}

void reference(ReferenceContext& ctx) { copy_all(ctx.in(0), ctx.out()); }

}  // namespace

KILTER_OP(Reshape){
    .name = "Reshape",
    .since = 5,
    .family = Family::reshape,
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = {{"allowzero", "int", "0"}},
    .summary = "y = x with the shape of input 1: 0 keeps a dimension, -1 stands for the size that is left.",
    .infer = infer,
    .reference = reference,
    .shape_operands = {1},
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,5] i64[2]=0,-1", "f32[2,3,4] i64[3]=4,-1,2", "i32[6] i64[2]=2,3 | | 7",
              "f32[1] i64[0]=", "f32[0,3] i64[2]=3,0 | allowzero=1", "f16[7,17] i64[1]=-1"},
};

}  // namespace kilter
