// Tensors of requests and responses, and the names that the protocol gives to element types.

#include "tensor.h"

#include <array>

namespace serve {
namespace {

struct Name {
  kilter::Type type;
  const char* text;
};
// BF16 is not in the protocol's list; servers and clients that have it use this name.
constexpr std::array<Name, 14> kNames = {{{kilter::Type::boolean, "BOOL"},
                                          {kilter::Type::u8, "UINT8"},
                                          {kilter::Type::u16, "UINT16"},
                                          {kilter::Type::u32, "UINT32"},
                                          {kilter::Type::u64, "UINT64"},
                                          {kilter::Type::i8, "INT8"},
                                          {kilter::Type::i16, "INT16"},
                                          {kilter::Type::i32, "INT32"},
                                          {kilter::Type::i64, "INT64"},
                                          {kilter::Type::f16, "FP16"},
                                          {kilter::Type::bf16, "BF16"},
                                          {kilter::Type::f32, "FP32"},
                                          {kilter::Type::f64, "FP64"},
                                          {kilter::Type::string, "BYTES"}}};

}  // namespace

const char* datatype(kilter::Type type) {
  for (const Name& name : kNames) {
    if (name.type == type) return name.text;
  }
  return nullptr;
}

std::optional<kilter::Type> type_of(std::string_view datatype) {
  for (const Name& name : kNames) {
    if (name.text == datatype) return name.type;
  }
  return std::nullopt;
}

std::optional<int64_t> elements(std::span<const int64_t> shape) {
  constexpr int64_t kMost = int64_t{1} << 48;
  int64_t count = 1;
  bool empty = false;
  for (const int64_t size : shape) {
    if (size < 0 || size > kMost) return std::nullopt;
    empty |= size == 0;
    if (empty) continue;  // the sizes that follow are still checked
    if (count > kMost / size) return std::nullopt;
    count *= size;
  }
  return empty ? 0 : count;
}

std::string text(std::span<const int64_t> shape) {
  std::string out = "[";
  for (const int64_t size : shape) out += (out.size() > 1 ? "," : "") + std::to_string(size);
  return out + "]";
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kMost = 100;
  std::string out = "'";
  for (const char c : text.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || c == '\'' || c == '\\') {
      constexpr std::string_view kDigits = "0123456789abcdef";
      out += "\\x";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    } else {
      out += c;
    }
  }
  return out + (text.size() > kMost ? "...'" : "'");
}

}  // namespace serve
