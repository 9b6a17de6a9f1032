#include "base/cpu_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/text.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#include <sys/prctl.h>
#endif

namespace kilter {
namespace {

struct Registers {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

/// A feature bit of CPUID (Intel SDM volume 2, AMD APM volume 3) and the register state in XCR0 that it needs.
struct X86Row {
  const char* name;
  uint32_t leaf, subleaf;
  uint32_t Registers::* field;
  int bit;
  uint64_t state;
};
constexpr uint64_t kNoState = 0;
constexpr uint64_t kYmm = 0x6;
constexpr uint64_t kZmm = 0xe6;
constexpr uint64_t kTiles = 0x60000;
constexpr std::array kX86Rows = {
    X86Row{"sse3", 1, 0, &Registers::c, 0, kNoState},    X86Row{"ssse3", 1, 0, &Registers::c, 9, kNoState},
    X86Row{"sse4.1", 1, 0, &Registers::c, 19, kNoState}, X86Row{"sse4.2", 1, 0, &Registers::c, 20, kNoState},
    X86Row{"popcnt", 1, 0, &Registers::c, 23, kNoState}, X86Row{"avx", 1, 0, &Registers::c, 28, kYmm},
    X86Row{"f16c", 1, 0, &Registers::c, 29, kYmm},       X86Row{"fma", 1, 0, &Registers::c, 12, kYmm},
    X86Row{"avx2", 7, 0, &Registers::b, 5, kYmm},        X86Row{"bmi", 7, 0, &Registers::b, 3, kNoState},
    X86Row{"bmi2", 7, 0, &Registers::b, 8, kNoState},    X86Row{"lzcnt", 0x80000001U, 0, &Registers::c, 5, kNoState},
    X86Row{"movbe", 1, 0, &Registers::c, 22, kNoState},  X86Row{"avx512f", 7, 0, &Registers::b, 16, kZmm},
    X86Row{"avx512bw", 7, 0, &Registers::b, 30, kZmm},   X86Row{"avx512cd", 7, 0, &Registers::b, 28, kZmm},
    X86Row{"avx512dq", 7, 0, &Registers::b, 17, kZmm},   X86Row{"avx512vl", 7, 0, &Registers::b, 31, kZmm},
    X86Row{"avx512vnni", 7, 0, &Registers::c, 11, kZmm}, X86Row{"avx512bf16", 7, 1, &Registers::a, 5, kZmm},
    X86Row{"avx512vbmi", 7, 0, &Registers::c, 1, kZmm},  X86Row{"avxvnni", 7, 1, &Registers::a, 4, kYmm},
    X86Row{"avx512fp16", 7, 0, &Registers::d, 23, kZmm}, X86Row{"amx-tile", 7, 0, &Registers::d, 24, kTiles},
    X86Row{"amx-bf16", 7, 0, &Registers::d, 22, kTiles}, X86Row{"amx-int8", 7, 0, &Registers::d, 25, kTiles},
};

/// The bits of AT_HWCAP and AT_HWCAP2 (Linux, Documentation/arch/arm64/elf_hwcaps.rst) that must all be set for a
/// feature. The names in Linux are ASIMD for neon, ASIMDRDM for rdm, FPHP and ASIMDHP for fullfp16, ASIMDDP for
/// dotprod, FCMA for complxnum, and ASIMDFHM for fp16fml.
struct ArmRow {
  const char* name;
  uint64_t hwcap, hwcap2;
  int32_t sve_bytes = 0;  ///< size of an SVE register; 0: any
};
constexpr uint64_t bit(int n) { return uint64_t{1} << n; }
constexpr std::array kArmRows = {
    ArmRow{"fp-armv8", bit(0), 0},    ArmRow{"neon", bit(1), 0},
    ArmRow{"rdm", bit(12), 0},        ArmRow{"fullfp16", bit(9) | bit(10), 0},
    ArmRow{"dotprod", bit(20), 0},    ArmRow{"complxnum", bit(14), 0},
    ArmRow{"fp16fml", bit(23), 0},    ArmRow{"bf16", 0, bit(14)},
    ArmRow{"i8mm", 0, bit(13)},       ArmRow{"sve", bit(22), 0},
    ArmRow{"sve2", 0, bit(1)},        ArmRow{"sve256", bit(22), 0, 32},
    ArmRow{"sve512", bit(22), 0, 64},
};

template <class Rows>
std::vector<std::string> names(const Rows& rows) {
  std::vector<std::string> all;
  for (const auto& row : rows) all.emplace_back(row.name);
  return all;
}

/// The features of the processor, and why the system refuses tile registers that it has.
struct Detected {
  std::vector<std::string> features;
  std::string tiles_refused;
};

#if defined(__x86_64__)

Registers cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d) == 0) return {};
  return r;
}

/// Returns the register state that the operating system saves (XCR0); 0 if it does not use XSAVE.
uint64_t saved_state() {
  if ((cpuid(1).c & (1U << 27)) == 0) return 0;
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

/// Asks Linux to let this process use tile registers. Returns why it does not; empty if it does. A process that uses
/// them without its permission is killed by SIGILL.
std::string ask_for_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // number of the register state in XCR0
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0) return {};
  return fmt::format("arch_prctl(ARCH_REQ_XCOMP_PERM): {}", std::strerror(errno));
}

