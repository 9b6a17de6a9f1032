#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "base/narrow.h"
#include "base/text.h"
#include "graph/text.h"

namespace kilter {
namespace {

constexpr int64_t kMaxReadElems = int64_t{1} << 31;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '/' || c == '-' || c == '+';
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

template <class T>
bool parse_as(std::string_view text, T& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && end == text.data() + text.size();
}

template <class T, class Bits>
bool parse_nan_bits(std::string_view hex, T& value) {
  Bits bits = 0;
  const auto [end, status] = std::from_chars(hex.data(), hex.data() + hex.size(), bits, 16);
  if (status != std::errc() || end != hex.data() + hex.size()) return false;
  value = std::bit_cast<T>(bits);
  return true;
}

template <class T>
bool parse_element(std::string_view text, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    value = text == "true" || text == "1";
    return value || text == "false" || text == "0";
  } else if constexpr (std::is_integral_v<T>) {
    return parse_as(text, value);
  } else {
    if (text.starts_with("nan:")) {
      using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
      return parse_nan_bits<T, Bits>(text.substr(4), value);
    }
    std::conditional_t<std::is_same_v<T, double>, double, float> wide = 0;
    if (!parse_as(text, wide)) return false;
    value = T(wide);
    return true;
  }
}

bool parse_narrow(std::string_view text, DType type, uint8_t& code) {
  if (is_narrow_integer(type)) {
    int64_t value = 0;
    if (!parse_as(text, value)) return false;
    code = narrow_integer_code(type, value);
    return value >= least_narrow_integer(type) && value <= greatest_narrow_integer(type);
  }
  if (text.starts_with("nan:")) return parse_nan_bits<uint8_t, uint8_t>(text.substr(4), code);
  double value = 0;
  if (!parse_as(text, value)) return false;
  code = narrow_code(type, value);
  return true;
}

}  // namespace

void TextReader::skip_blanks() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
    ++at_;
}

void TextReader::start_token() {
  skip_blanks();
  token_ = at_;
}

void TextReader::error_at_token(const std::string& message) {
  const std::string_view before = text_.substr(0, token_);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  fail(ErrorKind::bad_input, "{}, line {}, column {}: {}", what_, line, token_ - line_start + 1, message);
}

void TextReader::error(const std::string& expected) {
  start_token();
  std::string got = "the end of the text";
  if (at_ < text_.size()) {
    size_t end = at_;
    while (end < text_.size() && end - at_ < 30 && is_word(text_[end])) ++end;
    got = in_quotes(text_.substr(at_, std::max<size_t>(end - at_, 1)));
  }
  error_at_token(fmt::format("expected {}, got {}", expected, got));
}

bool TextReader::at_end() {
  skip_blanks();
  return at_ == text_.size();
}

char TextReader::peek() { return at_end() ? '\0' : text_[at_]; }

bool TextReader::accept(std::string_view token) {
  skip_blanks();
  if (!text_.substr(at_).starts_with(token)) return false;
  const size_t end = at_ + token.size();
  if (is_word(token.back()) && end < text_.size() && is_word(text_[end])) return false;
  start_token();
  at_ = end;
  return true;
}

void TextReader::expect(std::string_view token) {
  if (!accept(token)) error(fmt::format("'{}'", token));
}

std::string TextReader::word(std::string_view expected) {
  start_token();
  size_t end = at_;
  while (end < text_.size() && is_word(text_[end])) ++end;
  if (end == at_) error(std::string(expected));
  const std::string_view found = text_.substr(at_, end - at_);
  at_ = end;
  return std::string(found);
}

