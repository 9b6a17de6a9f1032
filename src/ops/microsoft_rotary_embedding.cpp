#include "ops/support/expander.h"

namespace kilter {
namespace {

enum Input : size_t { kX, kPositions, kCosines, kSines };

class Expansion : Expander {
 public:
  explicit Expansion(ExpandContext& ctx) : Expander(ctx) {}

  ValueId run() {
    if (node().int_attr("is_packed_batching", 0) != 0) unsupported("attribute is_packed_batching is not supported");
    if (const float scale = node().float_attr("scale", 1); scale != 1) {
      unsupported(fmt::format("attribute scale is {}; only 1 is supported", scale));
    }
    const Shape x = shape(in(kX)), cosines = shape(in(kCosines));
    if ((x.size() != 3 && x.size() != 4) || cosines.size() != 2 || cosines[1] < 1) {
      error(
          fmt::format("has input {} and cos_cache {}; expected [batch, positions, hidden] or [batch, heads, positions, "
                      "size], and [rows, rotated elements / 2]",
                      text(x), text(cosines)));
    }
    const int64_t rotated = node().int_attr("rotary_embedding_dim", 0);
    int64_t heads = node().int_attr("num_heads", 0);
    if (x.size() == 3 && heads == 0) heads = x[2] / (2 * cosines[1]);
    return add("RotaryEmbedding", {in(kX), in(kCosines), in(kSines), positions({x[0], x[x.size() - 2]})},
               {{"interleaved", node().int_attr("interleaved", 0)},
                {"num_heads", x.size() == 3 ? heads : 0},
                {"rotary_embedding_dim", rotated}});
  }

 private:
  /// Returns position_ids for each position; one element is the position of the first.
  ValueId positions(const Shape& expected) {
    if (shape(in(kPositions)) == expected) return in(kPositions);
    if (elems(shape(in(kPositions))) != 1) check_shape_of(kPositions, "position_ids", expected);
    const ValueId first = one_element(kPositions, "position_ids");
    const ValueId row = sum(first, counting(DType::i64, 0, {1, expected[1]}));
    return add("Expand", {row, list(expected)});
  }
};

std::vector<ValueId> expand(ExpandContext& ctx) { return {Expansion(ctx).run()}; }

}  // namespace

KILTER_OP(MicrosoftRotaryEmbedding){
    .name = "RotaryEmbedding",
    .domain = "com.microsoft",
    .family = Family::map,
    .min_inputs = 4,
    .max_inputs = 4,
    .attrs = {{"interleaved", "int", "0"},
              {"is_packed_batching", "int", "0"},
              {"num_heads", "int", "0"},
              {"rotary_embedding_dim", "int", "0"},
              {"scale", "float", "1"}},
    .summary =
        "RotaryEmbedding of x [batch, sequence, heads * size] or [batch, heads, sequence, size]; inputs x, "
        "position_ids "
        "(for each position, or that of the first), cos_cache, sin_cache.",
    .expand = expand,
    .cases =
        {"f32[2,4,3,8] i64[2,3]:0,1,2,5,6,49 f32[50,4] f32[50,4]", "f32[2,3,24] i64[1]:7 f32[50,4] f32[50,4]",
         "f32[2,3,24] i64[2,3]:0,1,2,5,6,49 f32[50,2] f32[50,2] | num_heads=3 rotary_embedding_dim=4 interleaved=1"},
};

}  // namespace kilter
