// ScatterElements and ScatterND without reduction: later writes replace earlier ones.
#include "exec/kernels/indices.h"

namespace kilter {
namespace {

bool takes_operands(const KernelCall& call, KernelOperands in) {
  if (in.size() != 3 || !in[0].present || !copies_as_bytes(in[0].type)) return false;
  if (!has_indices(in, 1) || !has_type(in, 2, in[0].type)) return false;
  return call.string_attr("reduction", "none") == "none";
}

/// Allocates output 0 and copies input 0 to it.
std::byte* copied(KernelOperands in, KernelResults& results) {
  std::byte* out = results.make(0, in[0].type, in[0].shape);
  const int64_t bytes = in[0].elems * size_bytes(in[0].type);
  if (bytes > 0) std::memcpy(out, in[0].data, static_cast<size_t>(bytes));
  return out;
}

bool takes_elements(const KernelCall& call, KernelOperands in) {
  if (!takes_operands(call, in)) return false;
  const auto axis = legal_axis(call.int_attr("axis", 0), in[0].rank());
  return axis && addresses_fit(in[1].shape, in[0].shape, *axis) && std::ranges::equal(in[1].shape, in[2].shape);
}

bool run_elements(const KernelCall& call, KernelOperands in, KernelResults& results, ThreadPool*) {
  const int64_t axis = *legal_axis(call.int_attr("axis", 0), in[0].rank());
  const std::vector<int64_t> at = legal_indices(call, in[1], {axis, {in[0].shape[static_cast<size_t>(axis)]}});
  std::byte* out = copied(in, results);
  const int64_t bytes = size_bytes(in[0].type);
  for_each_addressed(in[1].shape, in[0].shape, axis, at, [&](size_t i, int64_t to) {
    copy_bytes(out + to * bytes, in[2].data + static_cast<int64_t>(i) * bytes, bytes);
  });
  return true;
}

bool takes_nd(const KernelCall& call, KernelOperands in) {
  if (!takes_operands(call, in) || in[1].rank() == 0) return false;
  const auto data = in[0].shape, indices = in[1].shape;
  const int64_t width = indices.back();
  if (width < 1 || width > in[0].rank()) return false;
  const auto slice = data.subspan(static_cast<size_t>(width));
  const auto tuples = indices.first(indices.size() - 1);
  const auto updates = in[2].shape;
  return updates.size() == tuples.size() + slice.size() && std::ranges::equal(updates.first(tuples.size()), tuples) &&
         std::ranges::equal(updates.subspan(tuples.size()), slice);
}

bool run_nd(const KernelCall& call, KernelOperands in, KernelResults& results, ThreadPool*) {
  const auto data = in[0].shape;
  const int64_t width = in[1].shape.back();
  const std::vector<int64_t> legal = legal_indices(call, in[1], {0, {data.begin(), data.begin() + width}});
  std::byte* out = copied(in, results);
  const int64_t element = size_bytes(in[0].type);
  const int64_t bytes = extent_product(data, width, in[0].rank()) * element;
  if (bytes == 0) return true;
  const std::byte* from = in[2].data;
  for (const int64_t offset : tuple_offsets(legal, width, data, 0)) {
    copy_bytes(out + offset * element, from, bytes);
    from += bytes;
  }
  return true;
}

}  // namespace

extern const RuntimeKernel scatter_elements_kernel, scatter_nd_kernel;
const RuntimeKernel scatter_elements_kernel{"ScatterElements", 11, "", takes_elements, run_elements};
const RuntimeKernel scatter_nd_kernel{"ScatterND", 11, "", takes_nd, run_nd};

}  // namespace kilter
