// The capabilities of the processor that this program runs on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kilter {

/// The architecture that machine code is generated for.
enum class Arch : uint8_t { x86_64, aarch64 };
/// Returns "x86-64" or "AArch64".
std::string_view name(Arch arch);
/// The architecture that this program was built for.
constexpr Arch kThisArch =
#if defined(__x86_64__)
    Arch::x86_64;
#elif defined(__aarch64__)
    Arch::aarch64;
#else
#error "Kilter runs on x86-64 and AArch64"
#endif

/// Returns the instruction set extensions that Kilter distinguishes, by LLVM's names and in a fixed order. x86-64:
/// sse3, ssse3, sse4.1, sse4.2, popcnt, avx, f16c, fma, avx2, bmi, bmi2, lzcnt, movbe, avx512f, avx512bw, avx512cd,
/// avx512dq, avx512vl, avx512vnni, avx512bf16, avx512vbmi, avxvnni, avx512fp16, amx-tile, amx-bf16, amx-int8. AArch64:
/// fp-armv8, neon, rdm, fullfp16, dotprod, complxnum, fp16fml, bf16, i8mm, sve, sve2, and two of Kilter's own: sve256
/// and sve512, which stand for SVE with registers of exactly that many bits.
const std::vector<std::string>& known_cpu_features(Arch arch = kThisArch);
/// How a program finds out whether its processor has a feature.
struct CpuFeatureTest {
  // x86-64: bit `bit` of register `reg` (0 to 3: EAX to EDX) of a CPUID leaf, and the register state that the system
  // must save (bits of XCR0).
  uint32_t leaf = 0, subleaf = 0, reg = 0, bit = 0;
  uint64_t state = 0;
  // AArch64: bits of AT_HWCAP and AT_HWCAP2 that must all be set, and the size of an SVE register (0: any).
  uint64_t hwcap = 0, hwcap2 = 0;
  int32_t sve_bytes = 0;
};
/// `feature`: one of known_cpu_features(arch).
CpuFeatureTest cpu_feature_test(Arch arch, std::string_view feature);
/// Returns the feature that stands for SVE with registers of `vector_bytes`; empty if NEON's 16 bytes are enough.
std::string_view sve_length(int32_t vector_bytes);
/// Returns the features that the processor has and whose registers the operating system saves, in the order of
/// known_cpu_features(). The first call asks Linux to let this process use tile registers (AMX).
const std::vector<std::string>& cpu_features();
bool cpu_has(std::string_view feature);
/// Returns the features of `required` that this processor lacks or whose names are unknown.
std::vector<std::string> missing_cpu_features(const std::vector<std::string>& required);
/// Returns why the system does not let this process use tile registers that the processor has; otherwise empty.
const std::string& tiles_refused();
/// Returns "AMD EPYC 9R14", "Arm implementer 0x41 part 0xd0c" (read from the system registers), or "unknown CPU" when
/// the processor does not report a name.
const std::string& cpu_brand();
/// Returns MIDR_EL1 of an AArch64 processor: the implementer in bits 24 to 31, the part number in bits 4 to 15. Returns
/// 0 on other processors, and if the system does not expose the register.
uint64_t arm_midr();

}  // namespace kilter
