// The kernel's arguments as machine code reads them.
#pragma once

#include <cstdint>

namespace kilter::codegen {

/// Byte offsets of the fields of KernelArgs (exec/plan.h), the same on every target. compile/stages/kernel_set.cpp
/// checks that the two agree.
struct KernelArgsLayout {
  static constexpr int64_t kBuffers = 0;         ///< array of pointers, one for every buffer that is not scratch
  static constexpr int64_t kScratch = 16;        ///< scratch of worker 0
  static constexpr int64_t kScratchStride = 24;  ///< i64, bytes from one worker's scratch to the next
  static constexpr int64_t kBytes = 32;
};

}  // namespace kilter::codegen
