// Networks that are more than one static graph: functions of instructions over registers. A register contains a tensor
// of any shape, a sequence or an absent optional value. The registers of a function are the values of its open graph.
//
// A segment is a part of a function whose shapes follow from those of its inputs. It is compiled like a network, for
// each set of input shapes. A network without control flow, sequences and data-dependent shapes is a single segment
// and needs no program.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "graph/open_graph.h"

namespace kilter::vm {

struct Instr {
  enum class Kind : uint8_t {
    segment,
    op,       ///< one operator, on the host
    control,  ///< an operator with regions: functions[i] is the region regions[i] of the node
  };
  Kind kind = Kind::segment;
  int32_t segment = -1;                 ///< index in Program::segments
  const OpenNode* node = nullptr;       ///< op, control
  std::vector<int32_t> functions = {};  ///< control: indices in Program::functions, one for each region
  std::vector<ValueId> inputs = {};     ///< registers; kNone: left out
  std::vector<ValueId> outputs = {};    ///< kNone: not wanted
  std::vector<ValueId> dead = {};       ///< registers that nothing reads after this instruction
};

struct Function {
  const OpenGraph* graph = nullptr;
  std::vector<Instr> code = {};
  /// Registers that contain constants from the start: those that instructions other than segments, or outputs, read.
  std::vector<ValueId> constants = {};
};

struct Program {
  std::shared_ptr<const OpenGraph> graph;  ///< of the network; functions[0] runs it
  std::vector<Function> functions;
  std::deque<OpenGraph> segments;
};

/// Divides a graph and the graphs inside it into instructions. Throws bad_model for nodes that do not fit their
/// operator. `varying`: by value of the graph; no segment has both varying values and nodes without any, and equal
/// segments are one. Empty if any value may vary.
Program make_program(std::shared_ptr<const OpenGraph> graph, const std::vector<bool>& varying = {});

/// Returns the text form, one instruction a line.
std::string text(const Program& program);

}  // namespace kilter::vm
