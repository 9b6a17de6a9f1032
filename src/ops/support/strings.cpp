#include "ops/support/strings.h"

namespace kilter {

std::vector<std::string> strings_attr(const Node& node, std::string_view key) {
  const auto it = node.attrs.find(key);
  if (it == node.attrs.end()) return {};
  const auto* values = std::get_if<std::vector<std::string>>(&it->second);
  if (values == nullptr) {
    node_error(node, fmt::format("attribute {} has type {}, expected strings", key, attr_type(it->second)));
  }
  return *values;
}

void check_strings(const InferContext& ctx, size_t i) {
  if (ctx.dtype(i) == DType::string) return;
  ctx.error(fmt::format("input {} has element type {}, expected str", i, name(ctx.dtype(i))));
}

}  // namespace kilter
