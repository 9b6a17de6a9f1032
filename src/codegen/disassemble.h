// Machine code of a kernel as instructions, and what its inner loops do.
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
  int64_t offset = 0;                  ///< in the plan's code, bytes
  int32_t bytes = 0;                   ///< of its encoding
  std::string text;                    ///< destination first; the address of a branch as it is encoded
  std::optional<int64_t> target = {};  ///< of a branch: an offset in the code
  bool ends = false;                   ///< what follows it is reached by branches only (return, unconditional branch)
  bool loads = false, stores = false;
  std::vector<int32_t> registers = {};  ///< vector registers that it names, by number
};

/// The instructions that are reached from `entry`, by offset. `target`: whom the code was made for. Throws internal,
/// naming the offset, where the bytes are no code of the target or a branch leaves them.
std::vector<Instruction> disassemble(std::span<const std::byte> code, int64_t entry, const Target& target);

/// A loop without a loop in it.
struct InnerLoop {
  int64_t begin = 0, end = 0;  ///< offsets of its first instruction and of the branch that closes it
  int32_t instructions = 0;
  int32_t fmas = 0;        ///< multiply-adds, of any width; without such instructions, products that are added
  int32_t loads = 0;       ///< reads of memory, broadcasts among them, prefetches not
  int32_t broadcasts = 0;  ///< reads of one element into all lanes
  int32_t stores = 0;
  int32_t prefetches = 0;
  int32_t stack = 0;      ///< reads and writes of the stack: spilled registers
  int32_t registers = 0;  ///< vector registers that are named
};
std::vector<InnerLoop> inner_loops(const std::vector<Instruction>& code);

/// One line an instruction, offsets in hexadecimal, targets of branches as labels.
std::string listing(const std::vector<Instruction>& code);

}  // namespace kilter
