#include "base/tensor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/align.h"
#include "base/convert.h"
#include "base/error.h"
#include "base/narrow.h"
#include "base/out_of_memory.h"

namespace kilter {
namespace {

constexpr int64_t kMaxElems = int64_t{1} << 40;
constexpr size_t kAlignment = 64;

std::shared_ptr<void> allocate(size_t bytes) {
  const size_t rounded = round_up(std::max<size_t>(bytes, 1), kAlignment);
  void* memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) fail_out_of_memory(static_cast<int64_t>(bytes), "a tensor");
  std::memset(memory, 0, rounded);
  return {memory, std::free};
}

}  // namespace

int64_t elems(const Shape& shape) {
  for (int64_t d : shape) {
    if (d < 0)
      fail(ErrorKind::bad_model, "shape {} has a negative dimension; every dimension must be 0 or more", text(shape));
  }
  int64_t total = 1;
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  for (int64_t d : shape) {
    if (d == 0) continue;
    if (total > kMaxElems / d) {
      fail(ErrorKind::bad_model, "shape {} has more than 2^40 elements{}; the limit is 2^40 per tensor", text(shape),
           empty ? ", not counting dimensions of 0" : "");
    }
    total *= d;
  }
  return empty ? 0 : total;
}

std::string text(const Shape& shape) { return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x")); }

Shape dense_strides(const Shape& shape) {
  Shape strides(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

Tensor::Tensor(DType type, Shape shape)
    : defined_(true), type_(type), shape_(std::move(shape)), elems_(kilter::elems(shape_)) {
  if (type == DType::string) {
    strings_ = std::make_shared<std::vector<std::string>>(static_cast<size_t>(elems_));
    return;
  }
  owner_ = allocate(static_cast<size_t>(bytes()));
  data_ = static_cast<std::byte*>(owner_.get());
}

Tensor::Tensor(DType type, Shape shape, std::byte* data, std::shared_ptr<void> owner)
    : defined_(true),
      type_(type),
      shape_(std::move(shape)),
      elems_(kilter::elems(shape_)),
      data_(data),
      owner_(std::move(owner)) {}

Tensor Tensor::reshaped(Shape shape) const {
  if (kilter::elems(shape) != elems_)
    fail(ErrorKind::internal, "reshape of {} to {} changes the number of elements", text(shape_), text(shape));
  Tensor t = *this;
  t.shape_ = std::move(shape);
  return t;
}

Tensor Tensor::widened() const {
  if (is_narrow(type_)) {
    Tensor t(widened_type(type_), shape_);
    const std::span<const float, 256> values = narrow_values(type_);
    visit_dtype(t.type_, [&]<class T>(T) {
      for (int64_t i = 0; i < elems_; ++i) t.data<T>()[i] = static_cast<T>(values[data<uint8_t>()[i]]);
    });
    return t;
  }
  if (type_ != DType::f16 && type_ != DType::bf16) return *this;
  Tensor t(DType::f32, shape_);
  const auto widen = [&]<class T>(const T* from) {
    std::transform(from, from + elems_, t.data<float>(), [](T x) { return static_cast<float>(x); });
  };
  type_ == DType::f16 ? widen(data<Half>()) : widen(data<BFloat16>());
  return t;
}

Tensor Tensor::clone() const {
  Tensor t(type_, shape_);
  if (type_ == DType::string) {
    *t.strings_ = *strings_;
  } else if (elems_ > 0) {
    std::memcpy(t.data_, data_, static_cast<size_t>(bytes()));
  }
  return t;
}

double Tensor::as_double(int64_t i) const {
  if (is_narrow(type_)) return static_cast<double>(narrow_value(type_, data<uint8_t>()[i]));
  double value = 0;
  visit_dtype(type_, [&]<class T>(T) {
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      value = static_cast<float>(data<T>()[i]);
    } else {
      value = static_cast<double>(data<T>()[i]);
    }
  });
  return value;
}

int64_t Tensor::as_int(int64_t i) const {
  if (is_narrow(type_)) return saturate<int64_t>(as_double(i));
  int64_t value = 0;
  visit_dtype(type_, [&]<class T>(T) {
    if constexpr (std::is_integral_v<T>) {
      value = static_cast<int64_t>(data<T>()[i]);
    } else {
      value = saturate<int64_t>(as_double(i));
    }
  });
  return value;
}

std::vector<int64_t> Tensor::ints() const {
  std::vector<int64_t> values(static_cast<size_t>(elems_));
  for (int64_t i = 0; i < elems_; ++i) values[static_cast<size_t>(i)] = as_int(i);
  return values;
}

bool Tensor::same(const Tensor& other) const {
  if (defined_ != other.defined_ || type_ != other.type_ || shape_ != other.shape_) return false;
  if (type_ == DType::string) return *strings_ == *other.strings_;
  return elems_ == 0 || std::memcmp(data_, other.data_, static_cast<size_t>(bytes())) == 0;
}

}  // namespace kilter