std::string TextReader::quoted_text() {
  start_token();
  if (peek() != '"') error("a quoted text");
  std::string out;
  for (++at_; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '"') {
      ++at_;
      return out;
    }
    if (c != '\\') {
      out += c;
      continue;
    }
    const char escaped = ++at_ < text_.size() ? text_[at_] : '\0';
    if (escaped == 'n') {
      out += '\n';
    } else if (escaped == 't') {
      out += '\t';
    } else if (escaped == '"' || escaped == '\\') {
      out += escaped;
    } else if (escaped == 'x' && at_ + 2 < text_.size() && hex_digit(text_[at_ + 1]) >= 0 &&
               hex_digit(text_[at_ + 2]) >= 0) {
      out += static_cast<char>(hex_digit(text_[at_ + 1]) * 16 + hex_digit(text_[at_ + 2]));
      at_ += 2;
    } else {
      error_at_token("the quoted text has an escape other than \\n, \\t, \\\", \\\\ and \\xHH (lower-case hex)");
    }
  }
  error_at_token("the quoted text that starts here has no end");
}

std::string TextReader::bare_text(std::string_view expected) {
  start_token();
  const size_t end = std::min(text_.find_first_of(" \t\r\n|", at_), text_.size());
  if (end == at_) error(std::string(expected));
  const std::string_view found = text_.substr(at_, end - at_);
  at_ = end;
  return std::string(found);
}

std::string TextReader::name(std::string_view expected) { return peek() == '"' ? quoted_text() : word(expected); }

int64_t TextReader::integer(std::string_view expected) {
  const size_t before = at_;
  start_token();
  int64_t value = 0;
  if (!is_word(peek()) || !parse_as(word(expected), value)) {
    at_ = before;
    error(std::string(expected));
  }
  return value;
}

double TextReader::number(std::string_view expected) {
  const size_t before = at_;
  double value = 0;
  if (!is_word(peek()) || !parse_as(word(expected), value)) {
    at_ = before;
    error(std::string(expected));
  }
  return value;
}

DType TextReader::dtype() {
  const size_t before = at_;
  const auto found = is_word(peek()) ? parse_dtype(word("an element type")) : std::nullopt;
  if (!found) {
    at_ = before;
    error("an element type (f32, f64, f16, bf16, i8 to i64, u8 to u64, bool, str, or a narrow type such as i4)");
  }
  return *found;
}

Shape TextReader::shape() {
  expect("[");
  Shape dims;
  const size_t start = token_;
  while (!accept("]")) {
    if (!dims.empty()) expect(",");
    const int64_t dim = integer("a dimension");
    if (dim < 0) error_at_token(fmt::format("expected a dimension of 0 or more, got {}", dim));
    dims.push_back(dim);
  }
  try {
    elems(dims);
  } catch (const Error& e) {
    token_ = start;
    error_at_token(e.message());
  }
  return dims;
}

TensorType TextReader::type() {
  TensorType out;
  out.dtype = dtype();
  out.shape = shape();
  if (!accept("{")) return out;
  const size_t start = token_;
  const auto small = [&](std::string_view digits) {
    int32_t value = -1;
    if (!parse_as(digits, value) || value < 0 || value > 4096) error_at_token("expected a whole number from 0 to 4096");
    return value;
  };
  while (!accept("}")) {
    const std::string item = word("'bf16', 'f16', 'u8+ZERO', 'cN' or 'haloT,B,L,R'");
    if (parse_stored(item, out.layout)) {
      continue;
    } else if (item.starts_with("halo")) {
      out.layout.halo[0] = small(std::string_view(item).substr(4));
      for (size_t i = 1; i < 4; ++i) {
        expect(",");
        out.layout.halo[i] = small(word("a halo width"));
      }
    } else if (item.starts_with('c')) {
      out.layout.block = small(std::string_view(item).substr(1));
    } else {
      error_at_token(fmt::format("expected 'bf16', 'f16', 'u8+ZERO', 'cN' or 'haloT,B,L,R', got '{}'", item));
    }
  }
  const bool fits = out.layout.block >= 1 && (out.layout.block == 1 || out.shape.size() >= 2) &&
                    (!out.layout.has_halo() || out.shape.size() == 4);
  token_ = start;
  if (!fits) error_at_token("this layout does not fit the shape: a block needs rank 2 or more, a halo rank 4");
  return out;
}

