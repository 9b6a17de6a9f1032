#include "base/npy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "base/iterate.h"
#include "base/text.h"
#include "base/utf8.h"

namespace kilter {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;
constexpr size_t kMaxRank = 64;

struct Row {
  std::string_view code;
  DType type;
};
constexpr std::array kTypes = {
    Row{"f4", DType::f32}, Row{"f8", DType::f64}, Row{"f2", DType::f16}, Row{"i1", DType::i8},
    Row{"i2", DType::i16}, Row{"i4", DType::i32}, Row{"i8", DType::i64}, Row{"u1", DType::u8},
    Row{"u2", DType::u16}, Row{"u4", DType::u32}, Row{"u8", DType::u64}, Row{"b1", DType::boolean},
};

/// Limits for elements that are strings. Each of their characters has 4 bytes.
constexpr int64_t kCharacterBytes = 4, kMostCharacters = 1 << 28;
/// Strings without characters have no bytes, so the size of the file does not limit their number.
constexpr int64_t kMostEmpty = 1 << 20;

struct Header {
  DType type = DType::f32;
  int64_t characters = 0;  ///< of each element, if these are strings
  bool fortran = false;
  Shape shape;
};

/// Reads the Python dictionary of a header. Keys are strings; values are strings, booleans and tuples of integers.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  Header read() {
    Header header;
    std::array<bool, 3> seen{};
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr") {
        set_element_type(header, quoted());
        seen[0] = true;
      } else if (key == "fortran_order") {
        header.fortran = boolean();
        seen[1] = true;
      } else if (key == "shape") {
        header.shape = tuple();
        seen[2] = true;
      } else {
        malformed(fmt::format("unknown key '{}'; expected descr, fortran_order and shape", key));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    blanks();
    if (!text_.empty()) malformed("text after the closing brace");
    if (!seen[0] || !seen[1] || !seen[2]) malformed("a key is missing; expected descr, fortran_order and shape");
    return header;
  }

 private:
  [[noreturn]] void malformed(std::string_view problem) const {
    fail(ErrorKind::bad_input, "{}: malformed .npy header: {}", where_, problem);
  }
  void blanks() { text_ = text_.substr(std::min(text_.find_first_not_of(" \t\r\n"), text_.size())); }
  bool accept(char c) {
    blanks();
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) malformed(fmt::format("expected '{}' before '{}'", c, text_.substr(0, 16)));
  }
  std::string quoted() {
    if (accept('[')) malformed("structured types are not supported");
    const char quote = accept('\'') ? '\'' : '"';
    if (quote == '"') expect('"');
    const size_t end = text_.find(quote);
    if (end == std::string_view::npos) malformed("a string has no closing quote");
    std::string value(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return value;
  }
  bool boolean() {
    blanks();
    for (std::string_view word : {"True", "False"}) {
      if (!text_.starts_with(word)) continue;
      text_.remove_prefix(word.size());
      return word == "True";
    }
    malformed("fortran_order is neither True nor False");
  }
  Shape tuple() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      blanks();
      const size_t digits = std::min(text_.find_first_not_of("0123456789"), text_.size());
      const auto value = try_parse_int(text_.substr(0, digits));
      if (!value) malformed(fmt::format("expected a dimension of 0 or more before '{}'", text_.substr(0, 24)));
      text_.remove_prefix(digits);
      shape.push_back(*value);
      if (shape.size() > kMaxRank) malformed(fmt::format("more than {} dimensions", kMaxRank));
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }
  void set_element_type(Header& header, std::string_view descr) const {
    const char order = descr.empty() ? '?' : descr.front();
    const std::string_view code = descr.substr(std::min<size_t>(1, descr.size()));
    if (descr.starts_with("<U")) {
      const auto count = try_parse_int(code.substr(1));
      if (!count || *count < 0 || *count > kMostCharacters) malformed(fmt::format("element type '{}'", descr));
      header.type = DType::string, header.characters = *count;
      return;
    }
    const auto row = std::find_if(kTypes.begin(), kTypes.end(), [&](const Row& r) { return r.code == code; });
    const bool one_byte = code.ends_with('1');
    if (row == kTypes.end() || (order == '|' && !one_byte) || (order != '<' && order != '|' && order != '=')) {
      fail(ErrorKind::bad_input,
           "{}: element type '{}' is not supported; legal values are little-endian <f2 <f4 <f8 <i2 <i4 <i8 <u2 <u4 <u8 "
           "<U, and |i1 |u1 |b1; convert it with numpy's astype()",
           where_, descr);
    }
    header.type = row->type;
  }

  std::string_view text_;
  std::string_view where_;
};

