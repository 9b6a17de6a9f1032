// The pieces of the graph's text form: writing and reading names, types, tensors and attributes. print(), parse_graph()
// and the operators' test cases share them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace kilter {

/// Tensors up to this many elements print their values; larger ones print a hash of their content.
constexpr int64_t kMaxPrintedElems = 16;

/// "\"a\\n\"": backslash, quote and control characters are escaped; other bytes stay.
std::string in_quotes(std::string_view text);
/// The name itself when it is made of letters, digits, '_', '.', '/' and '-' only, else quoted.
std::string name_text(std::string_view name);
/// Element i: shortest text that reads back to the same bits.
std::string element_text(const Tensor& tensor, int64_t i);
/// "f32[2](1, 2.5)"; "f32[100]#0123456789abcdef" beyond kMaxPrintedElems. With a layout: "f32[1,2]{c8}(1, 2.5)".
std::string tensor_text(const Tensor& tensor, const Layout& layout = {});
/// "3", "0.5", "\"text\"", "[1, 2]", "[0.5, 1.0]", "[\"a\"]", "floats[]", "strings[]", a tensor, or "subgraph".
std::string attr_text(const Attr& attr);
/// 64-bit hash of type, shape and bytes.
uint64_t content_hash(const Tensor& tensor);

/// Reads tokens from text. Every error is bad_input with line and column (from 1), expected and got.
class TextReader {
 public:
  /// `what` names the text in errors ("graph text").
  TextReader(std::string_view text, std::string what) : text_(text), what_(std::move(what)) {}

  [[noreturn]] void error(const std::string& expected);
  /// Error at the start of the last token read instead of the current place, with a text of its own.
  [[noreturn]] void error_at_token(const std::string& message);

  bool at_end();
  /// Next character after blanks, '\0' at the end.
  char peek();
  /// Whether the text goes on with exactly `token` (after blanks); reads it if so. A word is only taken whole.
  bool accept(std::string_view token);
  void expect(std::string_view token);
  /// Letters, digits, '_', '.', '/', '-', '+'; at least one.
  std::string word(std::string_view expected);
  std::string quoted_text();
  /// Everything up to the next blank, '|' or the end; at least one character.
  std::string bare_text(std::string_view expected);
  /// A quoted text or a word.
  std::string name(std::string_view expected);
  int64_t integer(std::string_view expected);
  double number(std::string_view expected);

  DType dtype();
  Shape shape();      ///< "[1,2]"
  TensorType type();  ///< "f32[1,64]{c16 halo1,1,1,1}"
  /// One value into element i: a number, nan, nan:HEXBITS, inf, -inf, true, false, or quoted text for strings.
  void element(const Tensor& tensor, int64_t i);
  /// "(v, v, ...)" with exactly the tensor's number of elements.
  void elements(const Tensor& tensor);
  /// As attr_text writes; `key` finds large tensors in `tensors`, else they are zeros.
  Attr attr(const std::string& key, const std::map<std::string, Tensor>& tensors);
  /// "(values)" or "#hash" of a tensor whose type was read.
  Tensor content(DType type, const Shape& shape, const std::string& key, const std::map<std::string, Tensor>& tensors);

 private:
  void skip_blanks();
  void start_token();
  Attr list_attr();
  Attr number_attr();

  std::string_view text_;
  std::string what_;
  size_t at_ = 0;
  size_t token_ = 0;  ///< where the last token began
};

}  // namespace kilter
