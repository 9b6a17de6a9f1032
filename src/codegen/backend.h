// Back ends: what makes code of loop IR. A back end is a folder beside this file and a row of all_backends(); nobody
// outside src/codegen/ includes the folder.
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

/// The code of one function that is not linked yet, in the back end's own form.
struct KernelObject {
  std::string name;  ///< for messages
  std::vector<char> bytes;
};

/// Code of several functions without undefined symbols: the same bytes run at once and go into the compiled file.
struct MachineCode {
  std::vector<std::byte> bytes;  ///< for CPUs to be mapped at a 4096-byte boundary, readable and executable
  std::vector<int64_t> entries;  ///< byte offset of each function's entry, in the order given
};

struct Backend {
  std::string_view name;
  std::string_view device;  ///< what runs its code: DeviceRow::name (exec/device.h)
  /// "LLVM 22.1.8, kernels 6". Two equal versions make the same code of one text, and the same default schedules; a
  /// test (tests/replay) says when the number has to rise.
  std::string (*version)();
  /// Why the back end makes no code of a lowered function; nullopt where it does.
  std::optional<Rejected> (*accepts)(const LoopFunc& func, const Target& target);
  /// Objects of lowered functions (loop_passes::lower), in their order. `threads` > 1 compiles side by side; the bytes
  /// do not depend on it. Throws internal naming the function where code generation fails.
  std::vector<KernelObject> (*compile)(std::span<const LoopFunc> funcs, const Target& target, int threads);
  /// Links objects in the order given. Throws internal where an object breaks a rule of the back end's linker.
  MachineCode (*link)(std::span<const KernelObject* const> objects, const Target& target);
  /// The code of one lowered function as text, such as assembly; for --dump-ir.
  std::string (*source)(const LoopFunc& func, const Target& target);
  /// The extensions of known_cpu_features(target.arch) that code for the target may use.
  std::vector<std::string> (*features)(const Target& target);
};

/// Every back end; the first is the default.
std::span<const Backend* const> all_backends();
/// The back end of a target (Target::backend). Throws usage, listing the legal names, where there is none of that name.
const Backend& backend_of(const Target& target);
/// The version of the default back end.
std::string codegen_version();
/// Makes programs of this process know the devices of all back ends.
void add_backend_devices();

// The functions of the target's back end:
/// Backend::features.
std::vector<std::string> features_used(const Target& target);
/// Backend::compile. Throws unsupported, with the reason, where the back end does not accept a function.
std::vector<KernelObject> compile_objects(std::span<const LoopFunc> funcs, const Target& target, int threads = 1);
/// compile_objects(), linked.
MachineCode compile(std::span<const LoopFunc> funcs, const Target& target, int threads = 1);

}  // namespace kilter
