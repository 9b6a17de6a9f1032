#include "fleet/broker_client/broker_protocol.h"

#include <utility>

#include "base/error.h"
#include "base/json_text.h"

namespace kilter::fleet {
namespace {

const nlohmann::json& field(const nlohmann::json& head, const char* name, const char* expected) {
  const auto found = head.find(name);
  if (found == head.end()) fail(ErrorKind::bad_input, "a message has no field '{}'; expected {}", name, expected);
  return *found;
}

[[noreturn]] void fail_type(const char* name, const nlohmann::json& got, const char* expected) {
  fail(ErrorKind::bad_input, "the field '{}' of a message has the type {}; expected {}", name, got.type_name(),
       expected);
}

}  // namespace

std::string pack(const Message& message) {
  nlohmann::json head = message.head;
  nlohmann::json sizes = nlohmann::json::array();
  for (const std::string& block : message.blocks) sizes.push_back(block.size());
  if (!message.blocks.empty()) head["blocks"] = std::move(sizes);
  std::string bytes = json_text(head) + '\n';
  for (const std::string& block : message.blocks) bytes += block;
  return bytes;
}

Message unpack_message(std::string_view bytes) {
  const size_t line = bytes.find('\n');
  Message message;
  if (line != std::string_view::npos) message.head = try_parse_json(std::string(bytes.substr(0, line)));
  if (line == std::string_view::npos || !message.head.is_object())
    fail(ErrorKind::bad_input, "a message must begin with a JSON object on a line of its own; got {} bytes",
         bytes.size());
  bytes.remove_prefix(line + 1);
  const nlohmann::json sizes = message.head.value("blocks", nlohmann::json::array());
  if (!sizes.is_array()) fail_type("blocks", sizes, "an array of sizes");
  for (const nlohmann::json& size : sizes) {
    if (!size.is_number_unsigned()) fail_type("blocks", size, "a size");
    const auto count = size.get<uint64_t>();
    if (count > bytes.size())
      fail(ErrorKind::bad_input, "a message is cut off: expected a block of {} bytes; {} are left", count,
           bytes.size());
    message.blocks.emplace_back(bytes.substr(0, count));
    bytes.remove_prefix(count);
  }
  if (!bytes.empty()) fail(ErrorKind::bad_input, "{} bytes follow the last block of a message", bytes.size());
  return message;
}

std::string text_field(const nlohmann::json& head, const char* name) {
  const nlohmann::json& got = field(head, name, "a string");
  if (!got.is_string()) fail_type(name, got, "a string");
  return got.get<std::string>();
}

int64_t int_field(const nlohmann::json& head, const char* name) {
  const nlohmann::json& got = field(head, name, "an integer");
  if (!got.is_number_integer()) fail_type(name, got, "an integer");
  return got.get<int64_t>();
}

double number_field(const nlohmann::json& head, const char* name) {
  const nlohmann::json& got = field(head, name, "a number");
  if (!got.is_number()) fail_type(name, got, "a number");
  return got.get<double>();
}

bool flag_field(const nlohmann::json& head, const char* name) {
  const nlohmann::json& got = field(head, name, "true or false");
  if (!got.is_boolean()) fail_type(name, got, "true or false");
  return got.get<bool>();
}

}  // namespace kilter::fleet
