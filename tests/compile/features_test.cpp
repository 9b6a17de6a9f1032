// The features that a compiled plan requires of a processor, and the error on a processor that lacks them.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/cpu_info.h"
#include "codegen/backend.h"
#include "guarded_run.h"
#include "ops/support/builder.h"

namespace kilter {
namespace {

using Names = std::vector<std::string>;

Graph relu(std::string name) {
  Graph graph;
  graph.name = std::move(name);
  GraphBuilder b(graph);
  graph.add_output(b.add("Relu", {b.input("x", DType::f32, {3, 5})}), "y");
  return graph;
}

Names operator+(Names a, const Names& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Names kLevel2 = {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"};
const Names kLevel3 = kLevel2 + Names{"avx", "f16c", "fma", "avx2", "bmi", "bmi2", "lzcnt", "movbe"};
const Names kLevel4 = kLevel3 + Names{"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"};

TEST(Features, PlanListsEveryFeatureTheCodeMayUse) {
  const auto of = [](std::string_view target) {
    return compile_for(relu("r"), parse_target(target)).plan.required_features;
  };
  EXPECT_EQ(of("x86-64-v2"), kLevel2);
  EXPECT_EQ(of("x86-64-v3"), kLevel3);
  EXPECT_EQ(of("haswell"), kLevel3);
  EXPECT_EQ(of("x86-64-v4"), kLevel4);
  EXPECT_EQ(of("skylake-avx512"), kLevel4);
  EXPECT_EQ(of("cascadelake"), kLevel4 + Names{"avx512vnni"});
  const Names zen4 = kLevel4 + Names{"avx512vnni", "avx512bf16", "avx512vbmi"};
  EXPECT_EQ(of("znver4"), zen4);
  EXPECT_EQ(of("znver5"), zen4 + Names{"avxvnni"});
  const Names rapids = zen4 + Names{"avxvnni", "avx512fp16"};
  EXPECT_EQ(of("sapphirerapids"), (rapids + Names{"amx-tile", "amx-bf16", "amx-int8"}));
  EXPECT_EQ(of("sapphirerapids-avx512"), rapids);
  EXPECT_EQ(of("aarch64"), (Names{"fp-armv8", "neon"}));
  EXPECT_EQ(of("cortex-a72"), (Names{"fp-armv8", "neon"}));
  EXPECT_EQ(of("neoverse-n1"), (Names{"fp-armv8", "neon", "rdm", "fullfp16", "dotprod"}));
  const Names v8 = {"fp-armv8", "neon", "rdm", "fullfp16", "dotprod", "complxnum", "fp16fml", "bf16", "i8mm", "sve"};
  EXPECT_EQ(of("neoverse-v1"), v8 + Names{"sve256"});
  EXPECT_EQ(of("neoverse-n2"), v8 + Names{"sve2"});
  EXPECT_EQ(of("neoverse-v2"), v8 + Names{"sve2"});
  EXPECT_EQ(of("a64fx"), (Names{"fp-armv8", "neon", "rdm", "fullfp16", "complxnum", "sve", "sve512"}));
}

TEST(Features, KernelKeysDependOnFeatures) {
  const auto key = [](std::string_view target) {
    return compile_for(relu("r"), parse_target(target)).plan.steps.at(0).key;
  };
  EXPECT_NE(key("llvm -mcpu=skylake-avx512"), key("llvm -mcpu=skylake-avx512 -mattr=+avx512vnni"));
  EXPECT_NE(key("llvm -mcpu=skylake-avx512 -mattr=-avx512f"), key("llvm -mcpu=skylake-avx512 -mattr=+avx512vnni"));
  EXPECT_EQ(key("llvm -mcpu=skylake-avx512 -mattr=+avx512vnni"), key("llvm -mcpu=skylake-avx512 -mattr=+avx512vnni"));
  EXPECT_EQ(key("skylake-avx512"), key("llvm -mcpu=skylake-avx512"));
}

TEST(Features, TargetAttributesChangeFeatures) {
  EXPECT_EQ(features_used(parse_target("llvm -mcpu=skylake-avx512 -mattr=-avx512f")), kLevel3);
  EXPECT_EQ(features_used(parse_target("llvm -mcpu=skylake-avx512 -mattr=+avx512vnni")),
            (kLevel4 + Names{"avx512vnni"}));
  EXPECT_EQ(features_used(parse_target("llvm -mcpu=x86-64-v2 -mattr=+avx")), (kLevel2 + Names{"avx"}));
  EXPECT_EQ(features_used(parse_target("llvm -mcpu=cortex-a72 -mattr=+sve2")),
            (Names{"fp-armv8", "neon", "fullfp16", "sve", "sve2"}));
  // Without SVE, the code uses NEON's vectors and runs on processors with any length of SVE registers.
  const Target narrow = parse_target("llvm -mcpu=a64fx -mattr=-sve");
  EXPECT_EQ(narrow.limits.vector_bytes, 16);
  EXPECT_EQ(features_used(narrow), (Names{"fp-armv8", "neon", "rdm", "fullfp16", "complxnum"}));
}

TEST(Features, TheTableOfTargetsAgreesWithTheCodeGenerator) {
  for (const TargetRow& row : all_targets()) {
    const Target target = parse_target(row.name);
    EXPECT_EQ(runs_here(target), missing_cpu_features(features_used(target)).empty()) << row.name;
  }
}

TEST(Features, PlanWithoutMachineCodeNeedsNoFeatures) {
  CompileOptions options;
  options.target = parse_target("x86-64-v4");
  options.debug.naive = true;
  const Plan plan = compile_graph(relu("r"), options).plan;
  ASSERT_EQ(plan.code_bytes, 0);
  EXPECT_EQ(plan.required_features, Names{});
}

TEST(Features, MissingFeaturesAreNamed) {
  for (const TargetRow& row : all_targets()) {
    if (row.arch != kThisArch) continue;
    Plan plan = compile_for(relu("net"), parse_target(row.name)).plan;
    const Names missing = missing_cpu_features(plan.required_features);
    if (missing.empty()) {
      EXPECT_NO_THROW(Program{std::move(plan)}) << row.name;
      continue;
    }
    try {
      const Program program{std::move(plan)};
      ADD_FAILURE() << row.name;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported);
      const bool refused = !tiles_refused().empty() && missing.back().starts_with("amx-");
      const std::string why = " (the processor has AMX, but the system does not permit it: " + tiles_refused() + ")";
      EXPECT_EQ(error.message(),
                fmt::format("'net' was compiled for target {} and needs CPU features that this machine "
                            "({}) lacks: {}{}; compile it for this machine",
                            row.name, cpu_brand(), fmt::join(missing, ", "), refused ? why : ""));
    }
  }
}

TEST(Features, OtherArchitectureIsAnError) {
  const char* other = kThisArch == Arch::x86_64 ? "neoverse-n1" : "x86-64-v2";
  Plan plan = compile_for(relu("net"), parse_target(other)).plan;
  try {
    const Program program{std::move(plan)};
    ADD_FAILURE() << other;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    const std::string_view theirs = kThisArch == Arch::x86_64 ? "AArch64" : "x86-64";
    EXPECT_EQ(error.message(), fmt::format("'net' was compiled for target {}, so its code is for {}; this machine ({}) "
                                           "is {}: run it on an {} machine, or compile it for this one",
                                           other, theirs, cpu_brand(), name(kThisArch), theirs));
  }
}

}  // namespace
}  // namespace kilter
