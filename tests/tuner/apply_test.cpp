// Records and layer plans become schedules of a network.
#include "tune/tuner/apply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../base/error_of.h"
#include "codegen/llvm/backend.h"
#include "network.h"
#include "tune/tuner/choices_file.h"

namespace kilter::tune {
namespace {

using testing::HasSubstr;

constexpr const char* kDevice = "A CPU, 2 CPUs, avx512, L1 48K, L2 1M, L3 32M";

class Apply : public testing::Test {
 protected:
  Apply() : passed_(run_passes(small_network(), native())) {
    CompileOptions look = native();
    look.generate_code = false;
    for (const Step& step : compile_passed(passed_, look).plan.steps) {
      if (step.schedule.starts_with("conv2d_direct") && step_.name.empty()) step_ = step;
    }
  }

  void SetUp() override { ASSERT_FALSE(step_.name.empty()) << "no layer runs conv2d_direct"; }

  /// Another tile than the default's, which every conv2d_direct takes.
  std::string other() const {
    Schedule s = parse_schedule(step_.schedule);
    for (auto& [knob, value] : s.knobs) {
      if (knob == "tile") value = value == 4 ? 3 : 4;
    }
    return s.text();
  }
  Record record(const std::string& schedule, double ratio) const {
    Record r;
    r.problem = step_.problem, r.layouts = step_.layouts, r.schedule = schedule;
    r.samples_ms = {1, 1};
    r.versus = Versus{{ratio, ratio - 0.01, ratio + 0.01}, step_.schedule};
    r.conditions.device = kDevice, r.conditions.threads = 1;
    r.conditions.target = native().target.name, r.conditions.codegen = codegen_version();
    r.conditions.date = "2026-01-02T03:04:05Z";
    return r;
  }
  Recorded apply(std::vector<Record> records, ApplyOptions options = {}, CompileOptions compile = native()) const {
    options.file = "some.db";
    options.device = kDevice;
    options.now = "2026-03-02T00:00:00Z";
    return apply_records(passed_, compile, Matcher(std::move(records)), options);
  }

