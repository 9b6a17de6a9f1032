// `explain`: gains of alternatives, commands, its behaviour on a busy machine, causes that come from tuning, texts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "explain_network.h"
#include "made_up.h"
#include "planted.h"
#include "profile/explain/explain_causes.h"
#include "profile/explain/explain_trials.h"

namespace kilter::profile {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Trials, ChangedStepsAreThoseThatDifferAndTheirReaders) {
  CompileOptions options;
  options.choices["conv1"].fuse = Fusion::none;
  const MadeUp apart(2, options), fused;
  const Changed c = changed_steps(apart.compiled.plan, apart.compiled.notes, fused.compiled.plan, fused.compiled.notes);
  const auto names = [](const Plan& plan, const std::set<size_t>& steps) {
    std::vector<std::string> all;
    for (size_t s : steps) all.push_back(plan.steps[s].name);
    return all;
  };
  EXPECT_EQ(names(apart.compiled.plan, c.before), (std::vector<std::string>{"conv1", "conv1.relu", "pool1"}));
  EXPECT_EQ(names(fused.compiled.plan, c.after), (std::vector<std::string>{"conv1", "pool1"}));
  EXPECT_EQ(names(apart.compiled.plan, c.gone), (std::vector<std::string>{"conv1.relu"}));
}

TEST(Trials, DisturbedLapsDoNotChangeTheGain) {
  Laps before, after;
  for (int i = 0; i < 40; ++i) {
    const double noise = 1 + 0.01 * (i % 5);
    before.push_back({1 * noise, 2 * noise, 7 * noise});
    after.push_back({1 * noise, 1 * noise, 7 * noise});
    if (i % 3 == 0) before.back()[1] += 30, after.back()[0] += 50;
  }
  const Gain g = gains_between(before, after, {{0, 1}, {0, 1}, {}, {}}, 1).changed;
  EXPECT_NEAR(g.share, 0.1, 0.005);
  EXPECT_LE(g.low, g.share);
  EXPECT_GE(g.high, g.share);
  EXPECT_GT(g.low, 0.08);
  EXPECT_LT(g.high, 0.12);
}

/// The gain of a layer is a share of the network's time, so the noise of unchanged steps widens its interval.
TEST(Trials, GainIntervalIncludesNoiseOfTheNetwork) {
  const auto laps = [](double first, double rest_noise, int shift) {
    Laps out;
    for (int i = 0; i < 40; ++i) out.push_back({first, 99 * (1 + rest_noise * ((i * 7 + shift) % 11 - 5))});
    return out;
  };
  const Gain calm = gains_between(laps(1, 0, 0), laps(0.3, 0, 0), {{0}, {0}, {}, {}}, 1).changed;
  EXPECT_NEAR(calm.share, 0.007, 1e-9);
  EXPECT_NEAR(calm.high - calm.low, 0, 1e-9);
  const Gains noisy = gains_between(laps(1, 0.01, 0), laps(0.3, 0.01, 3), {{0}, {0}, {}, {}}, 1);
  EXPECT_NEAR(noisy.changed.share, 0.007, 1e-3);
  EXPECT_NEAR(noisy.changed.high - noisy.changed.low, noisy.all.high - noisy.all.low, 1e-9);
  EXPECT_LT(noisy.changed.low, 0) << "no gain of 0.7 % shows where the rest moves by percents";
  const Gain alone = gains_between(laps(1, 0.01, 0), laps(0.3, 0.01, 3), {{0}, {0}, {1}, {1}}, 1).changed;
  EXPECT_NEAR(alone.high - alone.low, 0, 1e-9) << "steps that are left out do not count";
}

TEST(Trials, BatchIsComparedWithAsManySingleRuns) {
  const Laps single(10, {2, 8}), batch(10, {20, 52});
  EXPECT_NEAR(gains_between(single, batch, {{0, 1}, {0, 1}, {}, {}, 1.0 / 8}, 1).all.share, 0.1, 1e-9);
}