/// Calls `visit(i, at)` for element i of a column-major file, which is element `at` of the row-major tensor.
template <class Visit>
void for_each_fortran(const Shape& tensor, Visit visit) {
  Shape shape = tensor, strides = dense_strides(shape);
  std::ranges::reverse(shape);
  std::ranges::reverse(strides);
  for_each_element(shape, 1, strides, 0, visit);
}

/// Copies column-major elements into a row-major tensor.
void transpose(const std::byte* source, const Tensor& to) {
  const auto size = static_cast<size_t>(size_bytes(to.dtype()));
  for_each_fortran(to.shape(), [&](int64_t i, int64_t at) {
    std::memcpy(to.raw() + static_cast<size_t>(at) * size, source + static_cast<size_t>(i) * size, size);
  });
}

/// Reads strings with a fixed number of characters. Zeros at the end do not count.
void read_strings(const Header& header, const std::byte* source, const Tensor& to, std::string_view where) {
  const auto read = [&](int64_t i, int64_t at) {
    std::vector<char32_t> characters(static_cast<size_t>(header.characters));
    std::memcpy(characters.data(), source + i * header.characters * kCharacterBytes,
                characters.size() * sizeof(char32_t));
    while (!characters.empty() && characters.back() == 0) characters.pop_back();
    std::string& text = to.strings()[static_cast<size_t>(at)];
    for (const char32_t code : characters) {
      if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
        fail(ErrorKind::bad_input, "{}: element {} contains {:#x}, which is not a character", where, at,
             static_cast<uint32_t>(code));
      }
      append_character(text, code);
    }
  };
  if (header.fortran) {
    for_each_fortran(to.shape(), read);
  } else {
    for (int64_t i = 0; i < to.elems(); ++i) read(i, i);
  }
}

/// Returns the characters of all strings, each filled with zeros to the same number, which is stored to `most`.
std::vector<char32_t> characters_of(const Tensor& tensor, const std::filesystem::path& path, size_t& most) {
  std::vector<std::vector<char32_t>> all;
  most = 1;
  for (const std::string& text : tensor.strings()) {
    std::vector<char32_t>& characters = all.emplace_back();
    for (size_t at = 0; at < text.size();) {
      const Character c = character_at(text, at);
      if (!c.valid) {
        fail(ErrorKind::unsupported,
             "cannot write '{}': string {} is not UTF-8 at byte {}; .npy files can contain only valid text",
             path.string(), all.size() - 1, at);
      }
      characters.push_back(c.code);
      at += c.bytes;
    }
    if (!characters.empty() && characters.back() == 0) {
      fail(ErrorKind::unsupported, "cannot write '{}': string {} ends with a zero, which .npy files cannot represent",
           path.string(), all.size() - 1);
    }
    most = std::max(most, characters.size());
  }
  if (static_cast<int64_t>(all.size() * most) > kMostCharacters) {
    fail(ErrorKind::unsupported, "cannot write '{}': {} strings of up to {} characters; the limit is {} in all",
         path.string(), all.size(), most, kMostCharacters);
  }
  std::vector<char32_t> padded;
  for (std::vector<char32_t>& characters : all) {
    characters.resize(most);
    padded.insert(padded.end(), characters.begin(), characters.end());
  }
  return padded;
}

std::string_view header_text(std::span<const std::byte> bytes, std::string_view where, size_t& data_offset) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.size() < 10 || !text.starts_with(kMagic)) {
    fail(ErrorKind::bad_input, "{}: not a .npy file: it does not start with \\x93NUMPY", where);
  }
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(text[i])); };
  const size_t version = byte(6);
  if (version < 1 || version > 3) {
    fail(ErrorKind::bad_input, "{}: .npy format version {}.{} is unknown; expected 1.0, 2.0 or 3.0", where, version,
         byte(7));
  }
  const size_t begin = version == 1 ? 10 : 12;
  if (text.size() < begin) fail(ErrorKind::bad_input, "{}: .npy header is cut off at {} bytes", where, text.size());
  const size_t length = byte(8) | byte(9) << 8 | (version == 1 ? 0 : byte(10) << 16 | byte(11) << 24);
  if (text.size() - begin < length) {
    fail(ErrorKind::bad_input, "{}: .npy header is cut off: expected {} bytes, got {}", where, length,
         text.size() - begin);
  }
  data_offset = begin + length;
  return text.substr(begin, length);
}

}  // namespace

