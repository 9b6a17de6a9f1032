// What code is generated for: a CPU by name, and its limits as data. Schedules read TargetLimits only, never the
// machine.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/cpu_info.h"

namespace kilter {

struct TargetLimits {
  int32_t vector_bytes = 16;  ///< of one vector register: 16 (SSE, NEON), 32, 64
  int32_t vector_registers = 16;
  int32_t loads_per_cycle = 2;  ///< vector loads that a core starts in one cycle
  int32_t fmas_per_cycle = 2;   ///< vector multiply-adds; 1: the units are half as wide as a register
  bool fma = false;
  bool masks = false;        ///< masked vector loads and stores at full speed (AVX-512)
  bool f16_convert = false;  ///< instructions between f16 and f32 (F16C, NEON)
  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 512 << 10;   ///< per core
  int64_t l3_bytes = 16 << 20;    ///< shared
  double l3_rate = 16;            ///< bytes a cycle that one core reads from L3
  double memory_rate = 6;         ///< and from memory
  int32_t prefetch_bytes = 4096;  ///< how far ahead of its use a stream from there is best prefetched
  /// A kernel is given another thread for each so many cycles of computing, or bytes read and written, whichever asks
  /// for more threads: about as long as it takes to wake a thread, share the work and join it again.
  int32_t thread_cycles = 6000;
  int32_t thread_bytes = 64 << 10;

  int32_t lanes_f32() const { return vector_bytes / 4; }
  /// Whether half a vector takes half the time of a whole one.
  bool halves() const { return fmas_per_cycle == 1; }
  /// Most f32 operations a cycle of one core; a multiply-add is two.
  double flops_per_cycle() const { return 2.0 * fmas_per_cycle * lanes_f32(); }
};

/// What makes code for targets: all_backends() of codegen/backend.h in the same order; the first is the default.
constexpr std::array<std::string_view, 2> kBackendNames = {"llvm", "null"};

struct Target {
  std::string name;      ///< as printed and accepted: "x86-64-v3", "znver4", "neoverse-n1", ...
  std::string cpu;       ///< LLVM's -mcpu
  std::string features;  ///< LLVM's -mattr additions, normally empty
  std::string backend{kBackendNames.front()};
  Arch arch = kThisArch;
  TargetLimits limits;
};

struct TargetRow {
  std::string_view name;
  std::string_view cpu;
  std::string_view summary;
  TargetLimits limits;
  Arch arch = Arch::x86_64;
};
/// Every target that is known by name (`kilter targets`).
std::span<const TargetRow> all_targets();
/// "native", a name of all_targets(), or a back end with its options: "llvm -mcpu=skylake-avx512 [-mattr=...]", "null"
/// for this machine's limits without machine code. Throws usage, listing the legal names.
Target parse_target(std::string_view text);
/// The machine this runs on: the best row of all_targets() whose instructions it has.
Target native_target();
/// Whether this machine can run code made for `target`.
bool runs_here(const Target& target);

}  // namespace kilter
