// The display of a tuning run while it is running.
#include "../../tools/tune_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace kilter::tool {
namespace {

using testing::Not;
using testing::StartsWith;

constexpr TerminalSize k80{24, 80};

tune::TaskProgress task(int64_t number, double share, const std::string& problem) {
  tune::TaskProgress t;
  t.number = number;
  t.problem = problem, t.node = "conv" + std::to_string(number), t.share = share, t.layers = 3;
  t.flops = 90'000'000, t.default_ms = 1;  // 90 GFLOP/s under the default schedule
  t.best = 0.9, t.current = 1.2, t.bound_ms = 0.72, t.schedule = "conv2d_direct tile=7";
  t.tried = 12, t.size = 300;
  return t;
}

tune::TuneProgress run() {
  tune::TuneProgress p;
  p.phase = "searching", p.seconds = 35.4, p.budget_seconds = 300, p.trials = 1234;
  p.default_ms = 34.51, p.predicted_ms = 33.02, p.remaining = 0.021;
  p.flops = 1'800'000'000, p.bound_ms = 20.1422;
  p.runs.taken = 100, p.runs.disturbed = 3;
  // Tasks are numbered in the whole network; --ops excludes tasks 2 and 3.
  p.tasks = {task(1, 0.1, "the first"), task(4, 0.3, "the second"), task(5, 0.2, "the third")};
  return p;
}

TEST(TuneView, OneLineForTheWholeRun) {
  EXPECT_EQ(
      progress_line(run()),
      "searching: 35 of 300 s, 265 s left, 1234 trials, 34.510 ms -> 33.020 ms (0.957), 54.5 GFLOP/s (last 46.6), "
      "61 % of its bound, 2.1 % expected to be left, 3 % of the runs disturbed");
}

TEST(TuneView, BytesAreShownIfTheyHaveAWeight) {
  tune::TuneProgress p = run();
  p.default_bytes = 52'340'000, p.predicted_bytes = 33'020'000;
  EXPECT_THAT(progress_line(p), testing::HasSubstr("33.020 ms (0.957), 52.3 MB -> 33.0 MB (0.631), 54.5 GFLOP/s"));
  p.tasks[0].best = 1.25, p.tasks[0].more_bytes = -1'234'000;
  EXPECT_THAT(gain_line(p.tasks[0]), testing::HasSubstr(", 1.250 of the default's time and -1.234 MB, 12/300 tried"));
}

/// If other programs use the machine, the line says so before its figures.
TEST(TuneView, BusyMachineIsReportedFirst) {
  tune::TuneProgress p = run();
  p.runs.disturbed = 92;
  EXPECT_THAT(progress_line(p), StartsWith("busy machine, times are upper bounds; searching: 35 of 300 s"));
  EXPECT_THAT(progress_line(p), testing::EndsWith("2.1 % expected to be left, 92 % of the runs disturbed"));
}

/// A time far below its bound is not shown as a share of it: the bound must be wrong.
TEST(TuneView, BeatenBoundIsNotShownAsAShare) {
  tune::TuneProgress p = run();
  p.bound_ms = 1.7 * p.predicted_ms, p.tasks[1].bound_ms = 1.7 * 0.9;
  EXPECT_THAT(progress_line(p),
              testing::HasSubstr("(last 46.6), faster than its bound, which is therefore wrong, 2.1 %"));
  EXPECT_THAT(view_lines("tune x", p, k80)[1], testing::HasSubstr(", bound beaten"));
  EXPECT_THAT(view_lines("tune x", p, k80)[3], testing::HasSubstr("   beaten "));
  EXPECT_THAT(gain_line(p.tasks[1]), testing::HasSubstr(", faster than its bound, which is therefore wrong, 0.900 of"));
  p.bound_ms = 1.04 * p.predicted_ms;  // within the error of measured peaks
  EXPECT_THAT(progress_line(p), testing::HasSubstr(", 100 % of its bound, "));
}

TEST(TuneView, TrialLimitReplacesTimeLimit) {
  tune::TuneProgress p = run();
  p.budget_seconds = std::numeric_limits<double>::infinity(), p.most_trials = 5000;
  EXPECT_THAT(progress_line(p), StartsWith("searching: 35 s, 1234 of 5000 trials, 34.510 ms"));
}

TEST(TuneView, GainLineNamesTaskFiguresAndSchedule) {
  EXPECT_EQ(
      gain_line(task(5, 0.1, "the first")),
      "task 5: 100.0 GFLOP/s (last 75.0), 80 % of its bound, 0.900 of the default's time, 12/300 tried: the first | "
      "conv2d_direct tile=7");
  tune::TaskProgress back = task(5, 0.1, "the first");
  back.best = 1;
  EXPECT_EQ(gain_line(back),
            "task 5: 90.0 GFLOP/s (last 75.0), 72 % of its bound, the default again, 12/300 tried: the first | "
            "conv2d_direct tile=7");
}

TEST(TuneView, WithoutATerminalLinesArePrinted) {
  testing::internal::CaptureStderr();
  TuneView view("tune x", false);
  view.show(run());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), progress_line(run()) + "\n");
}

TEST(TuneView, LinesForLogs) {
  testing::internal::CaptureStderr();
  TuneView view("tune x", true);
  view.show("preparing");
  tune::TuneProgress p = run();
  view.show(p);
  p.seconds += 1, p.tasks[2].schedule = "conv2d_direct tile=9";
  view.show(p);
  p.seconds += 1.5;
  view.show(p);
  p.phase = "racing";
  view.show(p);
  const std::string log = testing::internal::GetCapturedStderr();
  p.phase = "searching";
  const std::string later = progress_line(p);
  EXPECT_THAT(later, StartsWith("searching: 38 of 300 s, 262 s left, "));
  p.phase = "racing";
  EXPECT_EQ(log, progress_line(run()) + "\n" + gain_line(p.tasks[2]) + "\n" + later + "\n" + progress_line(p) + "\n");
  EXPECT_THAT(log, Not(testing::HasSubstr("\033")));
}

}  // namespace
}  // namespace kilter::tool
