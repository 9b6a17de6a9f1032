// What a processor reports about itself, and the rows of the target table that may describe it.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "base/cpu_info.h"
#include "target/target_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace kilter {
namespace {

#if defined(__x86_64__)

void read_model(CpuIdentity& id) {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0) return;
  for (const uint32_t part : {b, d, c}) {
    for (int byte = 0; byte < 4; ++byte) id.vendor.push_back(static_cast<char>(part >> (8 * byte)));
  }
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return;
  id.family = (a >> 8) & 0xf;
  id.model = (a >> 4) & 0xf;
  if (id.family == 6 || id.family == 0xf) id.model |= ((a >> 16) & 0xf) << 4;
  if (id.family == 0xf) id.family += (a >> 20) & 0xff;
}

#else

void read_model(CpuIdentity& id) { id.midr = arm_midr(); }

#endif

// Families and models: AMD and Intel CPUID documentation.
std::vector<std::string_view> x86_candidates(const CpuIdentity& id) {
  std::vector<std::string_view> names;
  if (id.vendor == "AuthenticAMD" || id.vendor == "HygonGenuine") {
    const bool zen4 = id.family == 0x19 && ((id.model >= 0x10 && id.model <= 0x1f) || id.model >= 0x60);
    if (id.family >= 0x1a) names.emplace_back("znver5");
    if (id.family >= 0x1a || zen4) names.emplace_back("znver4");
    if (id.family == 0x19 && !zen4) names.emplace_back("znver3");
    if (id.family == 0x17 && id.model >= 0x30) names.emplace_back("znver2");
    if (id.family == 0x17 || id.family == 0x18) names.emplace_back("znver1");
  } else if (id.vendor == "GenuineIntel") {
    constexpr std::array<uint32_t, 8> kHaswell = {0x3c, 0x3f, 0x45, 0x46, 0x3d, 0x47, 0x4f, 0x56};
    names = {"sapphirerapids", "sapphirerapids-avx512", "icelake-server", "cascadelake", "skylake-avx512"};
    if (std::ranges::count(kHaswell, id.model) > 0)
      names.emplace_back("haswell");
    else
      names.insert(names.end(), {"alderlake", "skylake"});
  }
  names.insert(names.end(), {"x86-64-v4", "x86-64-v3", "x86-64-v2"});
  return names;
}

// Part numbers of MIDR_EL1: the processors' technical reference manuals.
std::vector<std::string_view> arm_candidates(const CpuIdentity& id) {
  struct Part {
    uint64_t implementer, part;
    std::string_view name;
  };
  constexpr std::array kParts = {Part{0x41, 0xd08, "cortex-a72"},  Part{0x41, 0xd0c, "neoverse-n1"},
                                 Part{0x41, 0xd49, "neoverse-n2"}, Part{0x41, 0xd40, "neoverse-v1"},
                                 Part{0x41, 0xd4f, "neoverse-v2"}, Part{0x46, 0x001, "a64fx"}};
  const uint64_t implementer = id.midr >> 24 & 0xff, part = id.midr >> 4 & 0xfff;
  std::vector<std::string_view> names;
  for (const Part& p : kParts) {
    if (p.implementer == implementer && p.part == part) names.emplace_back(p.name);
  }
  names.emplace_back("aarch64");
  return names;
}

}  // namespace

const CpuIdentity& this_cpu() {
  static const CpuIdentity found = [] {
    CpuIdentity id;
    id.features = cpu_features();
    read_model(id);
    return id;
  }();
  return found;
}

std::vector<std::string_view> target_candidates(const CpuIdentity& id) {
  return id.arch == Arch::x86_64 ? x86_candidates(id) : arm_candidates(id);
}

}  // namespace kilter
