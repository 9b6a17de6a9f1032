// The words of the loop IR's text form. Used by parse.cpp only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace kilter {

enum class Token : uint8_t { name, number, string, symbol, end };

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { next(); }

  Token kind = Token::end;
  std::string_view token;

  [[noreturn]] void error(const std::string& expected) const {
    fail(ErrorKind::bad_input, "loop IR text, line {}, column {}: expected {}, got {}", line_, column_, expected,
         kind == Token::end ? "the end of the text" : fmt::format("'{}'", token));
  }
  [[noreturn]] void fault(const std::string& what) const {
    fail(ErrorKind::bad_input, "loop IR text, line {}, column {}: {}", line_, column_, what);
  }

  void next() {
    skip_space();
    line_ = line_at_;
    column_ = static_cast<int64_t>(at_ - line_start_) + 1;
    const size_t first = at_;
    if (at_ == text_.size()) {
      kind = Token::end;
      token = {};
      return;
    }
    const char c = text_[at_];
    if (is_name(c) && !is_digit(c)) {
      kind = Token::name;
      while (at_ < text_.size() && (is_name(text_[at_]) || text_[at_] == '.')) ++at_;
    } else if (is_digit(c)) {
      kind = Token::number;
      number();
    } else if (c == '"') {
      kind = Token::string;
      ++at_;
      while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') at_ += text_[at_] == '\\' ? 2 : 1;
      at_ = std::min(at_ + 1, text_.size());
    } else {
      kind = Token::symbol;
      const std::string_view two = text_.substr(at_, 2);
      at_ += two == "==" || two == "!=" || two == "<=" || two == ">=" ? 2 : 1;
    }
    token = text_.substr(first, at_ - first);
  }

 private:
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_name(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r' || text_[at_] == '\n')) {
      if (text_[at_++] == '\n') {
        ++line_at_;
        line_start_ = at_;
      }
    }
  }

  void number() {
    const auto digits = [this] {
      while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    };
    digits();
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      digits();
    }
    if (at_ < text_.size() && text_[at_] == 'e') {
      ++at_;
      if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
      digits();
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t line_start_ = 0;
  int64_t line_at_ = 1;
  int64_t line_ = 1;
  int64_t column_ = 1;
};

}  // namespace kilter