Detected detect() {
  const uint64_t state = saved_state();
  Detected found;
  bool asked = false;
  for (const X86Row& row : kX86Rows) {
    const bool has = ((cpuid(row.leaf, row.subleaf).*row.field) >> row.bit & 1U) != 0;
    if (!has) continue;
    const bool saved = (state & row.state) == row.state;
    if (row.state == kTiles && !std::exchange(asked, true))
      found.tiles_refused = saved ? ask_for_tiles() : "the system does not save tile registers";
    const bool refused = row.state == kTiles && !found.tiles_refused.empty();
    if (saved && !refused) found.features.emplace_back(row.name);
  }
  return found;
}

std::string brand() {
  std::array<char, 49> text{};
  for (uint32_t i = 0; i < 3; ++i) {
    const Registers r = cpuid(0x80000002U + i);
    std::memcpy(text.data() + 16 * i, &r, sizeof r);
  }
  return std::string(trim(text.data()));
}

uint64_t midr() { return 0; }

#elif defined(__aarch64__)

/// Returns the SVE vector length of this process, which may be less than the processor's; 0 without SVE.
int32_t sve_bytes() {
  const int answer = prctl(PR_SVE_GET_VL);
  return answer < 0 ? 0 : answer & PR_SVE_VL_LEN_MASK;
}

Detected detect() {
  const uint64_t hwcap = getauxval(AT_HWCAP);
  const uint64_t hwcap2 = getauxval(AT_HWCAP2);
  const int32_t length = sve_bytes();
  std::vector<std::string> features;
  for (const ArmRow& row : kArmRows) {
    const bool has = (hwcap & row.hwcap) == row.hwcap && (hwcap2 & row.hwcap2) == row.hwcap2;
    if (has && (row.sve_bytes == 0 || row.sve_bytes == length)) features.emplace_back(row.name);
  }
  return {features, {}};
}

/// Linux lets programs read MIDR_EL1 if HWCAP_CPUID is set.
uint64_t midr() {
  constexpr uint64_t kCpuId = bit(11);
  if ((getauxval(AT_HWCAP) & kCpuId) == 0) return 0;
  uint64_t value = 0;
  __asm__("mrs %0, midr_el1" : "=r"(value));
  return value;
}

std::string brand() {
  const uint64_t id = midr();
  if (id == 0) return {};
  return fmt::format("Arm implementer {:#x} part {:#x}", id >> 24 & 0xff, id >> 4 & 0xfff);
}

#endif

}  // namespace

std::string_view name(Arch arch) { return arch == Arch::x86_64 ? "x86-64" : "AArch64"; }

const std::vector<std::string>& known_cpu_features(Arch arch) {
  static const std::vector<std::string> x86 = names(kX86Rows);
  static const std::vector<std::string> arm = names(kArmRows);
  return arch == Arch::x86_64 ? x86 : arm;
}

CpuFeatureTest cpu_feature_test(Arch arch, std::string_view feature) {
  CpuFeatureTest test;
  const auto named = [&](const auto& row) { return row.name == feature; };
  if (arch == Arch::x86_64) {
    const auto* row = std::ranges::find_if(kX86Rows, named);
    require(row != kX86Rows.end(), "'{}' is not a feature of x86-64", feature);
    constexpr std::array kFields = {&Registers::a, &Registers::b, &Registers::c, &Registers::d};
    const auto reg = std::ranges::find(kFields, row->field) - kFields.begin();
    test.leaf = row->leaf, test.subleaf = row->subleaf, test.reg = static_cast<uint32_t>(reg);
    test.bit = static_cast<uint32_t>(row->bit), test.state = row->state;
  } else {
    const auto* row = std::ranges::find_if(kArmRows, named);
    require(row != kArmRows.end(), "'{}' is not a feature of AArch64", feature);
    test.hwcap = row->hwcap, test.hwcap2 = row->hwcap2, test.sve_bytes = row->sve_bytes;
  }
  return test;
}

std::string_view sve_length(int32_t vector_bytes) {
  const auto row = std::ranges::find_if(kArmRows, [&](const ArmRow& r) { return r.sve_bytes == vector_bytes; });
  return vector_bytes == 0 || row == kArmRows.end() ? "" : row->name;
}

namespace {
const Detected& detected() {
  static const Detected found = detect();
  return found;
}
}  // namespace

const std::vector<std::string>& cpu_features() { return detected().features; }

const std::string& tiles_refused() { return detected().tiles_refused; }

bool cpu_has(std::string_view feature) {
  const auto& features = cpu_features();
  return std::find(features.begin(), features.end(), feature) != features.end();
}

std::vector<std::string> missing_cpu_features(const std::vector<std::string>& required) {
  std::vector<std::string> missing;
  for (const std::string& feature : required) {
    if (!cpu_has(feature)) missing.push_back(feature);
  }
  return missing;
}

const std::string& cpu_brand() {
  static const std::string text = brand().empty() ? "unknown CPU" : brand();
  return text;
}

uint64_t arm_midr() { return midr(); }

}  // namespace kilter
