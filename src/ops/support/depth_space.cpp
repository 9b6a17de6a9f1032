#include "ops/support/depth_space.h"

namespace kilter {
namespace {

bool depth_first(const Node& node) {
  const std::string mode = node.string_attr("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    node_error(node, fmt::format("mode '{}' is unknown; legal values are DCR, CRD", mode));
  return mode == "DCR";
}

}  // namespace

DepthSpace depth_space(const Node& node, const Shape& deep, const Shape& wide) {
  const int64_t b = block_of(node);
  const int64_t channels = wide[1];
  const Shape d = dense_strides(deep);
  const Shape w = dense_strides(wide);
  DepthSpace walk;
  walk.extent = {wide[0], channels, deep[2], b, deep[3], b};
  walk.wide = {w[0], w[1], b * w[2], w[2], b * w[3], w[3]};
  if (depth_first(node)) {
    walk.deep = {d[0], d[1], d[2], b * channels * d[1], d[3], channels * d[1]};
  } else {
    walk.deep = {d[0], b * b * d[1], d[2], b * d[1], d[3], d[1]};
  }
  return walk;
}

int64_t block_of(const Node& node) {
  const int64_t b = node.int_attr("blocksize", 0);
  if (b < 1) node_error(node, fmt::format("blocksize is {}, expected 1 or more", b));
  return b;
}

void check_image(const InferContext& ctx) {
  depth_first(ctx.node);
  if (ctx.rank(0) != 4) ctx.error(fmt::format("input 0 has rank {}, expected 4: [N, C, H, W]", ctx.rank(0)));
}

}  // namespace kilter
