#include "target/target_features.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"

namespace kilter {
namespace {

/// An extension and those that it needs, which precede it in the table.
struct Extension {
  std::string_view name;
  std::vector<std::string_view> needs;
};

/// Returns the extensions that an attribute may add or remove.
const std::vector<Extension>& extensions(Arch arch) {
  static const std::vector<Extension> kX86 = {
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
      {"amx-tile", {}},
      {"amx-bf16", {"amx-tile"}},
      {"amx-int8", {"amx-tile"}},
  };
  // The table omits fp-armv8 and neon, which every AArch64 target has.
  static const std::vector<Extension> kArm = {
      {"rdm", {}},  {"fullfp16", {}}, {"dotprod", {}},       {"complxnum", {}}, {"fp16fml", {"fullfp16"}},
      {"bf16", {}}, {"i8mm", {}},     {"sve", {"fullfp16"}}, {"sve2", {"sve"}},
  };
  return arch == Arch::x86_64 ? kX86 : kArm;
}

constexpr std::array<std::string_view, 5> kLevel2 = {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"};
constexpr std::array<std::string_view, 8> kLevel3 = {"avx", "f16c", "fma", "avx2", "bmi", "bmi2", "lzcnt", "movbe"};
constexpr std::array<std::string_view, 5> kLevel4 = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"};

Features x86_features(const TargetRow& row) {
  Features f(kLevel2.begin(), kLevel2.end());
  if (row.limits.vector_bytes >= 32) f.insert(kLevel3.begin(), kLevel3.end());
  if (row.limits.vector_bytes >= 64) f.insert(kLevel4.begin(), kLevel4.end());
  const auto is = [&](auto... names) { return ((row.cpu == names) || ...); };
  if (is("cascadelake", "icelake-server", "sapphirerapids", "znver4", "znver5")) f.insert("avx512vnni");
  if (is("icelake-server", "sapphirerapids", "znver4", "znver5")) f.insert("avx512vbmi");
  if (is("sapphirerapids", "znver4", "znver5")) f.insert("avx512bf16");
  if (is("sapphirerapids", "znver5")) f.insert("avxvnni");
  if (is("sapphirerapids")) f.insert({"avx512fp16", "amx-tile", "amx-bf16", "amx-int8"});
  return f;
}

Features arm_features(const TargetRow& row) {
  Features f = {"fp-armv8", "neon"};
  const auto is = [&](auto... names) { return ((row.name == names) || ...); };
  if (is("neoverse-n1")) f.insert({"rdm", "fullfp16", "dotprod"});
  if (is("a64fx")) f.insert({"rdm", "fullfp16", "complxnum", "sve"});
  if (is("neoverse-v1", "neoverse-n2", "neoverse-v2"))
    f.insert({"rdm", "fullfp16", "dotprod", "complxnum", "fp16fml", "bf16", "i8mm", "sve"});
  if (is("neoverse-n2", "neoverse-v2")) f.insert("sve2");
  if (const std::string_view length = sve_length(row.limits.vector_bytes); !length.empty()) f.insert(length);
  return f;
}

void add(Arch arch, Features& features, const Extension& extension) {
  for (const Extension& e : extensions(arch)) {
    if (std::ranges::count(extension.needs, e.name) > 0) add(arch, features, e);
  }
  features.insert(extension.name);
}
void remove(Arch arch, Features& features, const Extension& extension) {
  features.erase(extension.name);
  for (const Extension& e : extensions(arch)) {
    if (std::ranges::count(e.needs, extension.name) > 0) remove(arch, features, e);
  }
}

}  // namespace

Features features_of(const TargetRow& row) {
  Features f = row.arch == Arch::x86_64 ? x86_features(row) : arm_features(row);
  if (row.features.empty()) return f;
  for (const std::string_view attribute : split(row.features, ','))
    require(apply_attribute(row.arch, attribute, f), "target '{}': attribute '{}'", row.name, attribute);
  return f;
}

std::vector<std::string> known_attributes(Arch arch) {
  std::vector<std::string> known;
  for (const Extension& e : extensions(arch)) known.emplace_back(e.name);
  return known;
}

bool apply_attribute(Arch arch, std::string_view attribute, Features& features) {
  if (attribute.size() < 2 || (attribute[0] != '+' && attribute[0] != '-')) return false;
  const auto it = std::ranges::find(extensions(arch), attribute.substr(1), &Extension::name);
  if (it == extensions(arch).end()) return false;
  attribute[0] == '+' ? add(arch, features, *it) : remove(arch, features, *it);
  return true;
}

void set_limits(Arch arch, CpuLimits& limits, const Features& f) {
  if (arch == Arch::aarch64) {  // adding an extension never widens vectors, since only the row knows SVE's length
    if (limits.vector_bytes > 16 && !f.contains("sve")) limits.vector_bytes = 16, limits.masks = false;
    limits.byte_dots_per_cycle = f.contains("i8mm") ? limits.fmas_per_cycle : 0;
    limits.bf16_dots_per_cycle = f.contains("bf16") ? limits.fmas_per_cycle : 0;
    return;
  }
  const bool wide = std::ranges::all_of(kLevel4, [&](std::string_view x) { return f.contains(x); });
  const int32_t bytes = wide ? 64 : f.contains("avx2") ? 32 : 16;
  if (bytes < limits.vector_bytes) limits.fmas_per_cycle = 2;  // narrower registers, the same units
  limits.vector_bytes = bytes;
  limits.vector_registers = wide ? 32 : 16;
  limits.masks = wide;
  limits.fma = f.contains("fma");
  limits.f16_convert = f.contains("f16c");
  const auto rate = [&]<class Rate>(Rate known, bool has) {
    return !has ? 0 : known > 0 ? known : static_cast<Rate>(limits.fmas_per_cycle);
  };
  limits.byte_dots_per_cycle = rate(limits.byte_dots_per_cycle, f.contains(wide ? "avx512vnni" : "avxvnni"));
  limits.bf16_dots_per_cycle = rate(limits.bf16_dots_per_cycle, f.contains("avx512bf16") && wide);
  limits.bf16_tiles = f.contains("amx-bf16") && wide;
  limits.byte_tiles = f.contains("amx-int8") && wide;
}

}  // namespace kilter
