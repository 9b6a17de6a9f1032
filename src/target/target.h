// The target of code generation: a CPU by name, and its limits as data. Schedules read only CpuLimits, never the
// machine.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_info.h"
#include "base/dtype.h"

namespace kilter {

/// All targets use the defaults of the fields that follow `prefetch_bytes`.
struct CpuLimits {
  int32_t vector_bytes = 16;  ///< size of one vector register: 16 (SSE, NEON), 32, 64
  int32_t vector_registers = 16;
  int32_t loads_per_cycle = 2;  ///< vector loads that a core starts in one cycle
  int32_t fmas_per_cycle = 2;   ///< vector multiply-adds; 1: the units are half as wide as a register
  bool fma = false;
  bool masks = false;        ///< masked vector loads and stores at full speed (AVX-512)
  bool f16_convert = false;  ///< instructions between f16 and f32 (F16C, NEON)
  /// Instructions per cycle that add two products of bf16 to each f32 of a vector; 0: there are none.
  double bf16_dots_per_cycle = 0;
  /// Instructions per cycle that add four products of u8 and i8 to each i32 of a vector; 0: there are none.
  int32_t byte_dots_per_cycle = 0;
  /// Multiplications of a vector per cycle whose products of i16 are summed in pairs, for each i32 of a vector; another
  /// instruction adds them to a sum. 0: there are none.
  int32_t word_dots_per_cycle = 0;
  bool bf16_tiles = false;  ///< tile registers (AMX) and their products of bf16
  bool byte_tiles = false;  ///< tile registers and their products of bytes
  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 512 << 10;   ///< per core
  int64_t l3_bytes = 16 << 20;    ///< shared
  double l3_rate = 16;            ///< bytes that one core reads from L3 in a cycle
  double memory_rate = 6;         ///< bytes that one core reads from memory in a cycle
  int32_t prefetch_bytes = 4096;  ///< best prefetch distance for a stream from memory

  int32_t line_bytes = 64;      ///< size of a cache line
  int32_t l1_way_bytes = 4096;  ///< size of one way of L1 (sets times line size); addresses that far apart share a set
  int32_t fill_buffers = 12;    ///< cache lines that a core can wait for at a time
  double l2_rate = 24;          ///< bytes that one core reads from L2 in a cycle while it computes
  double l1_peak_rate = 128;    ///< most bytes that one core reads from L1 in a cycle
  double l2_peak_rate = 64;     ///< most bytes that one core reads from L2 in a cycle
  double halo_rate = 8;         ///< bytes of halo zeroed per cycle
  double issue_width = 4;       ///< instructions issued per cycle
  double window = 256;          ///< instructions of look-ahead, within which independent work overlaps
  double latency = 4;           ///< cycles of an addition, a multiplication or a multiply-add
  double dot_latency = 6;       ///< cycles of an instruction that adds products of bf16 or of bytes
  /// Cycles of a product of full tile registers, the cycles that each missing row saves, and the fewest cycles of any
  /// product (measured on Emerald Rapids).
  double tile_dot_cycles = 16, tile_row_cycles = 2.0 / 3, least_tile_dot_cycles = 9.25;
  double short_latency = 2;     ///< cycles of a minimum, a comparison or a select
  double division_cost = 8;     ///< additions that take as long as a division or square root
  double load_share = 0.9;      ///< share of the peak load rate that register tiles one vector wide reach (measured)
  double spill_slowdown = 1.3;  ///< factor by which register tiles that spill are slower
  int32_t winograd_tiles = 13;  ///< fewest output tiles that hide the reading of a Winograd kernel's weights (measured)
  int32_t planar_channels = 4;  ///< convolutions with at most this many input channels read images that are not blocked
  /// The work that justifies one more thread for a kernel, in cycles of computing and in bytes read and written. The
  /// kernel gets the larger of the two resulting thread counts. Either amount of work takes about as long as waking a
  /// thread, handing it a share and joining it again.
  int32_t thread_cycles = 6000;
  int32_t thread_bytes = 128 << 10;

