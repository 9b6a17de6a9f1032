#include "ops/support/indexing.h"

#include <algorithm>
#include <cstring>

namespace kilter {

std::optional<IndexRange> index_range(const Node& node, const Shape& data, const Shape& indices) {
  const std::string_view op = node.op->name;
  if (op == "Gather" || op == "GatherElements" || op == "ScatterElements" || op == "Scatter") {
    const int64_t axis = normal_axis(node, node.int_attr("axis", 0), std::ssize(data));
    return IndexRange{axis, {data[static_cast<size_t>(axis)]}};
  }
  if (op != "GatherND" && op != "ScatterND") return std::nullopt;
  const int64_t first = op == "GatherND" ? node.int_attr("batch_dims", 0) : 0;
  const auto begin = data.begin() + first;
  return IndexRange{first, {begin, begin + indices.back()}};
}

int64_t checked_index(const Node& node, const Tensor& indices, int64_t i, const IndexRange& range) {
  const int64_t index = indices.as_int(i);
  if (!range.holds(i, index)) {
    fail(ErrorKind::bad_input, "{} '{}': {}", node.op->name, node.name, index_fault(indices.shape(), i, index, range));
  }
  return index < 0 ? index + range.size(i) : index;
}

void check_indices(const InferContext& ctx, size_t i) { check_types(Types<int32_t, int64_t>{}, ctx, i); }

void check_constant_indices(const Node& node, const Shape& data, const Tensor& indices) {
  const std::optional<IndexRange> range = index_range(node, data, indices.shape());
  if (!range || range->sizes.empty()) return;
  for (int64_t i = 0; i < indices.elems(); ++i) {
    const int64_t index = indices.as_int(i);
    if (!range->holds(i, index)) node_error(node, index_fault(indices.shape(), i, index, *range));
  }
}

void check_constant_indices(const InferContext& ctx) {
  if (const Tensor* indices = ctx.value(1)) check_constant_indices(ctx.node, ctx.shape(0), *indices);
}

void copy_elements(const Tensor& from, int64_t i, const Tensor& to, int64_t j, int64_t count) {
  if (from.dtype() == DType::string) {
    std::copy_n(from.strings().begin() + i, count, to.strings().begin() + j);
  } else if (count > 0) {
    const int64_t bytes = size_bytes(from.dtype());
    std::memcpy(to.raw() + j * bytes, from.raw() + i * bytes, static_cast<size_t>(count * bytes));
  }
}

Combine combine_of(const Node& node) {
  const std::string how = node.string_attr("reduction", "none");
  if (how == "none") return Combine::replace;
  if (how == "add") return Combine::add;
  if (how == "mul") return Combine::mul;
  if (how == "max") return Combine::max;
  if (how == "min") return Combine::min;
  node_error(node, fmt::format("reduction '{}' is unknown; legal values are none, add, mul, max, min", how));
}

void combine_element(const Node& node, Combine how, const Tensor& from, int64_t i, const Tensor& to, int64_t j) {
  if (how == Combine::replace) {
    copy_element(from, i, to, j);
    return;
  }
  visit_types(NumbersAndBool{}, node, to.dtype(), [&]<class T>() {
    T& target = to.data<T>()[j];
    const auto a = widen(target);
    const auto b = widen(from.data<T>()[i]);
    const bool unordered = b != b;
    switch (how) {
      case Combine::add:
        target = narrow<T>(wrap_add(a, b));
        break;
      case Combine::mul:
        target = narrow<T>(wrap_mul(a, b));
        break;
      case Combine::max:
        if (b > a || unordered) target = narrow<T>(b);
        break;
      case Combine::min:
        if (b < a || unordered) target = narrow<T>(b);
        break;
      case Combine::replace:
        break;
    }
  });
}

}  // namespace kilter
