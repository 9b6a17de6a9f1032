#include "target/target.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kilter {
namespace {

std::string usage_error(std::string_view text) {
  try {
    parse_target(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    return e.message();
  }
  ADD_FAILURE() << "accepted: " << text;
  return {};
}

TEST(Target, EveryRowParsesByNameAndByLlvmOptions) {
  for (const TargetRow& row : all_targets()) {
    const Target t = parse_target(row.name);
    EXPECT_EQ(t.name, row.name);
    EXPECT_EQ(t.cpu, row.cpu);
    EXPECT_EQ(t.limits.vector_bytes, row.limits.vector_bytes);
    EXPECT_EQ(t.features, row.features);
    EXPECT_EQ(parse_target("llvm -mcpu=" + std::string(row.name)).name, row.name);
    const TargetRow& of_cpu = *std::ranges::find(all_targets(), row.cpu, &TargetRow::cpu);
    EXPECT_EQ(parse_target("llvm -mcpu=" + std::string(row.cpu)).name, of_cpu.name);
    EXPECT_EQ(t.arch, row.arch);
    const bool arm = row.arch == Arch::aarch64;
    EXPECT_EQ(t.limits.masks, t.limits.vector_bytes == 64 || (arm && t.limits.vector_bytes == 32)) << row.name;
    EXPECT_EQ(t.limits.vector_registers, arm || t.limits.masks ? 32 : 16) << row.name;
    EXPECT_EQ(t.limits.fma, arm || t.limits.vector_bytes >= 32) << row.name;
  }
  EXPECT_EQ(parse_target("llvm -mcpu=core-avx2").name, "haswell");
}

TEST(Target, AttributesChangeTheLimits) {
  const Target narrow = parse_target("llvm -mcpu=skylake-avx512 -mattr=-avx512f");
  EXPECT_EQ(narrow.limits.vector_bytes, 32);
  EXPECT_EQ(narrow.limits.vector_registers, 16);
  EXPECT_FALSE(narrow.limits.masks);
  EXPECT_TRUE(narrow.limits.fma);
  EXPECT_EQ(narrow.limits.l2_bytes, parse_target("skylake-avx512").limits.l2_bytes);
  EXPECT_FALSE(parse_target("llvm -mcpu=haswell -mattr=-fma").limits.fma);
  EXPECT_EQ(parse_target("llvm -mcpu=haswell -mattr=-avx").limits.vector_bytes, 16);
  EXPECT_FALSE(parse_target("llvm -mcpu=haswell -mattr=-avx").limits.f16_convert);
  const Target wider = parse_target("llvm -mcpu=x86-64-v2 -mattr=+avx2,+fma");
  EXPECT_EQ(wider.limits.vector_bytes, 32);
  EXPECT_TRUE(wider.limits.fma);
  // The printed name parses again and means the same.
  const Target again = parse_target(wider.name);
  EXPECT_EQ(again.name, wider.name);
  EXPECT_EQ(again.features, wider.features);
  EXPECT_EQ(again.limits.vector_bytes, wider.limits.vector_bytes);
}

TEST(Target, TileRegistersFollowFromTheExtensions) {
  const auto tiles = [](const char* name) {
    const CpuLimits limits = parse_target(name).limits;
    return std::pair(limits.has_tiles(DType::bf16, DType::bf16), limits.has_tiles(DType::u8, DType::i8));
  };
  EXPECT_EQ(tiles("sapphirerapids"), std::pair(true, true));
  EXPECT_EQ(tiles("sapphirerapids-avx512"), std::pair(false, false));
  EXPECT_EQ(tiles("znver5"), std::pair(false, false));
  EXPECT_EQ(tiles("llvm -mcpu=sapphirerapids -mattr=-avx512fp16"), std::pair(true, true));
  EXPECT_EQ(tiles("llvm -mcpu=sapphirerapids -mattr=-amx-tile"), std::pair(false, false));
  EXPECT_EQ(tiles("llvm -mcpu=sapphirerapids -mattr=-amx-int8"), std::pair(true, false));
  // Attributes are added to those of the row.
  const Target target = parse_target("llvm -mcpu=sapphirerapids-avx512 -mattr=-avx512fp16");
  EXPECT_EQ(target.features, "-amx-tile,-avx512fp16");
  EXPECT_FALSE(parse_target(target.name).limits.has_tiles(DType::bf16, DType::bf16));
}

TEST(Target, AArch64AttributesKeepNeonVectors) {
  const Target more = parse_target("llvm -mcpu=aarch64 -mattr=+dotprod,+sve");
  EXPECT_EQ(more.name, "llvm -mcpu=generic -mattr=+dotprod,+sve");
  EXPECT_EQ(parse_target(more.name).name, more.name);
  EXPECT_EQ(more.arch, Arch::aarch64);
  EXPECT_EQ(more.limits.vector_bytes, 16);
  EXPECT_EQ(more.limits.vector_registers, 32);
  EXPECT_EQ(usage_error("llvm -mcpu=cortex-a72 -mattr=+avx2"),
            "target 'llvm -mcpu=cortex-a72 -mattr=+avx2': attribute '+avx2': expected + or - and one of rdm, fullfp16, "
            "dotprod, complxnum, fp16fml, bf16, i8mm, sve, sve2");
}

TEST(Target, NativeIsARowThatRunsHere) {
  const Target native = native_target();
  EXPECT_TRUE(runs_here(native));
  EXPECT_EQ(parse_target("native").name, native.name);
  EXPECT_EQ(parse_target("llvm").name, native.name);
  EXPECT_TRUE(runs_here(parse_target("x86-64-v2")));
  // A machine that runs wider code also runs narrower code.
  EXPECT_EQ(runs_here(parse_target("aarch64")), kThisArch == Arch::aarch64);
  EXPECT_LE(runs_here(parse_target("x86-64-v4")), runs_here(parse_target("x86-64-v3")));
  EXPECT_EQ(native.limits.masks, runs_here(parse_target("x86-64-v4")));
}

TEST(Target, UnknownNamesListTheLegalOnes) {
  EXPECT_NE(usage_error("znver9").find("znver4"), std::string::npos);
  EXPECT_NE(usage_error("").find("native"), std::string::npos);
  EXPECT_NE(usage_error("llvm -mcpu=pentium").find("x86-64-v3"), std::string::npos);
  EXPECT_NE(usage_error("llvm -mattr=+magic").find("avx512f"), std::string::npos);
  EXPECT_NE(usage_error("llvm -mattr=avx2").find("'avx2'"), std::string::npos);
  EXPECT_NE(usage_error("llvm -O3").find("-mcpu"), std::string::npos);
  EXPECT_NE(usage_error("cuda").find("legal"), std::string::npos);
}

TEST(Target, UnknownNameSuggestsTheNearest) {
  EXPECT_TRUE(usage_error("saphirerapids")
                  .starts_with("target 'saphirerapids': unknown; did you mean 'sapphirerapids'? "
                               "legal values are native, "));
  EXPECT_TRUE(usage_error("pdp11").starts_with("target 'pdp11': unknown; legal values are native, "));
}

}  // namespace
}  // namespace kilter
