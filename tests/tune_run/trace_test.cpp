// The values of one run of a variant, for the check against the reference kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>

#include "../base/error_of.h"
#include "hand_made.h"

namespace kilter::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class Trace : public testing::Test {
 protected:
  VariantId load(const Plan& plan, bool check = true) {
    return runner_.load(plan, hand_made_values(plan), {.check = check}).id.value_or(0);
  }
  /// Returns what each step of the plan writes.
  static std::vector<Tap> all_of(const Plan& plan) {
    std::vector<Tap> out;
    for (size_t s = 0; s < plan.steps.size(); ++s) out.push_back({s, plan.steps[s].args.back()});
    return out;
  }
  static std::vector<float> floats(const std::vector<std::byte>& bytes) {
    std::vector<float> out(bytes.size() / sizeof(float));
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }

  LocalRunner runner_{hand_made_options()};
  const Plan plan_ = hand_made();
  const VariantId trusted_ = load(plan_);
};

TEST_F(Trace, ValuesAreTakenAfterTheStep) {
  const Traced traced = runner_.trace(trusted_, all_of(plan_));
  EXPECT_FALSE(traced.fault);
  ASSERT_THAT(traced.values, SizeIs(4));
  for (int64_t i = 0; i < kCount; ++i) {  // y = 2 * (2 * (2 * x + c)) with x = i + 1 and c = i % 7
    const auto x = static_cast<float>(i + 1), c = static_cast<float>(i % 7);
    const auto at = static_cast<size_t>(i);
    ASSERT_EQ(floats(traced.values[0])[at], 2 * x);
    ASSERT_EQ(floats(traced.values[1])[at], 2 * x + c);
    ASSERT_EQ(floats(traced.values[2])[at], 4 * x + 2 * c);
    ASSERT_EQ(floats(traced.values[3])[at], 8 * x + 4 * c);
  }
}

TEST_F(Trace, TapsOfABufferAreReturnedInOrder) {
  Plan plan = plan_;
  plan.steps[2].args[1] = plan.steps[0].args[1];  // layer 2 overwrites the result of layer 0
  plan.steps[3].args[0] = plan.steps[2].args[1];
  const VariantId id = load(plan);
  ASSERT_NE(id, 0);
  BufferRef second = plan.steps[0].args[1];
  second.offset += 4, second.bytes = 4;
  const Traced traced =
      runner_.trace(id, std::vector<Tap>{{3, second}, {0, second}, {1, second}, {3, {}}, {2, second}});
  ASSERT_THAT(traced.values, SizeIs(5));
  EXPECT_THAT(floats(traced.values[0]), ElementsAre(10));
  EXPECT_THAT(floats(traced.values[1]), ElementsAre(4));
  EXPECT_THAT(floats(traced.values[2]), ElementsAre(4));
  EXPECT_THAT(traced.values[3], IsEmpty());
  EXPECT_THAT(floats(traced.values[4]), ElementsAre(10));
}

TEST_F(Trace, TapsMayExceedOneMessage) {
  const std::vector<Tap> taps(5000, {3, plan_.steps[3].args.back()});
  const Traced traced = runner_.trace(trusted_, taps);
  ASSERT_THAT(traced.values, SizeIs(5000));
  EXPECT_EQ(traced.values.back(), traced.values.front());
  EXPECT_THAT(runner_.measure(std::vector{trusted_}, {.rounds = 2}).faults, IsEmpty()) << "the log is used again";
}

TEST_F(Trace, ValuesAreNotCheckedAgainstTheTrustedVariant) {
  const VariantId other = load(hand_made({{2, Deed::same}}), false);
  const Traced traced = runner_.trace(other, std::vector<Tap>{{3, plan_.steps[3].args.back()}});
  ASSERT_THAT(traced.values, SizeIs(1));
  EXPECT_EQ(floats(traced.values[0])[1], 2 * (2 * 2 + 1));
}

TEST_F(Trace, FailedVariantIsNamedAndNotRunAgain) {
  for (const auto& [deed, kind, words] :
       {std::tuple{Deed::illegal, FaultKind::crash, "signal 4 (Illegal instruction) at step 1 'layer1' while checking"},
        {Deed::answer7, FaultKind::crash, "failed at step 1 'layer1' while checking: "},
        {Deed::hang, FaultKind::timeout, "at step 1 'layer1' while checking: the limit is "}}) {
    const VariantId bad = load(hand_made({{1, deed}}), false);
    ASSERT_NE(bad, 0);
    const Traced traced = runner_.trace(bad, all_of(plan_));
    EXPECT_THAT(traced.values, IsEmpty());
    ASSERT_TRUE(traced.fault);
    EXPECT_EQ(traced.fault->variant, bad);
    EXPECT_EQ(traced.fault->kind, kind);
    EXPECT_EQ(traced.fault->step, 1);
    EXPECT_EQ(traced.fault->layer, "layer1");
    EXPECT_THAT(traced.fault->words, HasSubstr(words));
    EXPECT_THAT(error_of([&] { runner_.trace(bad, {}); }, ErrorKind::usage), HasSubstr("cannot be traced again"));
    EXPECT_THAT(runner_.trace(trusted_, all_of(plan_)).values, SizeIs(4)) << "in a new worker";
  }
}

TEST_F(Trace, KilledWorkerIsReplaced) {
  for (int time = 0; time < 5; ++time) {
    kill(*runner_.worker_pid(), SIGKILL);
    EXPECT_THAT(runner_.trace(trusted_, all_of(plan_)).values, SizeIs(4));
  }
}

TEST_F(Trace, TapsOutsideThePlanAreRefused) {
  const auto refusal = [&](const Tap& tap) {
    return error_of([&] { runner_.trace(trusted_, {&tap, 1}); }, ErrorKind::internal);
  };
  const BufferRef arena = plan_.steps[0].args.back(), output = plan_.steps[3].args.back();
  EXPECT_EQ(refusal({4, arena}), "'hand-made': the values after step 4 are requested; it has 4 steps");
  const auto changed = [](BufferRef ref, auto change) {
    change(ref);
    return ref;
  };
  const std::string outside = " of the arena or an output are requested, which has ";
  EXPECT_THAT(refusal({0, changed(arena, [](BufferRef& b) { b.offset = -4; })}), HasSubstr("at byte -4" + outside));
  EXPECT_THAT(refusal({0, changed(arena, [](BufferRef& b) { b.offset = 12096, b.bytes = 1; })}),
              HasSubstr("1 bytes at byte 12096" + outside + "12096"));
  EXPECT_THAT(refusal({0, changed(output, [](BufferRef& b) { b.bytes += 1; })}), HasSubstr(outside + "4032"));
  EXPECT_THAT(refusal({0, changed(output, [](BufferRef& b) { b.index = 1; })}), HasSubstr(outside + "0"));
  EXPECT_THAT(refusal({0, changed(output, [](BufferRef& b) { b.index = -1; })}), HasSubstr(outside + "0"));
  EXPECT_THAT(refusal({0, plan_.steps[0].args.front()}), HasSubstr(outside + "0")) << "an input";
  const std::vector<Tap> many((int64_t{4} << 30) / arena.bytes + 1, {0, arena});
  EXPECT_THAT(error_of([&] { runner_.trace(trusted_, many); }, ErrorKind::unsupported),
              HasSubstr("values of more than "));
  EXPECT_THAT(error_of([&] { runner_.trace(99, {}); }, ErrorKind::usage), HasSubstr("it is not loaded"));
  EXPECT_EQ(runner_.restarts(), 0);
}

}  // namespace
}  // namespace kilter::tune
