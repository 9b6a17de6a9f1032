#include "ops/support/dtype_attr.h"

namespace kilter {

DType dtype_attr(const Node& node, std::string_view key, DType fallback) {
  const int64_t code = node.int_attr(key, 0);
  if (code == 0) return fallback;
  if (const auto type = dtype_of_code(code)) return *type;
  constexpr int64_t kLastCode = 26;
  std::string legal;
  for (int64_t known = 1; known <= kLastCode; ++known) {
    if (const auto type = dtype_of_code(known))
      legal += fmt::format("{}{} ({})", legal.empty() ? "" : ", ", known, name(*type));
  }
  fail(ErrorKind::unsupported, "{} '{}': attribute {} names element type {}; supported are {}", node.op->name,
       node.name, key, code, legal);
}

}  // namespace kilter
