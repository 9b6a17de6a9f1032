// Unique of the elements of a tensor: sorts keys. (The reference kernel compares slices along an axis.)
#include <algorithm>
#include <limits>

#include "exec/kernels/order_key.h"
#include "exec/kernels/shapes.h"

namespace kilter {
namespace {

template <class Key>
struct Keyed {
  Key key;
  uint32_t index;
  bool operator<(const Keyed& other) const { return key != other.key ? key < other.key : index < other.index; }
};

/// Equal elements: sorted[begin] to sorted[end - 1], the first occurrence first.
struct Group {
  size_t begin, end;
  uint32_t first;
};

template <class T>
void find_unique(const KernelOperand& x, bool by_value, KernelResults& results) {
  const auto count = static_cast<size_t>(x.elems);
  const T* data = x.as<T>();
  std::vector<Keyed<OrderKey<T>>> sorted(count);
  for (size_t i = 0; i < count; ++i) sorted[i] = {order_key(data[i]), static_cast<uint32_t>(i)};
  std::sort(sorted.begin(), sorted.end());
  std::vector<Group> groups;
  for (size_t i = 0; i < count; ++i) {
    if (i == 0 || sorted[i].key != sorted[i - 1].key) groups.push_back({i, i, sorted[i].index});
    groups.back().end = i + 1;
  }
  if (!by_value) std::ranges::sort(groups, {}, &Group::first);
  const int64_t shape[] = {std::ssize(groups)};
  if (results.wants(0)) {
    T* y = results.make<T>(0, shape);
    for (const Group& g : groups) *y++ = data[g.first];
  }
  if (results.wants(1)) {
    auto* first = results.make<int64_t>(1, shape);
    for (const Group& g : groups) *first++ = g.first;
  }
  if (results.wants(2)) {
    const int64_t all[] = {x.elems};
    auto* inverse = results.make<int64_t>(2, all);
    for (size_t k = 0; k < groups.size(); ++k) {
      for (size_t i = groups[k].begin; i < groups[k].end; ++i) inverse[sorted[i].index] = static_cast<int64_t>(k);
    }
  }
  if (results.wants(3)) {
    auto* counts = results.make<int64_t>(3, shape);
    for (const Group& g : groups) *counts++ = static_cast<int64_t>(g.end - g.begin);
  }
}

bool takes(const KernelCall& call, KernelOperands in) {
  if (in.empty() || !in[0].present || !is_arithmetic(in[0].type)) return false;
  if (in[0].elems > int64_t{std::numeric_limits<uint32_t>::max()}) return false;
  return !call.has_attr("axis") || (in[0].rank() == 1 && legal_axis(call.int_attr("axis", 0), 1));
}

bool run(const KernelCall& call, KernelOperands in, KernelResults& results, ThreadPool*) {
  const bool by_value = call.int_attr("sorted", 1) != 0;
  visit_dtype(in[0].type, [&](auto zero) { find_unique<decltype(zero)>(in[0], by_value, results); });
  return true;
}

}  // namespace

extern const RuntimeKernel unique_kernel;
const RuntimeKernel unique_kernel{"Unique", 11, "", takes, run};

}  // namespace kilter
