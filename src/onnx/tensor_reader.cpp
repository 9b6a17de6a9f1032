#include "onnx/tensor_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "base/narrow.h"

namespace kilter::onnx {
namespace {

static_assert(std::endian::native == std::endian::little, "ONNX raw data are little-endian");

constexpr uintptr_t kAlignment = 64;
constexpr int32_t kExternal = 1;

/// Replaces bytes other than 0 and 1, which are not valid C++ bools.
void normalise_bools(Tensor& tensor) {
  if (tensor.dtype() != DType::boolean) return;
  std::byte* bytes = tensor.raw();
  std::transform(bytes, bytes + tensor.elems(), bytes, [](std::byte b) { return std::byte{b != std::byte{0}}; });
}

/// Returns the bytes that elements of a type other than string occupy in a file.
int64_t file_bytes(DType type, int64_t elems) {
  return is_narrow(type) ? packed_size(type, elems) : elems * size_bytes(type);
}

/// Returns a tensor from its bytes in a file.
Tensor copy_of(std::span<const std::byte> bytes, DType type, Shape shape) {
  Tensor tensor(type, std::move(shape));
  if (is_narrow(type)) {
    unpack_narrow(type, bytes, {tensor.raw(), static_cast<size_t>(tensor.elems())});
    return tensor;
  }
  if (!bytes.empty()) std::memcpy(tensor.raw(), bytes.data(), bytes.size());
  normalise_bools(tensor);
  return tensor;
}

std::string type_text(DType type, const Shape& shape) { return text(TensorType{type, shape, {}}); }

/// Converts one element from the wider integer that the typed fields carry. Returns false when it does not fit.
template <class T, class Wide>
bool narrow(Wide value, T& element) {
  if constexpr (std::is_same_v<T, bool>) {
    element = value != 0;
    return true;
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    element.bits = static_cast<uint16_t>(value);
    return value >= 0 && value <= std::numeric_limits<uint16_t>::max();
  } else if constexpr (std::is_floating_point_v<T>) {
    element = value;
    return true;
  } else {
    element = static_cast<T>(value);
    return std::in_range<T>(value);
  }
}

/// Calls `use` with the field that carries elements of type T and the field's name in the format.
template <class T, class F>
void with_field(const pb::TensorProto& tensor, F&& use) {
  if constexpr (std::is_same_v<T, float>) {
    use(tensor.float_data(), "float_data");
  } else if constexpr (std::is_same_v<T, double>) {
    use(tensor.double_data(), "double_data");
  } else if constexpr (std::is_same_v<T, int64_t>) {
    use(tensor.int64_data(), "int64_data");
  } else if constexpr (std::is_same_v<T, uint32_t> || std::is_same_v<T, uint64_t>) {
    use(tensor.uint64_data(), "uint64_data");
  } else {
    use(tensor.int32_data(), "int32_data");
  }
}

bool has_typed_data(const pb::TensorProto& t) {
  return t.float_data_size() > 0 || t.int32_data_size() > 0 || t.string_data_size() > 0 || t.int64_data_size() > 0 ||
         t.double_data_size() > 0 || t.uint64_data_size() > 0;
}

}  // namespace

Shape TensorReader::read_shape(const google::protobuf::RepeatedField<int64_t>& dims, const std::string& what) const {
  if (dims.size() > kMostDims) {
    fail(ErrorKind::unsupported, "{}: {}: has {} dimensions; Kilter handles up to {}", file_, what, dims.size(),
         kMostDims);
  }
  Shape shape(dims.begin(), dims.end());
  for (const int64_t d : shape) {
    if (d < 0) {
      fail(ErrorKind::bad_model, "{}: {}: dimension {} of shape {} is negative; dimensions of data are 0 or more",
           file_, what, d, text(shape));
    }
  }
  try {
    elems(shape);
  } catch (const Error& error) {
    fail(ErrorKind::bad_model, "{}: {}: {}", file_, what, error.message());
  }
  return shape;
}

Tensor TensorReader::read_external(const pb::TensorProto& tensor, DType type, Shape shape, const std::string& what) {
  if (type == DType::string) {
    fail(ErrorKind::bad_model, "{}: {}: a tensor of strings cannot have external data", file_, what);
  }
  const auto range = external_.find(tensor, file_bytes(type, elems(shape)), what);
  const auto address = reinterpret_cast<uintptr_t>(range.bytes.data());
  if (address % kAlignment != 0 || type == DType::boolean || size_bits(type) < 8 || range.bytes.empty()) {
    return copy_of(range.bytes, type, std::move(shape));
  }
  return {type, std::move(shape), const_cast<std::byte*>(range.bytes.data()),
          std::const_pointer_cast<MappedFile>(range.file)};
}

Tensor TensorReader::read_raw(const pb::TensorProto& tensor, DType type, Shape shape, const std::string& what) const {
  const std::string& raw = tensor.raw_data();
  if (type == DType::string) {
    fail(ErrorKind::bad_model, "{}: {}: a tensor of strings cannot have raw_data; expected string_data", file_, what);
  }
  if (has_typed_data(tensor)) {
    fail(ErrorKind::bad_model, "{}: {}: has data twice, in raw_data and in a typed field; expected one of them", file_,
         what);
  }
  const int64_t expected = file_bytes(type, elems(shape));
  if (static_cast<int64_t>(raw.size()) != expected) {
    fail(ErrorKind::bad_model, "{}: {} ({}): expected {} bytes of raw_data for its shape, got {}", file_, what,
         type_text(type, shape), expected, raw.size());
  }
  return copy_of(std::as_bytes(std::span(raw.data(), raw.size())), type, std::move(shape));
}

Tensor TensorReader::read_typed(const pb::TensorProto& proto, DType type, Shape shape, const std::string& what) const {
  const int64_t expected = elems(shape);
  const auto check_count = [&](int64_t got, std::string_view field) {
    if (got != expected) {
      fail(ErrorKind::bad_model, "{}: {} ({}): expected {} values in {} for its shape, got {}", file_, what,
           type_text(type, shape), expected, field, got);
    }
  };
  if (type == DType::string) {
    check_count(proto.string_data_size(), "string_data");
    Tensor tensor(type, std::move(shape));
    std::copy(proto.string_data().begin(), proto.string_data().end(), tensor.strings().begin());
    return tensor;
  }
  Tensor tensor;
  visit_dtype(type, [&]<class T>(T) {
    with_field<T>(proto, [&](const auto& values, std::string_view field) {
      check_count(values.size(), field);
      tensor = Tensor(type, shape);
      T* out = tensor.data<T>();
      for (int i = 0; i < values.size(); ++i) {
        if (narrow(values[i], out[i])) continue;
        fail(ErrorKind::bad_model, "{}: {}: value {} at position {} of {} does not fit element type {}", file_, what,
             values[i], i, field, name(type));
      }
    });
  });
  return tensor;
}

Tensor TensorReader::read_narrow(const pb::TensorProto& proto, DType type, Shape shape, const std::string& what) const {
  const int64_t expected = packed_size(type, elems(shape));
  if (proto.int32_data_size() != expected) {
    fail(ErrorKind::bad_model,
         "{}: {} ({}): expected {} values of int32_data, with {} elements in each, for its shape, got {}", file_, what,
         type_text(type, shape), expected, 8 / size_bits(type), proto.int32_data_size());
  }
  std::vector<std::byte> bytes;
  for (const int32_t value : proto.int32_data()) bytes.push_back(static_cast<std::byte>(value));
  return copy_of(bytes, type, std::move(shape));
}

Tensor TensorReader::read(const pb::TensorProto& tensor, const std::string& what) {
  const DType type = require_dtype(tensor.data_type(), file_, what);
  Shape shape = read_shape(tensor.dims(), what);
  if (tensor.has_segment()) {
    fail(ErrorKind::unsupported, "{}: {}: is stored in segments, which Kilter does not read; save it in one piece",
         file_, what);
  }
  const int32_t location = tensor.data_location();
  if (location == kExternal) return read_external(tensor, type, std::move(shape), what);
  if (location != 0) {
    fail(ErrorKind::unsupported, "{}: {}: data_location {} is unknown; legal values are 0 (inside) and 1 (external)",
         file_, what, location);
  }
  if (!tensor.raw_data().empty()) return read_raw(tensor, type, std::move(shape), what);
  if (is_narrow(type)) return read_narrow(tensor, type, std::move(shape), what);
  return read_typed(tensor, type, std::move(shape), what);
}

Tensor file_form(const Tensor& tensor) {
  const DType type = tensor.dtype();
  if (size_bits(type) == 8 * size_bytes(type)) return tensor;
  const Tensor packed(DType::u8, {packed_size(type, tensor.elems())});
  pack_narrow(type, {tensor.raw(), static_cast<size_t>(tensor.bytes())},
              {packed.raw(), static_cast<size_t>(packed.bytes())});
  return packed;
}

}  // namespace kilter::onnx
