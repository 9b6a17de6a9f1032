// Reads inference requests of the Open Inference Protocol, and writes metadata.

#include "protocol.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "json_request.h"

namespace serve {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "binary data of the protocol is little-endian");

[[noreturn]] void bad(const std::string& text) { throw Failure(400, text); }

std::string names(const std::vector<kilter::Port>& ports) {
  std::string out;
  for (const kilter::Port& port : ports) out += (out.empty() ? "" : ", ") + in_quotes(port.name);
  return out;
}

const std::string& text_of(const Json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end()) bad(where + ": no \"" + key + "\"");
  if (!found->is_string()) bad(where + ": \"" + key + "\" is " + found->type_name() + "; expected a string");
  return found->get_ref<const std::string&>();
}

/// The parameter of this name; nullptr if there is none.
const Json* parameter(const Json& object, const char* key, const std::string& where) {
  const auto all = object.find("parameters");
  if (all == object.end()) return nullptr;
  if (!all->is_object()) bad(where + ": \"parameters\" is " + all->type_name() + "; expected an object");
  const auto found = all->find(key);
  return found == all->end() ? nullptr : &*found;
}

bool flag(const Json& object, const char* key, bool otherwise, const std::string& where) {
  const Json* found = parameter(object, key, where);
  if (found == nullptr) return otherwise;
  if (!found->is_boolean())
    bad(where + ": parameter \"" + key + "\" is " + found->type_name() + "; expected a boolean");
  return found->get<bool>();
}

void refuse(const Json& object, std::initializer_list<const char*> keys, const std::string& where) {
  for (const char* key : keys) {
    const Json* found = parameter(object, key, where);
    if (found != nullptr && *found != 0) bad(where + ": parameter \"" + key + "\" is not supported");
  }
}

size_t index_of(const std::vector<kilter::Port>& ports, const std::string& name, const std::string& where) {
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name == name) return i;
  }
  bad(where + ": the model has no such " + (where.starts_with("input") ? "input" : "output") + "; expected " +
      names(ports));
}

std::vector<int64_t> shape_of(const Json& input, const kilter::Port& port, const std::string& where) {
  const auto found = input.find("shape");
  if (found == input.end()) bad(where + ": no \"shape\"");
  if (!found->is_array()) bad(where + ": \"shape\" is " + found->type_name() + "; expected an array of integers");
  std::vector<int64_t> shape;
  for (const Json& size : *found) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > (uint64_t{1} << 48))
      bad(where + ": \"shape\" is " + in_quotes(found->dump(-1, ' ', true)) + "; expected sizes of 0 or more");
    shape.push_back(size.get<int64_t>());
  }
  if (port.shape.empty()) return shape;  // of unknown rank, or a scalar, which the network checks
  bool fits = shape.size() == port.shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) fits = port.shape[i] < 0 || port.shape[i] == shape[i];
  if (!fits)
    bad(where + ": shape " + text(shape) + "; expected " + text(port.shape) +
        (text(port.shape).find("-1") != std::string::npos ? ", where -1 is any size" : ""));
  return shape;
}

std::vector<std::string> strings_of(std::string_view bytes, int64_t count, const std::string& where) {
  std::vector<std::string> strings;
  while (!bytes.empty()) {
    uint32_t length = 0;
    if (bytes.size() >= sizeof(length)) std::memcpy(&length, bytes.data(), sizeof(length));
    if (bytes.size() < sizeof(length) || bytes.size() - sizeof(length) < length) {
      bad(where + ": its binary data ends inside element " + std::to_string(strings.size()) +
          "; expected 4 bytes with the length, and as many bytes, for each element");
    }
    if (static_cast<int64_t>(strings.size()) == count) break;
    strings.emplace_back(bytes.substr(sizeof(length), length));
    bytes.remove_prefix(sizeof(length) + length);
  }
  if (!bytes.empty() || static_cast<int64_t>(strings.size()) != count) {
    bad(where + ": its binary data has " + (bytes.empty() ? std::to_string(strings.size()) : "more") +
        " elements; expected " + std::to_string(count));
  }
  return strings;
}

Tensor binary_tensor(std::string_view bytes, kilter::Type type, std::vector<int64_t> shape, const std::string& where) {
  const std::optional<int64_t> count = elements(shape);
  if (!count) bad(where + ": shape " + text(shape) + " has more elements than memory holds");
  Tensor tensor;
  tensor.type = type;
  if (type == kilter::Type::string) {
    tensor.strings = strings_of(bytes, *count, where);
  } else {
    const auto expected = static_cast<uint64_t>(*count) * static_cast<uint64_t>(kilter::type_bytes(type));
    if (bytes.size() != expected) {
      bad(where + ": its binary data has " + std::to_string(bytes.size()) + " bytes; expected " +
          std::to_string(expected) + " for shape " + text(shape) + " of " + datatype(type));
    }
    tensor.bytes = std::as_bytes(std::span(bytes));
    if (type == kilter::Type::boolean && std::ranges::any_of(bytes, [](char c) { return c != 0 && c != 1; }))
      bad(where + ": its binary data has a byte other than 0 and 1; expected datatype BOOL");
  }
  tensor.shape = std::move(shape);
  return tensor;
}

