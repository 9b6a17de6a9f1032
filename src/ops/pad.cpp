#include "ops/support/pad.h"

#include <algorithm>

#include "ops/support/iterate.h"
#include "ops/support/operands.h"
#include "ops/support/regions.h"

namespace kilter {
namespace {

enum class Mode { constant, reflect, edge, wrap };

Mode mode_of(const Node& node) {
  const std::string mode = node.string_attr("mode", "constant");
  if (mode == "constant") return Mode::constant;
  if (mode == "reflect") return Mode::reflect;
  if (mode == "edge") return Mode::edge;
  if (mode == "wrap") return Mode::wrap;
  node_error(node, fmt::format("mode '{}' is unknown; legal values are constant, reflect, edge, wrap", mode));
}

template <class Context>
Margins margins(const Context& ctx) {
  const auto rank = static_cast<int64_t>(shape_of(ctx, 0).size());
  const auto pads = ints_of(ctx, 1, "pads");
  if (!pads) node_error(ctx.node, "pads are missing; give them as input 1 (an attribute before opset 11)");
  const Tensor* given = operand(ctx, 3);
  const std::vector<int64_t> axes =
      given == nullptr ? all_axes(rank) : normal_axes(ctx.node, operand_ints(ctx.node, *given, "axes"), rank);
  check_count(ctx.node, "pads, two for every axis", 2 * axes.size(), pads->size());
  constexpr int64_t kMost = int64_t{1} << 40;  // maximum number of elements of a tensor
  for (int64_t pad : *pads) {
    if (pad < -kMost || pad > kMost)
      node_error(ctx.node, fmt::format("pads has {}; legal values are -2^40 to 2^40", pad));
  }
  Margins all{Shape(static_cast<size_t>(rank), 0), Shape(static_cast<size_t>(rank), 0)};
  for (size_t k = 0; k < axes.size(); ++k) {
    all.before[static_cast<size_t>(axes[k])] = (*pads)[k];
    all.after[static_cast<size_t>(axes[k])] = (*pads)[k + axes.size()];
  }
  return all;
}

/// Returns a modulo n, in [0, n).
int64_t modulo(int64_t a, int64_t n) { return (a % n + n) % n; }

/// Returns the element that index i, which may be outside [0, n), reads in a dimension of extent n >= 1.
int64_t source(Mode mode, int64_t i, int64_t n) {
  if (i >= 0 && i < n) return i;
  switch (mode) {
    case Mode::constant:
      return kFill;
    case Mode::edge:
      return std::clamp<int64_t>(i, 0, n - 1);
    case Mode::wrap:
      return modulo(i, n);
    case Mode::reflect:
      break;
  }
  if (n == 1) return 0;
  const int64_t at = modulo(i, 2 * (n - 1));
  return at < n ? at : 2 * (n - 1) - at;
}

/// The part of a dimension of extent n that remains after negative margins are removed. Only this part is repeated by
/// padding.
struct Kept {
  int64_t first;
  int64_t count;
};
Kept kept_of(int64_t n, const Margins& margins, size_t d) {
  const int64_t first = std::max<int64_t>(0, -margins.before[d]);
  return {first, n - first + std::min<int64_t>(0, margins.after[d])};
}

Shape padded_shape(const Node& node, const Shape& shape, const Margins& margins) {
  Shape out;
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t n = checked_add(node, checked_add(node, shape[d], margins.before[d]), margins.after[d]);
    if (n < 0) {
      node_error(node, fmt::format("pads {} and {} leave {} elements of the {} of dimension {}", margins.before[d],
                                   margins.after[d], n, shape[d], d));
    }
    if (mode_of(node) != Mode::constant && n > 0 && kept_of(shape[d], margins, d).count < 1) {
      node_error(node, fmt::format("nothing is left of dimension {} to pad with; only a constant can pad it", d));
    }
    out.push_back(n);
  }
  return out;
}

std::vector<IndexMap> maps_of(const Node& node, const Shape& shape, const Shape& out, const Margins& margins) {
  const Mode mode = mode_of(node);
  std::vector<IndexMap> maps;
  for (size_t d = 0; d < shape.size(); ++d) {
    IndexMap map(static_cast<size_t>(out[d]));
    const Kept kept = mode == Mode::constant ? Kept{0, shape[d]} : kept_of(shape[d], margins, d);
    for (size_t i = 0; i < map.size(); ++i) {
      const int64_t at = source(mode, static_cast<int64_t>(i) - margins.before[d] - kept.first, kept.count);
      map[i] = at == kFill ? kFill : at + kept.first;
    }
    maps.push_back(std::move(map));
  }
  return maps;
}

void infer(InferContext& ctx) {
  mode_of(ctx.node);
  if (ctx.has(2) && ctx.dtype(2) != ctx.dtype(0)) {
    ctx.error(fmt::format("the constant value has element type {}, expected {} to match the input", name(ctx.dtype(2)),
                          name(ctx.dtype(0))));
  }
  if (ctx.has(2) && elems(ctx.shape(2)) != 1) ctx.error("the constant value must have one element");
  set_same_dtype(ctx, padded_shape(ctx.node, ctx.shape(0), margins(ctx)));
}

/// Returns the fill value, which is an attribute before opset 11, in the input's type.
Tensor attribute_value(const Node& node, DType type) {
  Tensor value(type, {});
  if (node.has_attr("value")) fill(value, node.float_attr("value", 0));
  return value;
}

Tensor fill_value(const OpView& pad) {
  const Tensor* given = operand(pad, 2);
  return given != nullptr ? *given : attribute_value(pad.node, pad.inputs[0].dtype);
}

void reference(ReferenceContext& ctx) {
  const Tensor value = ctx.has(2) ? ctx.in(2) : attribute_value(ctx.node, ctx.in(0).dtype());
  copy_mapped(ctx.in(0), ctx.out(), maps_of(ctx.node, ctx.in(0).shape(), ctx.out().shape(), margins(ctx)), value);
}

std::optional<std::vector<CopyRegion>> regions(const OpView& view, int32_t) {
  const DType type = view.inputs[0].dtype;
  if (!known(view, 1) || !is_arithmetic(type)) return std::nullopt;
  const std::optional<double> value = exact_fill(fill_value(view));
  if (!value || !mappable(view.outputs[0].shape)) return std::nullopt;
  const Shape& shape = view.inputs[0].shape;
  return mapped_regions(shape, maps_of(view.node, shape, view.outputs[0].shape, margins_of(view)), 0, *value);
}

}  // namespace