  int32_t lanes_f32() const { return vector_bytes / 4; }
  /// Returns the channels of one block of blocked layouts; 1: the target prefers plain layouts.
  int32_t preferred_block() const { return lanes_f32(); }
  /// Returns whether an instruction computes dot() of operands of type `a` and `b` with sums of `lanes` elements.
  bool has_dot(DType a, DType b, int32_t lanes) const {
    const double rate = a == DType::bf16                     ? bf16_dots_per_cycle
                        : a == DType::u8 && b == DType::i8   ? byte_dots_per_cycle
                        : a == DType::i16 && b == DType::i16 ? word_dots_per_cycle
                                                             : 0;
    return rate > 0 && lanes >= 4 && (lanes & (lanes - 1)) == 0 && lanes <= lanes_f32();
  }
  /// Returns whether instructions multiply u8 and i8 faster than f32: as bytes, or as words that hold them.
  bool multiplies_bytes() const {
    return has_dot(DType::u8, DType::i8, lanes_f32()) || has_dot(DType::i16, DType::i16, lanes_f32());
  }
  /// Returns whether a dot() of bf16 takes less time than the multiply-adds of f32 that it replaces.
  bool multiplies_bf16() const { return 2 * bf16_dots_per_cycle > fmas_per_cycle; }
  /// Returns whether tile registers compute products of `a` and `b`.
  bool has_tiles(DType a, DType b) const {
    return a == DType::bf16 ? bf16_tiles && b == DType::bf16 : byte_tiles && a == DType::u8 && b == DType::i8;
  }
  /// Returns the cycles of a product of tile registers with `rows` rows of the first factor.
  double tile_cycles(int64_t rows) const {
    constexpr int64_t kFull = 16;
    const double less = static_cast<double>(kFull - rows) * tile_row_cycles;
    return std::max(least_tile_dot_cycles, tile_dot_cycles - less);
  }
  /// Returns whether half a vector takes half the time of a whole one.
  bool halves() const { return fmas_per_cycle == 1; }
  /// Returns the most f32 operations in a cycle of one core; a multiply-add counts as two.
  double flops_per_cycle() const { return 2.0 * fmas_per_cycle * lanes_f32(); }
};

/// The names of the back ends, in the order of all_backends() in codegen/backend.h. The first is the default.
constexpr std::array<std::string_view, 3> kBackendNames = {"llvm", "null", "opencl"};

struct Target {
  std::string name;      ///< as printed and accepted: "x86-64-v3", "znver4", "neoverse-n1", ...
  std::string cpu;       ///< LLVM's -mcpu; empty: the target is not a CPU
  std::string features;  ///< LLVM's -mattr, normally empty
  std::string backend{kBackendNames.front()};
  Arch arch = kThisArch;
  CpuLimits limits;
};

struct TargetRow {
  std::string_view name;
  std::string_view cpu;
  std::string_view summary;
  CpuLimits limits;
  Arch arch = Arch::x86_64;
  std::string_view features = {};  ///< as in Target
};
/// Returns every target that is known by name (`kilter targets`).
std::span<const TargetRow> all_targets();
/// Parses "native", a name of all_targets(), "opencl" for any OpenCL device, or a back end for CPUs with its options:
/// "llvm -mcpu=skylake-avx512 [-mattr=...]", or "null" for this machine's limits without machine code. Throws usage,
/// listing the legal names.
Target parse_target(std::string_view text);
/// What a processor reports about itself.
struct CpuIdentity {
  Arch arch = kThisArch;
  std::string vendor;  ///< x86-64: "AuthenticAMD", "GenuineIntel", ...
  uint32_t family = 0, model = 0;
  uint64_t midr = 0;                  ///< AArch64: arm_midr()
  std::vector<std::string> features;  ///< as cpu_features() returns them
};
const CpuIdentity& this_cpu();
/// Returns the names of the rows of all_targets() that describe a processor and whose instructions it has, best first.
std::vector<std::string_view> targets_of(const CpuIdentity& cpu);
/// Returns this machine: the best row of all_targets() whose instructions it has.
Target native_target();
/// Returns whether this machine's processor can run code that was compiled for `target`.
bool runs_here(const Target& target);

}  // namespace kilter