Tensor parse_npy(std::span<const std::byte> bytes, std::string_view where) {
  size_t offset = 0;
  const Header header = HeaderReader(header_text(bytes, where, offset), where).read();
  const std::span<const std::byte> data = bytes.subspan(offset);
  const bool strings = header.type == DType::string;
  const int64_t size = strings ? header.characters * kCharacterBytes : size_bytes(header.type);
  int64_t whole = 0;
  const bool fits = !__builtin_mul_overflow(elems(header.shape), size, &whole);
  const auto expected = static_cast<size_t>(whole);
  if (!fits || data.size() != expected || (strings && size == 0 && elems(header.shape) > kMostEmpty)) {
    fail(ErrorKind::bad_input, "{}: expected {} bytes of data for {} [{}], got {}; the file is {}", where, expected,
         name(header.type), text(header.shape), data.size(), data.size() < expected ? "cut off" : "too long");
  }
  const Tensor tensor(header.type, header.shape);
  if (strings) {
    read_strings(header, data.data(), tensor, where);
  } else if (header.fortran && header.shape.size() > 1) {
    transpose(data.data(), tensor);
  } else if (expected > 0) {
    std::memcpy(tensor.raw(), data.data(), expected);
  }
  if (header.type == DType::boolean) {
    for (std::byte& b : std::span(tensor.raw(), expected)) b = b == std::byte{0} ? std::byte{0} : std::byte{1};
  }
  return tensor;
}

Tensor load_npy(const std::filesystem::path& path) { return parse_npy(MappedFile::open(path)->bytes(), path.string()); }

void save_npy(const std::filesystem::path& path, const Tensor& tensor) {
  // NumPy has no bf16 and no narrow types of its own.
  const bool own = tensor.dtype() == DType::bf16 || is_narrow(tensor.dtype());
  const Tensor written = own ? tensor.widened() : tensor;
  const auto row = std::find_if(kTypes.begin(), kTypes.end(), [&](const Row& r) { return r.type == written.dtype(); });
  const bool strings = tensor.dtype() == DType::string;
  require(strings || row != kTypes.end(), ".npy has no type for {}", name(tensor.dtype()));
  size_t most = 0;
  const std::vector<char32_t> characters = strings ? characters_of(tensor, path, most) : std::vector<char32_t>();
  const std::string code = strings ? fmt::format("<U{}", most)
                                   : fmt::format("{}{}", size_bytes(written.dtype()) == 1 ? '|' : '<', row->code);
  std::string dims;
  for (int64_t d : written.shape()) dims += fmt::format("{}{},", dims.empty() ? "" : " ", d);
  if (written.rank() > 1) dims.pop_back();
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", code, dims);
  const size_t unpadded = kMagic.size() + 4 + header.size() + 1;
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  header += '\n';
  if (header.size() > 0xffff) {
    fail(ErrorKind::unsupported, "cannot write '{}': {} dimensions are too many for a .npy header", path.string(),
         written.rank());
  }
  const std::string prefix = std::string(kMagic) + '\x01' + '\0' + static_cast<char>(header.size() & 0xff) +
                             static_cast<char>(header.size() >> 8) + header;
  const std::array<std::span<const std::byte>, 2> parts = {
      std::as_bytes(std::span(prefix.data(), prefix.size())),
      strings ? std::as_bytes(std::span(characters))
              : std::span<const std::byte>(written.raw(), static_cast<size_t>(written.bytes()))};
  write_file_atomically(path, parts);
}

std::string numpy_name(DType type) {
  switch (type) {
    case DType::f32:
      return "float32";
    case DType::f64:
      return "float64";
    case DType::f16:
      return "float16";
    case DType::boolean:
      return "bool";
    default:
      if (is_narrow(type)) return std::string(name(type));
      return fmt::format("{}int{}", is_signed_integer(type) ? "" : "u", 8 * size_bytes(type));
  }
}

}  // namespace kilter
