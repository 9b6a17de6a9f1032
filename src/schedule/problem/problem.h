// Problem lines read back: Task::problem() writes the mathematics of a task in one line, parse_problem() makes a graph
// of it that compiles to that task.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace kilter {

struct Problem {
  Graph graph;         ///< inputs x0, x1, ... and one output y
  std::string anchor;  ///< name of the node that fixes the task's loops
  bool fed = false;    ///< the anchor's task takes in the convolution before it (`--fuse` of the anchor)
};

/// Reads a line such as "conv2d n1 c64 h56 w56 k64 r3 s3 pad1 f32 +bias +add+relu" or
/// "matmul(f32[1,128,768] f32[768,3072]) +add(f32[3072])+gelu", as `kilter inspect` and profiles print it.
///
/// "conv2d" has n, c, h, w (of the input), k (filters), r, s (of the kernel), then g, stride, pad, dil where they are
/// not 1, 1, 0, 1, and the element type. Other operators have their operands and attributes in parentheses. What
/// follows a
/// "+" reads the value before it: "%" says where, when it is not the first operand; "%0", "%1", ... are the values of
/// the anchor and of the nodes after it. Operands that are left out at the end are network inputs like that value.
///
/// Of two convolutions in one task, the one that feeds the anchor stands first: "conv2d ... +relu => conv2d ... +relu".
///
/// A prologue of one node stands before its convolution: "mul(f32[1,16,8,8] f32[1,16,1,1])+ conv2d ...".
///
/// A line does not say what is constant. The first operand is a network input, like those of FusedAttention and second
/// operands of matrix products that have a batch; weights, biases, scales and numbers are constants, seeded random ones
/// where the line has no value.
///
/// Throws bad_input naming the line and the column, what was expected and found.
Problem parse_problem(std::string_view line);

}  // namespace kilter
