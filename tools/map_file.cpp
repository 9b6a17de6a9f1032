#include "map_file.h"

#include <nlohmann/json.hpp>

#include "base/convert.h"
#include "base/error.h"
#include "base/files.h"
#include "base/map_value.h"
#include "base/text.h"

namespace kilter::tool {
namespace {

using Json = nlohmann::ordered_json;

/// A JSON file that is read as maps of a port's types.
struct MapFile {
  const std::string& file;
  const onnx::Port& port;

  [[noreturn]] void refuse(const std::string& what, const std::string& expected) const {
    fail(ErrorKind::bad_input, "{}: {}, expected {}", file, printable(what), expected);
  }

  void set_key(const Tensor& keys, size_t i, const std::string& text) const {
    if (keys.dtype() == DType::string) {
      keys.strings()[i] = text;
      return;
    }
    const auto number = try_parse_int(text);
    if (!number) refuse(fmt::format("the key '{}'", text), "an integer, as keys are i64");
    keys.data<int64_t>()[i] = *number;
  }

  void set_value(const Tensor& values, size_t i, const std::string& key, const Json& json) const {
    const auto illegal = [&](const std::string& expected) {
      refuse(fmt::format("the value {} of '{}'", json.dump(-1, ' ', true, Json::error_handler_t::replace), key),
             expected);
    };
    if (values.dtype() == DType::string) {
      if (!json.is_string()) illegal("a string");
      values.strings()[i] = json.get<std::string>();
      return;
    }
    const bool known = visit_dtype(values.dtype(), [&]<class T>(T) {
      if constexpr (std::is_same_v<T, bool>) {
        if (!json.is_boolean()) illegal("true or false");
        values.data<bool>()[i] = json.get<bool>();
      } else if constexpr (std::is_integral_v<T>) {
        if (!json.is_number_integer()) illegal("an integer");
        const bool fits =
            json.is_number_unsigned() ? std::in_range<T>(json.get<uint64_t>()) : std::in_range<T>(json.get<int64_t>());
        if (!fits) illegal("a value of " + std::string(name(values.dtype())));
        values.data<T>()[i] = json.get<T>();
      } else {
        if (!json.is_number()) illegal("a number");
        values.data<T>()[i] = convert<T>(json.get<double>());
      }
    });
    if (!known)
      fail(ErrorKind::unsupported, "{}: values of type {} cannot be given as JSON", file, name(values.dtype()));
  }

  AnyValue map(const Json& json) const {
    if (!json.is_object()) refuse("contains " + std::string(json.type_name()), "an object from keys to values");
    const auto count = static_cast<int64_t>(json.size());
    Tensor keys(*port.key, {count}), values(port.type, {count});
    size_t i = 0;
    for (const auto& [key, value] : json.items()) {
      set_key(keys, i, key);
      set_value(values, i, key, value);
      ++i;
    }
    return map_value(std::move(keys), std::move(values), file + ": a map");
  }
};

Json to_json(const Tensor& values, int64_t i) {
  if (values.dtype() == DType::string) return values.strings()[static_cast<size_t>(i)];
  if (values.dtype() == DType::boolean) return values.as_int(i) != 0;
  return is_float(values.dtype()) ? Json(values.as_double(i)) : Json(values.as_int(i));
}

Json to_json(const AnyValue& value) {
  if (!is_map(value)) {
    Json list = Json::array();
    for (const AnyValue& element : value.elements()) list.push_back(to_json(element));
    return list;
  }
  Json object = Json::object();
  const Tensor& keys = map_keys(value);
  for (int64_t i = 0; i < keys.elems(); ++i) {
    const bool text = keys.dtype() == DType::string;
    object[text ? keys.strings()[static_cast<size_t>(i)] : std::to_string(keys.as_int(i))] =
        to_json(map_values(value), i);
  }
  return object;
}

}  // namespace

AnyValue load_maps(const std::string& file, const onnx::Port& port) {
  const MapFile maps{file, port};
  const Json json = Json::parse(read_file(file), nullptr, false);
  if (json.is_discarded()) fail(ErrorKind::bad_input, "{}: not valid JSON", file);
  if (!port.is_sequence()) return maps.map(json);
  if (!json.is_array()) maps.refuse("contains " + std::string(json.type_name()), "an array of objects");
  std::vector<AnyValue> elements;
  for (const Json& element : json) elements.push_back(maps.map(element));
  return AnyValue::sequence(std::move(elements));
}

std::string maps_text(const AnyValue& value) {
  return to_json(value).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace kilter::tool
