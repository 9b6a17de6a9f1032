// Records and layer plans become the schedules of a network.
#include "tune/tuner/plans/apply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../base/error_of.h"
#include "compile/code_versions.h"
#include "network.h"
#include "tune/tuner/plans/choices_file.h"

namespace kilter::tune {
namespace {

using testing::HasSubstr;

constexpr const char* kDevice = "A CPU, 2 CPUs, avx512, L1 48K, L2 1M, L3 32M";

/// Returns `schedule` with tile `i`, or `i` - 1 if that is its own.
std::string other_tile(const std::string& schedule, int64_t i = 4) {
  Schedule s = parse_schedule(schedule);
  for (auto& [knob, value] : s.knobs) {
    if (knob == "tile") value = value == i ? i - 1 : i;
  }
  return s.text();
}

class Apply : public testing::Test {
 protected:
  Apply() : passed_(run_passes(small_network(), native())) {
    CompileOptions look = native();
    look.contents.code = false;
    for (const Step& step : compile_passed(passed_, look).plan.steps) {
      if (step.schedule.starts_with("conv2d_direct") && step_.name.empty()) step_ = step;
    }
  }

  void SetUp() override { ASSERT_FALSE(step_.name.empty()) << "no layer runs conv2d_direct"; }

  /// The default schedule with another tile, which every conv2d_direct accepts.
  std::string other() const { return other_tile(step_.schedule); }
  Record record(const std::string& schedule, double ratio) const {
    Record r;
    r.problem = step_.problem, r.layouts = step_.layouts, r.schedule = schedule;
    r.samples_ms = {1, 1};
    r.versus = Versus{{ratio, ratio - 0.01, ratio + 0.01}, step_.schedule};
    r.conditions.device = kDevice, r.conditions.threads = 1;
    r.conditions.target = native().target.name, r.conditions.codegen = code_version(r, code_versions(native().target));
    r.conditions.date = "2026-01-02T03:04:05Z";
    return r;
  }
  Recorded apply(std::vector<Record> records, ApplyOptions options = {}, CompileOptions compile = native()) const {
    options.file = "some.db";
    options.device = kDevice;
    options.now = "2026-03-02T00:00:00Z";
    compile.contents = {.code = false, .tasks = true};
    return apply_records(compile_passed(passed_, compile), compile, Matcher(std::move(records)), options);
  }