/// Reads one input. Binary data is taken from the beginning of `binary`.
Tensor input_of(const Json& input, const kilter::Port& port, Document& document, std::string_view& binary,
                const std::string& where) {
  const std::string& named = text_of(input, "datatype", where);
  if (type_of(named) != port.type)
    bad(where + ": datatype " + in_quotes(named) + "; expected " + in_quotes(datatype(port.type)));
  std::vector<int64_t> shape = shape_of(input, port, where);
  refuse(input, {"shared_memory_region"}, where);
  const Json* size = parameter(input, "binary_data_size", where);
  const auto data = input.find("data");
  if ((size != nullptr) == (data != input.end()))
    bad(where + (size != nullptr ? ": both" : ": neither") + " \"data\" " + (size != nullptr ? "and" : "nor") +
        " parameter \"binary_data_size\"; expected one of them");
  if (size == nullptr)
    return tensor_of(std::move(document.data.at(data->get<size_t>())), port.type, std::move(shape), where);
  if (!size->is_number_unsigned())
    bad(where + ": parameter \"binary_data_size\" is " + in_quotes(size->dump(-1, ' ', true)) +
        "; expected a number of bytes");
  const auto wanted = size->get<uint64_t>();
  if (wanted > binary.size()) {
    bad(where + ": parameter \"binary_data_size\" is " + std::to_string(wanted) + ", but only " +
        std::to_string(binary.size()) + " bytes of binary data are left");
  }
  const std::string_view own = binary.substr(0, wanted);
  binary.remove_prefix(wanted);
  return binary_tensor(own, port.type, std::move(shape), where);
}

/// The elements of an array of objects at this key; none if it is absent.
std::vector<const Json*> objects(const Json& tree, const char* key) {
  std::vector<const Json*> found;
  const auto all = tree.find(key);
  if (all == tree.end()) return found;
  if (!all->is_array()) bad(std::string("the request: \"") + key + "\" is " + all->type_name() + "; expected an array");
  for (const Json& one : *all) {
    if (!one.is_object())
      bad(std::string("the request: \"") + key + "\" has " + one.type_name() + "; expected objects");
    found.push_back(&one);
  }
  return found;
}

void read_inputs(const Signature& model, Document& document, std::string_view binary, InferRequest& request) {
  std::vector<bool> given(model.inputs.size());
  request.inputs.resize(model.inputs.size());
  for (const Json* input : objects(document.tree, "inputs")) {
    const std::string& name = text_of(*input, "name", "an input of the request");
    const std::string where = "input " + in_quotes(name);
    const size_t index = index_of(model.inputs, name, where);
    if (given[index]) bad(where + ": given twice");
    given[index] = true;
    request.inputs[index] = input_of(*input, model.inputs[index], document, binary, where);
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i])
      bad("input " + in_quotes(model.inputs[i].name) + ": missing; the model has the inputs " + names(model.inputs));
  }
  if (!binary.empty())
    bad("the request: " + std::to_string(binary.size()) + " bytes of binary data belong to no input");
}

void read_outputs(const Signature& model, const Json& tree, InferRequest& request) {
  const bool binary = flag(tree, "binary_data_output", false, "the request");
  std::vector<bool> given(model.outputs.size());
  for (const Json* output : objects(tree, "outputs")) {
    const std::string& name = text_of(*output, "name", "an output of the request");
    const std::string where = "output " + in_quotes(name);
    const size_t index = index_of(model.outputs, name, where);
    if (given[index]) bad(where + ": given twice");
    given[index] = true;
    refuse(*output, {"shared_memory_region", "classification"}, where);
    request.outputs.push_back({index, flag(*output, "binary_data", binary, where)});
  }
  if (!request.outputs.empty()) return;
  for (size_t i = 0; i < model.outputs.size(); ++i) request.outputs.push_back({i, binary});
}

Json ports_json(const std::vector<kilter::Port>& ports) {
  Json all = Json::array();
  for (const kilter::Port& port : ports)
    all.push_back({{"name", port.name}, {"datatype", datatype(port.type)}, {"shape", port.shape}});
  return all;
}

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

InferRequest parse_infer(const Signature& model, std::string_view body, size_t json_bytes) {
  Document document = read_json(body.substr(0, json_bytes));
  const Json& tree = document.tree;
  if (!tree.is_object()) bad(std::string("the request is ") + tree.type_name() + "; expected an object");
  InferRequest request;
  if (tree.contains("id")) request.id = text_of(tree, "id", "the request");
  refuse(tree, {"sequence_id", "sequence_start", "sequence_end"}, "the request");
  read_inputs(model, document, body.substr(json_bytes), request);
  read_outputs(model, tree, request);
  return request;
}

std::string server_metadata() {
  return dumped({{"name", "kilter-serve"}, {"version", KILTER_VERSION_STRING}, {"extensions", {"binary_tensor_data"}}});
}

std::string model_metadata(const Signature& model) {
  return dumped({{"name", model.name},
                 {"versions", Json::array({kVersion})},
                 {"platform", model.platform},
                 {"inputs", ports_json(model.inputs)},
                 {"outputs", ports_json(model.outputs)}});
}

std::string model_ready(const Signature& model) { return dumped({{"name", model.name}, {"ready", true}}); }

std::string error_body(const std::string& text) { return dumped({{"error", text}}); }

}  // namespace serve
