#include "ops/support/elementwise.h"
#include "ops/support/expander.h"

namespace kilter {
namespace {

/// x as [batch, heads, sequence, size], whatever its rank. The first `rotated` elements of each vector are rotated.
struct Rotary {
  int64_t batch;
  int64_t sequence;
  int64_t heads;
  int64_t size;
  int64_t rotated;
  bool interleaved;
  bool rank3;  ///< whether x is [batch, sequence, heads * size] in memory rather than [batch, heads, sequence, size]
};

Rotary rotary_of(const Node& node, const Shape& x) {
  Rotary r{};
  r.interleaved = node.int_attr("interleaved", 0) != 0;
  r.rank3 = x.size() == 3;
  if (r.rank3) {
    r.heads = node.int_attr("num_heads", 0);
    if (r.heads <= 0 || x[2] % r.heads != 0) {
      node_error(node, fmt::format("attribute num_heads is {}; it must divide the last dimension of input 0, {}",
                                   r.heads, text(x)));
    }
    r.batch = x[0];
    r.sequence = x[1];
    r.size = x[2] / r.heads;
  } else if (x.size() == 4) {
    r.batch = x[0];
    r.heads = x[1];
    r.sequence = x[2];
    r.size = x[3];
  } else {
    node_error(node, fmt::format("input 0 has shape {}, expected rank 3 or 4", text(x)));
  }
  const int64_t given = node.int_attr("rotary_embedding_dim", 0);
  r.rotated = given == 0 ? r.size : given;
  if (r.rotated < 0 || r.rotated > r.size || r.rotated % 2 != 0) {
    node_error(
        node,
        fmt::format("rotates {} elements of vectors of {}; expected an even number up to the length of the vectors",
                    r.rotated, r.size));
  }
  return r;
}

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  const Rotary r = rotary_of(ctx.node, ctx.shape(0));
  Shape expected = {r.batch, r.sequence, r.rotated / 2};
  if (ctx.has(3)) {
    check_types(Types<int64_t>{}, ctx, 3);
    if (ctx.shape(3) != Shape{r.batch, r.sequence}) {
      ctx.error(fmt::format("position_ids have shape {}, expected {}x{}", text(ctx.shape(3)), r.batch, r.sequence));
    }
    if (ctx.rank(1) == 2) expected = {ctx.shape(1)[0], r.rotated / 2};
  }
  for (size_t i : {1, 2}) {
    if (ctx.dtype(i) != ctx.dtype(0))
      ctx.error(fmt::format("input {} has element type {}, expected {}", i, name(ctx.dtype(i)), name(ctx.dtype(0))));
    if (ctx.shape(i) != expected)
      ctx.error(fmt::format("input {} (cache) has shape {}, expected {}", i, text(ctx.shape(i)), text(expected)));
  }
  infer_same(ctx);
}

/// Returns the cache row for each (batch, position).
std::vector<int64_t> cache_rows(const ReferenceContext& ctx, const Rotary& r) {
  std::vector<int64_t> rows(static_cast<size_t>(r.batch * r.sequence));
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<int64_t>(i);
    if (!ctx.has(3)) continue;
    rows[i] = ctx.in(3).as_int(static_cast<int64_t>(i));
    const int64_t limit = ctx.in(1).shape()[0];
    if (rows[i] < 0) rows[i] += limit;
    if (rows[i] < 0 || rows[i] >= limit) {
      fail(ErrorKind::bad_input, "RotaryEmbedding '{}': position {} is outside the cache of {} rows", ctx.node.name,
           rows[i], limit);
    }
  }
  return rows;
}

void reference(ReferenceContext& ctx) {
  const Rotary r = rotary_of(ctx.node, ctx.in(0).shape());
  const std::vector<int64_t> rows = cache_rows(ctx, r);
  const std::vector<double> cosines = load_doubles(ctx.in(1));
  const std::vector<double> sines = load_doubles(ctx.in(2));
  std::vector<double> x = load_doubles(ctx.in(0));
  const int64_t half = r.rotated / 2;
  for_each_index({r.batch, r.heads, r.sequence}, [&](std::span<const int64_t> at) {
    const int64_t vector =
        r.rank3 ? (at[0] * r.sequence + at[2]) * r.heads + at[1] : (at[0] * r.heads + at[1]) * r.sequence + at[2];
    const int64_t row = rows[static_cast<size_t>(at[0] * r.sequence + at[2])];
    for (int64_t k = 0; k < half; ++k) {
      double& a = x[static_cast<size_t>(vector * r.size + (r.interleaved ? 2 * k : k))];
      double& b = x[static_cast<size_t>(vector * r.size + (r.interleaved ? 2 * k + 1 : k + half))];
      const double c = cosines[static_cast<size_t>(row * half + k)];
      const double s = sines[static_cast<size_t>(row * half + k)];
      const double real = c * a - s * b;
      b = s * a + c * b;
      a = real;
    }
  });
  store_doubles(ctx.out(), x);
}

