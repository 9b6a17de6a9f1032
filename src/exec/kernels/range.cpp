// Range.
#include <cmath>

#include "exec/kernels/shapes.h"

namespace kilter {
namespace {

constexpr int64_t kMostElems = int64_t{1} << 40;

/// Returns max(ceil((limit - start) / delta), 0), or -1 if there is no legal number.
template <class T>
int64_t count_of(T start, T limit, T delta) {
  if (!(delta != 0)) return -1;
  if constexpr (std::is_integral_v<T>) {
    const auto wide = [](T v) { return static_cast<__int128_t>(v); };
    const __int128_t span = delta > 0 ? wide(limit) - wide(start) : wide(start) - wide(limit);
    const __int128_t size = delta > 0 ? wide(delta) : -wide(delta);
    const __int128_t count = span > 0 ? (span + size - 1) / size : 0;
    return count > kMostElems ? -1 : static_cast<int64_t>(count);
  } else {
    const double count = std::ceil((double{limit} - double{start}) / double{delta});
    if (!(count <= static_cast<double>(kMostElems))) return -1;
    return count > 0 ? static_cast<int64_t>(count) : 0;
  }
}

template <class T>
bool make_range(KernelOperands in, KernelResults& results) {
  const T start = *in[0].as<T>(), delta = *in[2].as<T>();
  const int64_t count = count_of(start, *in[1].as<T>(), delta);
  if (count < 0) return false;
  T* out = results.make<T>(0, {&count, 1});
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<T>) {
      out[i] = static_cast<T>(static_cast<uint64_t>(start) + static_cast<uint64_t>(i) * static_cast<uint64_t>(delta));
    } else {
      out[i] = static_cast<T>(double{start} + static_cast<double>(i) * double{delta});
    }
  }
  return true;
}

bool takes(const KernelCall&, KernelOperands in) {
  if (in.size() != 3) return false;
  const DType type = in[0].type;
  if (type != DType::f32 && type != DType::i32 && type != DType::i64) return false;
  return std::ranges::all_of(in, [&](const KernelOperand& o) { return o.present && o.type == type && o.elems == 1; });
}

bool run(const KernelCall&, KernelOperands in, KernelResults& results, ThreadPool*) {
  if (in[0].type == DType::f32) return make_range<float>(in, results);
  return in[0].type == DType::i32 ? make_range<int32_t>(in, results) : make_range<int64_t>(in, results);
}

}  // namespace

extern const RuntimeKernel range_kernel;
const RuntimeKernel range_kernel{"Range", 11, "", takes, run};

}  // namespace kilter