TEST(Trials, GainInOtherStepsCountsIfSignificant) {
  const Gain moved{0.08, 0.078, 0.082};
  EXPECT_EQ(told_gain(moved, {0.12, 0.11, 0.13}).share, 0.12);     // significant, and 4 % more
  EXPECT_EQ(told_gain(moved, {0.12, 0.05, 0.19}).share, 0.08);     // the whole network's interval is too wide
  EXPECT_EQ(told_gain(moved, {0.085, 0.083, 0.087}).share, 0.08);  // 0.5 % more may be chance placement in memory
  EXPECT_EQ(told_gain(moved, {0.02, 0.01, 0.03}).share, 0.02);
}

TEST(Command, IsQuotedForAShellAndHoldsEverySetting) {
  Subject subject;
  subject.model = "my net.onnx";
  subject.arguments = "--input x=1x3x8x8";
  Setting s;
  s.threads = 2;
  s.compile.debug.disable = {"fuse"};
  s.compile.choices["it's"].fuse = Fusion::none;
  s.compile.choices["pool1"].plain = true;
  s.compile.choices["conv1"].threads = 1;
  s.compile.choices["conv1"].schedule = parse_schedule("conv2d_direct tile=2");
  s.compile.debug.max_rewrites = 7;
  s.compile.precision = Precision::bf16, s.compile.keep_float = {"Softmax"};
  EXPECT_EQ(bench_command(subject, s),
            "kilter bench 'my net.onnx' --threads 2 --input x=1x3x8x8 --disable fuse --max-rewrites 7 "
            "--precision bf16 --keep-float Softmax --no-fuse "
            "'it'\\''s' --plain-layout pool1 --layer-threads conv1=1 --schedule 'conv1=conv2d_direct tile=2'");
}

/// Side A is the unchanged network, side B has the other setting; options that both share appear once.
TEST(Command, ComparesBothSettings) {
  Subject subject;
  subject.model = "zoo:resnet18";
  subject.arguments = "--records default";
  Setting now{{}, 1}, then = now;
  now.compile.choices["a"].fuse = Fusion::none, now.compile.choices["b"].fuse = Fusion::none,
  now.compile.choices["conv1"].schedule = parse_schedule("reference");
  now.compile.accuracy = Accuracy::strict;
  then.compile.choices["a"].fuse = Fusion::none,
  then.compile.choices["conv1"].schedule = parse_schedule("conv2d_direct tile=2");
  EXPECT_EQ(compare_command(subject, now, then),
            "kilter compare zoo:resnet18 --threads 1 --records default --accuracy-a strict --no-fuse a --no-fuse-a b "
            "--schedule-a conv1=reference --schedule-b 'conv1=conv2d_direct tile=2'");
  then = now, then.threads = 4;
  EXPECT_THAT(
      compare_command(subject, now, then),
      StartsWith("kilter compare zoo:resnet18 --threads-a 1 --threads-b 4 --records default --accuracy strict"));
  EXPECT_EQ(compare_inputs_command(subject, {{}, 2}, "x=8x3x8x8"),
            "kilter compare zoo:resnet18 --threads 2 --records default --input-b x=8x3x8x8");
}

ExplainOptions quick() {
  ExplainOptions options;
  options.seconds = 0.3;
  options.trial_seconds = 0.5;
  options.read_quiet = quiet_machine();
  return options;
}

