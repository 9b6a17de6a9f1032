#include "arrays.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/map_value.h"
#include "ops/support/iterate.h"

namespace kilter::python {
namespace {

using nb::dlpack::dtype_code;

struct TypeRow {
  DType type;
  dtype_code code;
  uint8_t bits;
};
constexpr std::array kTypes = {
    TypeRow{DType::f32, dtype_code::Float, 32},  TypeRow{DType::f64, dtype_code::Float, 64},
    TypeRow{DType::f16, dtype_code::Float, 16},  TypeRow{DType::bf16, dtype_code::Bfloat, 16},
    TypeRow{DType::i8, dtype_code::Int, 8},      TypeRow{DType::i16, dtype_code::Int, 16},
    TypeRow{DType::i32, dtype_code::Int, 32},    TypeRow{DType::i64, dtype_code::Int, 64},
    TypeRow{DType::u8, dtype_code::UInt, 8},     TypeRow{DType::u16, dtype_code::UInt, 16},
    TypeRow{DType::u32, dtype_code::UInt, 32},   TypeRow{DType::u64, dtype_code::UInt, 64},
    TypeRow{DType::boolean, dtype_code::Bool, 8}};

/// A type of ml_dtypes, which has neither DLPack nor a buffer format.
struct NamedRow {
  DType type;
  const char* name;
  const char* bits;  ///< NumPy's unsigned type for the bits of an element
};
constexpr std::array kNamedTypes = {
    NamedRow{DType::bf16, "bfloat16", "uint16"},
    NamedRow{DType::f8e4m3fn, "float8_e4m3fn", "uint8"},
    NamedRow{DType::f8e4m3fnuz, "float8_e4m3fnuz", "uint8"},
    NamedRow{DType::f8e5m2, "float8_e5m2", "uint8"},
    NamedRow{DType::f8e5m2fnuz, "float8_e5m2fnuz", "uint8"},
    NamedRow{DType::f8e8m0, "float8_e8m0fnu", "uint8"},
    NamedRow{DType::f4e2m1, "float4_e2m1fn", "uint8"},
    NamedRow{DType::i4, "int4", "uint8"},
    NamedRow{DType::u4, "uint4", "uint8"},
    NamedRow{DType::i2, "int2", "uint8"},
    NamedRow{DType::u2, "uint2", "uint8"},
};

std::optional<DType> dtype_of(nb::dlpack::dtype type) {
  for (const TypeRow& row : kTypes) {
    if (static_cast<uint8_t>(row.code) == type.code && row.bits == type.bits && type.lanes == 1) return row.type;
  }
  return std::nullopt;
}

nb::dlpack::dtype dlpack_type(DType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return {static_cast<uint8_t>(row.code), row.bits, 1};
  }
  fail(ErrorKind::unsupported, "element type {} has no counterpart in DLPack", name(type));
}

std::string class_name(nb::handle object) { return nb::cast<std::string>(object.type().attr("__qualname__")); }

/// Returns the text of an array's element type; "" if it has none.
std::string dtype_text(nb::handle object) {
  if (!nb::hasattr(object, "dtype")) return "";
  const nb::object type = object.attr("dtype");
  return nb::steal<nb::str>(PyObject_Str(type.ptr())).c_str();
}

/// Describes an object that could not be read as an array: its class, and its element type if it has one.
std::string described(nb::handle object) {
  const std::string type = dtype_text(object);
  return class_name(object) + (type.empty() ? "" : " of " + type);
}

const char* kind_text(uint8_t code) {
  if (code == static_cast<uint8_t>(dtype_code::Complex)) return "complex";
  if (code == static_cast<uint8_t>(dtype_code::Float)) return "floating-point";
  return "other";
}

std::string legal_types() {
  std::string all;
  for (const TypeRow& row : kTypes) all += (all.empty() ? "" : ", ") + std::string(name(row.type));
  return all;
}

/// Returns why an object that has __dlpack__ does not give its memory, such as "; its __dlpack__ raises ..."; otherwise
/// "".
std::string refusal(nb::handle object) {
  if (!nb::hasattr(object, "__dlpack__")) return "";
  try {
    object.attr("__dlpack__")();
  } catch (nb::python_error& error) {
    const nb::handle raised = error.value();
    return "; its __dlpack__ raises " + class_name(raised) + ": " + nb::cast<std::string>(nb::str(raised));
  }
  return "";
}

template <class Array>
Tensor tensor_over(Array& array, std::optional<DType> as, bool copies, const std::string& what) {
  if (array.device_type() != nb::device::cpu::value)
    fail(ErrorKind::bad_input, "{}: the array is on another device; move it to the CPU first", what);
  const std::optional<DType> type = as ? as : dtype_of(array.dtype());
  if (!type)
    fail(ErrorKind::bad_input, "{}: {} elements of {} bits are not supported; legal values are {}", what,
         kind_text(array.dtype().code), array.dtype().bits, legal_types());
  Shape shape, strides;
  for (size_t d = 0; d < array.ndim(); ++d) {
    shape.push_back(static_cast<int64_t>(array.shape(d)));
    strides.push_back(array.stride(d));
  }
  const Shape dense = dense_strides(shape);
  bool contiguous = true;
  for (size_t d = 0; d < shape.size(); ++d) contiguous &= shape[d] <= 1 || strides[d] == dense[d];
  auto* data = const_cast<std::byte*>(static_cast<const std::byte*>(static_cast<const void*>(array.data())));
  const int64_t count = elems(shape);
  if (!contiguous && count > 0) {
    if (!copies) fail(ErrorKind::bad_input, "{}: the array is not contiguous, so nothing can be written to it", what);
    Tensor copy(*type, shape);
    const Tensor from(*type, shape, data, nullptr);
    copy_strided(from, 0, strides, copy, 0, dense, shape);
    return copy;
  }
  // The array is released by whichever thread drops the last tensor, which may not hold the interpreter's lock.
  auto* held = new Array(std::move(array));
  std::shared_ptr<void> owner(held, [](void* kept) {
    if (!nb::is_alive()) return;
    const nb::gil_scoped_acquire lock;
    delete static_cast<Array*>(kept);
  });
  return {*type, std::move(shape), data, std::move(owner)};
}

/// Whether an object is a NumPy array of str, bytes or objects.
bool has_strings(nb::handle object) {
  if (!nb::hasattr(object, "dtype") || !nb::hasattr(object, "tolist")) return false;
  const nb::object type = object.attr("dtype");
  if (!nb::hasattr(type, "kind")) return false;
  const std::string kind = nb::cast<std::string>(type.attr("kind"));
  return kind == "U" || kind == "S" || kind == "O" || kind == "T";
}

/// Returns the bytes of a str or bytes. Bytes that are not UTF-8 have the form that string_array() gives them.
std::string string_of(nb::handle object, int64_t i, const std::string& what) {
  if (PyBytes_Check(object.ptr()))
    return {PyBytes_AS_STRING(object.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(object.ptr()))};
  if (!PyUnicode_Check(object.ptr()))
    fail(ErrorKind::bad_input,
         "{}: element {} has type {}; arrays of objects contain str or bytes, numpy.asarray(value, dtype) makes one of "
         "numbers",
         what, i, class_name(object));
  const nb::object bytes = nb::steal(PyUnicode_AsEncodedString(object.ptr(), "utf-8", "surrogateescape"));
  if (!bytes.is_valid()) {
    PyErr_Clear();
    fail(ErrorKind::bad_input, "{}: element {} contains half of a surrogate pair, which UTF-8 cannot represent", what,
         i);
  }
  return string_of(bytes, i, what);
}

Tensor string_tensor(nb::handle array, const std::string& what) {
  Shape shape;
  for (nb::handle d : array.attr("shape")) shape.push_back(nb::cast<int64_t>(d));
  Tensor tensor(DType::string, std::move(shape));
  const nb::object elements = array.attr("reshape")(-1).attr("tolist")();
  int64_t i = 0;
  for (nb::handle element : elements) {
    tensor.strings()[static_cast<size_t>(i)] = string_of(element, i, what);
    ++i;
  }
  return tensor;
}

template <class Array>
Tensor read(nb::handle object, bool copies, const std::string& what) {
  Array array;
  if (nb::try_cast<Array>(object, array, false)) return tensor_over(array, std::nullopt, copies, what);
  if (has_strings(object)) {
    if (copies) return string_tensor(object, what);
    fail(ErrorKind::bad_input, "{}: memory can be given for numbers, not for strings", what);
  }
  const std::string type = nb::hasattr(object, "view") ? dtype_text(object) : "";
  for (const NamedRow& row : kNamedTypes) {
    if (type != row.name) continue;
    nb::object bits = object.attr("view")(row.bits);
    if (nb::try_cast<Array>(bits, array, false)) return tensor_over(array, row.type, copies, what);
  }
  nb::ndarray<nb::ro> readable;
  if (!copies && nb::try_cast(object, readable, false)) fail(ErrorKind::bad_input, "{}: the array is read-only", what);
  const std::string refused = refusal(object);
  fail(ErrorKind::bad_input, "{}: expected an array on the CPU, such as a numpy.ndarray or a torch.Tensor, got {}{}{}",
       what, described(object), refused, refused.empty() ? "; numpy.asarray(value, dtype) makes one" : "");
}

nb::object string_array(const Tensor& tensor) {
  nb::list values;
  for (const std::string& text : tensor.strings()) {
    values.append(
        nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape")));
  }
  const nb::object numpy = nb::module_::import_("numpy");
  nb::list shape;
  for (const int64_t d : tensor.shape()) shape.append(d);
  return numpy.attr("array")(values, nb::arg("dtype") = "object").attr("reshape")(nb::tuple(shape));
}

/// Views an array of bits as a type of ml_dtypes, if the package is installed.
nb::object viewed_as(const NamedRow& row, nb::object bits) {
  try {
    return bits.attr("view")(nb::module_::import_("ml_dtypes").attr(row.name));
  } catch (const nb::python_error&) {
    return bits;
  }
}

}  // namespace

Tensor tensor_of(nb::handle array, const std::string& what) { return read<nb::ndarray<nb::ro>>(array, true, what); }
Tensor writable_tensor(nb::handle array, const std::string& what) { return read<nb::ndarray<>>(array, false, what); }

namespace {

/// Returns an array over the memory of a tensor, as elements of this type.
template <class Array>
nb::object array_over(const Tensor& tensor, DType element) {
  std::array<size_t, 8> few{};
  std::vector<size_t> many;
  const Shape& shape = tensor.shape();
  if (shape.size() > few.size()) many.resize(shape.size());
  size_t* extents = shape.size() > few.size() ? many.data() : few.data();
  for (size_t d = 0; d < shape.size(); ++d) extents[d] = static_cast<size_t>(shape[d]);
  const nb::capsule owner(new Tensor(tensor), [](void* kept) noexcept { delete static_cast<Tensor*>(kept); });
  const Array array(tensor.raw(), shape.size(), extents, owner, nullptr, dlpack_type(element));
  return nb::cast(array, nb::rv_policy::reference);
}

}  // namespace

nb::object array_of(const Tensor& tensor, Access access) {
  if (tensor.dtype() == DType::string) return string_array(tensor);
  const auto* named = std::ranges::find(kNamedTypes, tensor.dtype(), &NamedRow::type);
  const bool own = named == kNamedTypes.end();
  const DType bits = size_bytes(tensor.dtype()) == 1 ? DType::u8 : DType::u16, element = own ? tensor.dtype() : bits;
  nb::object made = access == Access::write ? array_over<nb::ndarray<nb::numpy>>(tensor, element)
                                            : array_over<nb::ndarray<nb::numpy, nb::ro>>(tensor, element);
  return own ? made : viewed_as(*named, std::move(made));
}

namespace {

/// Returns NumPy's name of an element type; "" if NumPy itself lacks the type.
std::string numpy_name(DType type) {
  const auto* row = std::ranges::find(kTypes, type, &TypeRow::type);
  if (row == kTypes.end() || row->code == dtype_code::Bfloat) return "";
  if (row->code == dtype_code::Bool) return "bool";
  const char* kind = row->code == dtype_code::Float ? "float" : row->code == dtype_code::Int ? "int" : "uint";
  return kind + std::to_string(row->bits);
}

/// Returns Python's objects as a tensor [n] of a type. `what` are the objects, as in "keys".
Tensor tensor_of_objects(const nb::list& objects, DType type, const std::string& what) {
  Tensor texts(DType::string, {static_cast<int64_t>(objects.size())});
  const auto refuse = [&](nb::handle object, std::string_view expected) {
    fail(ErrorKind::bad_input, "{} has type {}; expected {}", what, class_name(object), expected);
  };
  if (type == DType::string) {
    for (size_t i = 0; i < objects.size(); ++i) {
      if (!PyUnicode_Check(objects[i].ptr()) && !PyBytes_Check(objects[i].ptr())) refuse(objects[i], "str");
      texts.strings()[i] = string_of(objects[i], static_cast<int64_t>(i), what);
    }
    return texts;
  }
  if (objects.size() == 0) return {type, {0}};
  const std::string target = numpy_name(type);
  if (target.empty()) fail(ErrorKind::unsupported, "{} of type {} cannot be given from Python", what, name(type));
  const nb::object numpy = nb::module_::import_("numpy");
  const bool floating = is_float(type);
  const nb::object scalar = floating
                                ? nb::make_tuple(numpy.attr("integer"), numpy.attr("bool_"), numpy.attr("floating"))
                                : nb::make_tuple(numpy.attr("integer"), numpy.attr("bool_"));
  for (nb::handle object : objects) {
    const bool number = PyLong_Check(object.ptr()) || (floating && PyFloat_Check(object.ptr()));
    if (!number && !nb::isinstance(object, scalar)) refuse(object, floating ? "a number" : "an integer");
  }
  try {
    return tensor_of(numpy.attr("array")(objects, nb::arg("dtype") = target), what);
  } catch (nb::python_error& error) {
    fail(ErrorKind::bad_input, "{} cannot be {}: {}", what, target, nb::cast<std::string>(nb::str(error.value())));
  }
}

AnyValue map_of(nb::handle object, const onnx::Port& port, const std::string& what) {
  if (!nb::isinstance<nb::dict>(object))
    fail(ErrorKind::bad_input, "{}: expected a dict, got {}", what, described(object));
  nb::list keys, values;
  for (const auto& [key, value] : nb::borrow<nb::dict>(object)) keys.append(key), values.append(value);
  return map_value(tensor_of_objects(keys, *port.key, what + ": a key"),
                   tensor_of_objects(values, port.type, what + ": a value"), what);
}

AnyValue element_of(nb::handle object, const onnx::Port& port, const std::string& what) {
  return port.key ? map_of(object, port, what) : AnyValue(tensor_of(object, what));
}

}  // namespace

AnyValue value_of(nb::handle object, const onnx::Port& port, const std::string& what) {
  if (port.kind == DeclaredType::Kind::optional && object.is_none()) return {};
  const bool list = nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object);
  if (port.kind == DeclaredType::Kind::sequence && !list)
    fail(ErrorKind::bad_input, "{}: expected a list or tuple of {}, got {}", what, port.key ? "dicts" : "arrays",
         described(object));
  const bool single = port.kind == DeclaredType::Kind::tensor || port.kind == DeclaredType::Kind::map;
  if (!list || single) return element_of(object, port, what);
  std::vector<AnyValue> elements;
  for (nb::handle element : object)
    elements.push_back(element_of(element, port, what + "[" + std::to_string(elements.size()) + "]"));
  return AnyValue::sequence(std::move(elements));
}

nb::object object_of(const AnyValue& value, Access access) {
  if (value.is_tensor()) return array_of(value.tensor(), access);
  if (value.absent()) return nb::none();
  if (is_map(value)) {
    nb::dict entries;
    const nb::object keys = array_of(map_keys(value)).attr("tolist")(),
                     values = array_of(map_values(value)).attr("tolist")();
    for (size_t i = 0; i < nb::len(keys); ++i) entries[keys[i]] = values[i];
    return entries;
  }
  nb::list elements;
  for (const AnyValue& element : value.elements()) elements.append(object_of(element, access));
  return elements;
}

}  // namespace kilter::python
