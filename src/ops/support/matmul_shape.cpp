#include "ops/support/matmul_shape.h"

#include "ops/support/builder.h"

namespace kilter {

MatMulShape matmul_shape(const Node& node, const Shape& a, const Shape& b) {
  if (a.empty() || b.empty()) {
    node_error(node, fmt::format("operands have shapes {} and {}, expected rank 1 or more", text(a), text(b)));
  }
  const Shape left = a.size() == 1 ? Shape{1, a[0]} : a;
  const Shape right = b.size() == 1 ? Shape{b[0], 1} : b;
  MatMulShape shape;
  shape.m = left[left.size() - 2];
  shape.k = left.back();
  shape.n = right.back();
  const Shape a_batch(left.begin(), left.end() - 2);
  const Shape b_batch(right.begin(), right.end() - 2);
  const auto batch = broadcast_shapes(std::vector<Shape>{a_batch, b_batch});
  if (right[right.size() - 2] != shape.k || !batch) {
    node_error(node, fmt::format("operands {} and {} cannot be multiplied: expected [..., m, k] and [..., k, n] with "
                                 "leading dimensions that broadcast",
                                 text(a), text(b)));
  }
  shape.batch = *batch;
  shape.a_batch_strides = broadcast_strides(a_batch, shape.batch);
  shape.b_batch_strides = broadcast_strides(b_batch, shape.batch);
  for (int64_t& stride : shape.a_batch_strides) stride *= shape.m * shape.k;
  for (int64_t& stride : shape.b_batch_strides) stride *= shape.k * shape.n;
  shape.out = shape.batch;
  if (a.size() > 1) shape.out.push_back(shape.m);
  if (b.size() > 1) shape.out.push_back(shape.n);
  return shape;
}

GemmShape gemm_shape(const Node& node, const Shape& a, const Shape& b) {
  GemmShape shape;
  shape.trans_a = node.int_attr("transA", 0) != 0;
  shape.trans_b = node.int_attr("transB", 0) != 0;
  if (a.size() != 2 || b.size() != 2) {
    node_error(node, fmt::format("operands have shapes {} and {}, expected rank 2", text(a), text(b)));
  }
  shape.m = a[shape.trans_a ? 1 : 0];
  shape.k = a[shape.trans_a ? 0 : 1];
  shape.n = b[shape.trans_b ? 0 : 1];
  if (b[shape.trans_b ? 1 : 0] != shape.k) {
    node_error(node, fmt::format("operands {} and {} cannot be multiplied with transA={} and transB={}", text(a),
                                 text(b), static_cast<int>(shape.trans_a), static_cast<int>(shape.trans_b)));
  }
  return shape;
}

}  // namespace kilter
