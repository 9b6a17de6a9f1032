// Helpers that the printer and the parser of the loop IR's text form share.
#pragma once

#include <string>
#include <string_view>

#include "loop/loop.h"

namespace kilter::loop_text {

struct Infix {
  Op op;
  std::string_view symbol;
  int level;  ///< 1 comparison, 2 sum, 3 product
};
/// Returns the infix form of an operation, or nullptr when it prints as a call.
const Infix* infix(Op op);

bool is_keyword(std::string_view word);
/// Returns the text in double quotes; quote, backslash and control characters are escaped.
std::string quoted(std::string_view text);
/// Returns "5" for i64 scalars, and "1.5:f32" or "0:i32x16" for others.
std::string constant(const ExprNode& imm);
/// Returns one expression of `func` as text, for messages.
std::string expression(const LoopFunc& func, const Expr& e);

}  // namespace kilter::loop_text

/// Formats types as text() writes them, but only when a message is composed.
template <>
struct fmt::formatter<kilter::VType> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const kilter::VType& type, Context& context) const {
    return fmt::formatter<std::string>::format(kilter::text(type), context);
  }
};
