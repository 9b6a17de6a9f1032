// Fields of the meta section of a compiled file, or of a message. One description of the fields serves both writing and
// reading:
//
//   template <class Io, class T>
//   void tensor_fields(Io& io, T& tensor) { io.text(tensor.name, "name of a tensor"); ... }
//
// with a FieldWriter and a const object, or a FieldReader and an object to fill.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace kilter {

class FieldWriter {
 public:
  static constexpr bool kReads = false;

  template <class T>
  void number(const T& value, const char* /*what*/) {
    using Bits = std::make_unsigned_t<T>;
    for (size_t i = 0; i < sizeof(T); ++i) out_ += static_cast<char>(static_cast<Bits>(value) >> (8 * i) & 0xff);
  }
  void real(const float& value, const char* what) { number(std::bit_cast<uint32_t>(value), what); }
  void real(const double& value, const char* what) { number(std::bit_cast<uint64_t>(value), what); }
  template <class T>
  void enumeration(const T& value, uint8_t /*last*/, const char* what) {
    number(static_cast<uint8_t>(value), what);
  }
  void flag(const bool& value, const char* what) { number(static_cast<uint8_t>(value), what); }
  void text(const std::string& value, const char* what) {
    number(static_cast<uint64_t>(value.size()), what);
    out_ += value;
  }
  void block(const std::vector<std::byte>& value, const char* what) {
    number(static_cast<uint64_t>(value.size()), what);
    out_.append(reinterpret_cast<const char*>(value.data()), value.size());
  }
  template <class T, class Each>
  void list(const std::vector<T>& values, size_t /*least*/, const char* what, Each each) {
    number(static_cast<uint64_t>(values.size()), what);
    for (const T& value : values) each(value);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

/// Throws bad_input, with the name of the field and its place, for a field that is cut off or of an illegal value.
class FieldReader {
 public:
  static constexpr bool kReads = true;

  /// Errors name what is read as "compiled file '`where`'", and the place as "byte 10 of the meta section".
  FieldReader(std::span<const std::byte> bytes, std::string_view where, std::string_view kind = "compiled file",
              std::string_view part = "the meta section")
      : bytes_(bytes), where_(where), kind_(kind), part_(part) {}

  template <class T>
  void number(T& value, const char* what) {
    using Bits = std::make_unsigned_t<T>;
    need(sizeof(T), what);
    Bits bits = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      bits = static_cast<Bits>(bits | static_cast<Bits>(std::to_integer<Bits>(bytes_[at_ + i]) << (8 * i)));
    }
    value = static_cast<T>(bits);
    at_ += sizeof(T);
  }
  void real(float& value, const char* what) {
    uint32_t bits = 0;
    number(bits, what);
    value = std::bit_cast<float>(bits);
  }
  void real(double& value, const char* what) {
    uint64_t bits = 0;
    number(bits, what);
    value = std::bit_cast<double>(bits);
  }
  /// `last`: the last value of the enumeration.
  template <class T>
  void enumeration(T& value, uint8_t last, const char* what) {
    uint8_t raw = 0;
    number(raw, what);
    if (raw > last) bad(what, fmt::format("expected 0 to {}, got {}", last, raw));
    value = static_cast<T>(raw);
  }
  void flag(bool& value, const char* what) { enumeration(value, 1, what); }
  void text(std::string& value, const char* what) {
    const size_t size = count(1, what);
    value.assign(reinterpret_cast<const char*>(bytes_.data()) + at_, size);
    at_ += size;
  }
  void block(std::vector<std::byte>& value, const char* what) {
    const size_t size = count(1, what);
    const auto from = bytes_.subspan(at_, size);
    value.assign(from.begin(), from.end());
    at_ += size;
  }
  /// `least`: the fewest bytes that one element occupies, so that a forged count is refused before memory is allocated
  /// for it.
  template <class T, class Each>
  void list(std::vector<T>& values, size_t least, const char* what, Each each) {
    values.resize(count(least, what));
    for (T& value : values) each(value);
  }
  void finish() const {
    if (at_ != bytes_.size()) bad("end", fmt::format("{} bytes follow the last field", bytes_.size() - at_));
  }
  [[noreturn]] void bad(const char* what, std::string_view problem) const {
    fail(ErrorKind::bad_input, "{} '{}': {} at byte {} of {}: {}", kind_, where_, what, at_, part_, problem);
  }

 private:
  void need(size_t bytes, const char* what) const {
    if (bytes_.size() - at_ < bytes) {
      bad(what, fmt::format("expected {} bytes, got {}; {} is cut off", bytes, bytes_.size() - at_, part_));
    }
  }
  size_t count(size_t least, const char* what) {
    uint64_t value = 0;
    number(value, what);
    const size_t most = (bytes_.size() - at_) / least;
    if (value > most) bad(what, fmt::format("count {} is more than the {} that {} can hold", value, most, part_));
    return static_cast<size_t>(value);
  }

  std::span<const std::byte> bytes_;
  std::string_view where_, kind_, part_;
  size_t at_ = 0;
};

}  // namespace kilter
