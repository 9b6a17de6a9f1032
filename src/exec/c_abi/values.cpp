// The C interface to values.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "base/dtype.h"
#include "base/map_value.h"
#include "exec/c_abi/support.h"
#include "exec/c_abi/value_shape.h"
#include "exec/plan_check.h"

namespace kilter::c_abi {

DType number_type(kilter_dtype dtype, const char* function) {
  if (dtype < 0 || dtype > static_cast<int>(kLastDType) || dtype == KILTER_STRING) {
    fail(ErrorKind::usage, "element type {} of {}(); legal values are {} (KILTER_F32) to {} (KILTER_U2) without {} {}",
         static_cast<int>(dtype), function, static_cast<int>(KILTER_F32), static_cast<int>(KILTER_U2),
         static_cast<int>(KILTER_STRING), "(KILTER_STRING), for which there is kilter_value_strings()");
  }
  return static_cast<DType>(dtype);
}

Shape shape_of(size_t rank, const int64_t* dims) {
  constexpr size_t kMaxRank = 64;
  if (rank > kMaxRank) fail(ErrorKind::usage, "rank {}; legal values are 0 to {}", rank, kMaxRank);
  if (rank > 0) not_null(dims, "dims");
  Shape shape(dims, dims + rank);
  if (!tensor_bytes(DType::u8, shape))
    fail(ErrorKind::usage, "a tensor of shape {}; expected dimensions of 0 or more and at most 2^40 elements",
         text(shape));
  return shape;
}

}  // namespace kilter::c_abi

namespace {

using kilter::AnyValue;
using kilter::DType;
using kilter::ErrorKind;
using kilter::Shape;
using kilter::Tensor;
using kilter::c_abi::guarded;
using kilter::c_abi::not_null;
using kilter::c_abi::shape_of;

const AnyValue& value_of(const kilter_value* value) {
  not_null(value, "value");
  return value->value;
}

}  // namespace

kilter_status kilter_value_tensor(kilter_dtype dtype, size_t rank, const int64_t* dims, const void* data,
                                  kilter_value** value) {
  if (value != nullptr) *value = nullptr;
  return guarded([&] {
    not_null(value, "value");
    const DType type = kilter::c_abi::number_type(dtype, "kilter_value_tensor");
    Shape shape = shape_of(rank, dims);
    if (kilter::elems(shape) > 0) not_null(data, "data");
    // Nothing writes to inputs.
    Tensor tensor(type, std::move(shape), const_cast<std::byte*>(static_cast<const std::byte*>(data)), nullptr);
    if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(kilter::size_bytes(type)) != 0)
      tensor = tensor.clone();
    *value = new kilter_value{std::move(tensor)};
  });
}

kilter_status kilter_value_strings(size_t rank, const int64_t* dims, const char* const* texts, const size_t* lengths,
                                   kilter_value** value) {
  if (value != nullptr) *value = nullptr;
  return guarded([&] {
    not_null(value, "value");
    Tensor tensor(DType::string, shape_of(rank, dims));
    if (tensor.elems() > 0) not_null(texts, "texts");
    for (size_t i = 0; i < tensor.strings().size(); ++i) {
      not_null(texts[i], "texts[i]");
      tensor.strings()[i].assign(texts[i], lengths != nullptr ? lengths[i] : std::strlen(texts[i]));
    }
    *value = new kilter_value{std::move(tensor)};
  });
}

kilter_status kilter_value_map(const kilter_value* keys, const kilter_value* elements, kilter_value** value) {
  if (value != nullptr) *value = nullptr;
  return guarded([&] {
    not_null(keys, "keys");
    not_null(elements, "elements");
    not_null(value, "value");
    for (const AnyValue* part : {&keys->value, &elements->value}) {
      if (!part->is_tensor())
        kilter::fail(ErrorKind::usage, "a map of {}, expected tensors of keys and elements", kilter::text(*part));
    }
    *value = new kilter_value{kilter::map_value(keys->value.tensor(), elements->value.tensor())};
  });
}

