// Decodes the machine code of a kernel into instructions, and summarises its inner loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "target/target.h"

namespace kilter {

struct Instruction {
  int64_t offset = 0;                  ///< byte offset in the plan's code
  int32_t bytes = 0;                   ///< length of its encoding
  std::string text;                    ///< destination first; branch addresses as encoded
  std::optional<int64_t> target = {};  ///< target of a branch: an offset in the code
  bool ends = false;                   ///< control does not continue after it (return, unconditional branch)
  bool loads = false, stores = false;
  std::vector<int32_t> registers = {};  ///< numbers of the vector registers that it names
};

/// Returns the instructions that can be reached from `entry`, by offset. `target` is the target that the code was
/// compiled for. Throws internal, naming the offset, if the bytes are not code of the target or a branch leads outside
/// them.
std::vector<Instruction> disassemble(std::span<const std::byte> code, int64_t entry, const Target& target);

/// A loop that contains no other loop.
struct InnerLoop {
  int64_t begin = 0, end = 0;  ///< offsets of its first instruction and of the branch that closes it
  int32_t instructions = 0;
  int32_t fmas = 0;        ///< multiply-adds of any width; if there are none, pairs of a multiplication and an addition
  int32_t loads = 0;       ///< reads of memory, including broadcasts but not prefetches
  int32_t broadcasts = 0;  ///< reads of one element into all lanes
  int32_t stores = 0;
  int32_t prefetches = 0;
  int32_t stack = 0;      ///< reads and writes of the stack: spilled registers
  int32_t registers = 0;  ///< distinct vector registers that it uses
};
std::vector<InnerLoop> inner_loops(const std::vector<Instruction>& code);

/// Returns one line per instruction, with offsets in hexadecimal and branch targets as labels.
std::string listing(const std::vector<Instruction>& code);

}  // namespace kilter
