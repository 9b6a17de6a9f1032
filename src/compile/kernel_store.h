// Machine code of kernels, kept for later compilations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/backend.h"
#include "loop/numbers.h"
#include "schedule/schedule.h"

namespace kilter {

/// Machine code of a kernel, and the scratch memory that each worker needs for it.
struct CompiledKernel {
  KernelObject object;
  int64_t scratch_bytes = 0;
};

/// Functions of one layer for different shapes that differ in numbers only. All but the first share a kernel, which
/// reads the numbers in which they differ. Numbers whose difference is the same in each function are read from the same
/// element: the indices of the pixels of a row, for example.
class KernelFamily {
 public:
  /// Returns whether the function is the only one so far, or equal to it, so that it needs a kernel of its own.
  bool is_single() const { return places_.empty(); }
  /// Returns whether the kernel serves a function with these numbers.
  bool serves(const LoopNumbers& numbers) const;
  /// Extends the family to a function with these numbers. Returns false, and changes nothing, if the kernel would read
  /// too many numbers. Drops the kernel.
  bool add(const LoopNumbers& numbers);
  /// Returns the numbers that the kernel reads for a function that it serves.
  std::vector<int64_t> dims(const LoopNumbers& numbers) const;
  /// Returns the kernel's loop IR. `func`: one of the family's functions.
  LoopFunc function(const LoopFunc& func) const { return reading_numbers(func, places_, scratch_); }

  std::optional<CompiledKernel> kernel;  ///< the shared one; absent until it is compiled
  int64_t used = 0;                      ///< the last build that used the family

 private:
  std::vector<int64_t> first_;       ///< numbers of the first function
  std::vector<NumberPlace> places_;  ///< by number: where it is in dims()
  std::vector<int64_t> scratch_;     ///< by scratch buffer: elements, the maximum over all functions
};

/// Kernels, keyed by LoopNumbers::code(). Used by one build at a time.
class KernelStore {
 public:
  /// Once the store contains more than `most` kernels, it drops those that none of the last `keep` builds has used.
  explicit KernelStore(size_t most = 2048, int64_t keep = 256) : most_(most), keep_(keep) {}

  /// Returns null for an unknown kernel. The pointer stays valid until build_ended().
  const CompiledKernel* find(const Fingerprint& code);
  void add(const Fingerprint& code, CompiledKernel kernel) { kernels_[code] = {std::move(kernel), build_}; }
  /// Sets whether builds use one kernel for many shapes of a layer from now on (KernelFamily). Off by default.
  void share(bool shares) { shares_ = shares; }
  bool shares() const { return shares_; }
  /// Returns the functions of a layer that have this structure. The reference stays valid until build_ended().
  KernelFamily& family(const std::string& layer, const Fingerprint& structure);
  /// The schedules that a layer runs for other shapes, in the order in which they were first chosen.
  std::vector<Schedule>& usual(const std::string& layer) { return usual_[layer]; }
  void build_ended();
  /// The number of builds that have ended.
  int64_t builds() const { return build_; }
  size_t size() const { return kernels_.size() + families_.size(); }

 private:
  struct Kept {
    CompiledKernel kernel;
    int64_t used = 0;
  };
  size_t most_;
  int64_t keep_;
  bool shares_ = false;
  std::map<Fingerprint, Kept> kernels_;
  std::map<std::pair<std::string, Fingerprint>, KernelFamily> families_;
  std::map<std::string, std::vector<Schedule>> usual_;
  int64_t build_ = 0;
};

}  // namespace kilter
