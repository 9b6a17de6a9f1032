#include "ops/support/iterate.h"

#include <algorithm>
#include <cstring>

#include "base/convert.h"
#include "base/error.h"
#include "base/narrow.h"

namespace kilter {
namespace {

template <class Word>
void copy_words(const std::byte* from, const std::byte* to, const Shape& extent, const std::array<Shape, 2>& strides,
                std::array<int64_t, 2> start) {
  const auto* source = reinterpret_cast<const Word*>(from);
  auto* target = reinterpret_cast<Word*>(const_cast<std::byte*>(to));
  for_each_offset<2>(extent, strides, [&](const std::array<int64_t, 2>& at) { target[at[1]] = source[at[0]]; }, start);
}

}  // namespace

Shape broadcast_strides(const Shape& from, const Shape& to) {
  if (from.size() > to.size()) fail(ErrorKind::internal, "shape {} cannot broadcast to {}", text(from), text(to));
  const Shape dense = dense_strides(from);
  Shape strides(to.size(), 0);
  const size_t lead = to.size() - from.size();
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] != 1 && from[d] != to[lead + d])
      fail(ErrorKind::internal, "shape {} cannot broadcast to {}", text(from), text(to));
    if (from[d] != 1) strides[lead + d] = dense[d];
  }
  return strides;
}

Shape permuted(const Shape& strides, std::span<const int64_t> perm) {
  Shape result(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) result[i] = strides.at(static_cast<size_t>(perm[i]));
  return result;
}

int64_t product(const Shape& shape, size_t begin, size_t end) {
  int64_t total = 1;
  for (size_t d = begin; d < end; ++d) total *= shape.at(d);
  return total;
}

void copy_strided(const Tensor& from, int64_t from_offset, const Shape& from_strides, const Tensor& to,
                  int64_t to_offset, const Shape& to_strides, const Shape& extent) {
  require(from.dtype() == to.dtype(), "copy from {} to {}", name(from.dtype()), name(to.dtype()));
  const std::array<Shape, 2> strides = {from_strides, to_strides};
  const std::array<int64_t, 2> start = {from_offset, to_offset};
  if (from.dtype() == DType::string) {
    for_each_offset<2>(
        extent, strides,
        [&](const std::array<int64_t, 2>& at) {
          to.strings()[static_cast<size_t>(at[1])] = from.strings()[static_cast<size_t>(at[0])];
        },
        start);
    return;
  }
  switch (size_bytes(from.dtype())) {
    case 1:
      copy_words<uint8_t>(from.raw(), to.raw(), extent, strides, start);
      break;
    case 2:
      copy_words<uint16_t>(from.raw(), to.raw(), extent, strides, start);
      break;
    case 4:
      copy_words<uint32_t>(from.raw(), to.raw(), extent, strides, start);
      break;
    default:
      copy_words<uint64_t>(from.raw(), to.raw(), extent, strides, start);
      break;
  }
}

void copy_element(const Tensor& from, int64_t i, const Tensor& to, int64_t j) {
  if (from.dtype() == DType::string) {
    to.strings()[static_cast<size_t>(j)] = from.strings()[static_cast<size_t>(i)];
    return;
  }
  const int64_t bytes = size_bytes(from.dtype());
  std::memcpy(to.raw() + j * bytes, from.raw() + i * bytes, static_cast<size_t>(bytes));
}

void copy_all(const Tensor& from, const Tensor& to) {
  require(from.dtype() == to.dtype() && from.elems() == to.elems(), "copy of {} {} to {} {}", name(from.dtype()),
          text(from.shape()), name(to.dtype()), text(to.shape()));
  if (from.dtype() == DType::string) {
    to.strings() = from.strings();
  } else if (from.elems() > 0) {
    std::memcpy(to.raw(), from.raw(), static_cast<size_t>(from.bytes()));
  }
}

void fill(const Tensor& tensor, double value) {
  if (is_narrow(tensor.dtype())) {
    std::fill_n(tensor.data<uint8_t>(), tensor.elems(), narrow_code(tensor.dtype(), value));
    return;
  }
  visit_dtype(tensor.dtype(), [&]<class T>(T) {
    const T converted = convert<T>(value);
    std::fill_n(tensor.data<T>(), tensor.elems(), converted);
  });
}

std::vector<double> load_doubles(const Tensor& tensor) {
  std::vector<double> values(static_cast<size_t>(tensor.elems()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = tensor.as_double(static_cast<int64_t>(i));
  return values;
}

void store_doubles(const Tensor& tensor, std::span<const double> values) {
  require(static_cast<int64_t>(values.size()) == tensor.elems(), "store of {} values into {}", values.size(),
          text(tensor.shape()));
  if (is_narrow(tensor.dtype())) {
    std::ranges::transform(values, tensor.data<uint8_t>(), [&](double v) { return narrow_code(tensor.dtype(), v); });
    return;
  }
  visit_dtype(tensor.dtype(), [&]<class T>(T) {
    for (size_t i = 0; i < values.size(); ++i) tensor.data<T>()[i] = convert<T>(values[i]);
  });
}

}  // namespace kilter
