// Parts of the graph's text form: writing and reading names, types, tensors and attributes. print(), parse_graph() and
// the operators' test cases share them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace kilter {

/// Tensors with at most this many elements print their values; larger ones print a hash of their content.
constexpr int64_t kMaxPrintedElems = 16;

/// Returns "\"a\\n\"": backslash, quote and control characters are escaped; other bytes are unchanged.
std::string in_quotes(std::string_view text);
/// Returns the name itself when it contains only letters, digits, '_', '.', '/' and '-'; quotes it otherwise.
std::string name_text(std::string_view name);
/// Returns the shortest text of element i that reads back to the same bits.
std::string element_text(const Tensor& tensor, int64_t i);
/// Returns "f32[2](1, 2.5)"; "f32[100]#0123456789abcdef" beyond kMaxPrintedElems. With a layout: "f32[1,2]{c8}(1,
/// 2.5)".
std::string tensor_text(const Tensor& tensor, const Layout& layout = {});
/// Returns "3", "0.5", "\"text\"", "[1, 2]", "[0.5, 1.0]", "[\"a\"]", "floats[]", "strings[]", a tensor, or "subgraph".
std::string attr_text(const Attr& attr);
/// Returns a 64-bit hash of type, shape and bytes.
uint64_t content_hash(const Tensor& tensor);

/// Reads tokens from text. Every error is bad_input with line and column (from 1), what was expected and what was
/// found.
class TextReader {
 public:
  /// `what` describes the text in errors ("graph text").
  TextReader(std::string_view text, std::string what) : text_(text), what_(std::move(what)) {}

  [[noreturn]] void error(const std::string& expected);
  /// Throws an error with the given message at the start of the last token read, not at the current position.
  [[noreturn]] void error_at_token(const std::string& message);

  bool at_end();
  /// Returns the next character after whitespace, or '\0' at the end.
  char peek();
  /// Reads exactly `token` (after whitespace) if it comes next, and returns whether it did. A word must match as a
  /// whole.
  bool accept(std::string_view token);
  void expect(std::string_view token);
  /// Reads letters, digits, '_', '.', '/', '-' and '+'; at least one.
  std::string word(std::string_view expected);
  std::string quoted_text();
  /// Reads everything up to the next whitespace, '|' or the end; at least one character.
  std::string bare_text(std::string_view expected);
  /// Reads a quoted text or a word.
  std::string name(std::string_view expected);
  int64_t integer(std::string_view expected);
  double number(std::string_view expected);

  DType dtype();
  Shape shape();      ///< "[1,2]"
  TensorType type();  ///< "f32[1,64]{c16 halo1,1,1,1}"
  /// Reads one value into element i: a number, nan, nan:HEXBITS, inf, -inf, true, false, or quoted text for strings.
  void element(const Tensor& tensor, int64_t i);
  /// Reads "(v, v, ...)" with exactly the tensor's number of elements.
  void elements(const Tensor& tensor);
  /// Reads an attribute that attr_text() wrote. Large tensors come from `tensors` under `key`, or are zeros if missing
  /// there.
  Attr attr(const std::string& key, const std::map<std::string, Tensor>& tensors);
  /// Reads "(values)" or "#hash" of a tensor whose type has been read.
  Tensor content(DType type, const Shape& shape, const std::string& key, const std::map<std::string, Tensor>& tensors);

 private:
  void skip_blanks();
  void start_token();
  Attr list_attr();
  Attr number_attr();

  std::string_view text_;
  std::string what_;
  size_t at_ = 0;
  size_t token_ = 0;  ///< where the last token starts
};

}  // namespace kilter
