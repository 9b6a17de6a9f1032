// The peaks that bounds are computed from: interpolated over threads, and the better of two measurements.
#include "measure/machine/machine_peaks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kilter {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;

TEST(MachinePeaks, AreMeasuredForEachNumberOfThreads) {
  const Peaks p = measure_peaks(1);
  EXPECT_THAT(p.gflops, ElementsAre(Gt(0.1)));
  for (const auto* rates : {&p.l2_gbps, &p.l3_gbps, &p.dram_gbps}) {
    ASSERT_EQ(rates->size(), 1);
    EXPECT_THAT(*rates, Each(Gt(0.01)));
  }
  EXPECT_THAT(p.region_us, ElementsAre(0));
}

TEST(MachinePeaks, MoreThreadsThanMeasuredUseTheLastPeak) {
  Peaks p;
  p.gflops = {10, 15};
  EXPECT_EQ(p.at(p.gflops, 0), 10);
  EXPECT_EQ(p.at(p.gflops, 2), 15);
  EXPECT_EQ(p.at(p.gflops, 9), 15);
  EXPECT_EQ(p.at(p.bf16_gflops, 1), 0);
  EXPECT_EQ(p.rate_of(DType::i8, 2), 15) << "without an instruction for bytes";
  p.byte_gops = {80};
  EXPECT_EQ(p.rate_of(DType::i8, 2), 80);
}

TEST(MachinePeaks, BetterOfTwoMeasurementsIsKept) {
  Peaks a, b;
  a.gflops = {10, 11}, b.gflops = {9, 12, 13};
  a.region_us = {0, 2}, b.region_us = {0, 1};
  b.l2_bytes = 7, b.l3_bytes = 9;
  const Peaks both = better(a, b);
  EXPECT_THAT(both.gflops, ElementsAre(10, 12, 13));
  EXPECT_THAT(both.region_us, ElementsAre(0, 1));
  EXPECT_EQ(both.l2_bytes, 7) << "the sizes of a measurement are not lost beside one that is empty";
  EXPECT_EQ(both.l3_bytes, 9);
}

}  // namespace
}  // namespace kilter
