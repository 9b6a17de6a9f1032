// The C interface to tensors whose elements are not next to each other in memory.
#include <algorithm>
#include <cstring>
#include <string>

#include "base/dtype.h"
#include "exec/c_abi/support.h"
#include "exec/c_abi/value_shape.h"

namespace {

using kilter::ErrorKind;
using kilter::Shape;
using kilter::Tensor;
using kilter::c_abi::guarded;
using kilter::c_abi::not_null;

/// Returns the strides, which are those of a dense tensor if `strides` is null. Throws usage if an element would be
/// beyond the range of addresses.
Shape strides_of(const Shape& shape, const int64_t* strides) {
  if (strides == nullptr) return kilter::dense_strides(shape);
  constexpr int64_t kFarthest = int64_t{1} << 56;
  int64_t lowest = 0, highest = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t farthest = 0;
    const bool over =
        __builtin_mul_overflow(strides[d], std::max<int64_t>(shape[d] - 1, 0), &farthest) ||
        __builtin_add_overflow(farthest < 0 ? lowest : highest, farthest, farthest < 0 ? &lowest : &highest);
    if (over || lowest < -kFarthest || highest > kFarthest) {
      kilter::fail(ErrorKind::usage,
                   "stride {} of dimension {} of a tensor of shape {}: elements would be more than 2^56 apart; strides "
                   "are numbers of elements, not bytes",
                   strides[d], d, kilter::text(shape));
    }
  }
  return {strides, strides + shape.size()};
}

/// Whether elements with these strides are dense and row-major. Strides of dimensions of size 1 do not count.
bool is_dense(const Shape& shape, const Shape& strides) {
  const Shape dense = kilter::dense_strides(shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return true;
    if (shape[d] > 1 && strides[d] != dense[d]) return false;
  }
  return true;
}

/// Calls `each` with the offset in elements of each row (a run of the last dimension), in row-major order.
template <class Each>
void each_row(const Shape& shape, const Shape& strides, Each&& each) {
  Shape at(shape.size(), 0);
  int64_t offset = 0;
  for (;;) {
    each(offset);
    size_t d = shape.size() - 1;
    for (;;) {
      if (d == 0) return;
      --d;
      offset += strides[d];
      if (++at[d] < shape[d]) break;
      offset -= strides[d] * shape[d];
      at[d] = 0;
    }
  }
}

/// Copies elements between a dense tensor and memory with strides. `gather`: from the strided memory to the dense.
void copy_elements(const Shape& shape, const Shape& strides, size_t size, bool gather, std::byte* strided,
                   std::byte* dense) {
  if (kilter::elems(shape) == 0) return;
  const auto copy = [&](std::byte* there, size_t bytes) {
    std::memcpy(gather ? dense : there, gather ? there : dense, bytes);
    dense += bytes;
  };
  if (shape.empty()) return copy(strided, size);
  const auto count = static_cast<size_t>(shape.back());
  const int64_t step = strides.back();
  each_row(shape, strides, [&](int64_t offset) {
    std::byte* row = strided + offset * static_cast<int64_t>(size);
    if (step == 1) return copy(row, count * size);
    for (size_t i = 0; i < count; ++i, row += step * static_cast<int64_t>(size)) copy(row, size);
  });
}

}  // namespace

kilter_status kilter_value_tensor_strided(kilter_dtype dtype, size_t rank, const int64_t* dims, const int64_t* strides,
                                          const void* data, kilter_value** value) {
  if (value != nullptr) *value = nullptr;
  return guarded([&] {
    not_null(value, "value");
    const kilter::DType type = kilter::c_abi::number_type(dtype, "kilter_value_tensor_strided");
    Shape shape = kilter::c_abi::shape_of(rank, dims);
    const Shape steps = strides_of(shape, strides);
    if (kilter::elems(shape) > 0) not_null(data, "data");
    auto* from = const_cast<std::byte*>(static_cast<const std::byte*>(data));  // nothing writes to inputs
    const bool aligned = reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(kilter::size_bytes(type)) == 0;
    if (aligned && is_dense(shape, steps)) {
      *value = new kilter_value{Tensor(type, std::move(shape), from, nullptr)};
      return;
    }
    Tensor tensor(type, std::move(shape));
    copy_elements(tensor.shape(), steps, static_cast<size_t>(kilter::size_bytes(type)), true, from, tensor.raw());
    *value = new kilter_value{std::move(tensor)};
  });
}

kilter_status kilter_value_copy(const kilter_value* value, size_t rank, const int64_t* strides, void* data) {
  return guarded([&] {
    not_null(value, "value");
    if (!value->value.is_tensor() || value->value.tensor().dtype() == kilter::DType::string)
      kilter::fail(ErrorKind::usage, "the value is {}, expected a tensor of numbers", kilter::text(value->value));
    const Tensor& tensor = value->value.tensor();
    if (rank != tensor.shape().size()) {
      kilter::fail(ErrorKind::usage, "rank {} of kilter_value_copy(); the tensor has shape {}, so expected {}", rank,
                   kilter::text(tensor.shape()), tensor.shape().size());
    }
    const Shape steps = strides_of(tensor.shape(), strides);
    if (tensor.elems() > 0) not_null(data, "data");
    copy_elements(tensor.shape(), steps, static_cast<size_t>(kilter::size_bytes(tensor.dtype())), false,
                  static_cast<std::byte*>(data), tensor.raw());
  });
}
