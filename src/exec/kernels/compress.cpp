// Compress: copies the selected slices in runs.
#include <cstring>

#include "exec/kernels/shapes.h"

namespace kilter {
namespace {

AxisView view_of(const KernelCall& call, const KernelOperand& x) {
  if (!call.has_attr("axis")) return {1, x.elems, 1};
  return along_axis(x.shape, *legal_axis(call.int_attr("axis", 0), x.rank()));
}

bool takes(const KernelCall& call, KernelOperands in) {
  if (in.empty() || !in[0].present || !copies_as_bytes(in[0].type)) return false;
  if (call.has_attr("axis") && !legal_axis(call.int_attr("axis", 0), in[0].rank())) return false;
  return has_type(in, 1, DType::boolean) && in[1].rank() == 1;
}

bool run(const KernelCall& call, KernelOperands in, KernelResults& results, ThreadPool*) {
  const AxisView view = view_of(call, in[0]);
  const bool* condition = in[1].as<bool>();
  int64_t count = 0;
  for (int64_t i = 0; i < in[1].elems; ++i) {
    if (condition[i] && i >= view.extent) return false;
    count += condition[i] ? 1 : 0;
  }
  Shape shape{count};
  if (call.has_attr("axis")) {
    shape.assign(in[0].shape.begin(), in[0].shape.end());
    shape[static_cast<size_t>(*legal_axis(call.int_attr("axis", 0), in[0].rank()))] = count;
  }
  std::byte* to = results.make(0, in[0].type, shape);
  const int64_t slice = view.inner * size_bytes(in[0].type);
  if (slice == 0 || count == 0) return true;
  for (int64_t o = 0; o < view.outer; ++o) {
    const std::byte* from = in[0].data + o * view.extent * slice;
    for (int64_t i = 0; i < in[1].elems; ++i) {
      int64_t end = i;
      while (end < in[1].elems && condition[end]) ++end;
      if (end == i) continue;
      std::memcpy(to, from + i * slice, static_cast<size_t>((end - i) * slice));
      to += (end - i) * slice;
      i = end;
    }
  }
  return true;
}

}  // namespace

extern const RuntimeKernel compress_kernel;
const RuntimeKernel compress_kernel{"Compress", 9, "", takes, run};

}  // namespace kilter