void TextReader::element(const Tensor& tensor, int64_t i) {
  if (tensor.dtype() == DType::string) {
    tensor.strings()[static_cast<size_t>(i)] = quoted_text();
    return;
  }
  std::string value = word("a value");
  const size_t start = token_;
  if (value == "nan" && accept(":")) value += ":" + word("the bits of a NaN");
  token_ = start;
  bool good = false;
  if (is_narrow(tensor.dtype())) good = parse_narrow(value, tensor.dtype(), tensor.data<uint8_t>()[i]);
  visit_dtype(tensor.dtype(), [&]<class T>(T) { good = parse_element(value, tensor.data<T>()[i]); });
  if (!good) error_at_token(fmt::format("expected a value of type {}, got '{}'", kilter::name(tensor.dtype()), value));
}

void TextReader::elements(const Tensor& tensor) {
  expect("(");
  for (int64_t i = 0; i < tensor.elems(); ++i) {
    if (i > 0) expect(",");
    element(tensor, i);
  }
  if (!accept(")")) error(fmt::format("')' after {} values", tensor.elems()));
}

Tensor TextReader::content(DType type, const Shape& shape, const std::string& key,
                           const std::map<std::string, Tensor>& tensors) {
  const size_t start = token_;
  if (!accept("#")) {
    if (elems(shape) > kMaxPrintedElems) error("'#' and a hash");
    Tensor tensor(type, shape);
    elements(tensor);
    return tensor;
  }
  word("the hash of the content");
  const auto given = tensors.find(key);
  if (given != tensors.end()) {
    if (given->second.dtype() == type && given->second.shape() == shape) return given->second;
    error_at_token(fmt::format("tensor '{}' is {}, but the one given for it is {}", key,
                               text(TensorType{type, shape, {}}),
                               text(TensorType{given->second.dtype(), given->second.shape(), {}})));
  }
  token_ = start;
  if (elems(shape) > kMaxReadElems)
    error_at_token(fmt::format("tensor '{}' is too large to be filled with zeros", key));
  return {type, shape};
}

Attr TextReader::number_attr() {
  const std::string value = word("an attribute value");
  int64_t whole = 0;
  if (parse_as(value, whole)) return whole;
  Tensor real(DType::f32, {});
  const size_t start = token_;
  at_ = start;
  element(real, 0);
  return *real.data<float>();
}

Attr TextReader::list_attr() {
  expect("[");
  if (accept("]")) return std::vector<int64_t>{};
  if (peek() == '"') {
    std::vector<std::string> strings;
    do strings.push_back(quoted_text());
    while (accept(","));
    expect("]");
    return strings;
  }
  std::vector<int64_t> ints;
  std::vector<float> floats;
  do {
    const Attr value = number_attr();
    if (const auto* whole = std::get_if<int64_t>(&value)) {
      if (!floats.empty()) error_at_token("expected a float like those before it in the list, e.g. '1.0'");
      ints.push_back(*whole);
    } else {
      if (!ints.empty()) error_at_token("expected a whole number like those before it in the list");
      floats.push_back(std::get<float>(value));
    }
  } while (accept(","));
  expect("]");
  if (!floats.empty()) return floats;
  return ints;
}

Attr TextReader::attr(const std::string& key, const std::map<std::string, Tensor>& tensors) {
  const char c = peek();
  if (c == '"') return quoted_text();
  if (c == '[') return list_attr();
  for (const bool real : {true, false}) {
    if (!accept(real ? "floats" : "strings")) continue;
    expect("[");
    expect("]");
    if (real) return std::vector<float>{};
    return std::vector<std::string>{};
  }
  const size_t before = at_;
  if (is_word(c) && parse_dtype(word("an attribute value")) && peek() == '[') {
    at_ = before;
    const DType type = dtype();
    return content(type, shape(), key, tensors);
  }
  at_ = before;
  return number_attr();
}

}  // namespace kilter
