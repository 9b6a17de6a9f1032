// Compiled files for several targets: which target is picked for a processor, and the errors for damaged files.
#include "vm/compiled_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "../base/scratch_folder.h"
#include "base/error.h"
#include "base/files.h"
#include "compile/session.h"

namespace kilter {
namespace {

using vm::TargetPart;

/// A processor as it described itself: family and model of CPUID, or MIDR_EL1, and the features among
/// known_cpu_features().
struct Recorded {
  const char* name;
  CpuIdentity cpu;
};

const std::vector<std::string> kAvx2 = {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx",  "f16c",
                                        "fma",  "avx2",  "bmi",    "bmi2",   "lzcnt",  "movbe"};

std::vector<std::string> with(std::vector<std::string> features, std::initializer_list<const char*> more) {
  features.insert(features.end(), more.begin(), more.end());
  return features;
}

const std::vector<std::string> kAvx512 = with(kAvx2, {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"});
const std::vector<std::string> kZen4 = with(kAvx512, {"avx512vnni", "avx512bf16", "avx512vbmi"});
const std::vector<std::string> kSapphire = with(
    kAvx512, {"avx512vnni", "avx512bf16", "avx512vbmi", "avxvnni", "avx512fp16", "amx-tile", "amx-bf16", "amx-int8"});

CpuIdentity x86(const char* vendor, uint32_t family, uint32_t model, std::vector<std::string> features) {
  return {Arch::x86_64, vendor, family, model, 0, std::move(features)};
}
CpuIdentity arm(uint64_t part, std::vector<std::string> features) {
  return {Arch::aarch64, "", 0, 0, 0x410fd000 | part << 4 | 1, std::move(features)};
}

const Recorded kHaswell = {"Core i7-4770", x86("GenuineIntel", 6, 0x3c, kAvx2)};
const Recorded kIvyBridge = {
    "Core i7-3770", x86("GenuineIntel", 6, 0x3a, {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx", "f16c"})};
const Recorded kSkylakeX = {"Xeon Platinum 8124M", x86("GenuineIntel", 6, 0x55, kAvx512)};
const Recorded kIceLake = {"Xeon Platinum 8375C",
                           x86("GenuineIntel", 6, 0x6a, with(kAvx512, {"avx512vnni", "avx512vbmi"}))};
const Recorded kSapphireRapids = {"Xeon Platinum 8488C", x86("GenuineIntel", 6, 0x8f, kSapphire)};
const Recorded kMilan = {"EPYC 7R13", x86("AuthenticAMD", 0x19, 0x01, kAvx2)};
const Recorded kGenoa = {"EPYC 9R14", x86("AuthenticAMD", 0x19, 0x11, kZen4)};
const Recorded kTurin = {"EPYC 9755", x86("AuthenticAMD", 0x1a, 0x02, with(kZen4, {"avxvnni"}))};
const Recorded kGraviton2 = {"Graviton2", arm(0xd0c, {"fp-armv8", "neon", "rdm", "fullfp16", "dotprod"})};
const Recorded kGraviton3 = {"Graviton3", arm(0xd40, {"fp-armv8", "neon", "rdm", "fullfp16", "dotprod", "complxnum",
                                                      "fp16fml", "bf16", "i8mm", "sve", "sve256"})};
const Recorded kRaspberryPi4 = {"Raspberry Pi 4", arm(0xd08, {"fp-armv8", "neon"})};

std::vector<TargetPart> targets(std::initializer_list<const char*> names) {
  std::vector<TargetPart> parts;
  for (const char* name : names) {
    const Target target = parse_target(name);
    TargetPart& part = parts.emplace_back();
    part.target = name, part.arch = target.arch;
    part.features = features_used(target);
  }
  return parts;
}

std::string chosen(const std::vector<TargetPart>& parts, const Recorded& recorded) {
  const int64_t at = vm::choose_target(parts, recorded.cpu);
  return at < 0 ? "none" : parts[static_cast<size_t>(at)].target;
}

TEST(CompiledFile, EveryProcessorGetsTheBestOfFourTargets) {
  const auto parts = targets({"x86-64-v3", "znver4", "sapphirerapids", "neoverse-n1"});
  EXPECT_EQ(chosen(parts, kIvyBridge), "none");
  EXPECT_EQ(chosen(parts, kHaswell), "x86-64-v3");
  EXPECT_EQ(chosen(parts, kMilan), "x86-64-v3");
  EXPECT_EQ(chosen(parts, kSkylakeX), "x86-64-v3");
  EXPECT_EQ(chosen(parts, kIceLake), "x86-64-v3");
  EXPECT_EQ(chosen(parts, kGenoa), "znver4");
  EXPECT_EQ(chosen(parts, kTurin), "znver4");
  EXPECT_EQ(chosen(parts, kSapphireRapids), "sapphirerapids");
  EXPECT_EQ(chosen(parts, kGraviton2), "neoverse-n1");
  EXPECT_EQ(chosen(parts, kGraviton3), "neoverse-n1");
  EXPECT_EQ(chosen(parts, kRaspberryPi4), "none");
}

TEST(CompiledFile, OwnTargetComesBeforeMoreFeatures) {
  const auto parts = targets({"x86-64-v2", "x86-64-v4", "skylake-avx512", "znver2", "znver3", "haswell", "aarch64"});
  EXPECT_EQ(chosen(parts, kIvyBridge), "x86-64-v2");
  EXPECT_EQ(chosen(parts, kHaswell), "haswell");
  EXPECT_EQ(chosen(parts, kMilan), "znver3");
  EXPECT_EQ(chosen(parts, kSkylakeX), "skylake-avx512");
  EXPECT_EQ(chosen(parts, kGenoa), "x86-64-v4");
  EXPECT_EQ(chosen(parts, kRaspberryPi4), "aarch64");
}

TEST(CompiledFile, OtherTargetServesAsFallback) {
  EXPECT_EQ(chosen(targets({"haswell", "znver4"}), kSapphireRapids), "znver4");
  EXPECT_EQ(chosen(targets({"haswell", "sapphirerapids"}), kMilan), "haswell");
  EXPECT_EQ(chosen(targets({"haswell", "skylake"}), kMilan), "haswell");
}

/// A small network for several targets, in a file of the given size.
std::filesystem::path written(const ScratchFolder& folder, const std::vector<std::string>& names,
                              vm::FileSize size = vm::FileSize::fast, Precision precision = Precision::declared) {
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<vm::Content> contents;
  for (const std::string& name : names) {
    Session::Options options;
    options.threads = 1;
    options.shapes = {{"input", {1, 3, 32, 32}}};
    options.compile.target = parse_target(name);
    options.compile.contents.recipes = size == vm::FileSize::small;
    options.compile.precision = precision;
    sessions.push_back(Session::open("zoo:squeezenet1_1", options));
    contents.push_back(sessions.back()->saved().content);
  }
  const std::filesystem::path file = folder.path() / "several.kilter";
  vm::save_targets(contents, file, size);
  return file;
}

/// The constants that the steps of a plan read, in the order of the steps.
std::vector<std::string> constants_of(const vm::CompiledFile& file) {
  const Plan& plan = std::get<Plan>(file.content);
  std::vector<std::string> all;
  for (const Step& step : plan.steps) {
    for (const BufferRef& ref : step.args) {
      if (ref.space == Space::constant)
        all.emplace_back(reinterpret_cast<const char*>(plan.constants) + ref.offset, static_cast<size_t>(ref.bytes));
    }
  }
  return all;
}

std::string error_of(const std::filesystem::path& file, const CpuIdentity& cpu) {
  try {
    vm::load_compiled(file, {}, cpu);
  } catch (const Error& e) {
    return e.message();
  }
  return "no error";
}

TEST(CompiledFile, SharesEqualConstantsAndLoadsTheChosenTarget) {
  const ScratchFolder folder;
  const auto file = written(folder, {"x86-64-v3", "haswell", "aarch64"});
  const vm::CompiledFile loaded = vm::load_compiled(file, {}, kHaswell.cpu);
  EXPECT_EQ(loaded.targets.at(loaded.chosen).target, "haswell");
  EXPECT_EQ(std::get<Plan>(loaded.content).target, "haswell");
  // The first two have the same schedules, so all constants of the second are those of the first.
  EXPECT_EQ(loaded.targets[1].own_bytes, 0);
  EXPECT_GT(loaded.targets[1].constants_bytes, 0);
  EXPECT_GT(loaded.targets[2].own_bytes, 0);
}

TEST(CompiledFile, SmallFileHasTheConstantsOfAFastFile) {
  const ScratchFolder folder, other;
  for (const Precision precision : {Precision::declared, Precision::bf16}) {
    std::vector<std::string> names = {"znver4", "sapphirerapids", "neoverse-v1"};
    if (precision == Precision::declared) names = {"x86-64-v3", "znver4", "aarch64"};
    const auto fast = written(folder, names, vm::FileSize::fast, precision);
    const auto small = written(other, names, vm::FileSize::small, precision);
    EXPECT_LT(file_size(small), 0.6 * static_cast<double>(file_size(fast)));
    for (const Recorded& recorded : {kMilan, kGenoa, kSapphireRapids, kGraviton3}) {
      if (vm::choose_target(vm::load_compiled(fast, {}, kGenoa.cpu).targets, recorded.cpu) < 0) continue;
      const vm::CompiledFile a = vm::load_compiled(fast, {}, recorded.cpu),
                             b = vm::load_compiled(small, {}, recorded.cpu);
      EXPECT_EQ(a.chosen, b.chosen);
      EXPECT_TRUE(constants_of(a) == constants_of(b)) << recorded.name;
      EXPECT_FALSE(constants_of(a).empty());
      EXPECT_FALSE(a.targets[a.chosen].small);
      EXPECT_TRUE(b.targets[b.chosen].small);
      EXPECT_GT(b.targets[b.chosen].memory_bytes, b.targets[b.chosen].own_bytes);
    }
  }
}

TEST(CompiledFile, SmallFileMayHaveOneTarget) {
  const ScratchFolder folder;
  const auto file = written(folder, {"x86-64-v3"}, vm::FileSize::small);
  const vm::CompiledFile loaded = vm::load_compiled(file, {}, kMilan.cpu);
  EXPECT_EQ(loaded.targets.size(), 1U);
  std::string bytes = read_file(file);
  char& inside = bytes[bytes.size() / 4 * 3];
  inside = static_cast<char>(inside ^ 1);
  write_file_atomically(file, bytes);
  EXPECT_TRUE(error_of(file, kMilan.cpu)
                  .starts_with("compiled file '" + file.string() + "': the network for x86-64-v3: expected hash "));
}

TEST(CompiledFile, ErrorSaysWhyEachTargetDoesNotFit) {
  const ScratchFolder folder;
  const auto file = written(folder, {"x86-64-v4", "aarch64"});
  const std::string text = error_of(file, kMilan.cpu);
  EXPECT_TRUE(text.starts_with("'" + file.string() + "' has no code for this machine (")) << text;
  EXPECT_TRUE(
      text.ends_with("): x86-64-v4 needs avx512f, avx512bw, avx512cd, avx512dq, avx512vl; aarch64 needs the "
                     "architecture AArch64; compile it for this machine as well"))
      << text;
}

TEST(CompiledFile, DamageIsFoundInUsedParts) {
  const ScratchFolder folder;
  const auto file = written(folder, {"x86-64-v3", "aarch64"});
  std::string bytes = read_file(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);  // of the constants of the second target
  write_file_atomically(file, bytes);
  EXPECT_EQ(error_of(file, kMilan.cpu), "no error");
  const std::string text = error_of(file, kRaspberryPi4.cpu);
  EXPECT_TRUE(text.starts_with("compiled file '" + file.string() + "': the network for aarch64: expected hash "))
      << text;
  std::string meta = read_file(file);
  meta[200] = static_cast<char>(meta[200] ^ 1);
  write_file_atomically(file, meta);
  EXPECT_NE(error_of(file, kMilan.cpu).find("expected hash"), std::string::npos);
}

}  // namespace
}  // namespace kilter
