#include <algorithm>

#include "ops/support/expander.h"
#include "ops/support/indexing.h"

namespace kilter {
namespace {

size_t axis_of(const Node& node, const Shape& shape) {
  const auto axis =
      static_cast<size_t>(normal_axis(node, node.int_attr("axis", -2), static_cast<int64_t>(shape.size())));
  if (axis == 0) node_error(node, "axis is 0, the batch dimension; it must be the dimension of the sequence");
  return axis;
}

bool circular(const Node& node) {
  const std::string mode = node.string_attr("mode", "linear");
  if (mode != "linear" && mode != "circular") {
    node_error(node, fmt::format("mode '{}' is unknown; legal values are linear, circular", mode));
  }
  return mode == "circular";
}

/// Returns why an update of `steps` elements starting at `first` does not fit into the axis. Empty if it does.
std::string misfit(int64_t batch, int64_t first, int64_t steps, size_t axis, int64_t size) {
  if (first >= 0 && first <= size - steps) return {};
  return fmt::format(
      "write_indices[{}] is {}, out of range for an update of {} in axis {} of size {}; legal values are 0 to {}",
      batch, first, steps, axis, size, size - steps);
}

void infer(InferContext& ctx) {
  circular(ctx.node);
  const Shape& cache = ctx.shape(0);
  Shape update = ctx.shape(1);
  const size_t axis = axis_of(ctx.node, cache);
  if (ctx.dtype(1) != ctx.dtype(0)) {
    ctx.error(fmt::format("update has element type {}, expected {} to match the cache", name(ctx.dtype(1)),
                          name(ctx.dtype(0))));
  }
  const bool fits = update.size() == cache.size() && update[axis] <= cache[axis];
  if (fits) update[axis] = cache[axis];
  if (update != cache) {
    ctx.error(
        fmt::format("update of shape {} does not fit the cache of shape {}: all dimensions except {} must agree, and "
                    "that one must not be larger",
                    text(ctx.shape(1)), text(cache), axis));
  }
  if (ctx.has(2)) {
    check_types(Types<int64_t>{}, ctx, 2);
    if (ctx.shape(2) != Shape{cache[0]}) {
      ctx.error(fmt::format("write_indices have shape {}, expected {}, the batch", text(ctx.shape(2)), cache[0]));
    }
    const Tensor* first = circular(ctx.node) ? nullptr : ctx.value(2);
    for (int64_t b = 0; first != nullptr && b < first->elems(); ++b) {
      const std::string why = misfit(b, first->as_int(b), ctx.shape(1)[axis], axis, cache[axis]);
      if (!why.empty()) ctx.error(why);
    }
  }
  infer_same(ctx);
}

void reference(ReferenceContext& ctx) {
  const Shape& cache = ctx.in(0).shape();
  const size_t axis = axis_of(ctx.node, cache);
  const int64_t steps = ctx.in(1).shape()[axis];
  const int64_t most = cache[axis];
  const int64_t inner = product(cache, axis + 1, cache.size());
  const int64_t rows = product(cache, 1, axis);
  const bool wraps = circular(ctx.node);
  copy_all(ctx.in(0), ctx.out());
  for (int64_t row = 0; row < cache[0] * rows; ++row) {
    const int64_t first = ctx.has(2) ? ctx.in(2).as_int(row / rows) : 0;
    if (const std::string why = wraps ? "" : misfit(row / rows, first, steps, axis, most); !why.empty())
      fail(ErrorKind::bad_input, "TensorScatter '{}': {}", ctx.node.name, why);
    for (int64_t s = 0; s < steps; ++s) {
      int64_t at = wrap_add(first, s);
      if (wraps) at = (at % most + most) % most;
      copy_elements(ctx.in(1), (row * steps + s) * inner, ctx.out(), (row * most + at) * inner, inner);
    }
  }
}

class Expansion : Expander {
 public:
  explicit Expansion(ExpandContext& ctx) : Expander(ctx) {}

  ValueId run() {
    const Shape cache = shape(in(0)), update = shape(in(1));
    const size_t axis = axis_of(node(), cache);
    const int64_t extent = cache[axis], steps = update[axis];
    if (const auto first = constant_place(extent, steps)) {
      const auto along = static_cast<int64_t>(axis);
      return joined({slice(in(0), along, 0, *first), in(1), slice(in(0), along, *first + steps, extent)}, along);
    }
    Shape to(axis + 1, 1), batch(axis + 1, 1);
    to[axis] = steps, batch[0] = cache[0];
    ValueId first = reshaped(in(2), batch);
    if (!circular(node())) {  // ScatterND counts negative indices from the end
      const ValueId negative = add("Less", {first, scalar(DType::i64, 0)});
      first = add("Where", {negative, scalar(DType::i64, static_cast<double>(extent)), first});
    }
    ValueId at = add("Add", {first, counting(DType::i64, 0, to)});
    if (circular(node())) at = add("Mod", {at, scalar(DType::i64, static_cast<double>(extent))});
    return add("ScatterND", {in(0), indices_along(update, at, axis), in(1)});
  }

 private:
  /// Returns where the update goes if this is constant and the same for the whole batch, and the update does not wrap
  /// around.
  std::optional<int64_t> constant_place(int64_t extent, int64_t steps) const {
    if (!has(2)) return 0;
    const Tensor* first = known(2);
    if (first == nullptr || first->elems() == 0) return std::nullopt;
    const int64_t place = first->as_int(0);
    for (int64_t b = 1; b < first->elems(); ++b) {
      if (first->as_int(b) != place) return std::nullopt;
    }
    return place >= 0 && place <= extent - steps ? std::optional(place) : std::nullopt;
  }
};

std::vector<ValueId> expand(ExpandContext& ctx) { return {Expansion(ctx).run()}; }

}  // namespace

KILTER_OP(TensorScatter){
    .name = "TensorScatter",
    .since = 24,
    .min_inputs = 2,
    .max_inputs = 3,
    .attrs = {{"axis", "int", "-2"}, {"mode", "string", "linear"}},
    .summary =
        "y = the cache x with update (input 1) written along axis from write_indices[b] (input 2, else 0) on, modulo "
        "the cache's length when circular.",
    .infer = infer,
    .reference = reference,
    .expand = expand,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,7,5] f32[2,3,1,5] i64[2]:0,6", "f32[2,4,5] f32[2,2,5] i64[2]:3,1 | mode=circular",
              "f16[1,17,3] f16[1,2,3]", "f32[1,2,3,4] f32[1,2,3,2] i64[1]:2 | axis=3"},
};

}  // namespace kilter
