// Sparse tensors, which are read as dense ones.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "onnx/tensor_reader.h"

namespace kilter::onnx {
namespace {

/// The places of a sparse tensor's elements: one position for each, or one coordinate along each dimension.
class Places {
 public:
  /// `what` names the file and the tensor in errors.
  Places(const Tensor& indices, const Shape& shape, int64_t count, std::string what)
      : indices_(indices), shape_(shape), strides_(dense_strides(shape)), what_(std::move(what)) {
    const auto rank = static_cast<int64_t>(shape.size());
    const bool fits = indices.dtype() == DType::i64 && !indices.shape().empty() && indices.shape()[0] == count &&
                      (indices.rank() == 1 || (indices.rank() == 2 && indices.shape()[1] == rank));
    if (!fits) {
      fail(ErrorKind::bad_model, "{}: the indices are {}, expected i64[{}] or i64[{},{}] for {} values", what_,
           text(TensorType{indices.dtype(), indices.shape(), {}}), count, count, rank, count);
    }
    width_ = indices.rank() == 1 ? 1 : rank;
  }

  /// Returns the position of element i in row-major order. Throws bad_model if it is outside the tensor, or not after
  /// `previous`, the position of element i - 1.
  int64_t position(int64_t i, int64_t previous) const {
    const std::span<const int64_t> index = entry(i);
    const bool linear = indices_.rank() == 1;
    int64_t at = linear ? index[0] : 0;
    bool inside = !linear || (at >= 0 && at < elems(shape_));
    for (size_t d = 0; !linear && d < shape_.size(); ++d) {
      inside = inside && index[d] >= 0 && index[d] < shape_[d];
      if (inside) at += index[d] * strides_[d];
    }
    if (!inside) {
      fail(ErrorKind::bad_model, "{}: indices[{}] is {}, outside the shape [{}]; {}", what_, i, shown(index),
           fmt::join(shape_, ","), legal());
    }
    if (at <= previous) {
      fail(ErrorKind::bad_model,
           "{}: indices[{}] is {} after {}; indices must increase and be given once each: sort them", what_, i,
           shown(index), shown(entry(i - 1)));
    }
    return at;
  }

 private:
  std::span<const int64_t> entry(int64_t i) const {
    return {indices_.data<int64_t>() + i * width_, static_cast<size_t>(width_)};
  }
  std::string shown(std::span<const int64_t> index) const {
    return indices_.rank() == 1 ? std::to_string(index[0]) : fmt::format("({})", fmt::join(index, ","));
  }
  std::string legal() const {
    if (elems(shape_) == 0) return "the tensor has no elements";
    if (indices_.rank() == 1) return fmt::format("legal values are 0 to {}", elems(shape_) - 1);
    Shape last = shape_;
    for (int64_t& d : last) --d;
    return fmt::format("legal values are {} to {}", shown(Shape(last.size())), shown(last));
  }

  const Tensor& indices_;
  const Shape& shape_;
  Shape strides_;
  std::string what_;
  int64_t width_ = 1;
};

/// Returns a tensor of zeros, or of empty strings.
Tensor zeros(DType type, const Shape& shape, const std::string& what) {
  const int64_t bytes =
      elems(shape) * (type == DType::string ? static_cast<int64_t>(sizeof(std::string)) : size_bytes(type));
  if (bytes > free_memory()) fail_out_of_memory(bytes, what + " as a dense tensor");
  return {type, shape};
}

}  // namespace

Tensor TensorReader::read(const pb::SparseTensorProto& sparse, const std::string& what) {
  const std::string where = fmt::format("{}: {}", file_, what);
  if (sparse.dims().empty())
    fail(ErrorKind::bad_model, "{}: has no dims; expected the dimensions of the dense tensor, one or more", where);
  const Shape shape = read_shape(sparse.dims(), what);
  const Tensor values = read(sparse.values(), what + ": values");
  if (values.rank() != 1)
    fail(ErrorKind::bad_model, "{}: the values have shape [{}], expected one dimension", where,
         fmt::join(values.shape(), ","));
  if (values.dtype() == DType::f8e8m0)
    fail(ErrorKind::unsupported, "{}: values of {} have no 0 for the elements left out; save it as dense", where,
         name(values.dtype()));
  Tensor dense = zeros(values.dtype(), shape, where);
  if (values.elems() == 0 && !sparse.has_indices()) return dense;
  const Tensor indices = read(sparse.indices(), what + ": indices");
  const Places places(indices, shape, values.elems(), where);
  const auto size = static_cast<size_t>(size_bytes(dense.dtype()));
  int64_t at = -1;
  for (int64_t i = 0; i < values.elems(); ++i) {
    at = places.position(i, at);
    if (dense.dtype() == DType::string) {
      dense.strings()[static_cast<size_t>(at)] = values.strings()[static_cast<size_t>(i)];
    } else {
      std::memcpy(dense.raw() + static_cast<size_t>(at) * size, values.raw() + static_cast<size_t>(i) * size, size);
    }
  }
  return dense;
}

}  // namespace kilter::onnx
