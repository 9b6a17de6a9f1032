#include "target/target.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/cpu_info.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/text.h"
#include "target/target_features.h"

namespace kilter {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

/// The memory system as one core sees it.
struct Memory {
  int64_t l1, l2, l3;  ///< bytes of data; L3: shared by a cluster of cores
  double l3_rate, memory_rate;
  int32_t prefetch;
};

constexpr CpuLimits sse(const Memory& m) {
  return {.word_dots_per_cycle = 1,
          .l1_bytes = m.l1,
          .l2_bytes = m.l2,
          .l3_bytes = m.l3,
          .l3_rate = m.l3_rate,
          .memory_rate = m.memory_rate,
          .prefetch_bytes = m.prefetch};
}
constexpr CpuLimits avx2(const Memory& m) {
  CpuLimits limits = sse(m);
  limits.vector_bytes = 32;
  limits.fma = limits.f16_convert = true;
  return limits;
}
constexpr CpuLimits avx512(const Memory& m) {
  CpuLimits limits = avx2(m);
  limits.vector_bytes = 64;
  limits.vector_registers = 32;
  limits.masks = true;
  return limits;
}

/// Returns `limits` with the instructions of AVX-512 VNNI or AVX-VNNI, and of AVX-512 BF16 at `bf16_dots` per cycle.
constexpr CpuLimits with_dots(CpuLimits limits, double bf16_dots = 0) {
  limits.byte_dots_per_cycle = limits.fmas_per_cycle;
  limits.bf16_dots_per_cycle = bf16_dots;
  return limits;
}

/// Returns `limits` with the instructions for products of bytes and of bf16, both at the rate of multiply-adds.
constexpr CpuLimits with_all_dots(const CpuLimits& limits) { return with_dots(limits, limits.fmas_per_cycle); }

/// Returns `limits` changed for cores that multiply two vectors of words per cycle.
constexpr CpuLimits two_words(CpuLimits limits) {
  limits.word_dots_per_cycle = 2;
  return limits;
}

/// Returns `limits` with tile registers (AMX).
constexpr CpuLimits with_tiles(CpuLimits limits) {
  limits.bf16_tiles = limits.byte_tiles = true;
  return limits;
}

/// Returns `limits` changed for cores whose units are half as wide as a vector register.
constexpr CpuLimits halves(CpuLimits limits) {
  limits.fmas_per_cycle = 1;
  return limits;
}

constexpr CpuLimits neon(int32_t loads_per_cycle, const Memory& m) {
  CpuLimits limits = sse(m);
  limits.vector_registers = 32;
  limits.word_dots_per_cycle = 0;
  limits.loads_per_cycle = loads_per_cycle;
  limits.fma = limits.f16_convert = true;
  return limits;
}

/// Returns the limits of SVE cores with registers of `bytes`; masked loads and stores run at full speed.
constexpr CpuLimits sve(int32_t bytes, const Memory& m) {
  CpuLimits limits = neon(2, m);
  limits.vector_bytes = bytes;
  limits.masks = true;
  return limits;
}
/// Returns the limits of NEON cores that have twice as many multipliers as other NEON cores.
constexpr CpuLimits wide_neon(const Memory& m) {
  CpuLimits limits = neon(3, m);
  limits.fmas_per_cycle = 4;
  return limits;
}

// Figures for the server part of each generation; the general rows use figures that nearly every machine of their level
// reaches. Rates and prefetch distances were measured on Zen 5, and on Sapphire Rapids and its successors. Cores on a
// mesh have a slow L3 and do best with prefetches that stay within a page.
constexpr Memory zen(int64_t l1_kib, int64_t l2_kib, int64_t l3_mib) {
  return {l1_kib * kKiB, l2_kib * kKiB, l3_mib * kMiB, 30, 10, 8192};
}
constexpr Memory ring(int64_t l1_kib, int64_t l2_kib, int64_t l3_mib) {
  return {l1_kib * kKiB, l2_kib * kKiB, l3_mib * kMiB, 16, 6, 2048};
}
constexpr Memory mesh(int64_t l1_kib, int64_t l2_kib, int64_t l3_mib) {
  return {l1_kib * kKiB, l2_kib * kKiB, l3_mib * kMiB, 8, 4, 2048};
}
/// Returns the memory of a cluster of small cores that share L2 and have no L3. The shared cache counts as L3.
constexpr Memory shared(int64_t l1_kib, int64_t l2_kib, int64_t l3_mib) {
  return {l1_kib * kKiB, l2_kib * kKiB, l3_mib * kMiB, 8, 3, 1024};
}

constexpr std::array kRows = {
    TargetRow{"x86-64-v2", "x86-64-v2", "any x86-64 with SSE4.2", sse(ring(32, 256, 4))},
    TargetRow{"x86-64-v3", "x86-64-v3", "any x86-64 with AVX2 and FMA", avx2(ring(32, 256, 8))},
    TargetRow{"x86-64-v4", "x86-64-v4", "any x86-64 with AVX-512 F, BW, CD, DQ, VL", avx512(mesh(32, 1024, 16))},
    TargetRow{"haswell", "haswell", "Intel Haswell and Broadwell", avx2(ring(32, 256, 8))},
    TargetRow{"skylake", "skylake", "Intel Skylake client and its successors without AVX-512", avx2(ring(32, 256, 8))},
    TargetRow{"alderlake", "skylake", "Intel Alder Lake and its successors without AVX-512 (AVX-VNNI)",
              with_dots(avx2(ring(32, 1280, 16))), Arch::x86_64, "+avxvnni"},
    TargetRow{"skylake-avx512", "skylake-avx512", "Intel Skylake server", avx512(mesh(32, 1024, 16))},
    TargetRow{"cascadelake", "cascadelake", "Intel Cascade Lake (AVX-512 VNNI)", with_dots(avx512(mesh(32, 1024, 16)))},
    TargetRow{"icelake-server", "icelake-server", "Intel Ice Lake server", with_dots(avx512(mesh(48, 1280, 32)))},
    TargetRow{"sapphirerapids", "sapphirerapids", "Intel Sapphire Rapids (AVX-512 FP16, BF16, AMX)",
              with_tiles(with_dots(avx512(mesh(48, 2048, 48)), 0.5))},
    TargetRow{"sapphirerapids-avx512", "sapphirerapids", "Intel Sapphire Rapids where AMX is not available",
              with_dots(avx512(mesh(48, 2048, 48)), 0.5), Arch::x86_64, "-amx-tile"},
    TargetRow{"znver1", "znver1", "AMD Zen", halves(avx2(zen(32, 512, 8)))},
    TargetRow{"znver2", "znver2", "AMD Zen 2", avx2(zen(32, 512, 16))},
    TargetRow{"znver3", "znver3", "AMD Zen 3", two_words(avx2(zen(32, 512, 32)))},
    TargetRow{"znver4", "znver4", "AMD Zen 4", with_dots(halves(avx512(zen(32, 1024, 32))), 1)},
    TargetRow{"znver5", "znver5", "AMD Zen 5", with_dots(avx512(zen(48, 1024, 32)), 2)},
    TargetRow{"aarch64", "generic", "any AArch64 (Armv8-A with NEON)", neon(1, shared(32, 256, 1)), Arch::aarch64},
    TargetRow{"cortex-a72", "cortex-a72", "Arm Cortex-A72", neon(1, shared(32, 256, 1)), Arch::aarch64},
    TargetRow{"neoverse-n1", "neoverse-n1", "Arm Neoverse N1", neon(2, mesh(64, 1024, 32)), Arch::aarch64},
    TargetRow{"neoverse-n2", "neoverse-n2", "Arm Neoverse N2", with_all_dots(neon(3, mesh(64, 1024, 32))),
              Arch::aarch64},
    TargetRow{"neoverse-v1", "neoverse-v1", "Arm Neoverse V1 (SVE, 256 bits)",
              with_all_dots(sve(32, mesh(64, 1024, 32))), Arch::aarch64},
    TargetRow{"neoverse-v2", "neoverse-v2", "Arm Neoverse V2", with_all_dots(wide_neon(mesh(64, 1024, 32))),
              Arch::aarch64},
    TargetRow{"a64fx", "a64fx", "Fujitsu A64FX (SVE, 512 bits)", sve(64, shared(64, 512, 8)), Arch::aarch64},
};

/// Returns any OpenCL device. Loads and stores of 16 bytes per work item suit GPUs and processors.
Target opencl_target() {
  CpuLimits limits;
  limits.vector_registers = 32;
  limits.fma = true;
  return {.name = "opencl", .cpu = "", .features = "", .backend = "opencl", .limits = limits};
}

std::vector<std::string> legal_names() {
  std::vector<std::string> names = {"native", "opencl"};
  for (const TargetRow& row : kRows) names.emplace_back(row.name);
  return names;
}

const TargetRow* find_row(std::string_view name) {
  if (name == "core-avx2") name = "haswell";  // LLVM's older name, found in tuning logs
  const auto it = std::ranges::find(kRows, name, &TargetRow::name);
  return it == kRows.end() ? nullptr : &*it;
}

const TargetRow* find_cpu(std::string_view cpu) {
  const auto it = std::ranges::find(kRows, cpu, &TargetRow::cpu);
  return it == kRows.end() ? nullptr : &*it;
}

Target from_row(const TargetRow& row) {
  Target t;
  t.name = std::string(row.name);
  t.cpu = std::string(row.cpu);
  t.arch = row.arch;
  t.features = std::string(row.features);
  t.limits = row.limits;
  return t;
}

Features features_of(const Target& target) {
  const TargetRow* row = find_cpu(target.cpu);
  if (row == nullptr) {
    fail(ErrorKind::usage, "target '{}': unknown cpu '{}'; legal values are {}", target.name, target.cpu,
         join(legal_names(), ", "));
  }
  Features f = features_of(*row);
  if (target.features.empty()) return f;
  for (const std::string_view attribute : split(target.features, ',')) {
    if (apply_attribute(row->arch, attribute, f)) continue;
    fail(ErrorKind::usage, "target '{}': attribute '{}': expected + or - and one of {}", target.name, attribute,
         join(known_attributes(row->arch), ", "));
  }
  if (!f.contains("sve")) f.erase(sve_length(row->limits.vector_bytes));
  return f;
}

Target with_attributes(Target target, std::string_view attributes) {
  if (!attributes.empty()) {
    target.features += fmt::format("{}{}", target.features.empty() ? "" : ",", attributes);
    target.name = fmt::format("{} -mcpu={} -mattr={}", target.backend, target.cpu, target.features);
    set_limits(target.arch, target.limits, features_of(target));
  } else if (target.backend != kBackendNames.front()) {
    target.name = fmt::format("{} -mcpu={}", target.backend, target.cpu);
  }
  return target;
}

/// Parses a back end's name and its options.
Target parse_backend_options(std::string_view text) {
  const std::string_view backend = split_words(text).front();
  std::optional<Target> base;
  std::string_view attributes;
  for (const std::string_view word : split_words(text.substr(backend.size()))) {
    const auto value = [&](std::string_view option) {
      return word.starts_with(option) ? std::optional(word.substr(option.size())) : std::nullopt;
    };
    if (const auto cpu = value("-mcpu=")) {
      const TargetRow* row = find_row(*cpu);
      if (row == nullptr) row = find_cpu(*cpu);
      if (row == nullptr && *cpu != "native") {
        fail(ErrorKind::usage, "target '{}': unknown -mcpu '{}'; legal values are {}", text, *cpu,
             join(legal_names(), ", "));
      }
      base = row != nullptr ? from_row(*row) : native_target();
    } else if (const auto attr = value("-mattr=")) {
      attributes = *attr;
    } else {
      fail(ErrorKind::usage, "target '{}': unknown option '{}'; legal values are -mcpu=NAME, -mattr=+NAME,-NAME", text,
           word);
    }
  }
  if (!base) base = native_target();
  base->backend = backend;
  return with_attributes(*base, attributes);
}

bool has_all(Arch arch, const Features& features) {
  return arch == kThisArch && std::ranges::all_of(features, [](std::string_view f) { return cpu_has(f); });
}

}  // namespace

