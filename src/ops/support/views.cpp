#include "ops/support/views.h"

#include <algorithm>

#include "ops/support/builder.h"
#include "ops/support/regions.h"

namespace kilter {

std::optional<Shape> view_strides(const Shape& shape, const Shape& strides, const Shape& to) {
  // A run of source dimensions that are contiguous with each other. Runs are ordered outermost first.
  struct Run {
    int64_t elems, stride;
  };
  std::vector<Run> runs;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    if (shape[d] == 0) return dense_strides(to);
    if (!runs.empty() && runs.back().stride == strides[d] * shape[d]) {
      runs.back() = {runs.back().elems * shape[d], strides[d]};
    } else {
      runs.push_back({shape[d], strides[d]});
    }
  }
  Shape result(to.size(), 1);
  size_t run = runs.size();
  int64_t used = 1;  // elements of the current run that inner dimensions have used
  for (size_t d = to.size(); d-- > 0;) {
    if (to[d] == 1) continue;
    if (run == runs.size() || used == runs[run].elems) {
      if (run == 0) return std::nullopt;
      --run;
      used = 1;
    }
    if (runs[run].elems % (used * to[d]) != 0) return std::nullopt;
    result[d] = runs[run].stride * used;
    used *= to[d];
  }
  return result;
}

std::optional<int64_t> first_channel(const Graph& graph, const OpView& of, size_t output) {
  const Node& node = of.node;
  if (!node.op->domain.empty() || (node.op->name != "Slice" && node.op->name != "Split")) return std::nullopt;
  const Shape &in = graph.type(node.inputs[0]).shape, &out = graph.type(node.outputs[output]).shape;
  if (in.size() != 4 || elems(out) == 0 || out != Shape{in[0], out[1], in[2], in[3]}) return std::nullopt;
  const auto regions = node.op->regions(of, static_cast<int32_t>(output));
  if (!regions || regions->size() != 1) return std::nullopt;
  const CopyRegion found = merged(regions->front());
  const CopyRegion wanted = merged(whole_region(0, out, dense_strides(in), found.in_offset));
  if (found.extent != wanted.extent || found.in_strides != wanted.in_strides) return std::nullopt;
  return found.in_offset / (in[2] * in[3]);
}

std::vector<int64_t> transpose_perm(const Node& node, int64_t rank) {
  std::vector<int64_t> perm = node.ints_attr("perm");
  if (perm.empty()) {
    for (int64_t d = rank; d-- > 0;) perm.push_back(d);
  }
  return perm;
}

}  // namespace kilter
