// A tensor in host memory: dense, row-major, 64-byte aligned. Copies share the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace kilter {

using Shape = std::vector<int64_t>;

/// Returns the number of elements of a shape; 1 for a scalar. Throws bad_model when a dimension is negative or when the
/// product of the dimensions other than 0 exceeds 2^40.
int64_t elems(const Shape& shape);
/// Returns "1x3x224x224"; "scalar" for rank 0.
std::string text(const Shape& shape);
/// Returns row-major strides in elements.
Shape dense_strides(const Shape& shape);

class Tensor {
 public:
  Tensor() = default;
  /// A zero-filled tensor (empty strings for DType::string).
  Tensor(DType type, Shape shape);
  /// A view of memory that `owner` keeps alive. Nobody may write through it while others read.
  Tensor(DType type, Shape shape, std::byte* data, std::shared_ptr<void> owner);

  template <class T>
  static Tensor of(Shape shape, std::span<const T> values) {
    Tensor t(DTypeOf<T>::value, std::move(shape));
    std::copy(values.begin(), values.end(), t.data<T>());
    return t;
  }
  template <class T>
  static Tensor of(Shape shape, std::initializer_list<T> values) {
    return of<T>(std::move(shape), std::span<const T>(values.begin(), values.size()));
  }
  template <class T>
  static Tensor scalar(T value) {
    return of<T>({}, {value});
  }

  bool defined() const { return defined_; }
  DType dtype() const { return type_; }
  const Shape& shape() const { return shape_; }
  int64_t rank() const { return static_cast<int64_t>(shape_.size()); }
  int64_t elems() const { return elems_; }
  int64_t bytes() const { return elems_ * size_bytes(type_); }

  std::byte* raw() const { return data_; }
  template <class T>
  T* data() const {
    return reinterpret_cast<T*>(data_);
  }
  template <class T>
  std::span<T> span() const {
    return {data<T>(), static_cast<size_t>(elems_)};
  }
  std::vector<std::string>& strings() const { return *strings_; }

  /// Returns a tensor with the same bytes and another shape with the same number of elements.
  Tensor reshaped(Shape shape) const;
  Tensor clone() const;
  /// Returns the elements of an f16 or bf16 tensor as f32, those of a narrow type as its widened_type(), and other
  /// tensors unchanged.
  Tensor widened() const;
  /// Return element i as double or int64, whatever the type (not for strings).
  double as_double(int64_t i) const;
  int64_t as_int(int64_t i) const;
  /// Returns all elements as int64, for shapes, axes and pads.
  std::vector<int64_t> ints() const;
  /// Returns whether type, shape and bytes are equal (for strings, the texts).
  bool same(const Tensor& other) const;

 private:
  bool defined_ = false;
  DType type_ = DType::f32;
  Shape shape_;
  int64_t elems_ = 0;
  std::byte* data_ = nullptr;
  std::shared_ptr<void> owner_;
  std::shared_ptr<std::vector<std::string>> strings_;
};

}  // namespace kilter
