// Machine code from loop IR through LLVM. The result is one position-independent blob with no undefined symbols: the
// same bytes are mapped executable at once (JIT) and written into the compiled file (AOT).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "loop/loop.h"
#include "loop/target.h"

namespace kilter {

struct MachineCode {
  std::vector<std::byte> bytes;  ///< to be mapped at a 4096-byte boundary, readable and executable
  std::vector<int64_t> entries;  ///< byte offset of each function's KernelEntry, in the order given
};

/// The code of one function that is not linked yet.
struct KernelObject {
  std::string name;         ///< for messages
  std::vector<char> bytes;  ///< a relocatable ELF object
};

/// Compiles lowered functions (loop_passes::lower has run). `threads` > 1 compiles functions side by side; the bytes do
/// not depend on it. Throws internal naming the function when code generation fails.
std::vector<KernelObject> compile_objects(std::span<const LoopFunc> funcs, const Target& target, int threads = 1);
/// One blob of them, in the order given; internal error where an object breaks a rule of link.h.
MachineCode link(std::span<const KernelObject* const> objects, const Target& target);
/// Both.
MachineCode compile(std::span<const LoopFunc> funcs, const Target& target, int threads = 1);

/// Every extension of known_cpu_features(target.arch) that code for the target may use, as LLVM defines its cpu and
/// attributes.
std::vector<std::string> features_used(const Target& target);

/// LLVM's name of an architecture on Linux.
const char* llvm_triple(Arch arch);
/// "LLVM 22.1.8, kernels 1": of one text a schedule is one machine code, and defaults are the same. A test
/// (tests/replay) says when the number has to rise.
std::string codegen_version();
/// The machine code of one lowered function as assembly; for --dump-ir.
std::string print_assembly(const LoopFunc& func, const Target& target);
/// The LLVM IR of one function as text, after our passes.
std::string print_llvm(const LoopFunc& func, const Target& target);

}  // namespace kilter
