#include "schedule/kernel_versions.h"

#include <gtest/gtest.h>

#include "schedule/schedule.h"

namespace kilter {
namespace {

constexpr KernelHash kTable[] = {{"conv2d_direct", 0x1f3a0c2b00000001}, {"map", 0x0000000100000000}, {"defaults", 7}};

TEST(KernelVersions, VersionNamesTheTemplateAndThatOfTheDefault) {
  const KernelVersions versions("LLVM 22.1.8", kTable);
  EXPECT_EQ(versions.of("conv2d_direct tile=14 rows=1"), "LLVM 22.1.8, conv2d_direct 1f3a0c2b");
  EXPECT_EQ(versions.of("conv2d_direct tile=14", "conv2d_direct tile=7"), "LLVM 22.1.8, conv2d_direct 1f3a0c2b");
  EXPECT_EQ(versions.of("map", "conv2d_direct tile=7"), "LLVM 22.1.8, map 00000001, conv2d_direct 1f3a0c2b");
  EXPECT_EQ(versions.of("reference"), "LLVM 22.1.8, reference");
}

TEST(KernelVersions, CombinedVersionChangesWithAnyRow) {
  const std::string all = KernelVersions("LLVM 22.1.8", kTable).all();
  EXPECT_TRUE(all.starts_with("LLVM 22.1.8, kernels ")) << all;
  EXPECT_EQ(all.size(), std::string("LLVM 22.1.8, kernels 3fa9c1d2").size()) << all;
  KernelHash other[] = {kTable[0], kTable[1], {"defaults", 8}};
  EXPECT_NE(KernelVersions("LLVM 22.1.8", other).all(), all);
}

TEST(KernelVersions, WithoutACodeGeneratorAreEmpty) {
  EXPECT_TRUE(KernelVersions().empty());
  EXPECT_EQ(KernelVersions().of("map"), "");
  EXPECT_EQ(KernelVersions().all(), "");
}

TEST(KernelVersions, TheTableHasARowForEachTemplateAndOneForDefaults) {
  std::vector<std::string_view> names, expected;
  for (const KernelHash& row : kernel_hashes()) names.push_back(row.name);
  for (const Template* t : all_templates()) expected.push_back(t->name);
  expected.emplace_back("defaults");
  EXPECT_EQ(names, expected);
}

}  // namespace
}  // namespace kilter
