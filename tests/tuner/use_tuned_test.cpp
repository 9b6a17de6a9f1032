// The tuning results with which a network is compiled.
#include "tune/tuner/plans/use_tuned.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../base/error_of.h"
#include "compile/code_versions.h"
#include "network.h"

namespace kilter::tune {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class UseTuned : public testing::Test {
 protected:
  UseTuned() {
    CompileOptions look = native();
    look.contents.code = false;
    for (const Step& step : compile_graph(small_network(), look).plan.steps) {
      const bool direct =
          step.schedule.starts_with("conv2d_direct") && step.schedule.find(" rows=1 ") != std::string::npos;
      if (!direct || step.role == StepRole::pack || step.problem == first_.problem) continue;
      (first_.name.empty() ? first_ : second_) = step;
      if (!second_.name.empty()) break;
    }
  }

  void SetUp() override { ASSERT_FALSE(first_.name.empty() || second_.name.empty()) << "no two tasks of this kind"; }

  /// The default schedule with `tile`, or one less if that is its own. Every conv2d_direct with one row accepts 1 to 4.
  static std::string other(const Step& step, int64_t tile = 4) {
    Schedule s = parse_schedule(step.schedule);
    for (auto& [knob, value] : s.knobs) {
      if (knob == "tile") value = value == tile ? tile - 1 : tile;
    }
    return s.text();
  }
  static std::string with_one_row_more(const std::string& problem) {
    const size_t at = problem.find(" h") + 2, end = problem.find(' ', at);
    return problem.substr(0, at) + std::to_string(std::stoi(problem.substr(at, end - at)) + 1) + problem.substr(end);
  }
  static PlanKey key(int threads = 1) {
    return {graph_key(small_network()), native().target.name, "A CPU", code_versions(native().target).all(), threads};
  }
  void keep(Choices choices, const PlanKey& of = key()) {
    plans_.plans.push_back({of, "squeezenet", "2026-01-02T03:04:05Z", std::move(choices), {}, {0.8, 0.75, 0.9}});
  }
  /// Adds `times` records of the first layer's task, measured on `node`: `schedule` takes `ratio` of the default's
  /// time.
  void measure(const std::string& schedule, double ratio, const std::string& node, size_t times) {
    Record r;
    r.problem = first_.problem, r.layouts = first_.layouts, r.schedule = schedule, r.node = node;
    r.samples_ms.assign(8, ratio);
    r.versus = Versus{{ratio, ratio - 0.01, ratio + 0.01}, first_.schedule};
    r.conditions.device = "A CPU", r.conditions.threads = 1;
    r.conditions.target = native().target.name, r.conditions.codegen = code_version(r, code_versions(native().target));
    records_.insert(records_.end(), times, r);
  }
  /// Adds a record in which the other schedule is faster than the default.
  void record() { measure(other(first_), 0.9, "", 1); }
  Plan plan(Choose choose = Choose::accepted, int threads = 1, CompileOptions options = native()) {
    options.contents.code = false;
    TunedSource source;
    source.apply.file = "some.db", source.apply.shipped = shipped_;
    source.apply.device = "A CPU", source.apply.threads = threads;
    source.apply.now = "2026-01-05T00:00:00Z", source.apply.tune = "kilter tune this";
    options.forbidden = forbidden_;
    source.choose = choose;
    source.records = std::make_shared<const Matcher>(records_);
    source.plans = std::make_shared<const KeptPlans>(plans_);
    source.notice = [this](const std::string& line) { notices_.push_back(line); };
    const TunedChooser chooser(source);
    return compile_graph(small_network(), options, &chooser).plan;
  }
  static const Step& step(const Plan& plan, const Step& of) {
    const auto it =
        std::ranges::find_if(plan.steps, [&](const Step& s) { return s.name == of.name && s.role != StepRole::pack; });
    require(it != plan.steps.end(), "the plan has no step '{}'", of.name);
    return *it;
  }