  PassedGraph passed_;
  Step step_;
};

TEST_F(Apply, TheBestRecordOfATaskIsItsSchedule) {
  const Record r = record(other(), 0.9);
  const Recorded got = apply({r});
  ASSERT_TRUE(got.choices.contains(step_.name)) << got.summary;
  EXPECT_EQ(got.choices.at(step_.name).schedule->text(), other());
  EXPECT_EQ(got.choices.at(step_.name).schedule_from.words,
            "record " + r.id().substr(0, 12) +
                ", exact: tuned under the same conditions; measured on 2026-01-02 (59 days before) at 1 thread, "
                "weights warm: 0.900 (0.890 to 0.910) of the default's time there, 2 pairs");
  EXPECT_THAT(got.summary, HasSubstr("some.db: 1 of "));
  EXPECT_THAT(got.summary, HasSubstr("1 exact"));
}

TEST_F(Apply, AgeOfARecordIsReported) {
  const auto words = [&](const std::string& date) {
    Record r = record(other(), 0.9);
    r.conditions.date = date, r.network = "a_network";
    return apply({r}).choices.at(step_.name).schedule_from.words;
  };
  EXPECT_THAT(words("2026-03-01T23:59:59Z"),
              HasSubstr("measured on 2026-03-01 (1 day before) at 1 thread in a_network"));
  EXPECT_THAT(words("2026-03-02T10:00:00Z"), HasSubstr("measured on 2026-03-02 (the same day)"));
  EXPECT_THAT(words("2026-03-09T10:00:00Z"), HasSubstr("measured on 2026-03-09 at"));  // a clock was wrong
  EXPECT_THAT(words(""), HasSubstr("measured at an unknown date"));
}

TEST_F(Apply, OtherThreadCountsReportTheExpectedLoss) {
  ApplyOptions two;
  two.threads = 2;
  const Recorded got = apply({record(other(), 0.9)}, two);
  EXPECT_THAT(got.choices.at(step_.name).schedule_from.words,
              HasSubstr("tuned at 1 thread, used at 2; expected loss about"));
  EXPECT_THAT(got.summary, HasSubstr("expected loss up to"));
}

TEST_F(Apply, ARecordThatWasNotFasterIsNotUsed) {
  EXPECT_TRUE(apply({record(other(), 0.995)}).choices.empty());
  Record wrong = record(other(), 0.5);
  wrong.status = Status::wrong, wrong.error = "differs", wrong.samples_ms.clear(), wrong.versus.reset();
  EXPECT_TRUE(apply({record(other(), 0.5), wrong}).choices.empty()) << "it was wrong once";
}

TEST_F(Apply, IllegalScheduleIsSkippedForTheNext) {
  const Recorded got = apply({record("conv2d_direct vectors=99 rows=1 tile=1 prefetch=0", 0.3), record(other(), 0.9)});
  EXPECT_EQ(got.choices.at(step_.name).schedule->text(), other());
}

TEST_F(Apply, ForbiddenRecordsAreLeftOut) {
  CompileOptions options = native();
  const auto found = [&](const std::string& forbidden) {
    options.forbidden = {parse_forbidden(forbidden)};
    return apply({record(other(), 0.9)}, {}, options).choices.contains(step_.name);
  };
  EXPECT_FALSE(found(other() + "@" + step_.name));
  EXPECT_TRUE(found(other_tile(step_.schedule, 6) + "@" + step_.name));
  EXPECT_TRUE(found("conv2d_winograd@" + step_.name));
  EXPECT_FALSE(found(other()));
}

TEST(Allowed, ForbiddenSchedulesAreRemovedFromChoices) {
  const Choices choices =
      parse_choices("a = conv2d_winograd tile=4\nb = fuse=before\nc = fuse=before threads=1\nd = fuse=apart", "a.plan");
  EXPECT_EQ(allowed(choices, {}), choices);
  EXPECT_EQ(text(allowed(choices, {parse_forbidden("conv2d_winograd")}), ""),
            "b = fuse=before\nc = threads=1 fuse=before\nd = fuse=apart\n");
  EXPECT_EQ(text(allowed(choices, {parse_forbidden("conv2d_then_depthwise")}), ""),
            "a = conv2d_winograd tile=4\nc = threads=1\nd = fuse=apart\n");
}

TEST_F(Apply, RecordsOfForbiddenTemplatesAreLeftOut) {
  const std::string node = "fire2.expand3x3";  // conv2d_direct applies to it, too
  CompileOptions options = native();
  options.target = parse_target("x86-64-v4"), options.contents.code = false;
  passed_ = run_passes(small_network(), options);
  for (const Step& step : compile_passed(passed_, options).plan.steps) {
    if (step.name == node && step.kind == StepKind::kernel) step_ = step;
  }
  ASSERT_THAT(step_.schedule, testing::StartsWith("conv2d_winograd "));
  Record winograd = record(step_.schedule, 0.9);
  winograd.conditions.target = options.target.name;
  const auto found = [&](const std::string& forbidden) {
    options.forbidden = {parse_forbidden(forbidden)};
    return apply({winograd}, {}, options).choices.contains(node);
  };
  EXPECT_FALSE(found("conv2d_winograd@" + node));
  EXPECT_FALSE(found("conv2d_winograd"));
  EXPECT_TRUE(found("conv2d_winograd@conv1"));
  EXPECT_TRUE(found("conv2d_direct@" + node));
  EXPECT_THAT(error_of([&] { found("conv2d_direct"); }, ErrorKind::usage),
              HasSubstr("--forbid conv2d_direct: no other template applies to 'conv1'"));
}

/// Uses kNode, which runs Winograd by default on this target: step_ is that step, and direct_ is the schedule that
/// becomes the default if Winograd is forbidden.
class ApplyWithoutWinograd : public Apply {
 protected:
  ApplyWithoutWinograd() {
    options_.target = parse_target("x86-64-v4"), options_.contents.code = false;
    passed_ = run_passes(small_network(), options_);
    step_ = step_of(options_);
    options_.forbidden = {parse_forbidden("winograd")};
    direct_ = step_of(options_).schedule;
  }
  void SetUp() override {
    ASSERT_THAT(step_.schedule, testing::StartsWith("conv2d_winograd "));
    ASSERT_THAT(direct_, testing::StartsWith("conv2d_direct "));
  }
  Step step_of(const CompileOptions& options) const {
    for (const Step& step : compile_passed(passed_, options).plan.steps) {
      if (step.name == kNode && step.kind == StepKind::kernel) return step;
    }
    return {};
  }
  /// Returns a record whose ratio is relative to Winograd, the default if nothing is forbidden.
  Record over_winograd(const std::string& schedule, double ratio) const {
    Record r = record(schedule, ratio);
    r.conditions.target = options_.target.name;
    return r;
  }
  /// The Winograd schedule with another value of its first knob for each `i`.
  std::string winograd(int64_t i) const {
    Schedule s = parse_schedule(step_.schedule);
    s.knobs.front().second += 100 + i;
    return s.text();
  }

