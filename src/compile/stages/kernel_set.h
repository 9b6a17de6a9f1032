// The kernels of a plan under construction: deduplicated, then compiled to machine code.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "codegen/backend.h"
#include "compile/kernel_store.h"
#include "loop/loop.h"
#include "target/target.h"

namespace kilter {

class KernelSet {
 public:
  /// Adds a function of a layer and returns the number of its kernel. Functions that differ at most in operand sizes
  /// share a kernel, since code does not depend on those sizes.
  int32_t add(LoopFunc func, const std::string& layer);
  int64_t size() const { return std::ssize(kernels_); }

  /// Chooses the kernels that also serve other shapes, if the store has such kernels.
  void share(KernelStore& store);
  /// Returns the numbers that a kernel reads from its last buffer; empty for a kernel of this plan only.
  std::span<const int64_t> dims(int32_t kernel) const { return kernels_[static_cast<size_t>(kernel)].dims; }

  struct Code {
    MachineCode code;           ///< entries by kernel
    int64_t scratch_bytes = 0;  ///< per worker, the maximum over all kernels
  };
  /// `store` supplies the objects that it knows and stores the others; may be null. It must be the one that share() was
  /// called with. The bytes do not depend on it unless kernels are shared.
  Code generate(const Target& target, int threads, KernelStore* store) const;

 private:
  struct Kernel {
    LoopFunc func;
    std::string layer;
    LoopNumbers numbers;
    Fingerprint code;
    KernelFamily* family = nullptr;  ///< set by share(); null if no other shape shares the kernel
    std::vector<int64_t> dims = {};
  };
  std::vector<Kernel> kernels_;
  std::map<Fingerprint, int32_t> by_code_;
};

/// Writes the kernel as loop IR and as assembly to FOLDER/loops/NNNN_NAME.loop and .s. Throws io.
void dump_kernel(const LoopFunc& func, const Target& target, const std::filesystem::path& folder, int64_t step);

}  // namespace kilter
