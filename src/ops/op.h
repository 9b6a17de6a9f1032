// The table of operators. Each operator is one file in this folder that defines one or more OpDefs with KILTER_OP.
// CMake builds the table from the folder, so a new operator needs no change elsewhere.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op_def.h"
#include "loop/expr.h"

namespace kilter {

/// Returns every operator in the folder, sorted by (domain, name, since).
std::span<const OpDef* const> all_ops();
/// Returns the definition that covers `opset` of that domain, or nullptr. "ai.onnx" and "" are the same domain.
const OpDef* find_op(std::string_view domain, std::string_view name, int32_t opset);

/// Exports an OpDef from an operator file: `KILTER_OP(Relu) { .name = "Relu", ... };`. The identifier must be unique.
#define KILTER_OP(identifier)                   \
  extern const ::kilter::OpDef op_##identifier; \
  const ::kilter::OpDef op_##identifier

}  // namespace kilter
