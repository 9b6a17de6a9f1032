#include "ops/support/elementwise.h"

#include <string>

namespace kilter {
namespace {

std::string list(std::span<const DType> types) {
  std::string out;
  for (DType type : types) {
    if (!out.empty()) out += ", ";
    out += name(type);
  }
  return out;
}

}  // namespace

void unsupported_dtype(const Node& node, DType got, std::span<const DType> legal) {
  fail(ErrorKind::unsupported, "{} '{}': element type {} is not supported; legal values are {}",
       node.op != nullptr ? node.op->name : "?", node.name, name(got), list(legal));
}

void illegal_dtype(const Node& node, size_t input, DType got, std::span<const DType> legal) {
  node_error(node, fmt::format("input {} has element type {}, expected one of {}", input, name(got), list(legal)));
}

Shape broadcast_inputs(const InferContext& ctx) {
  std::vector<Shape> shapes;
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    if (ctx.has(i)) shapes.push_back(ctx.shape(i));
  }
  std::optional<Shape> shape = broadcast_shapes(shapes);
  if (shape) return *std::move(shape);
  std::string all;
  for (const Shape& s : shapes) all += (all.empty() ? "" : ", ") + text(s);
  ctx.error(fmt::format("input shapes {} do not broadcast: aligned at the end, extents must be equal or 1", all));
}

void check_same_dtype(const InferContext& ctx) {
  for (size_t i = 1; i < ctx.input_count(); ++i) {
    if (!ctx.has(i) || ctx.dtype(i) == ctx.dtype(0)) continue;
    ctx.error(fmt::format("input {} has element type {}, expected {} to match input 0", i, name(ctx.dtype(i)),
                          name(ctx.dtype(0))));
  }
}

void infer_same(InferContext& ctx) { ctx.set(0, ctx.dtype(0), ctx.shape(0)); }

void infer_predicate(InferContext& ctx) { ctx.set(0, DType::boolean, ctx.shape(0)); }

void infer_broadcast(InferContext& ctx) {
  check_same_dtype(ctx);
  ctx.set(0, ctx.dtype(0), broadcast_inputs(ctx));
}

void infer_compare(InferContext& ctx) {
  check_same_dtype(ctx);
  ctx.set(0, DType::boolean, broadcast_inputs(ctx));
}

}  // namespace kilter
