#include "measure/evaluator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/ticks.h"
#include "fake_machine.h"

namespace kilter {
namespace {

using testing::HasSubstr;

struct Bench {
  FakeMachine machine;
  EvaluatorOptions options;
  int calls = 0;
  Bench() {
    options.clock = machine.clock();
    options.read_quiet = machine.quiet();
  }
  /// Runs an evaluation in which call i takes times[i % size].
  Evaluation run(const std::vector<double>& times) {
    return evaluate([&] { machine.work(times[static_cast<size_t>(calls++) % times.size()]); }, options);
  }
};

TEST(Evaluator, FiguresOfKnownTimes) {
  Bench bench;
  bench.options.warm_up = 0;
  bench.options.repeat = 4;
  const Evaluation e = bench.run({1, 2, 3, 10});
  EXPECT_EQ(bench.calls, 4);
  EXPECT_EQ(e.number, 1);
  EXPECT_DOUBLE_EQ(e.mean(), 4);
  EXPECT_NEAR(e.std_dev(), 4.0825, 1e-4);
  EXPECT_DOUBLE_EQ(e.median(), 2.5);
  EXPECT_DOUBLE_EQ(e.min(), 1);
  EXPECT_DOUBLE_EQ(e.max(), 10);
  EXPECT_DOUBLE_EQ(e.estimate(), 2.5);
  EXPECT_EQ(e.disturbed, 0);
}

TEST(Evaluator, NumberCallsMakeOneMeasurement) {
  Bench bench;
  bench.options.number = 4;
  bench.options.repeat = 3;
  bench.options.warm_up = 2;
  const Evaluation e = bench.run({1, 3});
  EXPECT_EQ(bench.calls, 2 + 12);
  ASSERT_EQ(e.samples.ms.size(), 3U);
  for (const double ms : e.samples.ms) EXPECT_DOUBLE_EQ(ms, 2);
}

TEST(Evaluator, NumberGrowsToTheMinimumDuration) {
  Bench bench;
  bench.options.min_repeat_ms = 50;
  bench.options.repeat = 5;
  const Evaluation e = bench.run({0.5});
  EXPECT_GE(e.number, 100);
  EXPECT_LE(e.number, 130);
  EXPECT_NEAR(e.mean(), 0.5, 1e-9);
}

TEST(Evaluator, AnInterruptedMeasurementDoesNotEndTheGrowth) {
  Bench bench;
  bench.options.min_repeat_ms = 50;
  std::vector<double> times(10'000, 0.5);
  times[1] = 60;  // the call after the warm-up
  EXPECT_GE(bench.run(times).number, 100);
}

TEST(Evaluator, TooShortSamplesAreRetakenWithALargerNumber) {
  Bench bench;
  bench.options.min_repeat_ms = 50;
  bench.options.repeat = 4;
  std::vector<double> times(10'000, 0.5);
  times[1] = times[2] = 60;  // both calls of the growth
  const Evaluation e = bench.run(times);
  EXPECT_GE(e.number, 100);
  EXPECT_EQ(e.samples.ms.size(), 4U);
  EXPECT_NEAR(e.mean(), 0.5, 1e-9);
}

TEST(Evaluator, SufficientNumberIsKept) {
  Bench bench;
  bench.options.number = 20;
  bench.options.min_repeat_ms = 10;
  EXPECT_EQ(bench.run({0.5}).number, 20);
}

TEST(Evaluator, PreparationRunsBeforeEachMeasurementUntimed) {
  Bench bench;
  int prepared = 0;
  bench.options.number = 3;
  bench.options.repeat = 5;
  bench.options.prepare = [&] {
    ++prepared;
    bench.machine.stall(100);
  };
  const Evaluation e = bench.run({2});
  EXPECT_EQ(prepared, 5);
  EXPECT_DOUBLE_EQ(e.mean(), 2);
  EXPECT_EQ(e.disturbed, 0) << "what happens while preparing disturbs nothing";
}

TEST(Evaluator, DisturbedMeasurementsAreCountedAndLeftOutOfTheEstimate) {
  Bench bench;
  bench.options.warm_up = 0;
  bench.options.repeat = 10;
  const Evaluation e = evaluate(
      [&] {
        bench.machine.work(2);
        if (++bench.calls % 3 == 0) bench.machine.stall(8);
      },
      bench.options);
  EXPECT_EQ(e.disturbed, 3);
  EXPECT_EQ(e.disturbed_by, "waited 8.00 ms for a CPU");
  EXPECT_EQ(e.samples.ms.size(), 10U);
  EXPECT_EQ(e.quiet.ms.size(), 7U);
  EXPECT_NEAR(e.mean(), 2 + 8 * 0.3, 1e-9);
  EXPECT_NEAR(e.estimate(), 2, 1e-9);
  EXPECT_NEAR(e.spread(), 0, 1e-9);
}

TEST(Evaluator, WhenMostAreDisturbedAllAreUsed) {
  Bench bench;
  bench.options.warm_up = 0;
  const Evaluation e = evaluate(
      [&] {
        bench.machine.work(2);
        if (++bench.calls > 2) bench.machine.stall(1);
      },
      bench.options);
  EXPECT_EQ(e.disturbed, 8);
  EXPECT_EQ(e.quiet.ms.size(), 10U);
  EXPECT_NEAR(e.estimate(), 3, 1e-9);
}

void expect_usage(const EvaluatorOptions& options, const std::string& text) {
  try {
    evaluate([] {}, options);
    FAIL() << text;
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_THAT(e.message(), HasSubstr(text));
  }
}

TEST(Evaluator, WrongOptionsAreNamed) {
  EvaluatorOptions number;
  number.number = 0;
  expect_usage(number, "number 0: expected 1 or more calls in one measurement");
  EvaluatorOptions repeat;
  repeat.repeat = -1;
  expect_usage(repeat, "repeat -1: expected 1 or more measurements");
  EvaluatorOptions least;
  least.min_repeat_ms = -2;
  expect_usage(least, "min_repeat_ms -2: expected 0 or more milliseconds");
}

// Reading 256 KB from the L2 cache is several times as fast as from DRAM. Only the fastest of 30 runs counts for each,
// so a busy machine does not matter.
TEST(Evaluator, FlushedCachesMakeReadingSlow) {
  std::vector<uint64_t> data(32768, 1);
  uint64_t sum = 0;
  const auto read = [&] {
    for (size_t i = 0; i < data.size(); i += 8) sum += data[i];
    asm volatile("" : : "r"(sum));
  };
  EvaluatorOptions options;
  options.repeat = 30;
  const double warm = evaluate(read, options).min();
  options.prepare = cache_flusher();
  const double cold = evaluate(read, options).min();
  EXPECT_GT(cold, 1.5 * warm) << cold << " ms cold, " << warm << " ms warm";
}

// However busy the machine is, at least one of 50 spins of 2 ms is interrupted for less than another 2 ms.
TEST(Evaluator, RealClock) {
  EvaluatorOptions options;
  options.repeat = 50;
  const Evaluation e = evaluate(
      [] {
        const uint64_t start = ticks();
        while (ms_between(start, ticks()) < 2) {
        }
      },
      options);
  EXPECT_GE(e.min(), 2 * 0.999);
  EXPECT_LT(e.min(), 4);
}

}  // namespace
}  // namespace kilter
