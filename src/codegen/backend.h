// Back ends, which generate code from loop IR. Each is a folder next to this file and a row of all_backends(). Files
// outside src/codegen/ do not include headers from these folders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "loop/loop.h"
#include "target/target.h"

namespace kilter {

/// The code of one function before linking, in the back end's own form.
struct KernelObject {
  std::string name;  ///< for messages
  std::vector<char> bytes;
};

/// Linked code of several functions, without undefined symbols. The same bytes are run in this process and written to
/// compiled files.
struct MachineCode {
  std::vector<std::byte> bytes;  ///< for CPUs: must be mapped at a 4096-byte boundary, readable and executable
  std::vector<int64_t> entries;  ///< byte offset of each function's entry, in the order given
};

struct Backend {
  std::string_view name;
  std::string_view device;  ///< the device that runs its code: DeviceRow::name (exec/device.h)
  /// Returns the name and version of the code generator, e.g. "LLVM 22.1.8", without commas. Versions of kernels start
  /// with this text (KernelVersions).
  std::string (*version)();
  /// A number that must be raised when the back end starts to generate different code from the same lowered loop IR
  /// while version() stays the same. It is part of every kernel's hash (kernel_hashes()).
  int revision;
  /// Returns why the back end cannot compile a lowered function; nullopt if it can.
  std::optional<Rejected> (*accepts)(const LoopFunc& func, const Target& target);
  /// Compiles lowered functions (loop_passes::lower) to objects, in their order. `threads` > 1 compiles in parallel;
  /// the bytes do not depend on it. Throws internal, naming the function, if code generation fails.
  std::vector<KernelObject> (*compile)(std::span<const LoopFunc> funcs, const Target& target, int threads);
  /// Links objects in the order given. Throws internal if an object breaks a rule of the back end's linker.
  MachineCode (*link)(std::span<const KernelObject* const> objects, const Target& target);
  /// Returns the code of one lowered function as text, such as assembly; for --dump-ir.
  std::string (*source)(const LoopFunc& func, const Target& target);
  /// Returns the extensions of known_cpu_features(target.arch) that code for the target may use.
  std::vector<std::string> (*features)(const Target& target);
};

/// Returns every back end; the first is the default.
std::span<const Backend* const> all_backends();
/// Returns the back end of a target (Target::backend). Throws usage, listing the legal names, if no back end has that
/// name.
const Backend& backend_of(const Target& target);
/// Returns the version of the default back end.
std::string codegen_version();
/// Registers the devices of all back ends in this process.
void add_backend_devices();

// This function and the next two call the back end of a target. This one calls Backend::features.
std::vector<std::string> features_used(const Target& target);
/// Calls Backend::compile. Throws unsupported, with the reason, if the back end does not accept a function.
std::vector<KernelObject> compile_objects(std::span<const LoopFunc> funcs, const Target& target, int threads = 1);
/// Compiles functions with compile_objects() and links the objects.
MachineCode compile(std::span<const LoopFunc> funcs, const Target& target, int threads = 1);

}  // namespace kilter
