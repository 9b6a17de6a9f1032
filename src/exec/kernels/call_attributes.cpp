#include "exec/kernels/call_attributes.h"

#include <bit>
#include <charconv>

namespace kilter {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::optional<KernelAttrs> attributes() {
    KernelAttrs made;
    if (!skip('{')) return std::nullopt;
    while (!skip('}')) {
      if (!made.empty() && !skip(',')) return std::nullopt;
      const auto key = quoted();
      if (!key || !skip(':') || !skip('[')) return std::nullopt;
      const auto type = quoted();
      if (!type || !skip(',')) return std::nullopt;
      std::optional<KernelAttr> value = attribute(*type);
      if (!value || !skip(']')) return std::nullopt;
      made.emplace(*key, std::move(*value));
    }
    if (at_ != text_.size()) return std::nullopt;
    return made;
  }

 private:
  bool skip(char c) {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::optional<std::string_view> quoted() {
    if (!skip('"')) return std::nullopt;
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\') ++at_;
    if (at_ == text_.size() || text_[at_] == '\\') return std::nullopt;
    return text_.substr(begin, at_++ - begin);
  }

  template <class T>
  std::optional<T> number() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    T value{};
    const char* begin = text_.data() + at_;
    const auto [end, fault] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (fault != std::errc()) return std::nullopt;
    at_ += static_cast<size_t>(end - begin);
    return value;
  }

  /// A finite float is a number, any other its bits in hexadecimal.
  std::optional<float> real() {
    const size_t begin = at_;
    if (const auto hex = quoted()) {
      uint32_t bits = 0;
      const auto [end, fault] = std::from_chars(hex->data(), hex->data() + hex->size(), bits, 16);
      if (fault != std::errc() || end != hex->data() + hex->size()) return std::nullopt;
      return std::bit_cast<float>(bits);
    }
    at_ = begin;
    const auto value = number<double>();
    if (!value) return std::nullopt;
    return static_cast<float>(*value);
  }

  template <class T, class Each>
  std::optional<KernelAttr> list(Each each) {
    std::vector<T> all;
    if (!skip('[')) return std::nullopt;
    while (!skip(']')) {
      if (!all.empty() && !skip(',')) return std::nullopt;
      const std::optional<T> one = each();
      if (!one) return std::nullopt;
      all.push_back(*one);
    }
    return KernelAttr(std::move(all));
  }

  template <class T>
  static std::optional<KernelAttr> attr(const std::optional<T>& value) {
    if (!value) return std::nullopt;
    return KernelAttr(*value);
  }

  std::optional<KernelAttr> attribute(std::string_view type) {
    if (type == "int") return attr(number<int64_t>());
    if (type == "float") return attr(real());
    if (type == "ints") return list<int64_t>([&] { return number<int64_t>(); });
    if (type == "floats") return list<float>([&] { return real(); });
    if (type != "string") return std::nullopt;
    const auto text = quoted();
    if (!text) return std::nullopt;
    return KernelAttr(std::string(*text));
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::optional<KernelAttrs> read_attributes(std::string_view json) { return Reader(json).attributes(); }

}  // namespace kilter
