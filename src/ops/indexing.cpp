#include "ops/indexing.h"

#include <algorithm>
#include <cstring>

namespace kilter {

int64_t checked_index(const Node& node, int64_t index, int64_t limit) {
  if (index < -limit || index >= limit) {
    fail(ErrorKind::bad_input, "{} '{}': index {} is out of range; legal are {} to {}",
         node.op != nullptr ? node.op->name : "?", node.name, index, -limit, limit - 1);
  }
  return index < 0 ? index + limit : index;
}

void check_indices(const InferContext& ctx, size_t i) { check_types(Types<int32_t, int64_t>{}, ctx, i); }

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
  node_error(node, fmt::format("reduction '{}' is unknown; legal are none, add, mul, max, min", how));
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