kilter_status kilter_value_sequence(const kilter_value* const* elements, size_t count, kilter_value** value) {
  if (value != nullptr) *value = nullptr;
  return guarded([&] {
    not_null(value, "value");
    if (count > 0) not_null(elements, "elements");
    std::vector<AnyValue> all;
    for (size_t i = 0; i < count; ++i) {
      if (kilter_value_kind(elements[i]) == KILTER_ABSENT)
        kilter::fail(ErrorKind::usage, "element {} of the sequence is absent; expected a value", i);
      all.push_back(elements[i]->value);
    }
    *value = new kilter_value{AnyValue::sequence(std::move(all))};
  });
}

void kilter_value_free(kilter_value* value) { delete value; }

kilter_kind kilter_value_kind(const kilter_value* value) {
  if (value == nullptr || value->value.absent()) return KILTER_ABSENT;
  if (value->value.is_tensor()) return KILTER_TENSOR;
  return is_map(value->value) ? KILTER_MAP : KILTER_SEQUENCE;
}

kilter_status kilter_value_info(const kilter_value* value, kilter_tensor_info* info) {
  return guarded([&] {
    not_null(info, "info");
    if (!value_of(value).is_tensor())
      kilter::fail(ErrorKind::usage, "the value is {}, expected a tensor", kilter::text(value->value));
    const Tensor& tensor = value->value.tensor();
    kilter::c_abi::describe("", tensor.dtype(), &tensor.shape(), info);
  });
}

const void* kilter_value_data(const kilter_value* value) {
  if (value == nullptr || !value->value.is_tensor() || value->value.tensor().dtype() == DType::string) return nullptr;
  return value->value.tensor().raw();
}

kilter_status kilter_value_string(const kilter_value* value, size_t index, const char** text, size_t* length) {
  return guarded([&] {
    not_null(text, "text");
    const AnyValue& given = value_of(value);
    if (!given.is_tensor() || given.tensor().dtype() != DType::string)
      kilter::fail(ErrorKind::usage, "the value is {}, expected a tensor of strings", kilter::text(given));
    const std::vector<std::string>& strings = given.tensor().strings();
    if (index >= strings.size())
      kilter::fail(ErrorKind::usage, "string {} was requested; the tensor has {}", index, strings.size());
    *text = strings[index].c_str();
    if (length != nullptr) *length = strings[index].size();
  });
}

size_t kilter_value_count(const kilter_value* value) {
  if (value == nullptr || !value->value.is_sequence()) return 0;
  const bool map = is_map(value->value);
  return map ? static_cast<size_t>(map_keys(value->value).elems()) : value->value.elements().size();
}

kilter_status kilter_value_element(const kilter_value* value, size_t index, kilter_value** element) {
  if (element != nullptr) *element = nullptr;
  return guarded([&] {
    not_null(element, "element");
    const AnyValue& given = value_of(value);
    if (!is_list(given)) kilter::fail(ErrorKind::usage, "the value is {}, expected a sequence", kilter::text(given));
    if (index >= given.elements().size())
      kilter::fail(ErrorKind::usage, "element {} was requested; the sequence has {}", index, given.elements().size());
    *element = new kilter_value{given.elements()[index]};
  });
}

namespace {

/// Returns a part of a map as a value of its own.
kilter_status part_of_map(const kilter_value* value, const Tensor& (*part)(const AnyValue& map), const char* name,
                          kilter_value** out) {
  if (out != nullptr) *out = nullptr;
  return guarded([&] {
    not_null(out, name);
    const AnyValue& given = value_of(value);
    if (!is_map(given)) kilter::fail(ErrorKind::usage, "the value is {}, expected a map", kilter::text(given));
    *out = new kilter_value{part(given)};
  });
}

}  // namespace

kilter_status kilter_value_map_keys(const kilter_value* value, kilter_value** keys) {
  return part_of_map(value, kilter::map_keys, "keys", keys);
}

kilter_status kilter_value_map_elements(const kilter_value* value, kilter_value** elements) {
  return part_of_map(value, kilter::map_values, "elements", elements);
}
