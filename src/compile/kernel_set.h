// The kernels of a plan while it is built: equal ones once, then machine code.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "codegen/llvm/backend.h"
#include "compile/build_cache.h"
#include "loop/loop.h"
#include "loop/target.h"

namespace kilter {

class KernelSet {
 public:
  /// Index of the kernel; functions that print alike are one.
  int32_t add(LoopFunc func);
  /// hash_text() of the kernel's loop IR.
  uint64_t hash(int32_t kernel) const { return hashes_[static_cast<size_t>(kernel)]; }

  struct Code {
    MachineCode code;           ///< entries by kernel
    int64_t scratch_bytes = 0;  ///< of a worker, the most of all kernels
  };
  /// `cache`: has the objects that are known, and gets the others; may be null. The bytes do not depend on it.
  Code generate(const Target& target, int threads, BuildCache* cache) const;

 private:
  std::map<std::string, int32_t> by_text_;
  std::vector<LoopFunc> functions_;
  std::vector<uint64_t> hashes_;
};

/// FOLDER/loops/NNNN_NAME.loop and .s, the kernel as loop IR and as assembly. Throws io.
void dump_kernel(const LoopFunc& func, const Target& target, const std::filesystem::path& folder, int64_t step);

}  // namespace kilter
