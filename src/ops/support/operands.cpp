#include "ops/support/operands.h"

#include <algorithm>
#include <numeric>

namespace kilter {

bool known(const OpView& view, size_t first) {
  for (size_t i = first; i < view.present.size(); ++i) {
    if (view.present[i] && view.values.at(i) == nullptr) return false;
  }
  return true;
}

std::vector<int64_t> operand_ints(const Node& node, const Tensor& value, std::string_view what) {
  if (!is_integer(value.dtype()) || (value.rank() > 1 && value.elems() != 1)) {
    node_error(node, fmt::format("{} must be integers of rank 0 or 1, or one integer, got {}[{}]", what,
                                 name(value.dtype()), text(value.shape())));
  }
  return value.ints();
}

int64_t operand_int(const Node& node, const Tensor& value, std::string_view what) {
  if (value.elems() != 1 || value.dtype() == DType::string) {
    node_error(node, fmt::format("{} must be one number, got {}[{}]", what, name(value.dtype()), text(value.shape())));
  }
  return value.as_int(0);
}

std::vector<int64_t> normal_axes(const Node& node, const std::vector<int64_t>& axes, int64_t rank) {
  std::vector<int64_t> normal;
  for (int64_t axis : axes) {
    const int64_t a = normal_axis(node, axis, rank);
    if (std::find(normal.begin(), normal.end(), a) != normal.end()) {
      node_error(node, fmt::format("axis {} is given twice; every axis may appear once", axis));
    }
    normal.push_back(a);
  }
  return normal;
}

std::vector<int64_t> all_axes(int64_t rank) {
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), int64_t{0});
  return axes;
}

int64_t checked_add(const Node& node, int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    node_error(node, fmt::format("{} + {} exceeds the range of a dimension (64 bits)", a, b));
  }
  return sum;
}

int64_t checked_mul(const Node& node, int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) {
    node_error(node, fmt::format("{} * {} exceeds the range of a dimension (64 bits)", a, b));
  }
  return result;
}

void check_shape(const Node& node, const Shape& shape) {
  try {
    elems(shape);
  } catch (const Error& error) {
    node_error(node, "output: " + error.message());
  }
}

void check_count(const Node& node, std::string_view what, size_t expected, size_t got) {
  if (expected != got) node_error(node, fmt::format("expected {} {}, got {}", expected, what, got));
}

void set_same_dtype(InferContext& ctx, Shape shape) {
  check_shape(ctx.node, shape);
  ctx.set(0, ctx.dtype(0), std::move(shape));
}

}  // namespace kilter