  static constexpr const char* kNode = "fire2.expand3x3";
  CompileOptions options_ = native();
  std::string direct_;
};

TEST_F(ApplyWithoutWinograd, RatiosOverAForbiddenDefaultAreConverted) {
  const std::string faster = other_tile(direct_);
  const Recorded got = apply({over_winograd(faster, 1.2), over_winograd(direct_, 1.5)}, {}, options_);
  ASSERT_TRUE(got.choices.contains(kNode)) << got.summary;
  EXPECT_EQ(got.choices.at(kNode).schedule->text(), faster);
  EXPECT_THAT(got.choices.at(kNode).schedule_from.words,
              HasSubstr("0.800 (0.791 to 0.809) of the default's time there, 2 pairs, measured "
                        "against another default (" +
                        step_.schedule + ")"));
  const Recorded slower = apply({over_winograd(faster, 1.5), over_winograd(direct_, 1.2)}, {}, options_);
  EXPECT_FALSE(slower.choices.contains(kNode));
  EXPECT_THAT(slower.summary, HasSubstr("tuned, but the default won"));
}

TEST_F(ApplyWithoutWinograd, UnrelatedRatiosAreReportedButNotUsed) {
  for (const double ratio : {0.9, 1.2}) {
    const Recorded got = apply({over_winograd(other_tile(direct_), ratio)}, {}, options_);
    EXPECT_TRUE(got.choices.empty());
    EXPECT_THAT(got.summary, HasSubstr(" (2 measured only against another default): analytic defaults"));
    EXPECT_THAT(got.summary, testing::Not(HasSubstr("the default won")));
  }
}

TEST_F(ApplyWithoutWinograd, ForbiddenSchedulesDoNotHideOthers) {
  std::vector<Record> records{over_winograd(other_tile(direct_), 1.2), over_winograd(direct_, 1.5)};
  for (int i = 0; i < 9; ++i) records.push_back(over_winograd(winograd(i), 0.5 + 0.01 * i));
  EXPECT_EQ(apply(records, {}, options_).choices.at(kNode).schedule->text(), other_tile(direct_));
}

TEST_F(Apply, RatiosOverAnOldDefaultAreConverted) {
  const std::string before = other_tile(step_.schedule, 3), faster = other_tile(step_.schedule, 5);
  Record r = record(faster, 0.9);
  r.versus->schedule = before;
  EXPECT_TRUE(apply({r}).choices.empty());
  // With a record that relates the two defaults, in either direction, the ratio is converted.
  Record now = record(step_.schedule, 0.95);
  now.versus->schedule = before;
  EXPECT_THAT(apply({r, now}).choices.at(step_.name).schedule_from.words,
              HasSubstr(": 0.947 (0.933 to 0.962) of the default's time there"));
  EXPECT_THAT(apply({r, record(before, 1.05)}).choices.at(step_.name).schedule_from.words,
              HasSubstr(": 0.945 (0.931 to 0.959) of the default's time there"));
  now.versus->ratio = {0.8, 0.79, 0.81};
  EXPECT_TRUE(apply({r, now}).choices.empty()) << "today's default is faster than it";
}

TEST_F(Apply, RecordWithoutARatioIsReportedButNotUsed) {
  Record bare = record(other(), 0.5);
  bare.versus.reset();
  EXPECT_FALSE(bare.may_be_faster());
  const Recorded got = apply({bare});
  EXPECT_TRUE(got.choices.empty());
  EXPECT_THAT(got.summary, HasSubstr(" measured only against another default): analytic defaults"));
  // It does not take precedence over a less similar record of the same schedule that has a ratio.
  Record two = record(other(), 0.9);
  two.conditions.threads = 2;
  EXPECT_THAT(apply({bare, two}).choices.at(step_.name).schedule_from.words,
              HasSubstr("tuned at 2 threads, used at 1"));
}

TEST_F(Apply, DistantRecordsAreIgnoredIfTheDefaultOftenWon) {
  std::vector<Record> records{record(other(), 0.7)};
  records[0].problem = records[0].problem.substr(0, records[0].problem.find(" +"));
  ASSERT_NE(records[0].problem, step_.problem);
  ASSERT_TRUE(apply(records).choices.contains(step_.name)) << "another epilogue serves";
  for (int64_t tile = 5; tile < 15; ++tile) records.push_back(record(other_tile(step_.schedule, tile), 1.1));
  EXPECT_FALSE(apply(records).choices.contains(step_.name));
}

TEST_F(Apply, ForcedSchedulesAreKept) {
  CompileOptions forced = native();
  forced.choices[step_.name].schedule = parse_schedule(step_.schedule);
  EXPECT_FALSE(apply({record(other(), 0.9)}, {}, forced).choices.contains(step_.name));
}

/// Offers the same schedules for every graph.
class Settles : public Chooser {
 public:
  explicit Settles(Recorded recorded) : recorded_(std::move(recorded)) {}
  std::vector<Offer> offers(const Graph& /*graph*/, const CompileOptions& /*options*/) const override {
    Offer offer;
    offer.settle = [this](const Compiled& /*plan*/, const CompileOptions& /*options*/) { return recorded_; };
    return {offer};
  }

