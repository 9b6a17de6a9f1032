// FlexAttention whose scores or probabilities a graph in the node changes.
#pragma once

#include <array>
#include <functional>

#include "ops/support/builder.h"

namespace kilter {

/// Adds the nodes that a graph in the node applies to a value, and returns their result. Empty if the node has no such
/// graph.
using Modifier = std::function<ValueId(ValueId)>;

/// Adds the nodes of a FlexAttention on queries, keys and values: products, softmax and what the two modifiers add.
/// Throws bad_model, naming the node, if the operands do not fit or the result of a modifier does not have the type of
/// its input.
ValueId add_modified_attention(GraphBuilder& builder, const Node& node, const std::array<ValueId, 3>& operands,
                               const Modifier& score_mod, const Modifier& prob_mod);

/// Throws bad_model unless the types are those of queries, keys and values.
void check_flex_operands(const Node& node, const std::array<TensorType, 3>& types);

}  // namespace kilter