class Expansion : Expander {
 public:
  explicit Expansion(ExpandContext& ctx) : Expander(ctx), r_(rotary_of(ctx.node, ctx.type(0).shape)) {}

  ValueId run() {
    const Shape whole = shape(in(0));
    const ValueId x = r_.rank3 ? reshaped(in(0), {r_.batch, r_.sequence, r_.heads, r_.size}) : in(0);
    const ValueId cosines = cache(1);
    const ValueId sines = cache(2);
    const int64_t half = r_.rotated / 2;
    const ValueId a = r_.interleaved ? every_second(x, 0) : slice(x, -1, 0, half);
    const ValueId b = r_.interleaved ? every_second(x, 1) : slice(x, -1, half, r_.rotated);
    const ValueId real = add("Sub", {mul(cosines, a), mul(sines, b)});
    const ValueId imaginary = add("Add", {mul(sines, a), mul(cosines, b)});
    ValueId turned = r_.interleaved ? interleaved(real, imaginary) : joined({real, imaginary}, -1);
    if (r_.rotated < r_.size) turned = joined({turned, slice(x, -1, r_.rotated, r_.size)}, -1);
    return r_.rank3 ? reshaped(turned, whole) : turned;
  }

 private:
  ValueId mul(ValueId a, ValueId b) { return add("Mul", {a, b}); }
  ValueId every_second(ValueId v, int64_t first) {
    return add("Slice", {v, list({first}), list({r_.rotated}), list({-1}), list({2})});
  }
  /// Returns the cache rows of every position, with an axis for the heads, so that they broadcast to x.
  ValueId cache(size_t i) {
    const ValueId rows = has(3) ? add("Gather", {in(i), in(3)}) : in(i);
    return add("Unsqueeze", {rows, list({r_.rank3 ? 2 : 1})});
  }
  ValueId interleaved(ValueId real, ValueId imaginary) {
    Shape result = shape(real);
    const ValueId last = list({static_cast<int64_t>(result.size())});
    result.back() *= 2;
    return reshaped(joined({add("Unsqueeze", {real, last}), add("Unsqueeze", {imaginary, last})}, -1), result);
  }

  Rotary r_;
};

std::vector<ValueId> expand(ExpandContext& ctx) { return {Expansion(ctx).run()}; }

}  // namespace

KILTER_OP(RotaryEmbedding){
    .name = "RotaryEmbedding",
    .since = 23,
    .family = Family::map,
    .position_input = 3,
    .min_inputs = 3,
    .max_inputs = 4,
    .attrs = {{"interleaved", "int", "0"}, {"num_heads", "int", "0"}, {"rotary_embedding_dim", "int", "0"}},
    .summary =
        "Rotates pairs of elements of x [batch, heads, sequence, size] or [batch, sequence, heads * size] by the "
        "angles whose cosines and sines the caches give for each position.",
    .infer = infer,
    .reference = reference,
    .expand = expand,
    .tolerance = {.rtol = 1e-5, .atol = 1e-6},
    .cases = {"f32[2,4,3,8] f32[50,4] f32[50,4] i64[2,3]=0,1,2,5,6,49", "f32[2,4,3,8] f32[2,3,4] f32[2,3,4]",
              "f32[2,3,32] f32[50,4] f32[50,4] i64[2,3]=0,1,2,5,6,7 | num_heads=4",
              "f32[2,4,3,8] f32[50,4] f32[50,4] i64[2,3]=0,1,2,5,6,7 | interleaved=1",
              "f32[2,4,3,8] f32[50,2] f32[50,2] i64[2,3]=0,1,2,5,6,7 | rotary_embedding_dim=4",
              "f64[1,2,3,6] f64[1,3,2] f64[1,3,2] | rotary_embedding_dim=4 interleaved=1"},
};

}  // namespace kilter
