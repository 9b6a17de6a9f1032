#include "exec/kernels/kernel.h"

#include <algorithm>

#include "base/error.h"

namespace kilter {

extern const RuntimeKernel add_kernel, and_kernel, compress_kernel, cum_sum_kernel, equal_kernel, gather_kernel,
    gather_elements_kernel, gather_nd_kernel, greater_kernel, greater_or_equal_kernel, less_kernel,
    less_or_equal_kernel, mul_kernel, non_max_suppression_kernel, non_zero_kernel, or_kernel, range_kernel,
    roi_align_kernel, scatter_elements_kernel, scatter_nd_kernel, sub_kernel, top_k_kernel, unique_kernel;

namespace {

/// Sorted by operator.
const RuntimeKernel* const kKernels[] = {&add_kernel,
                                         &and_kernel,
                                         &compress_kernel,
                                         &cum_sum_kernel,
                                         &equal_kernel,
                                         &gather_kernel,
                                         &gather_elements_kernel,
                                         &gather_nd_kernel,
                                         &greater_kernel,
                                         &greater_or_equal_kernel,
                                         &less_kernel,
                                         &less_or_equal_kernel,
                                         &mul_kernel,
                                         &non_max_suppression_kernel,
                                         &non_zero_kernel,
                                         &or_kernel,
                                         &range_kernel,
                                         &roi_align_kernel,
                                         &scatter_elements_kernel,
                                         &scatter_nd_kernel,
                                         &sub_kernel,
                                         &top_k_kernel,
                                         &unique_kernel};

template <class T>
const T* attr_of(const KernelCall& call, std::string_view key, std::string_view type) {
  const auto found = call.attrs.find(key);
  if (found == call.attrs.end()) return nullptr;
  const T* value = std::get_if<T>(&found->second);
  if (value == nullptr)
    fail(ErrorKind::bad_model, "{} '{}': attribute {} has the wrong type; expected {}", call.op, call.name, key, type);
  return value;
}

}  // namespace

int64_t KernelCall::int_attr(std::string_view key, int64_t fallback) const {
  const auto* value = attr_of<int64_t>(*this, key, "int");
  return value != nullptr ? *value : fallback;
}

float KernelCall::float_attr(std::string_view key, float fallback) const {
  const auto* value = attr_of<float>(*this, key, "float");
  return value != nullptr ? *value : fallback;
}

std::string_view KernelCall::string_attr(std::string_view key, std::string_view fallback) const {
  const auto* value = attr_of<std::string>(*this, key, "string");
  return value != nullptr ? std::string_view(*value) : fallback;
}

const RuntimeKernel* find_runtime_kernel(std::string_view domain, std::string_view op, int32_t opset) {
  if (domain == "ai.onnx") domain = "";
  const auto* const* end = std::end(kKernels);
  const auto* const* found = std::lower_bound(std::begin(kKernels), end, op,
                                              [](const RuntimeKernel* k, std::string_view o) { return k->op < o; });
  const bool fits = found != end && (*found)->op == op && (*found)->domain == domain && (*found)->since <= opset;
  return fits ? *found : nullptr;
}

std::span<const RuntimeKernel* const> all_runtime_kernels() { return kKernels; }

}  // namespace kilter
