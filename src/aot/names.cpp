#include "aot/names.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace kilter::aot {
namespace {

/// The words that C or C++ reserves.
const std::set<std::string_view> kReserved = {
    "alignas",   "alignof",  "and",        "and_eq",    "asm",          "auto",          "bitand",
    "bitor",     "bool",     "break",      "case",      "catch",        "char",          "char16_t",
    "char32_t",  "char8_t",  "class",      "co_await",  "co_return",    "co_yield",      "compl",
    "concept",   "const",    "const_cast", "consteval", "constexpr",    "constinit",     "continue",
    "decltype",  "default",  "delete",     "do",        "double",       "dynamic_cast",  "else",
    "enum",      "explicit", "export",     "extern",    "false",        "float",         "for",
    "friend",    "goto",     "if",         "inline",    "int",          "long",          "mutable",
    "namespace", "new",      "noexcept",   "not",       "not_eq",       "nullptr",       "operator",
    "or",        "or_eq",    "private",    "protected", "public",       "register",      "restrict",
    "return",    "short",    "signed",     "sizeof",    "static",       "static_assert", "static_cast",
    "struct",    "switch",   "template",   "this",      "thread_local", "throw",         "true",
    "try",       "typedef",  "typeid",     "typename",  "typeof",       "union",         "unsigned",
    "using",     "virtual",  "void",       "volatile",  "wchar_t",      "while",         "xor",
    "xor_eq",    "linux",    "unix",       "main"};

/// Prefixes that would make functions collide with those of the C library or of the runtime part, and names of headers,
/// which a header of the same name would hide.
const std::set<std::string_view> kTaken = {
    "assert", "complex", "cpuid",     "ctype",   "errno",  "fcntl",  "fenv",   "float",   "instance", "inttypes",
    "iso646", "kilter",  "limits",    "locale",  "math",   "mtx",    "pool",   "pthread", "sched",    "setjmp",
    "signal", "stdarg",  "stdatomic", "stdbool", "stddef", "stdint", "stdio",  "stdlib",  "string",   "strings",
    "tgmath", "threads", "thrd",      "time",    "timer",  "uchar",  "unistd", "wchar",   "wctype"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Returns whether a header of C might define the name: macros are capitals, types end in _t.
bool may_be_defined(std::string_view name) {
  const bool capitals = name.size() > 1 && std::ranges::none_of(name, [](char c) { return c >= 'a' && c <= 'z'; });
  return capitals || name.ends_with("_t") || name == "errno" || name == "stdin" || name == "stdout" || name == "stderr";
}

}  // namespace

std::string upper(std::string_view text) {
  std::string made(text);
  std::ranges::transform(made, made.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return made;
}

bool is_identifier(std::string_view text) {
  constexpr size_t kMost = 100;
  if (text.empty() || text.size() > kMost || !is_letter(text.front()) || kReserved.contains(text)) return false;
  return text.find("__") == std::string_view::npos &&
         std::ranges::all_of(text, [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
}

bool is_taken(std::string_view prefix) { return kTaken.contains(prefix); }

std::string identifier(std::string_view name, std::set<std::string>& taken) {
  std::string made;
  for (const char c : name) {
    const bool legal = is_letter(c) || is_digit(c);
    if (legal || (!made.empty() && made.back() != '_')) made += legal ? c : '_';
  }
  while (made.ends_with('_')) made.pop_back();
  if (made.empty() || is_digit(made.front())) made.insert(0, "t");
  if (kReserved.contains(made) || may_be_defined(made)) made += "_value";
  std::string unique = made;
  for (int n = 2; !taken.insert(upper(unique)).second; ++n) unique = fmt::format("{}_{}", made, n);
  return unique;
}

std::string literal(std::string_view text) {
  std::string made = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    // Three octal digits end an escape, whatever follows. '?' could begin a trigraph.
    if (byte < 0x20 || byte > 0x7e || c == '"' || c == '\\' || c == '?') {
      made += fmt::format("\\{:03o}", byte);
    } else {
      made += c;
    }
  }
  return made + '"';
}

std::string comment(std::string_view text) {
  std::string made = printable(text);
  for (const std::string_view mark : {"*/", "/*"}) {
    for (size_t at = made.find(mark); at != std::string::npos; at = made.find(mark)) made.insert(at + 1, " ");
  }
  return made;
}

}  // namespace kilter::aot