  Step first_, second_;
  std::vector<Record> records_;
  KeptPlans plans_;
  std::vector<Forbidden> forbidden_;
  std::vector<std::string> notices_;
  bool shipped_ = false;
};

/// The text in a compiled file is the same on any day.
TEST_F(UseTuned, ShippedTextsContainNoDateOrCommand) {
  record();
  keep({{first_.name, parse_schedule(other(first_))}});
  shipped_ = true;
  const Plan accepted = plan();
  EXPECT_EQ(accepted.records,
            "some.db: the plan accepted: the network took 0.800 (0.750 to 0.900) of the default's time in its race; 1 "
            "layer differs from the default");
  const Plan single = plan(Choose::history_best);
  EXPECT_THAT(single.records, testing::StartsWith("some.db: 1 of "));
  EXPECT_THAT(single.records, testing::EndsWith(": analytic defaults"));
  for (const std::string& words : {step(accepted, first_).record, step(single, first_).record}) {
    EXPECT_THAT(words, HasSubstr("; measured at 1 thread"));
    EXPECT_THAT(words, testing::Not(testing::ContainsRegex("[0-9]{4}-[0-9]{2}|days?")));
  }
}

TEST_F(UseTuned, AcceptedPlanOverridesSingleRecords) {
  record();
  Record mine = records_[0];
  mine.problem = second_.problem, mine.layouts = second_.layouts, mine.schedule = other(second_);
  mine.versus->schedule = second_.schedule, mine.conditions.threads = 2, mine.conditions.date = "2026-01-01T00:00:00Z";
  records_.push_back(mine);
  keep({{second_.name, parse_schedule(other(second_))}});
  for (const Choose choose : {Choose::accepted, Choose::graph_best}) {
    const Plan got = plan(choose);
    EXPECT_EQ(step(got, first_).schedule, first_.schedule) << "it lost in the race";
    EXPECT_EQ(step(got, second_).schedule, other(second_));
    EXPECT_EQ(
        step(got, second_).record,
        "accepted on 2026-01-02 (3 days before): the network took 0.800 (0.750 to 0.900) of the default's time in "
        "its race; record " +
            mine.id().substr(0, 12) +
            ", tuned at 2 threads, used at 1; expected loss about 4 % (an estimate); measured on 2026-01-01 (4 days "
            "before) at 2 threads, weights warm: 0.900 (0.890 to 0.910) of the default's time there, 8 pairs");
    EXPECT_EQ(
        got.records,
        "some.db: the plan accepted on 2026-01-02 (3 days before): the network took 0.800 (0.750 to 0.900) of the "
        "default's time in its race; 1 layer differs from the default");
  }
  const Plan single = plan(Choose::history_best);
  EXPECT_EQ(step(single, first_).schedule, other(first_));
  mine.problem = with_one_row_more(mine.problem);
  records_ = {mine};  // the plan did not come from another problem's record
  EXPECT_THAT(step(plan(), second_).record, testing::EndsWith("in its race; no record of its schedule"));
}

TEST_F(UseTuned, DefaultsAreKeptIfTheRaceRejectedAll) {
  record();
  keep({});
  const Plan got = plan();
  EXPECT_EQ(step(got, first_).schedule, first_.schedule);
  EXPECT_EQ(got.records,
            "some.db: the plan accepted on 2026-01-02 (3 days before): nothing was faster than the default plan, which "
            "stays");
  EXPECT_EQ(step(plan(Choose::history_best), first_).schedule, other(first_));
}

TEST_F(UseTuned, PlanAppliesOnlyToItsKey) {
  record();
  keep({{second_.name, parse_schedule(other(second_))}}, key(2));
  PlanKey strict = key();
  strict.settings = "--accuracy strict";
  keep({{second_.name, parse_schedule(other(second_))}}, strict);
  const Plan got = plan();
  EXPECT_EQ(step(got, first_).schedule, other(first_));
  EXPECT_EQ(step(got, second_).schedule, second_.schedule);
  EXPECT_EQ(step(plan(Choose::accepted, 2), second_).schedule, other(second_));
  CompileOptions accurate = native();
  accurate.accuracy = Accuracy::strict;
  EXPECT_EQ(step(plan(Choose::accepted, 1, accurate), second_).schedule, other(second_));
}

TEST_F(UseTuned, WithoutAPlanGraphBestRunsTheGraphTunerOnRecords) {
  const std::string elsewhere = other(first_), here = other(first_, 2);
  measure(elsewhere, 0.5, "elsewhere", 5);
  measure(elsewhere, 1.2, first_.name, 4);
  EXPECT_EQ(step(plan(Choose::history_best), first_).schedule, elsewhere);
  const Plan kept = plan(Choose::graph_best);
  EXPECT_EQ(step(kept, first_).schedule, first_.schedule) << "on this layer the default is faster";
  EXPECT_EQ(step(kept, first_).record, "");
  measure(here, 0.7, first_.name, 4);
  const Plan single = plan(Choose::history_best), got = plan(Choose::graph_best);
  EXPECT_EQ(step(single, first_).schedule, elsewhere);
  const std::string id = records_.back().id().substr(0, 12);
  EXPECT_THAT(step(single, first_).record, testing::ContainsRegex("^record [0-9a-f]+, exact: tuned under the same"));
  EXPECT_EQ(step(got, first_).schedule, here);
  EXPECT_THAT(step(got, first_).record, StartsWith("graph-best by records; record " + id +
                                                   ", exact: tuned under the same conditions; measured "));
  EXPECT_THAT(got.records, StartsWith(single.records + ", graph-best by records: "));
}

// The use of a schedule that was tuned with another number of threads is always stated.
TEST_F(UseTuned, GraphBestReportsOtherThreadCounts) {
  record();
  measure(other(first_, 2), 0.5, "elsewhere", 5);
  measure(other(first_, 2), 1.2, second_.name, 4);
  for (size_t i = 1; i < records_.size(); ++i) {  // makes them records of the other task, on two threads
    Record& r = records_[i];
    r.problem = second_.problem, r.layouts = second_.layouts, r.schedule = other(second_, 2);
    r.versus->schedule = second_.schedule, r.conditions.threads = 2;
  }
  const Plan got = plan(Choose::graph_best, 2);
  EXPECT_EQ(step(got, second_).schedule, second_.schedule) << "graph-best differs from history-best";
  EXPECT_EQ(step(got, first_).schedule, other(first_)) << "nothing at this number of threads speaks against it";
  EXPECT_THAT(step(got, first_).record,
              StartsWith("record " + records_[0].id().substr(0, 12) +
                         ", tuned at 1 thread, used at 2; expected loss about 4 % (an estimate); measured "));
  EXPECT_THAT(got.records, HasSubstr("; 1 tuned at 1 thread, used at 2"));
}

TEST_F(UseTuned, GraphBestOmitsForbiddenSchedules) {
  const std::string slower = other(first_), faster = other(first_, 2);
  measure(slower, 0.9, first_.name, 4);
  measure(faster, 0.7, first_.name, 4);
  EXPECT_EQ(step(plan(Choose::graph_best), first_).schedule, faster);
  forbidden_ = {parse_forbidden(faster + "@" + first_.name)};
  const Plan without = plan(Choose::graph_best);
  EXPECT_EQ(step(without, first_).schedule, slower);
  EXPECT_THAT(step(without, first_).record, HasSubstr(", exact: tuned under the same conditions"));
  forbidden_.push_back(parse_forbidden(slower + "@" + first_.name));
  const Plan neither = plan(Choose::graph_best);
  EXPECT_EQ(step(neither, first_).schedule, first_.schedule);
  EXPECT_EQ(step(neither, first_).record, "");
}

TEST_F(UseTuned, ForcedAndForbiddenLayersKeepTheRestOfThePlan) {
  keep({{first_.name, parse_schedule(other(first_))}, {second_.name, parse_schedule(other(second_))}});
  CompileOptions forced = native();
  forced.choices[first_.name].schedule = parse_schedule(first_.schedule);
  const Plan pinned = plan(Choose::accepted, 1, forced);
  EXPECT_EQ(step(pinned, first_).schedule, first_.schedule);
  EXPECT_EQ(step(pinned, second_).schedule, other(second_));
  forbidden_ = {parse_forbidden(other(second_) + "@" + second_.name)};
  const Plan without = plan();
  EXPECT_EQ(step(without, first_).schedule, other(first_));
  EXPECT_EQ(step(without, second_).schedule, second_.schedule);
  EXPECT_THAT(without.records, HasSubstr("; 1 layer differs from the default, 1 more forbidden"));
}

TEST_F(UseTuned, AcceptedPlanOmitsSchedulesOfBarredRecords) {
  keep({{first_.name, parse_schedule(other(first_))}, {second_.name, parse_schedule(other(second_))}});
  record();
  const Record barred = records_[0];
  Record at_two = barred;
  at_two.conditions.threads = 2;
  records_.push_back(at_two);
  bar(records_, barred, "--forbid record:ID");
  EXPECT_EQ(step(plan(Choose::history_best), first_).schedule, first_.schedule) << "nor does a sibling give it";
  const Plan without = plan();
  EXPECT_EQ(step(without, first_).schedule, first_.schedule);
  EXPECT_EQ(step(without, second_).schedule, other(second_));
  EXPECT_THAT(without.records, HasSubstr(", 1 more forbidden"));
}

TEST_F(UseTuned, AcceptedPlanOmitsSchedulesFoundWrongLater) {
  keep({{first_.name, parse_schedule(other(first_))}, {second_.name, parse_schedule(other(second_))}});
  record();
  records_[0].status = Status::wrong;
  records_[0].conditions.threads = 2;  // a wrong schedule is ruled out on any number of threads
  const Plan without = plan();
  EXPECT_EQ(step(without, first_).schedule, first_.schedule);
  EXPECT_EQ(step(without, second_).schedule, other(second_));
  EXPECT_THAT(notices_, testing::Contains("some.db: records bar schedules of the plan accepted on 2026-01-02 "
                                          "(forbidden, wrong or crashed); these layers run their defaults: " +
                                          first_.name));
}

TEST_F(UseTuned, PlanTunedUnderTheSameForbidIsUsedUnchanged) {
  keep({{first_.name, parse_schedule(other(first_))}});
  PlanKey restricted = key();
  restricted.settings = "--forbid recurrent_steps";
  keep({{second_.name, parse_schedule(other(second_))}}, restricted);
  EXPECT_EQ(step(plan(), second_).schedule, second_.schedule);
  forbidden_ = {parse_forbidden("recurrent_steps")};
  EXPECT_EQ(step(plan(), second_).schedule, other(second_));
}

TEST_F(UseTuned, PlanThatDoesNotCompileIsReportedAndSkipped) {
  record();
  LayerChoice gone;
  gone.threads = 1;
  keep({{"nowhere", gone}});
  EXPECT_EQ(step(plan(), first_).schedule, other(first_));
  ASSERT_EQ(notices_.size(), 1U);
  EXPECT_THAT(notices_[0], HasSubstr("some.db: the plan accepted on 2026-01-02 is skipped: it does not compile here: "
                                     "--layer-threads nowhere=1: no task has this name; legal values are"));
}

TEST_F(UseTuned, TasksWithoutARecordAreReportedOnceWithTheCommand) {
  record();
  Record lost = records_[0];
  lost.problem = second_.problem, lost.layouts = second_.layouts, lost.schedule = other(second_);
  lost.versus = Versus{{0.99, 0.97, 1.01}, second_.schedule};
  records_.push_back(lost);
  EXPECT_THAT(plan().records, testing::ContainsRegex("^some.db: [0-9]+ of [0-9]+ tasks \\(.*1 exact.*\\); [0-9]+ "
                                                     "tuned, but the default won; the other [0-9]+: analytic defaults, "
                                                     "`kilter tune this` tunes them$"));
  EXPECT_THAT(plan(Choose::accepted, 2).records, HasSubstr(" tuned at 1 thread, used at 2; the other "))
      << "the default did not win at two threads";
}

TEST(Choose, NamesAreParsed) {
  EXPECT_EQ(parse_choose("accepted"), Choose::accepted);
  EXPECT_EQ(parse_choose("history-best"), Choose::history_best);
  EXPECT_EQ(parse_choose("graph-best"), Choose::graph_best);
  EXPECT_EQ(error_of([] { parse_choose("luck"); }), "choose luck: expected 'accepted', 'history-best' or 'graph-best'");
}

}  // namespace
}  // namespace kilter::tune
