// Reads problem lines: Task::problem() writes the mathematics of a task as one line, and parse_problem() creates a
// graph from it that compiles to that task.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace kilter {

struct Problem {
  Graph graph;         ///< inputs x0, x1, ... and one output y
  std::string anchor;  ///< name of the node that determines the task's loops
  /// How the task stores inputs and outputs of `graph` that are f32: as bf16 or f16, but not both, or as u8. It must be
  /// compiled with the precision of that float type, if there is one.
  std::map<std::string, Layout> stored = {};
  bool fed = false;  ///< the anchor's task includes the convolution before it (`--fuse` for the anchor)
};

/// Reads a line such as "conv2d n1 c64 h56 w56 k64 r3 s3 pad1 f32 +bias +add+relu" or "matmul(f32[1,128,768]
/// f32[768,3072]) +add(f32[3072])+gelu". `kilter inspect` and profiles print such lines.
///
/// After "conv2d" come n, c, h, w (of the input), k (filters), r, s (of the kernel), then g, stride, pad, dil unless
/// they are 1, 1, 0, 1, and the element type. Other operators have operands and attributes in parentheses. An operator
/// after "+" reads the previous value. "%" marks its place among the operands if it is not the first; "%0", "%1", ...
/// are the values of the anchor and of the nodes after it. Operands omitted at the end are network inputs of the same
/// type as the previous value.
///
/// If a task has two convolutions, the one that feeds the anchor comes first: "conv2d ... +relu => conv2d ... +relu".
///
/// A prologue of one node comes before its convolution: "mul(f32[1,16,8,8] f32[1,16,1,1])+ conv2d ...".
///
/// "f32:bf16" is the type of operands that are f32 and stored as bf16. " >bf16" at the end of a line means that its
/// results are stored as bf16. f16 may replace bf16 in the whole line. "u8+3" stores integers from -3 to 252. "conv2d
/// ... f32:u8->i32" sums integers (IntegerConv).
///
/// A line does not say which operands are constant. The first operand is a network input, and so are operands of
/// FusedAttention and second operands of matrix products with a batch. Weights, biases, scales and numbers are
/// constants, with seeded random values if the line gives none. f64 constants are factors; only "f64[]=0" and "f64[]=1"
/// give their values.
///
/// Throws bad_input, naming the line, the column, and what was expected and found.
Problem parse_problem(std::string_view line);

}  // namespace kilter