  PassedGraph passed_;
  Step step_;
};

TEST_F(Apply, TheBestRecordOfATaskIsItsSchedule) {
  const Recorded got = apply({record(other(), 0.9)});
  ASSERT_TRUE(got.schedules.contains(step_.name)) << got.summary;
  EXPECT_EQ(got.schedules.at(step_.name).text(), other());
  EXPECT_THAT(
      got.words.at(step_.name),
      testing::Eq("exact: tuned under the same conditions; measured on 2026-01-02 (59 days before) at 1 thread, "
                  "weights warm: 0.900 (0.890 to 0.910) of the default's time there, 2 pairs"));
  EXPECT_THAT(got.summary, HasSubstr("some.db: 1 of "));
  EXPECT_THAT(got.summary, HasSubstr("1 exact"));
}

TEST_F(Apply, TheAgeOfARecordIsTold) {
  const auto words = [&](const std::string& date) {
    Record r = record(other(), 0.9);
    r.conditions.date = date, r.network = "a_network";
    return apply({r}).words.at(step_.name);
  };
  EXPECT_THAT(words("2026-03-01T23:59:59Z"),
              HasSubstr("measured on 2026-03-01 (1 day before) at 1 thread in a_network"));
  EXPECT_THAT(words("2026-03-02T10:00:00Z"), HasSubstr("measured on 2026-03-02 (the same day)"));
  EXPECT_THAT(words("2026-03-09T10:00:00Z"), HasSubstr("measured on 2026-03-09 at"));  // another clock
  EXPECT_THAT(words(""), HasSubstr("measured at an unknown date"));
}

TEST_F(Apply, OtherThreadCountsAreToldWithTheExpectedLoss) {
  ApplyOptions two;
  two.threads = 2;
  const Recorded got = apply({record(other(), 0.9)}, two);
  EXPECT_THAT(got.words.at(step_.name), HasSubstr("tuned at 1 thread, used at 2; expected loss about"));
  EXPECT_THAT(got.summary, HasSubstr("expected loss up to"));
}

TEST_F(Apply, ARecordThatWasNotFasterIsNotUsed) {
  EXPECT_TRUE(apply({record(other(), 0.995)}).schedules.empty());
  Record wrong = record(other(), 0.5);
  wrong.status = Status::wrong, wrong.error = "differs", wrong.samples_ms.clear(), wrong.versus.reset();
  EXPECT_TRUE(apply({record(other(), 0.5), wrong}).schedules.empty()) << "it was wrong once";
}

TEST_F(Apply, WhatDoesNotLowerGivesWayToTheNext) {
  const Recorded got = apply({record("conv2d_direct vectors=99 rows=1 tile=1 prefetch=0", 0.3), record(other(), 0.9)});
  EXPECT_EQ(got.schedules.at(step_.name).text(), other());
}

TEST_F(Apply, ForbiddenRecordsAreLeftOut) {
  CompileOptions options = native();
  const auto found = [&](const std::string& forbidden) {
    options.forbidden = {parse_forbidden(forbidden)};
    return apply({record(other(), 0.9)}, {}, options).schedules.contains(step_.name);
  };
  EXPECT_FALSE(found(other() + "@" + step_.name));
  EXPECT_TRUE(found(step_.schedule + "@" + step_.name));
  EXPECT_TRUE(found("conv2d_winograd@" + step_.name));
  EXPECT_FALSE(found(other()));
}

TEST_F(Apply, RecordsOfForbiddenTemplatesAreLeftOut) {
  const std::string node = "fire2.expand3x3";  // direct convolution takes it, too
  CompileOptions options = native();
  options.target = parse_target("x86-64-v4"), options.generate_code = false;
  passed_ = run_passes(small_network(), options);
  for (const Step& step : compile_passed(passed_, options).plan.steps) {
    if (step.name == node && step.kind == StepKind::kernel) step_ = step;
  }
  ASSERT_THAT(step_.schedule, testing::StartsWith("conv2d_winograd "));
  Record winograd = record(step_.schedule, 0.9);
  winograd.conditions.target = options.target.name;
  const auto found = [&](const std::string& forbidden) {
    options.forbidden = {parse_forbidden(forbidden)};
    return apply({winograd}, {}, options).schedules.contains(node);
  };
  EXPECT_FALSE(found("conv2d_winograd@" + node));
  EXPECT_FALSE(found("conv2d_winograd"));
  EXPECT_TRUE(found("conv2d_winograd@conv1"));
  EXPECT_TRUE(found("conv2d_direct@" + node));
  EXPECT_THAT(error_of([&] { found("conv2d_direct"); }, ErrorKind::usage),
              HasSubstr("--forbid conv2d_direct: no other template takes 'conv1'"));
}

TEST_F(Apply, ForcedSchedulesStay) {
  CompileOptions forced = native();
  forced.schedules[step_.name] = parse_schedule(step_.schedule);
  EXPECT_FALSE(apply({record(other(), 0.9)}, {}, forced).schedules.contains(step_.name));
}

TEST_F(Apply, ThePlanSaysWhereItsSchedulesComeFrom) {
  CompileOptions how = native();
  how.recorded = [&](const PassedGraph&, const CompileOptions&) {
    return recorded_choices(parse_choices(step_.name + " = " + other(), "my.plan"), "layer plan my.plan");
  };
  const Plan plan = compile_graph(small_network(), how).plan;
  EXPECT_EQ(plan.records, "layer plan my.plan: 1 layers");
  int found = 0;
  for (const Step& step : plan.steps) {
    if (step.name != step_.name || step.kind != StepKind::kernel) {
      EXPECT_EQ(step.record, "");
      continue;
    }
    ++found;
    EXPECT_EQ(step.schedule, other());
    EXPECT_EQ(step.record, "layer plan my.plan");
  }
  EXPECT_GE(found, 1);
}

TEST_F(Apply, ThreadCountsThatNobodyKeptAreUnknown) {
  ApplyOptions two;
  two.threads = 2;
  const std::string none = apply({}, two).summary;
  ASSERT_THAT(none, testing::StartsWith("some.db: 0 of "));
  const int64_t tasks = std::stoll(none.substr(none.find("of ") + 3));
  Record of_unknown = record(other(), 0.9);
  of_unknown.conditions.threads = 0;
  EXPECT_EQ(apply({of_unknown}, two).summary,
            fmt::format("some.db: 1 of {} tasks (1 that differ in threads, expected loss up to 4 %); 1 tuned at an "
                        "unknown number of threads, used at 2; the other {}: analytic defaults",
                        tasks, tasks - 1));
}

}  // namespace
}  // namespace kilter::tune