TEST(Explain, PartsAddUpFindingsAreRankedAndTheJsonHoldsAll) {
  CompileOptions options;
  options.choices["conv1"].fuse = Fusion::none;
  options.choices["pool3"].schedule = parse_schedule("reference");
  const Explanation e = explain(subject_of("squeezenet1_1", 96, 1, options), quick());
  double ms = 0, percent = 0;
  for (const Part& p : e.split) ms += p.ms, percent += p.percent;
  EXPECT_NEAR(ms, e.profile.sum_ms, 1e-9);
  EXPECT_NEAR(percent, 100, 1e-6);
  std::set<std::string> causes;
  Finding::Kind kind = Finding::Kind::first;
  double last = 1e9;
  for (const Finding& f : e.findings) {
    causes.insert(f.cause);
    EXPECT_GE(f.kind, kind) << "actions come first";
    if (f.kind != kind) kind = f.kind, last = 1e9;
    EXPECT_EQ(f.action.empty(), f.kind == Finding::Kind::fact);
    EXPECT_LE(f.gain_ms, last);
    last = f.gain_ms;
    EXPECT_FALSE(f.evidence.empty());
  }
  EXPECT_TRUE(causes.contains("reference kernel"));
  EXPECT_TRUE(causes.contains("unfused neighbour"));
  size_t steps = 0;
  for (const Row& r : e.profile.rows) steps += r.step >= 0 ? 1 : 0;
  EXPECT_EQ(e.layers.size(), steps);
  for (const LayerView& l : e.layers) EXPECT_FALSE(l.causes.empty());

  const nlohmann::json json = to_json(e);
  EXPECT_TRUE(json.contains("rows"));
  const auto& x = json.at("explain");
  EXPECT_EQ(x.at("split").size(), 6U);
  EXPECT_EQ(x.at("findings").size(), e.findings.size());
  for (const auto& f : x.at("findings")) {
    for (const char* key : {"kind", "step", "name", "cause", "evidence", "gain_ms", "gain_percent", "how", "action"})
      EXPECT_TRUE(f.contains(key)) << key;
  }
  EXPECT_EQ(x.at("layers").size(), steps);
  const std::string text = explanation_text(e, "");
  for (const char* part :
       {"Where the time goes", "What to do next", "Slowest layers", "$ kilter compare zoo:squeezenet1_1"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text, Not(HasSubstr("kilter tune")));
}

// --- a machine that other programs use ---

TEST(BusyMachine, IsReportedWithShareAndBestRun) {
  MadeUp net;
  EXPECT_TRUE(net.find("the machine is busy").empty());
  net.disturb(50);
  EXPECT_TRUE(net.find("the machine is busy").empty()) << "the quiet half makes the figure";
  net.disturb(96);
  const Suspicion s = net.at("the machine is busy", "");
  EXPECT_TRUE(s.comes_first);
  EXPECT_EQ(s.evidence, fmt::format("busy: 96 of 100 runs disturbed (96 %: waited for a CPU in 96), because other "
                                    "programs use the machine; the time is an upper bound, best {:.3f} ms",
                                    net.profile.conditions.best_ms));
  EXPECT_NEAR(s.gain_ms, 0.25 * net.profile.end_to_end_ms, 1e-9);
  EXPECT_EQ(s.action, "kilter bench zoo:squeezenet1_1 --threads 2");
}

TEST(BusyMachine, OversubscriptionIsNotBlamedOnOtherPrograms) {
  MadeUp net;
  net.disturb(96);
  net.profile.conditions.pinning = "3";
  const Suspicion s = net.at("the machine is busy", "");
  EXPECT_THAT(s.evidence, HasSubstr("because 2 threads share 1 CPUs; the time is an upper bound"));
  EXPECT_EQ(s.advice, "use no more threads than CPUs: --threads 1");
  EXPECT_EQ(s.action, "kilter compare zoo:squeezenet1_1 --threads-a 2 --threads-b 1");
}

/// A report of a busy machine comes first, and findings that rest on the disturbed times are not shown.
TEST(BusyMachine, ComesFirstAndHidesUnreliableFindings) {
  ExplainOptions options = quick();
  options.read_quiet = busy_machine();
  const Explanation e = explain(subject_of("squeezenet1_1", 96, 1), options);
  ASSERT_FALSE(e.findings.empty());
  EXPECT_EQ(e.findings.front().cause, "the machine is busy");
  for (const Finding& f : e.findings) {
    if (f.kind == Finding::Kind::first) continue;
    EXPECT_TRUE(f.measured && f.interval.low > 0) << f.cause << " at " << f.name;
    EXPECT_NE(f.cause, "too few threads busy");
  }
  EXPECT_THAT(e.withheld, ContainsRegex("^[0-9]+ findings? (is|are) withheld: (it|they) rests? on times that other "
                                        "programs disturbed \\(100 % of the runs\\)$"));
  const std::string text = explanation_text(e, "");
  EXPECT_THAT(text, StartsWith("busy: "));
  EXPECT_THAT(text, HasSubstr("What to do next, largest gain first\n 1. (network): the machine is busy\n"));
  EXPECT_THAT(text, HasSubstr("    " + e.withheld + "\n"));
  EXPECT_THAT(text, ContainsRegex("takes [0-9.]+ to [0-9.]+ ms end to end")) << "the figure is an interval";
  EXPECT_THAT(explanation_text(e, "conv1"), StartsWith("busy: "));
  for (const LayerView& l : e.layers) EXPECT_NE(l.causes.front().first, "near its bound");
  const nlohmann::json json = to_json(e);
  EXPECT_EQ(json.at("conditions").at("quiet"), "busy");
  EXPECT_EQ(json.at("explain").at("findings").front().at("kind"), "first");
  EXPECT_EQ(json.at("explain").at("withheld"), e.withheld);
}

/// A gain is reported on a busy machine if it was measured with both variants interleaved: they were disturbed alike.
TEST(BusyMachine, InterleavedMeasurementsAreStillReported) {
  ExplainOptions options = quick();
  options.read_quiet = busy_machine();
  options.trial_seconds = 1.5;
  CompileOptions slow;
  slow.choices["pool1"].schedule = parse_schedule("reference");
  const Explanation e = explain(subject_of("squeezenet1_1", 160, 1, slow), options);
  const Finding* f = told(e, "reference kernel", "pool1", 3);
  ASSERT_NE(f, nullptr) << explanation_text(e, "");
  EXPECT_GT(f->interval.low, 0);
}

TEST(BusyMachine, DelaysByOtherProgramsAreNotImbalance) {
  MadeUp net;
  net.step("pool5").extent = 4;
  net.row("pool5").balance = 0.5, net.row("pool5").busy_ms = {1, 0.1};
  EXPECT_TRUE(net.at("too few threads busy", "pool5").by_thread_times);
  EXPECT_FALSE(net.find("too few threads busy").empty());
  ExplainOptions options = quick();
  options.read_quiet = partly_busy_machine();
  const Explanation e = explain(subject_of("squeezenet1_1", 96, 2), options);
  EXPECT_EQ(quietness(e.profile.conditions), Quietness::partly);
  for (const Finding& f : e.findings) EXPECT_THAT(f.evidence, Not(HasSubstr("threads are busy for")));
  EXPECT_THAT(explanation_text(e, ""), HasSubstr("\npartly disturbed: "));
}

// --- causes that come from tuning ---

Tuning known_plan() {
  Tuning tuning;
  tuning.action = "kilter tune zoo:squeezenet1_1 --threads 1 --time 5min";
  tuning.lines = {"From records"};
  tuning.gains = {
      {TuningGain::unused, "3 layers differ", 0.4, "--records default", "kilter compare a --records-b default"},
      {TuningGain::untuned, "9 layers have schedules left", 0.1, "tune", tuning.action}};
  return tuning;
}

TEST(TuningCauses, AreRankedWithTheOthers) {
  MadeUp net(1);
  EXPECT_TRUE(net.find("a tuned plan is not used").empty());
  net.profile.tuning = known_plan();
  const Suspicion unused = net.at("a tuned plan is not used", "");
  EXPECT_EQ(unused.action, "kilter compare a --records-b default");
  EXPECT_DOUBLE_EQ(unused.gain_ms, 0.4);
  EXPECT_EQ(unused.other, Suspicion::Other::none) << "nothing that could be run";
  net.profile.tuning->gains[1].gain_ms = 1;
  EXPECT_EQ(net.at("not tuned", "").action, "kilter tune zoo:squeezenet1_1 --threads 1 --time 5min");
  net.profile.tuning->gains[1].gain_ms = 0.001;
  EXPECT_TRUE(net.find("not tuned").empty()) << "not worth a line";
}

/// Replaces the choices of the options, as records would.
class Replaces : public Chooser {
 public:
  explicit Replaces(Choices by) : by_(std::move(by)) {}
  void adapt(const Graph& /*graph*/, CompileOptions& options) const override { options.choices = by_; }

 private:
  Choices by_;
};

/// A known plan that is not used is run and reported with its measured gain, and the text does not also say that
/// nothing helps.
TEST(TuningCauses, UnusedPlanIsMeasured) {
  CompileOptions slow;
  slow.choices["pool1"].schedule = parse_schedule("reference");
  Subject subject = subject_of("squeezenet1_1", 160, 1, slow);
  subject.tuned = Tuned{[] { return std::make_shared<Replaces>(Choices{}); },
                        "kilter compare zoo:squeezenet1_1 --threads 1 --records-b default"};
  subject.look_ahead = [](const Profile&) { return known_plan(); };
  ExplainOptions options = quick();
  options.trial_seconds = 1.5;
  const Explanation e = explain(subject, options);
  const Finding* f = told(e, "a tuned plan is not used", "(network)", 2);
  ASSERT_NE(f, nullptr) << explanation_text(e, "");
  EXPECT_TRUE(f->measured);
  EXPECT_GT(f->interval.low, 0);
  EXPECT_EQ(f->action, subject.tuned->action);
  const std::string text = explanation_text(e, "");
  EXPECT_THAT(text, Not(HasSubstr("nothing that this version offers")));
  EXPECT_LT(text.find("a tuned plan is not used"), text.find("\nTuning\n"));
  // A tuned plan that equals the plan in use is not a finding.
  subject.tuned->chooser = [] { return nullptr; };
  EXPECT_EQ(told(explain(subject, options), "a tuned plan is not used", "(network)", 9), nullptr);
}

/// An alternative that was run without a gain is not given as advice; it is listed among the facts that nothing can be
/// done about.
TEST(Explain, UselessAlternativesAreNotAdvised) {
  Subject subject = subject_of("squeezenet1_1", 96, 1);
  Choices slower;
  slower["conv1"].fuse = Fusion::none;
  subject.tuned =
      Tuned{[slower] { return std::make_shared<Replaces>(slower); }, "kilter compare x --records-b default"};
  subject.look_ahead = [](const Profile&) { return known_plan(); };
  const Explanation e = explain(subject, quick());
  for (const Finding& f : e.findings) {
    const bool fact = f.kind == Finding::Kind::fact;
    EXPECT_TRUE(fact || !f.measured || f.interval.low > 0) << f.cause << " at " << f.name;
    EXPECT_EQ(f.action.empty() && f.advice.empty(), fact) << f.cause;
  }
  const auto unused = std::ranges::find(e.findings, "a tuned plan is not used", &Finding::cause);
  ASSERT_NE(unused, e.findings.end());
  EXPECT_EQ(unused->kind, Finding::Kind::fact);
  EXPECT_THAT(unused->evidence, HasSubstr("--records default was run without a significant gain"));
  EXPECT_THAT(explanation_text(e, ""),
              HasSubstr("What else takes time; nothing can be done about it in this version\n"));
}

TEST(Explain, ApproximatingLayersAreListedWithTheirError) {
  constexpr const char* kError = "largest error [0-9.]+ u of the largest sum of magnitudes";
  Subject subject = subject_of("squeezenet1_1", 96, 1);
  const Explanation e = explain(subject, quick());
  const std::string text = explanation_text(e, "");
  EXPECT_THAT(text,
              ContainsRegex(std::string("Approximations; --accuracy strict avoids them\n  [0-9]+ layers?, [0-9.]+ % of "
                                        "the time: ") +
                            kError));
  EXPECT_THAT(text.substr(text.find("Approximations")), HasSubstr("fire4.expand3x3"));
  EXPECT_THAT(explanation_text(e, "fire4.expand3x3"),
              ContainsRegex(std::string("  accuracy    approximates: ") + kError));
  EXPECT_THAT(explanation_text(e, "fire4.expand1x1"), Not(HasSubstr("accuracy  ")));
  const nlohmann::json whole = to_json(e);
  for (const nlohmann::json& l : whole.at("explain").at("layers")) {
    const bool winograd = l.at("schedule").get<std::string>().starts_with("conv2d_winograd ");
    EXPECT_THAT(l.value("approximates", ""), ContainsRegex(winograd ? kError : "^$")) << l.dump(1);
  }
  subject.compile.accuracy = Accuracy::strict;
  EXPECT_THAT(explanation_text(explain(subject, quick()), ""), Not(HasSubstr("Approximations")));
}

TEST(Explain, SingleLayerShowsSchedulesAndRejections) {
  ExplainOptions options = quick();
  options.node = "fire4.expand3x3";
  const Explanation e = explain(subject_of("squeezenet1_1", 96, 1), options);
  const std::string text = explanation_text(e, options.node);
  EXPECT_THAT(text, HasSubstr("schedule    conv2d_winograd m="));
  EXPECT_THAT(text, HasSubstr("the model expects"));
  EXPECT_THAT(text, HasSubstr("runner-up   conv2d_winograd m="));
  EXPECT_THAT(text, ContainsRegex("runner-up   conv2d_direct vectors=[^\n]*, measured "))
      << "rivals of other templates";
  EXPECT_THAT(text, HasSubstr(", measured "));
  EXPECT_THAT(text, Not(HasSubstr("rejected"))) << "only templates for other kinds of tasks are";
  EXPECT_THAT(explanation_text(e, "fire4.squeeze"),
              HasSubstr("rejected    conv2d_winograd: kernel: limit 3x3, 1x3, 3x1, 1x7 or 7x1, got 1x1\n"));
  options.node = "nothing";
  try {
    explain(subject_of("squeezenet1_1", 96, 1), options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), StartsWith("--node nothing: no layer has this name; legal values are conv1, "));
  }
}

