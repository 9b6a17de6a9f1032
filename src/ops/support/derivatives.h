// Derivatives of operators, for the operator Gradient.
#pragma once

#include <string>
#include <vector>

#include "ops/support/builder.h"

namespace kilter {

/// A node whose operands get their share of the gradient of its output.
struct DerivedNode {
  GraphBuilder& builder;
  const Node& node;
  std::vector<ValueId> inputs;  ///< the operands at which the derivative is computed
  ValueId output;               ///< the node's output for these operands
  ValueId gradient;             ///< of the same type as the output
};

/// Returns the gradients of the operands: kNone for those without one. Returns nothing if no derivative of the operator
/// is known.
std::vector<ValueId> derivatives(const DerivedNode& derived);

/// Returns the names of all operators with a known derivative, separated by commas.
std::string derivable_ops();

}  // namespace kilter