 private:
  Recorded recorded_;
};

TEST_F(Apply, PlanRecordsTheSourceOfItsSchedules) {
  const Settles chooser({from_record(parse_choices(step_.name + " = " + other(), "my.plan"), "layer plan my.plan"),
                         "layer plan my.plan: 1 layers"});
  const Plan plan = compile_graph(small_network(), native(), &chooser).plan;
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

TEST_F(Apply, ImportedRecordsAreReportedButNotUsed) {
  Record imported = record(other(), 0.5);
  imported.source = "tvm v0.1", imported.versus.reset();
  const Recorded got = apply({imported});
  EXPECT_TRUE(got.choices.empty());
  EXPECT_THAT(got.summary, testing::EndsWith("; " + imported_text(1)));
}

TEST_F(Apply, UnusedSchedulesAreCounted) {
  CompileOptions how = native();
  how.contents.code = false;
  const auto records = [&](const std::string& schedule) {
    const Settles chooser(
        {{{step_.name, {parse_schedule(schedule), {ScheduleSource::record, "record 123"}}}}, "some.db: 1 of 31 tasks"});
    const Plan plan = compile_graph(small_network(), how, &chooser).plan;
    const bool said = std::ranges::any_of(plan.steps, [](const Step& step) { return step.record == "record 123"; });
    EXPECT_EQ(said, schedule == other());
    return plan.records;
  };
  EXPECT_EQ(records(other()), "some.db: 1 of 31 tasks");
  EXPECT_EQ(records("conv2d_direct vectors=99 rows=1 tile=4 prefetch=0"),
            "some.db: 1 of 31 tasks; 1 of these schedules are not used: their packed weights would be too large, or "
            "they do not apply to the layer");
}

TEST_F(Apply, UnrecordedThreadCountsAreUnknown) {
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
