// Test cases of operators: one line of text (CaseText in op.h) becomes a graph of one node with seeded inputs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/op.h"

namespace kilter {

/// One operand of a case.
struct CaseOperand {
  enum class Kind : uint8_t { absent, random, given, constant };
  Kind kind = Kind::absent;
  Tensor tensor;  ///< undefined when absent
};

struct ParsedCase {
  std::vector<CaseOperand> operands;
  Attrs attrs;
  int32_t opset = 0;
  size_t outputs = 1;
};

/// Parses a case. Random operands are filled from a seed that is the hash of the text and the operand's number. Throws
/// bad_input with line and column if the text is malformed.
ParsedCase parse_case(const OpDef& op, CaseText text);

/// A case ready to run. Operands with random or given values are graph inputs in0, in1, ... (numbered as operands),
/// constants are constants, and outputs are named out0, out1, ...
struct OpCase {
  const OpDef* op = nullptr;
  std::string name;  ///< "Relu@13: f32[2,3]"
  Graph graph;
  std::vector<Tensor> inputs;  ///< in the order of graph.inputs()
  Tolerance tolerance;
};

/// Builds the graph with the operator's node itself, unfolded; expands it if the operator can only be expanded or if
/// `expand` is set. Throws bad_model if the node is illegal, and bad_input if a shape needs a value that is not
/// constant.
OpCase make_case(const OpDef& op, CaseText text, bool expand = false);
/// Builds the graph from a parsed case, which may have been changed since. `text` names the case.
OpCase make_case(const OpDef& op, const ParsedCase& parsed, CaseText text, bool expand = false);

/// Compares `got` with `want` under the tolerance. NaN equals NaN; infinities and non-float types must be equal.
/// Returns nullopt if `got` is within the tolerance, and otherwise a sentence about the worst element.
std::optional<std::string> compare(const Tensor& got, const Tensor& want, const Tolerance& tolerance);

}  // namespace kilter