std::span<const TargetRow> all_targets() { return kRows; }

Target parse_target(std::string_view text) {
  text = trim(text);
  if (text == "native") return native_target();
  if (text == "opencl") return opencl_target();
  if (const TargetRow* row = find_row(text)) return from_row(*row);
  const std::string_view first = text.substr(0, text.find(' '));
  if (first == "llvm" || first == "null") return parse_backend_options(text);
  const std::vector<std::string> legal = legal_names();
  fail(ErrorKind::usage, "target '{}': unknown{} legal values are {}, or llvm or null -mcpu=NAME [-mattr=+NAME,-NAME]",
       text, did_you_mean(text, legal), join(legal, ", "));
}

std::vector<std::string_view> targets_of(const CpuIdentity& cpu) {
  std::vector<std::string_view> names = target_candidates(cpu);
  std::erase_if(names, [&](std::string_view name) {
    return !std::ranges::all_of(features_of(*find_row(name)),
                                [&](std::string_view f) { return std::ranges::count(cpu.features, f) > 0; });
  });
  return names;
}

Target native_target() {
  static const TargetRow* const kNative = [] {
    const std::vector<std::string_view> names = targets_of(this_cpu());
    return names.empty() ? nullptr : find_row(names.front());
  }();
  if (kNative == nullptr) {
    const TargetRow& least = *find_row(target_candidates(this_cpu()).back());
    const Features needed = features_of(least);
    fail(ErrorKind::unsupported, "this processor ({}) lacks {}; Kilter needs at least {} to run code here", cpu_brand(),
         join(missing_cpu_features({needed.begin(), needed.end()}), ", "), least.name);
  }
  return from_row(*kNative);
}

bool runs_here(const Target& target) { return !target.cpu.empty() && has_all(target.arch, features_of(target)); }

}  // namespace kilter