Margins margins_of(const OpView& pad) { return margins(pad); }

std::optional<double> constant_margin(const OpView& pad) {
  return mode_of(pad.node) == Mode::constant ? exact_fill(fill_value(pad)) : std::nullopt;
}

KILTER_OP(Pad){
    .name = "Pad",
    .since = 2,
    .family = Family::movement,
    .separable = true,
    .max_inputs = 4,
    .attrs = {{"mode", "string", "constant"}, {"pads", "ints", ""}, {"value", "float", "0"}},
    .summary =
        "y = x with pads[i] elements before and pads[i + n] after axis i (removed when negative): a constant, the "
        "mirrored, the nearest or the wrapped element; inputs pads, value, axes (attributes before opset 11).",
    .infer = infer,
    .reference = reference,
    .regions = regions,
    .shape_operands = {1, 3},
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[1,3,7,7] i64[8]=0,0,1,2,0,0,3,0", "f32[5,7] i64[4]=2,4,3,1 | mode=reflect",
              "f32[5,7] i64[4]=2,0,3,1 f32[]=1.5", "i32[3,4] i64[4]=2,1,0,3 | mode=edge",
              "f32[3,4] i64[2]=5,7 ? i64[1]=-1 | mode=wrap", "f32[17] i64[2]=-3,2",
              "f32[3,9] i64[4]=0,2,0,-4 | mode=wrap", "f16[3,5] | pads=[0,1,2,0] value=-1 | 10",
              "f32[1] i64[2]=2,1 | mode=reflect"},
};

}  // namespace kilter
