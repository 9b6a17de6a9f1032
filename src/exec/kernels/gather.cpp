// Gather, GatherElements, GatherND.
#include "exec/kernels/indices.h"

namespace kilter {
namespace {

bool takes_data_and_indices(KernelOperands in) {
  return in.size() == 2 && in[0].present && copies_as_bytes(in[0].type) && has_indices(in, 1);
}

bool takes_gather(const KernelCall& call, KernelOperands in) {
  return takes_data_and_indices(in) && legal_axis(call.int_attr("axis", 0), in[0].rank()).has_value();
}

bool run_gather(const KernelCall& call, KernelOperands in, KernelResults& results, ThreadPool*) {
  const int64_t axis = *legal_axis(call.int_attr("axis", 0), in[0].rank());
  const AxisView view = along_axis(in[0].shape, axis);
  const std::vector<int64_t> rows = legal_indices(call, in[1], {axis, {view.extent}});
  Shape shape(in[0].shape.begin(), in[0].shape.begin() + axis);
  shape.insert(shape.end(), in[1].shape.begin(), in[1].shape.end());
  shape.insert(shape.end(), in[0].shape.begin() + axis + 1, in[0].shape.end());
  std::byte* to = results.make(0, in[0].type, shape);
  const int64_t bytes = view.inner * size_bytes(in[0].type);
  if (bytes == 0 || rows.empty()) return true;
  for (int64_t o = 0; o < view.outer; ++o) {
    const std::byte* from = in[0].data + o * view.extent * bytes;
    for (const int64_t row : rows) {
      copy_bytes(to, from + row * bytes, bytes);
      to += bytes;
    }
  }
  return true;
}

bool takes_elements(const KernelCall& call, KernelOperands in) {
  if (!takes_data_and_indices(in)) return false;
  const auto axis = legal_axis(call.int_attr("axis", 0), in[0].rank());
  return axis && addresses_fit(in[1].shape, in[0].shape, *axis);
}

bool run_elements(const KernelCall& call, KernelOperands in, KernelResults& results, ThreadPool*) {
  const int64_t axis = *legal_axis(call.int_attr("axis", 0), in[0].rank());
  const std::vector<int64_t> at = legal_indices(call, in[1], {axis, {in[0].shape[static_cast<size_t>(axis)]}});
  std::byte* out = results.make(0, in[0].type, in[1].shape);
  const int64_t bytes = size_bytes(in[0].type);
  for_each_addressed(in[1].shape, in[0].shape, axis, at, [&](size_t i, int64_t from) {
    copy_bytes(out + static_cast<int64_t>(i) * bytes, in[0].data + from * bytes, bytes);
  });
  return true;
}

bool takes_nd(const KernelCall& call, KernelOperands in) {
  if (!takes_data_and_indices(in)) return false;
  const int64_t batch = call.int_attr("batch_dims", 0);
  const auto data = in[0].shape, indices = in[1].shape;
  if (batch < 0 || batch >= std::min(std::ssize(data), std::ssize(indices))) return false;
  for (int64_t d = 0; d < batch; ++d) {
    if (data[static_cast<size_t>(d)] != indices[static_cast<size_t>(d)]) return false;
  }
  return indices.back() >= 1 && indices.back() <= std::ssize(data) - batch;
}

bool run_nd(const KernelCall& call, KernelOperands in, KernelResults& results, ThreadPool*) {
  const int64_t batch = call.int_attr("batch_dims", 0);
  const auto data = in[0].shape, indices = in[1].shape;
  const int64_t width = indices.back(), rank = std::ssize(data);
  const std::vector<int64_t> legal =
      legal_indices(call, in[1], {batch, {data.begin() + batch, data.begin() + batch + width}});
  Shape shape(indices.begin(), indices.end() - 1);
  shape.insert(shape.end(), data.begin() + batch + width, data.end());
  std::byte* to = results.make(0, in[0].type, shape);
  const int64_t element = size_bytes(in[0].type);
  const int64_t bytes = extent_product(data, batch + width, rank) * element;
  const int64_t batch_bytes = extent_product(data, batch, rank) * element;
  const int64_t tuples = extent_product(indices, batch, std::ssize(indices) - 1);
  if (bytes == 0) return true;
  int64_t next = 0;
  for (const int64_t offset : tuple_offsets(legal, width, data, batch)) {
    copy_bytes(to, in[0].data + next++ / tuples * batch_bytes + offset * element, bytes);
    to += bytes;
  }
  return true;
}

}  // namespace

extern const RuntimeKernel gather_kernel, gather_elements_kernel, gather_nd_kernel;
const RuntimeKernel gather_kernel{"Gather", 1, "", takes_gather, run_gather};
const RuntimeKernel gather_elements_kernel{"GatherElements", 11, "", takes_elements, run_elements};
const RuntimeKernel gather_nd_kernel{"GatherND", 11, "", takes_nd, run_nd};

}  // namespace kilter
