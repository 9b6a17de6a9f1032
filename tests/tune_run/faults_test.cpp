// Kernels that crash, hang, overwrite memory or compute nonsense: each fault is attributed to its step, and nothing
// else is affected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "../base/error_of.h"
#include "hand_made.h"

namespace kilter::tune {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class Faults : public testing::Test {
 protected:
  void SetUp() override { trusted_ = load({}); }
  VariantId load(const std::map<int, Deed>& deeds) {
    const Plan plan = hand_made(deeds);
    const Loaded loaded = runner_.load(plan, hand_made_values(plan));
    faults_ = loaded.faults;
    step_ms_ = loaded.step_ms;
    const bool runs =
        std::all_of(faults_.begin(), faults_.end(), [](const Fault& f) { return f.kind == FaultKind::wrong; });
    EXPECT_EQ(runs, loaded.id.has_value());
    return loaded.id.value_or(0);
  }
  std::string words() const { return faults_.empty() ? "no fault" : faults_[0].words; }

  LocalRunner runner_{hand_made_options()};
  VariantId trusted_ = 0;
  std::vector<Fault> faults_;
  std::vector<double> step_ms_;
};

TEST_F(Faults, RightVariantHasNone) {
  EXPECT_NE(trusted_, 0);
  const VariantId twin = load({});
  EXPECT_NE(twin, 0);
  EXPECT_NE(twin, trusted_);
  EXPECT_THAT(faults_, IsEmpty());
  EXPECT_EQ(step_ms_.size(), 4U);
  EXPECT_EQ(runner_.restarts(), 0);
}

TEST_F(Faults, IllegalInstruction) {
  EXPECT_EQ(load({{1, Deed::illegal}}), 0);
  EXPECT_THAT(brief(faults_), ElementsAre("1 crash layer1"));
  EXPECT_EQ(words(), "signal 4 (Illegal instruction) at step 1 'layer1' while checking");
}

TEST_F(Faults, StoreToNull) {
  load({{2, Deed::null_store}});
  EXPECT_THAT(brief(faults_), ElementsAre("2 crash layer2"));
  EXPECT_EQ(words(), "signal 11 (Segmentation fault) at step 2 'layer2' while checking: address 0x0");
}

TEST_F(Faults, StorePastTheEndOfTheArena) {
  load({{2, Deed::past_end}});
  EXPECT_THAT(brief(faults_), ElementsAre("2 crash layer2"));
  EXPECT_THAT(words(), AllOf(StartsWith("signal 11 (Segmentation fault) at step 2 'layer2' while checking: address 0x"),
                             HasSubstr(", 0 bytes past the end of the arena")));
}

TEST_F(Faults, StorePastTheEndOfAnOutput) {
  load({{3, Deed::past_end}});
  EXPECT_THAT(brief(faults_), ElementsAre("3 crash layer3"));
  EXPECT_THAT(words(), HasSubstr("0 bytes past the end of an output"));
}

TEST_F(Faults, StoreBeforeTheStartOfTheArena) {
  EXPECT_NE(load({{0, Deed::before_start}}), 0);
  EXPECT_THAT(brief(faults_), ElementsAre("0 wrong layer0"));
  EXPECT_EQ(words(), "wrong at step 0 'layer0': wrote byte -4 of the arena, which has 12096 bytes");
}

TEST_F(Faults, StoreIntoAnotherLayersBuffer) {
  // Layer 1 writes into the buffer after its output, but layer 2 overwrites that buffer with its own output. Only the
  // careful check, which looks for changes of memory outside a step's own buffers, finds the fault.
  EXPECT_NE(load({{1, Deed::past_end}, {3, Deed::same}}), 0);
  EXPECT_THAT(brief(faults_), ElementsAre("1 wrong layer1", "3 wrong layer3"));
  EXPECT_EQ(words(), "wrong at step 1 'layer1': wrote byte 8064 of the arena, which belongs to none of its buffers");
}

TEST(FaultsOfOthers, CorruptedValueIsBlamedOnTheWriter) {
  // Layer 0 writes the second buffer. The bad layer 1 writes the first and the beginning of the second. Layer 2 reads
  // the second and would be blamed.
  const auto forked = [](Deed deed) {
    Plan plan = hand_made({{1, deed}});
    const BufferRef first = plan.steps[0].args[1], second = plan.steps[1].args[1];
    plan.steps[1].args = {plan.steps[0].args[0], first};
    plan.steps[0].args[1] = second;
    plan.steps[2].args[0] = second;
    return plan;
  };
  LocalRunner runner(hand_made_options());
  const Plan good = forked(Deed::twice), bad = forked(Deed::past_end);
  ASSERT_TRUE(runner.load(good, hand_made_values(good)).id);
  std::vector<StepValue> values = hand_made_values(bad);
  for (StepValue& v : values) v.tolerance = 1e-6;
  const Loaded loaded = runner.load(bad, values);
  ASSERT_THAT(brief(loaded.faults), ElementsAre("1 wrong layer1"));
  EXPECT_EQ(loaded.faults[0].words,
            "wrong at step 1 'layer1': wrote byte 4032 of the arena, which belongs to none of its buffers");
}

TEST_F(Faults, StoreIntoTheInput) {
  load({{0, Deed::into_input}});
  EXPECT_THAT(brief(faults_), ElementsAre("0 crash layer0"));
  EXPECT_THAT(words(), HasSubstr("a write to an input"));
}

TEST_F(Faults, StoreIntoConstants) {
  Plan plan = hand_made();
  plan.steps[1].args = {plan.steps[1].args[1], plan.steps[1].args[2]};
  plan.steps[1].kernel = static_cast<int32_t>(Deed::into_input);
  const Loaded loaded = runner_.load(plan, hand_made_values(plan));
  EXPECT_THAT(brief(loaded.faults), ElementsAre("1 crash layer1"));
  EXPECT_THAT(loaded.faults[0].words, HasSubstr("a write to the constants"));
}

TEST_F(Faults, EndlessRecursion) {
  load({{1, Deed::recursion}});
  EXPECT_THAT(brief(faults_), ElementsAre("1 crash layer1"));
  EXPECT_EQ(words(), "signal 11 (Segmentation fault) at step 1 'layer1' while checking: the stack overflowed");
}

TEST_F(Faults, DivisionByZero) {
  load({{0, Deed::divide}});
  EXPECT_EQ(words(), "signal 8 (Floating point exception) at step 0 'layer0' while checking");
}

TEST_F(Faults, Abort) {
  load({{3, Deed::abort}});
  EXPECT_EQ(words(), "signal 6 (Aborted) at step 3 'layer3' while checking");
}

TEST_F(Faults, EndOfTheProcess) {
  load({{3, Deed::leave}});
  EXPECT_THAT(brief(faults_), ElementsAre("3 crash layer3"));
  EXPECT_EQ(words(), "the worker ended with code 3 at step 3 'layer3' while checking");
}

TEST_F(Faults, Hang) {
  load({{2, Deed::hang}});
  EXPECT_THAT(brief(faults_), ElementsAre("2 timeout layer2"));
  EXPECT_THAT(words(),
              AllOf(StartsWith("did not end within "),
                    HasSubstr(" ms at step 2 'layer2' while checking: the limit is 300 ms, 20 times a run of the "
                              "trusted variant and at least 300 ms")));
}

TEST_F(Faults, SleepingForEver) {
  // A worker that uses no CPU time may only be waiting for a CPU, so its limit is thirty times as long.
  RunnerOptions options = hand_made_options();
  options.timeout_ms = 50;
  LocalRunner runner(options);
  const Plan good = hand_made(), bad = hand_made({{2, Deed::sleep}});
  ASSERT_TRUE(runner.load(good, hand_made_values(good)).id);
  EXPECT_THAT(brief(runner.load(bad, hand_made_values(bad)).faults), ElementsAre("2 timeout layer2"));
}

TEST_F(Faults, AllocationWithoutEnd) {
  load({{1, Deed::allocate}});
  EXPECT_THAT(brief(faults_), ElementsAre("1 crash layer1"));
  EXPECT_THAT(words(), HasSubstr("signal 11"));
}

TEST_F(Faults, ArenaLargerThanTheLimit) {
  Plan plan = hand_made();
  plan.arena_bytes = int64_t{1} << 40;
  const Loaded loaded = runner_.load(plan, hand_made_values(plan));
  EXPECT_FALSE(loaded.id);
  EXPECT_THAT(brief(loaded.faults), ElementsAre("-1 memory "));
  EXPECT_EQ(loaded.faults[0].words,
            "out of memory while loading: 'hand-made' needs 1099511627776 bytes of arena and 0 of scratch memory; the "
            "limit is 268435456 bytes");
  EXPECT_EQ(runner_.restarts(), 0);
  EXPECT_NE(load({}), 0);
}

TEST_F(Faults, KernelThatFails) {
  load({{1, Deed::answer7}});
  EXPECT_THAT(brief(faults_), ElementsAre("1 crash layer1"));
  EXPECT_EQ(words(),
            "failed at step 1 'layer1' while checking: step 1 'layer1' (Test): its kernel returned 7; expected 0");
  EXPECT_EQ(runner_.restarts(), 0);
}

TEST_F(Faults, WrongValues) {
  EXPECT_NE(load({{0, Deed::same}, {2, Deed::same}}), 0);
  EXPECT_THAT(brief(faults_), ElementsAre("0 wrong layer0", "2 wrong layer2"));
  EXPECT_EQ(words(),
            "wrong at step 0 'layer0': value 'value of layer0' differs by 1.01e+03 from the trusted variant's, whose "
            "largest magnitude is 2.02e+03; expected at most 0.001 of that");
}

TEST_F(Faults, ToleranceIsTheCallers) {
  const Plan plan = hand_made({{1, Deed::same}});  // omits the constants: up to 6 in 2022
  std::vector<StepValue> values = hand_made_values(plan);
  EXPECT_THAT(brief(runner_.load(plan, values).faults), ElementsAre("1 wrong layer1"));
  values[1].tolerance = 1e-2;
  EXPECT_THAT(brief(runner_.load(plan, values).faults), IsEmpty());
}

TEST_F(Faults, ManyInOneVariantAreAllFound) {
  load({{0, Deed::same}, {1, Deed::illegal}, {2, Deed::hang}, {3, Deed::null_store}});
  EXPECT_THAT(brief(faults_), ElementsAre("0 wrong layer0", "1 crash layer1", "2 timeout layer2", "3 crash layer3"));
}

TEST_F(Faults, FirstVariantIsNotTrustedWhenItCrashes) {
  LocalRunner runner(hand_made_options());
  const Plan bad = hand_made({{1, Deed::illegal}});
  EXPECT_FALSE(runner.load(bad, hand_made_values(bad)).id);
  const Plan good = hand_made();
  EXPECT_TRUE(runner.load(good, hand_made_values(good)).id);
  const Plan wrong = hand_made({{2, Deed::same}});
  EXPECT_THAT(brief(runner.load(wrong, hand_made_values(wrong)).faults), ElementsAre("2 wrong layer2"));
}

TEST_F(Faults, UsageErrors) {
  EXPECT_EQ(error_of([&] { runner_.drop(trusted_); }, ErrorKind::usage),
            "all others are checked against variant 1, so it cannot be dropped");
  EXPECT_EQ(error_of([&] { (void)runner_.measure(std::vector<VariantId>{77}); }, ErrorKind::usage),
            "variant 77 cannot be measured: it is not loaded");
  RunnerOptions options = hand_made_options();
  options.threads = 0;
  EXPECT_EQ(error_of([&] { const LocalRunner runner(options); }, ErrorKind::usage),
            "a worker with 0 threads is not legal; expected 1 to 1024");
  options.threads = 1, options.memory_bytes = -1;
  EXPECT_EQ(error_of([&] { const LocalRunner runner(options); }, ErrorKind::usage),
            "a memory limit of -1 bytes is not legal; expected 0 (half of what this process may use) or more");
}

TEST_F(Faults, OnTwoThreads) {
  RunnerOptions options = hand_made_options();
  options.threads = 2;
  LocalRunner runner(options);
  const Plan good = hand_made();
  ASSERT_TRUE(runner.load(good, hand_made_values(good)).id);
  const Plan past_end = hand_made({{2, Deed::past_end_on_1}});
  Loaded loaded;
  for (int i = 0; i < 100; ++i) {
    loaded = runner.load(past_end, hand_made_values(past_end));
    // The pool leaves out a thread whose CPU others use; the first thread then waits alone.
    if (brief(loaded.faults) != std::vector<std::string>{"2 timeout layer2"}) break;
  }
  ASSERT_THAT(brief(loaded.faults), ElementsAre("2 crash layer2"));
  EXPECT_THAT(loaded.faults[0].words, HasSubstr("while checking: thread 1, address 0x"));
  const Plan recursion = hand_made({{2, Deed::recursion}});
  EXPECT_THAT(runner.load(recursion, hand_made_values(recursion)).faults[0].words, HasSubstr("the stack overflowed"));
}

}  // namespace
}  // namespace kilter::tune
