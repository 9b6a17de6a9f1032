#include "loop/target.h"

#include <cpuid.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <vector>

#include "base/cpu_info.h"
#include "base/error.h"
#include "base/text.h"

namespace kilter {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

/// What one core has of the memory system.
struct Memory {
  int64_t l1, l2, l3;  ///< bytes of data; L3: what its cluster shares
  double l3_rate, memory_rate;
  int32_t prefetch;
};

constexpr TargetLimits sse(const Memory& m) {
  return {.l1_bytes = m.l1,
          .l2_bytes = m.l2,
          .l3_bytes = m.l3,
          .l3_rate = m.l3_rate,
          .memory_rate = m.memory_rate,
          .prefetch_bytes = m.prefetch};
}
constexpr TargetLimits avx2(const Memory& m) {
  TargetLimits limits = sse(m);
  limits.vector_bytes = 32;
  limits.fma = limits.f16_convert = true;
  return limits;
}
constexpr TargetLimits avx512(const Memory& m) {
  TargetLimits limits = avx2(m);
  limits.vector_bytes = 64;
  limits.vector_registers = 32;
  limits.masks = true;
  return limits;
}

// Of the server part of each generation; the general rows take what nearly every machine of their level has. Rates and
// distances were measured on Zen 5 and on Sapphire Rapids and its successors: a mesh has a slow L3, and its cores want
// streams prefetched within a page.
constexpr Memory zen(int64_t l1_kib, int64_t l2_kib, int64_t l3_mib) {
  return {l1_kib * kKiB, l2_kib * kKiB, l3_mib * kMiB, 30, 10, 8192};
}
constexpr Memory ring(int64_t l1_kib, int64_t l2_kib, int64_t l3_mib) {
  return {l1_kib * kKiB, l2_kib * kKiB, l3_mib * kMiB, 16, 6, 2048};
}
constexpr Memory mesh(int64_t l1_kib, int64_t l2_kib, int64_t l3_mib) {
  return {l1_kib * kKiB, l2_kib * kKiB, l3_mib * kMiB, 8, 4, 2048};
}

constexpr std::array kRows = {
    TargetRow{"x86-64-v2", "x86-64-v2", "any x86-64 with SSE4.2", sse(ring(32, 256, 4))},
    TargetRow{"x86-64-v3", "x86-64-v3", "any x86-64 with AVX2 and FMA", avx2(ring(32, 256, 8))},
    TargetRow{"x86-64-v4", "x86-64-v4", "any x86-64 with AVX-512 F, BW, CD, DQ, VL", avx512(mesh(32, 1024, 16))},
    TargetRow{"haswell", "haswell", "Intel Haswell and Broadwell", avx2(ring(32, 256, 8))},
    TargetRow{"skylake", "skylake", "Intel Skylake client and its successors without AVX-512", avx2(ring(32, 256, 8))},
    TargetRow{"skylake-avx512", "skylake-avx512", "Intel Skylake server", avx512(mesh(32, 1024, 16))},
    TargetRow{"cascadelake", "cascadelake", "Intel Cascade Lake (AVX-512 VNNI)", avx512(mesh(32, 1024, 16))},
    TargetRow{"icelake-server", "icelake-server", "Intel Ice Lake server", avx512(mesh(48, 1280, 32))},
    TargetRow{"sapphirerapids", "sapphirerapids", "Intel Sapphire Rapids (AVX-512 FP16, BF16)",
              avx512(mesh(48, 2048, 48))},
    TargetRow{"znver1", "znver1", "AMD Zen", avx2(zen(32, 512, 8))},
    TargetRow{"znver2", "znver2", "AMD Zen 2", avx2(zen(32, 512, 16))},
    TargetRow{"znver3", "znver3", "AMD Zen 3", avx2(zen(32, 512, 32))},
    TargetRow{"znver4", "znver4", "AMD Zen 4", avx512(zen(32, 1024, 32))},
    TargetRow{"znver5", "znver5", "AMD Zen 5", avx512(zen(48, 1024, 32))},
};

/// Instruction set extensions and what each needs, by LLVM's names; the needed come first.
struct Extension {
  std::string_view name;
  std::vector<std::string_view> needs;
};
const std::vector<Extension>& extensions() {
  static const std::vector<Extension> kExtensions = {
      {"sse3", {}},
      {"ssse3", {"sse3"}},
      {"sse4.1", {"ssse3"}},
      {"sse4.2", {"sse4.1"}},
      {"popcnt", {}},
      {"avx", {"sse4.2"}},
      {"f16c", {"avx"}},
      {"fma", {"avx"}},
      {"avx2", {"avx"}},
      {"bmi", {}},
      {"bmi2", {}},
      {"lzcnt", {}},
      {"movbe", {}},
      {"avx512f", {"avx2", "f16c", "fma"}},
      {"avx512bw", {"avx512f"}},
      {"avx512cd", {"avx512f"}},
      {"avx512dq", {"avx512f"}},
      {"avx512vl", {"avx512f"}},
      {"avx512vnni", {"avx512f"}},
      {"avx512bf16", {"avx512bw"}},
      {"avx512vbmi", {"avx512bw"}},
      {"avxvnni", {"avx2"}},
      {"avx512fp16", {"avx512bw", "avx512dq", "avx512vl"}},
  };
  return kExtensions;
}

using Features = std::set<std::string_view>;

constexpr std::array<std::string_view, 5> kLevel2 = {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"};
constexpr std::array<std::string_view, 8> kLevel3 = {"avx", "f16c", "fma", "avx2", "bmi", "bmi2", "lzcnt", "movbe"};
constexpr std::array<std::string_view, 5> kLevel4 = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"};

/// The extensions of a row that code generation uses and that tell processors apart.
Features features_of(std::string_view row_name, const TargetLimits& limits) {
  Features f(kLevel2.begin(), kLevel2.end());
  if (limits.vector_bytes >= 32) f.insert(kLevel3.begin(), kLevel3.end());
  if (limits.vector_bytes >= 64) f.insert(kLevel4.begin(), kLevel4.end());
  const auto is = [&](auto... names) { return ((row_name == names) || ...); };
  if (is("cascadelake", "icelake-server", "sapphirerapids", "znver4", "znver5")) f.insert("avx512vnni");
  if (is("icelake-server", "sapphirerapids", "znver4", "znver5")) f.insert("avx512vbmi");
  if (is("sapphirerapids", "znver4", "znver5")) f.insert("avx512bf16");
  if (is("sapphirerapids", "znver5")) f.insert("avxvnni");
  if (is("sapphirerapids")) f.insert("avx512fp16");
  return f;
}

void add(Features& features, const Extension& extension) {
  for (const Extension& e : extensions()) {
    if (std::ranges::count(extension.needs, e.name) > 0) add(features, e);
  }
  features.insert(extension.name);
}
void remove(Features& features, const Extension& extension) {
  features.erase(extension.name);
  for (const Extension& e : extensions()) {
    if (std::ranges::count(e.needs, extension.name) > 0) remove(features, e);
  }
}

void set_limits(TargetLimits& limits, const Features& f) {
  const bool wide = std::ranges::all_of(kLevel4, [&](std::string_view x) { return f.contains(x); });
  limits.vector_bytes = wide ? 64 : f.contains("avx2") ? 32 : 16;
  limits.vector_registers = wide ? 32 : 16;
  limits.masks = wide;
  limits.fma = f.contains("fma");
  limits.f16_convert = f.contains("f16c");
}

std::string legal_names() {
  std::vector<std::string> names = {"native"};
  for (const TargetRow& row : kRows) names.emplace_back(row.name);
  return join(names, ", ");
}

const TargetRow* find_row(std::string_view name) {
  if (name == "core-avx2") name = "haswell";  // LLVM's older name, found in tuning logs
  const auto it = std::ranges::find(kRows, name, &TargetRow::name);
  return it == kRows.end() ? nullptr : &*it;
}

Target from_row(const TargetRow& row) {
  Target t;
  t.name = std::string(row.name);
  t.cpu = std::string(row.cpu);
  t.limits = row.limits;
  return t;
}

/// Changes `features` as "+avx2" or "-fma" says; false when the extension is unknown.
bool apply_attribute(std::string_view attribute, Features& features) {
  if (attribute.size() < 2 || (attribute[0] != '+' && attribute[0] != '-')) return false;
  const auto it = std::ranges::find(extensions(), attribute.substr(1), &Extension::name);
  if (it == extensions().end()) return false;
  attribute[0] == '+' ? add(features, *it) : remove(features, *it);
  return true;
}

Features features_of(const Target& target) {
  const TargetRow* row = find_row(target.cpu);
  if (row == nullptr) {
    fail(ErrorKind::usage, "target '{}': unknown cpu '{}'; legal are {}", target.name, target.cpu, legal_names());
  }
  Features f = features_of(row->name, row->limits);
  if (target.features.empty()) return f;
  for (const std::string_view attribute : split(target.features, ',')) {
    if (apply_attribute(attribute, f)) continue;
    std::vector<std::string> known;
    for (const Extension& e : extensions()) known.emplace_back(e.name);
    fail(ErrorKind::usage, "target '{}': attribute '{}': expected + or - and one of {}", target.name, attribute,
         join(known, ", "));
  }
  return f;
}

Target with_attributes(Target target, std::string_view attributes) {
  if (attributes.empty()) return target;
  target.features = std::string(attributes);
  target.name = fmt::format("llvm -mcpu={} -mattr={}", target.cpu, attributes);
  set_limits(target.limits, features_of(target));
  return target;
}

Target parse_llvm_options(std::string_view text) {
  std::optional<Target> base;
  std::string_view attributes;
  for (const std::string_view word : split_words(text.substr(4))) {
    const auto value = [&](std::string_view option) {
      return word.starts_with(option) ? std::optional(word.substr(option.size())) : std::nullopt;
    };
    if (const auto cpu = value("-mcpu=")) {
      const TargetRow* row = find_row(*cpu);
      if (row == nullptr && *cpu != "native") {
        fail(ErrorKind::usage, "target '{}': unknown -mcpu '{}'; legal are {}", text, *cpu, legal_names());
      }
      base = row != nullptr ? from_row(*row) : native_target();
    } else if (const auto attr = value("-mattr=")) {
      attributes = *attr;
    } else {
      fail(ErrorKind::usage, "target '{}': unknown option '{}'; legal are -mcpu=NAME, -mattr=+NAME,-NAME", text, word);
    }
  }
  return with_attributes(base ? *base : native_target(), attributes);
}

bool row_runs_here(const TargetRow& row) {
  return std::ranges::all_of(features_of(row.name, row.limits), [](std::string_view f) { return cpu_has(f); });
}

/// Vendor, family and model as the processor reports them.
struct CpuId {
  std::string vendor;
  uint32_t family = 0, model = 0;
};

CpuId read_cpuid() {
  CpuId id;
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0) return id;
  for (const uint32_t part : {b, d, c}) {
    for (int byte = 0; byte < 4; ++byte) id.vendor.push_back(static_cast<char>(part >> (8 * byte)));
  }
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return id;
  id.family = (a >> 8) & 0xf;
  id.model = (a >> 4) & 0xf;
  if (id.family == 6 || id.family == 0xf) id.model |= ((a >> 16) & 0xf) << 4;
  if (id.family == 0xf) id.family += (a >> 20) & 0xff;
  return id;
}

/// Row names to try, best first. Families and models: AMD and Intel CPUID documentation.
std::vector<std::string_view> candidates(const CpuId& id) {
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
    names = {"sapphirerapids", "icelake-server", "cascadelake", "skylake-avx512"};
    names.emplace_back(std::ranges::count(kHaswell, id.model) > 0 ? "haswell" : "skylake");
  }
  names.insert(names.end(), {"x86-64-v4", "x86-64-v3", "x86-64-v2"});
  return names;
}

}  // namespace

std::span<const TargetRow> all_targets() { return kRows; }

Target parse_target(std::string_view text) {
  text = trim(text);
  if (text == "native" || text == "llvm") return native_target();
  if (const TargetRow* row = find_row(text)) return from_row(*row);
  if (text.starts_with("llvm ")) return parse_llvm_options(text);
  fail(ErrorKind::usage, "target '{}': unknown; legal are {}, or llvm -mcpu=NAME [-mattr=+NAME,-NAME]", text,
       legal_names());
}

Target native_target() {
  static const TargetRow* const kNative = [] {
    for (const std::string_view name : candidates(read_cpuid())) {
      const TargetRow* row = find_row(name);
      if (row_runs_here(*row)) return row;
    }
    return static_cast<const TargetRow*>(nullptr);
  }();
  if (kNative == nullptr) {
    fail(ErrorKind::unsupported, "this processor ({}) lacks {}; Kilter needs at least x86-64-v2 to run code here",
         cpu_brand(), join(missing_cpu_features({kLevel2.begin(), kLevel2.end()}), ", "));
  }
  return from_row(*kNative);
}

bool runs_here(const Target& target) {
  return std::ranges::all_of(features_of(target), [](std::string_view f) { return cpu_has(f); });
}

}  // namespace kilter
