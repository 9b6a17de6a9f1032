// Replays of single tasks: the memory that is read between runs, and options and errors as documented.
#include "profile/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "network.h"

namespace kilter::profile {
namespace {

size_t step_named(const Plan& plan, const std::string& name) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].name == name && plan.steps[i].kind == StepKind::kernel) return i;
  }
  ADD_FAILURE() << "no step " << name;
  return 0;
}

ReplayOptions quick(Weights weights) {
  ReplayOptions o;
  o.weights = weights;
  o.repeat = 5;
  return o;
}

TEST(Replay, ColdWeightsRotateOverTouchedMemory) {
  TestNetwork net("zoo:squeezenet1_1");
  net.instance().run(net.from, net.to);
  const size_t step = step_named(net.plan(), "fire5.expand3x3");
  const Replay r = replay(net.instance(), net.plan(), 1, step, quick(Weights::cold));
  EXPECT_GT(r.copies, 10);
  EXPECT_THAT(r.weights, testing::MatchesRegex("cold: [0-9]+ copies rotated over [0-9.]+ MB"));
  EXPECT_THAT(r.activations, testing::HasSubstr("steps before it left them"));
  EXPECT_EQ(r.samples.ms.size(), 5U);
  EXPECT_GT(r.ms(), 0);
}

TEST(Replay, WarmAndFlushedAreLabelled) {
  TestNetwork net("zoo:squeezenet1_1");
  net.instance().run(net.from, net.to);
  const Replay warm = replay(net.instance(), net.plan(), 1, 2, quick(Weights::warm));
  EXPECT_EQ(warm.weights, "warm");
  EXPECT_EQ(warm.activations, "warm");
  const Replay flushed = replay(net.instance(), net.plan(), 1, 2, quick(Weights::flush));
  EXPECT_EQ(flushed.weights, "caches flushed");
}

TEST(Replay, NumberGrowsToTheMinimumTime) {
  TestNetwork net("zoo:squeezenet1_1");
  net.instance().run(net.from, net.to);
  ReplayOptions o = quick(Weights::warm);
  o.min_repeat_ms = 3;
  const Replay r = replay(net.instance(), net.plan(), 1, step_named(net.plan(), "fire2.squeeze"), o);
  EXPECT_GT(r.number, 3);
}

/// The next run is right again, whatever replays did to the buffers.
TEST(Replay, LeavesTheInstanceUnchanged) {
  TestNetwork net("zoo:squeezenet1_1");
  net.instance().run(net.from, net.to);
  const std::vector<Tensor> before = net.outputs;
  std::vector<std::byte> bytes(before[0].raw(), before[0].raw() + before[0].bytes());
  for (size_t s = 0; s < net.plan().steps.size(); ++s) replay(net.instance(), net.plan(), 1, s, quick(Weights::cold));
  net.instance().run(net.from, net.to);
  EXPECT_EQ(std::memcmp(bytes.data(), net.outputs[0].raw(), bytes.size()), 0);
}

TEST(Replay, ErrorsNameTheLegalWords) {
  try {
    parse_weights("lukewarm");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "--weights lukewarm: legal values are cold, warm, flush");
  }
}

}  // namespace
}  // namespace kilter::profile
