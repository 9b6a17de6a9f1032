// Attributes and shape rules that operators on strings share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/op.h"

namespace kilter {

/// Returns the list of strings in attribute `key`; empty if it is absent.
std::vector<std::string> strings_attr(const Node& node, std::string_view key);
/// Throws bad_model unless input i is a tensor of strings.
void check_strings(const InferContext& ctx, size_t i);

}  // namespace kilter
