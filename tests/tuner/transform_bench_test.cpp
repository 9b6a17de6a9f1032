// Layout changes that cannot be measured.
#include "tune/tuner/transform_bench.h"

#include <gtest/gtest.h>

#include "../base/error_of.h"
#include "network.h"

namespace kilter::tune {
namespace {

TEST(MeasureTransforms, CopiesThatDoNotRunAreAnError) {
  RunnerOptions small = worker();
  small.memory_bytes = int64_t{64} << 20;  // takes the images, and not their copies beside them
  EXPECT_EQ(error_of([&] { measure_transforms(native(), small, "a device"); }, ErrorKind::unsupported),
            "layout changes cannot be measured here: the copies do not run");
}

}  // namespace
}  // namespace kilter::tune
