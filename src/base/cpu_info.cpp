#include "base/cpu_info.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/text.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace kilter {
namespace {

#if defined(__x86_64__)

struct Registers {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d) == 0) return {};
  return r;
}

/// Which register state the operating system saves (XCR0); 0 when it does not use XSAVE.
uint64_t saved_state() {
  if ((cpuid(1).c & (1U << 27)) == 0) return 0;
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

/// A feature bit of CPUID (Intel SDM volume 2, AMD APM volume 3) and the state it needs in XCR0.
struct Row {
  const char* name;
  uint32_t leaf, subleaf;
  uint32_t Registers::* field;
  int bit;
  uint64_t state;
};
constexpr uint64_t kNoState = 0;
constexpr uint64_t kYmm = 0x6;
constexpr uint64_t kZmm = 0xe6;
constexpr std::array kRows = {
    Row{"sse3", 1, 0, &Registers::c, 0, kNoState},    Row{"ssse3", 1, 0, &Registers::c, 9, kNoState},
    Row{"sse4.1", 1, 0, &Registers::c, 19, kNoState}, Row{"sse4.2", 1, 0, &Registers::c, 20, kNoState},
    Row{"popcnt", 1, 0, &Registers::c, 23, kNoState}, Row{"avx", 1, 0, &Registers::c, 28, kYmm},
    Row{"f16c", 1, 0, &Registers::c, 29, kYmm},       Row{"fma", 1, 0, &Registers::c, 12, kYmm},
    Row{"avx2", 7, 0, &Registers::b, 5, kYmm},        Row{"bmi", 7, 0, &Registers::b, 3, kNoState},
    Row{"bmi2", 7, 0, &Registers::b, 8, kNoState},    Row{"lzcnt", 0x80000001U, 0, &Registers::c, 5, kNoState},
    Row{"movbe", 1, 0, &Registers::c, 22, kNoState},  Row{"avx512f", 7, 0, &Registers::b, 16, kZmm},
    Row{"avx512bw", 7, 0, &Registers::b, 30, kZmm},   Row{"avx512cd", 7, 0, &Registers::b, 28, kZmm},
    Row{"avx512dq", 7, 0, &Registers::b, 17, kZmm},   Row{"avx512vl", 7, 0, &Registers::b, 31, kZmm},
    Row{"avx512vnni", 7, 0, &Registers::c, 11, kZmm}, Row{"avx512bf16", 7, 1, &Registers::a, 5, kZmm},
    Row{"avx512vbmi", 7, 0, &Registers::c, 1, kZmm},  Row{"avxvnni", 7, 1, &Registers::a, 4, kYmm},
    Row{"avx512fp16", 7, 0, &Registers::d, 23, kZmm},
};

std::vector<std::string> known() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

std::vector<std::string> detect() {
  const uint64_t state = saved_state();
  std::vector<std::string> features;
  for (const Row& row : kRows) {
    const bool has = ((cpuid(row.leaf, row.subleaf).*row.field) >> row.bit & 1U) != 0;
    if (has && (state & row.state) == row.state) features.emplace_back(row.name);
  }
  return features;
}

std::string brand() {
  std::array<char, 49> text{};
  for (uint32_t i = 0; i < 3; ++i) {
    const Registers r = cpuid(0x80000002U + i);
    std::memcpy(text.data() + 16 * i, &r, sizeof r);
  }
  return std::string(trim(text.data()));
}

#else

std::vector<std::string> known() { return {}; }
std::vector<std::string> detect() { return {}; }
std::string brand() { return {}; }

#endif

}  // namespace

const std::vector<std::string>& known_cpu_features() {
  static const std::vector<std::string> features = known();
  return features;
}

const std::vector<std::string>& cpu_features() {
  static const std::vector<std::string> features = detect();
  return features;
}

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

}  // namespace kilter
