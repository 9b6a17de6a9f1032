// Operators in the forms that they had before opset 7. Each expands into the same operator in a newer form.
#pragma once

#include <utility>
#include <vector>

#include "ops/support/builder.h"

namespace kilter {

constexpr int32_t kLastOldOpset = 6;

/// Adds the node's operator in the form of another opset and returns its first `outputs` outputs.
inline std::vector<ValueId> in_form_of(ExpandContext& ctx, int32_t opset, std::vector<ValueId> inputs, Attrs attrs,
                                       size_t outputs = 1) {
  GraphBuilder::Options options;
  options.name = ctx.node.name;
  options.opset = opset;
  options.output_count = outputs;
  return ctx.builder.add(ctx.node.op->name, std::move(inputs), std::move(attrs), options);
}

/// Returns the node's attributes without one of them.
inline Attrs attrs_without(const Node& node, std::string_view key) {
  Attrs attrs = node.attrs;
  if (const auto at = attrs.find(key); at != attrs.end()) attrs.erase(at);
  return attrs;
}

}  // namespace kilter
