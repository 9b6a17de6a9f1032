// Generates machine code from loop IR through LLVM for x86-64 and AArch64. The code is position-independent and linked
// by link.h.
#pragma once

#include <string>

#include "codegen/backend.h"

namespace kilter::codegen {

extern const Backend kLlvmBackend;

/// Returns LLVM's name of an architecture on Linux.
const char* llvm_triple(Arch arch);
/// Returns the LLVM IR of one function as text, after Kilter's passes.
std::string print_llvm(const LoopFunc& func, const Target& target);

}  // namespace kilter::codegen
