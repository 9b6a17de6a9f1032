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

/// Reads a case; random operands are filled already, from a seed that is the hash of the text and the operand's number.
/// Throws bad_input with line and column when the text is malformed.
ParsedCase parse_case(const OpDef& op, CaseText text);

/// A case ready to run: operands with random or given values are graph inputs in0, in1, ... (numbered as operands),
/// constants are constants, outputs are named out0, out1, ...
struct OpCase {
  const OpDef* op = nullptr;
  std::string name;  ///< "Relu@13: f32[2,3]"
  Graph graph;
  std::vector<Tensor> inputs;  ///< in the order of graph.inputs()
  Tolerance tolerance;
};

/// The graph holds the operator's node itself, not folded, unless the operator can only be expanded or `expand` asks
/// for its expansion. Throws bad_model where the node is illegal, bad_input when a shape needs a value that is no
/// constant.
OpCase make_case(const OpDef& op, CaseText text, bool expand = false);
/// The same from a case that was read, and perhaps changed; `text` names it.
OpCase make_case(const OpDef& op, const ParsedCase& parsed, CaseText text, bool expand = false);

/// How far `got` is from `want` as the tolerance says (NaN equals NaN, infinities must be equal; types other than
/// floats must be equal): nullopt when within, else a sentence with the worst element.
std::optional<std::string> compare(const Tensor& got, const Tensor& want, const Tolerance& tolerance);

}  // namespace kilter
