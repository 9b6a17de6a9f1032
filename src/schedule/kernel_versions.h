// Versions of the code that templates generate. Every measurement is kept with the version of the code that ran, so
// that a change to one template leaves the measurements of the others valid.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kilter {

/// The hash of one template's kernels: their loop IR, lowered by the loop passes, for the samples and targets of
/// tests/replay. The row "defaults" is a hash of the default schedules and loops of the speed set.
struct KernelHash {
  std::string_view name;
  uint64_t hash = 0;
};

/// Returns a row for each template, and "defaults". tests/replay writes the table (src/schedule/kernel_hashes.inc) and
/// fails if it differs from the code.
std::span<const KernelHash> kernel_hashes();

/// Versions of the code from one code generator.
class KernelVersions {
 public:
  /// Without a code generator, every version is empty.
  KernelVersions() = default;
  /// `generator`: Backend::version(). `table` must outlive the object.
  explicit KernelVersions(std::string generator, std::span<const KernelHash> table = kernel_hashes());

  bool empty() const { return generator_.empty(); }
  /// Returns the version of a schedule's code: "LLVM 22.1.8, conv2d_direct 1f3a0c2b". `versus` is the schedule with
  /// which it is compared; the version also contains the hash of its template if that is a different one: "LLVM 22.1.8,
  /// conv2d_winograd 83b1d47e, conv2d_direct 1f3a0c2b". Both are texts (Schedule::text()). A name outside the table has
  /// no hash.
  std::string of(std::string_view schedule, std::string_view versus = {}) const;
  /// Returns the version of all code, which includes the choice of defaults: "LLVM 22.1.8, kernels 3fa9c1d2".
  std::string all() const;

 private:
  std::string generator_;
  std::span<const KernelHash> table_;
};

}  // namespace kilter
