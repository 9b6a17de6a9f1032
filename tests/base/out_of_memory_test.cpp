#include "base/out_of_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error_of.h"

namespace kilter {
namespace {

TEST(OutOfMemory, MessageNamesSizePurposeAndFreeMemory) {
  EXPECT_EQ(
      error_of([] { fail_out_of_memory(1'200'000'000, "the arena of 'x'", 412'000'000); }, ErrorKind::out_of_memory),
      free_memory() < 412'000'000
          ? fmt::format("cannot allocate 1.2 GB for the arena of 'x': out of memory ({} available)",
                        memory_text(free_memory()))
          : "cannot allocate 1.2 GB for the arena of 'x': out of memory (412 MB available)");
  EXPECT_GT(free_memory(), 0);
}

TEST(OutOfMemory, SizesHaveReadableUnits) {
  EXPECT_EQ(memory_text(0), "0 bytes");
  EXPECT_EQ(memory_text(999), "999 bytes");
  EXPECT_EQ(memory_text(1000), "1.0 kB");
  EXPECT_EQ(memory_text(12'345), "12 kB");
  EXPECT_EQ(memory_text(999'600), "1.0 MB");
  EXPECT_EQ(memory_text(412'000'000), "412 MB");
  EXPECT_EQ(memory_text(INT64_MAX), "9223 PB");
}

}  // namespace
}  // namespace kilter