/// `explain` must be right in three of four attempts; half is not enough.
TEST(Explain, ThreeOfFourAttemptsMustBeRight) {
  EXPECT_EQ(judge(3, 3), Judgement::open);
  EXPECT_EQ(judge(4, 4), Judgement::right);
  EXPECT_EQ(judge(3, 4), Judgement::right);
  EXPECT_EQ(judge(1, 4), Judgement::wrong);
  EXPECT_EQ(judge(2, 4), Judgement::open);
  EXPECT_EQ(judge(3, 5), Judgement::open);
  EXPECT_EQ(judge(5, 7), Judgement::open);
  EXPECT_EQ(judge(6, 8), Judgement::right);
  EXPECT_EQ(judge(5, 8), Judgement::wrong);
}

TEST(Explain, PlantedReferenceKernelIsFoundWithItsGain) {
  expect_explained([](double seconds) { return attempt(reference_kernel(), seconds); }, 1);
}

TEST(Explain, CompiledFilesAreExplainedWithoutAlternatives) {
  Subject subject = subject_of("squeezenet1_1", 96, 1);
  subject.program = std::make_shared<Program>(compile_graph(subject.graph(), subject.compile).plan);
  subject.graph = nullptr;
  subject.model = "net.kilter";
  const Explanation e = explain(subject, quick());
  EXPECT_THAT(e.summary, testing::Contains(HasSubstr("A compiled file contains no graph")));
  EXPECT_FALSE(e.layers.empty());
  for (const Finding& f : e.findings) EXPECT_FALSE(f.measured);
}

}  // namespace
}  // namespace kilter::profile
