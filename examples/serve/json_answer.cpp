// Writes the response to an inference request.

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "protocol.h"

namespace serve {
namespace {

[[noreturn]] void no_json(const kilter::Port& port, const std::string& what) {
  throw Failure(400, "output " + in_quotes(port.name) + ": " + what +
                         " cannot be written as JSON; request it with parameter \"binary_data\": true");
}

std::string json_string(const std::string& text, const kilter::Port& port) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {  // not UTF-8
    no_json(port, "a string that is not UTF-8");
  }
}

template <class T>
void append_numbers(std::string& out, const Tensor& tensor, const kilter::Port& port) {
  for (size_t at = 0; at < tensor.bytes.size(); at += sizeof(T)) {
    T value{};
    std::memcpy(&value, tensor.bytes.data() + at, sizeof(T));
    if (at > 0) out += ',';
    if constexpr (std::is_same_v<T, bool>) {
      out += value ? "true" : "false";
    } else {
      if constexpr (std::is_floating_point_v<T>) {
        if (!std::isfinite(value)) no_json(port, "a value that is not finite");
      }
      std::array<char, 32> text{};
      const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
      out.append(text.data(), end.ptr);
    }
  }
}

void append_data(std::string& out, const Tensor& tensor, const kilter::Port& port) {
  switch (tensor.type) {
    case kilter::Type::boolean:
      return append_numbers<bool>(out, tensor, port);
    case kilter::Type::u8:
      return append_numbers<uint8_t>(out, tensor, port);
    case kilter::Type::u16:
      return append_numbers<uint16_t>(out, tensor, port);
    case kilter::Type::u32:
      return append_numbers<uint32_t>(out, tensor, port);
    case kilter::Type::u64:
      return append_numbers<uint64_t>(out, tensor, port);
    case kilter::Type::i8:
      return append_numbers<int8_t>(out, tensor, port);
    case kilter::Type::i16:
      return append_numbers<int16_t>(out, tensor, port);
    case kilter::Type::i32:
      return append_numbers<int32_t>(out, tensor, port);
    case kilter::Type::i64:
      return append_numbers<int64_t>(out, tensor, port);
    case kilter::Type::f32:
      return append_numbers<float>(out, tensor, port);
    case kilter::Type::f64:
      return append_numbers<double>(out, tensor, port);
    case kilter::Type::string:
      for (size_t i = 0; i < tensor.strings.size(); ++i)
        out += (i > 0 ? "," : "") + json_string(tensor.strings[i], port);
      return;
    default:
      no_json(port, std::string("datatype ") + datatype(tensor.type));
  }
}

/// Appends the elements in their binary form.
void append_binary(std::string& out, const Tensor& tensor) {
  for (const std::string& text : tensor.strings) {
    const auto length = static_cast<uint32_t>(text.size());
    out.append(reinterpret_cast<const char*>(&length), sizeof(length));
    out += text;
  }
  out.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
}

}  // namespace

InferAnswer infer_answer(const Signature& model, const InferRequest& request, const std::vector<Tensor>& outputs) {
  InferAnswer answer;
  std::string binary;
  std::string& json = answer.body;
  json = "{\"model_name\":" + nlohmann::json(model.name).dump() + ",\"model_version\":\"" + kVersion + "\"";
  if (!request.id.empty()) json += ",\"id\":" + nlohmann::json(request.id).dump();
  json += ",\"outputs\":[";
  for (const InferRequest::Output& wanted : request.outputs) {
    const kilter::Port& port = model.outputs[wanted.index];
    const Tensor& tensor = outputs[wanted.index];
    if (json.back() != '[') json += ',';
    json += "{\"name\":" + json_string(port.name, port) + ",\"datatype\":\"" + datatype(port.type) +
            "\",\"shape\":" + text(tensor.shape);
    if (wanted.binary) {
      const size_t before = binary.size();
      append_binary(binary, tensor);
      json += ",\"parameters\":{\"binary_data_size\":" + std::to_string(binary.size() - before) + "}}";
      answer.binary = true;
    } else {
      json += ",\"data\":[";
      append_data(json, tensor, port);
      json += "]}";
    }
  }
  json += "]}";
  answer.json_bytes = json.size();
  json += binary;
  return answer;
}

}  // namespace serve
