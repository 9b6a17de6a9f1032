// The kernels of a plan under construction: deduplicated, then compiled to machine code.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/backend.h"
#include "compile/build_cache.h"
#include "loop/loop.h"
#include "target/target.h"

namespace kilter {

class KernelSet {
 public:
  struct Added {
    int32_t index = -1;  ///< of the kernel
    uint64_t loops = 0;  ///< hash_text() of the function's loop IR
  };
  /// Adds a function. Functions whose texts differ at most in operand sizes are one kernel, since code does not depend
  /// on those sizes.
  Added add(LoopFunc func);
  int64_t size() const { return std::ssize(functions_); }

  struct Code {
    MachineCode code;           ///< entries by kernel
    int64_t scratch_bytes = 0;  ///< per worker, the maximum over all kernels
  };
  /// `store` supplies the objects that it knows and stores the others; may be null. The bytes do not depend on it.
  Code generate(const Target& target, int threads, KernelStore* store) const;

 private:
  std::unordered_map<std::string, Added> by_text_;
  std::unordered_map<std::string, int32_t> by_code_;  ///< by the text without operand sizes
  std::vector<LoopFunc> functions_;
  std::vector<std::string> texts_;  ///< of functions_
};

/// Writes the kernel as loop IR and as assembly to FOLDER/loops/NNNN_NAME.loop and .s. Throws io.
void dump_kernel(const LoopFunc& func, const Target& target, const std::filesystem::path& folder, int64_t step);

}  // namespace kilter
