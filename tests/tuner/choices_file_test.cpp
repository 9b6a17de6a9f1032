#include "tune/tuner/choices_file.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kilter::tune {
namespace {

std::string refusal(std::string_view text) {
  try {
    parse_choices(text, "a.plan");
  } catch (const Error& e) {
    return e.message();
  }
  return "accepted";
}

TEST(ChoicesFile, ReadsWhatItWrites) {
  Choices choices;
  choices["conv1"] = parse_schedule("conv2d_direct vectors=2 rows=1 tile=8 prefetch=0");
  choices["layer = odd"] = parse_schedule("map item=4096");
  choices.erase("layer = odd");
  choices["fc"] = parse_schedule("matmul_tiled vectors=3 rows=1 prefetch=8192");
  const std::string written = text(choices, "zoo:resnet18\non 1 thread");
  EXPECT_EQ(written,
            "# zoo:resnet18\n# on 1 thread\nconv1 = conv2d_direct vectors=2 rows=1 tile=8 prefetch=0\n"
            "fc = matmul_tiled vectors=3 rows=1 prefetch=8192\n");
  EXPECT_EQ(parse_choices(written, "a.plan"), choices);
}

TEST(ChoicesFile, TakesCommentsAndBlankLines) {
  const Choices got = parse_choices("\n  # nothing\n a.b/c  =  map item=1024  # the first\n\n", "a.plan");
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got.at("a.b/c").text(), "map item=1024");
}

TEST(ChoicesFile, SaysWhatIsWrongWhere) {
  EXPECT_EQ(refusal("# one\nconv1"), "a.plan line 2: expected NODE = TEMPLATE KNOB=VALUE ..., got 'conv1'");
  EXPECT_EQ(refusal("a = map item=1\na = map item=2"), "a.plan line 2: expected each layer once, got 'a'");
  EXPECT_EQ(
      refusal("a = map item"),
      "a.plan line 1: schedule 'map item': expected knob=INTEGER, got 'item'; write it as `kilter run --verify` and "
      "profiles print it");
}

}  // namespace
}  // namespace kilter::tune
