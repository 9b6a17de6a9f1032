// Tuning with an agent whose results are wrong: values, times, sizes, names, or all bytes. No such result becomes a
// plan, and each is refused with a clear message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <random>
#include <thread>

#include "../base/error_of.h"
#include "fleet/agent/agent.h"
#include "fleet/answer_check.h"
#include "fleet/remote_runner.h"
#include "measure/conditions.h"
#include "network.h"
#include "short_run.h"
#include "support/databases.h"

namespace kilter::tune {
namespace {

using fleet::TrialAnswer;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

/// Changes the bytes of a result before it is delivered.
using Lie = std::function<std::string(const std::string&)>;

/// A lie that changes a field.
Lie saying(const std::function<void(TrialAnswer&)>& change) {
  return [change](const std::string& bytes) {
    TrialAnswer answer = fleet::unpack_answer(bytes);
    change(answer);
    return pack(answer);
  };
}

class LyingQueue : public fleet::Queue {
 public:
  LyingQueue(const std::string& url, std::function<std::string(const std::string&)> lie)
      : Queue(url), lie_(std::move(lie)) {}
  fleet::Delivery deliver(const std::string& agent, int64_t job, const std::string& device,
                          std::span<const fleet::Result> results) override {
    std::vector<fleet::Result> changed(results.begin(), results.end());
    for (fleet::Result& r : changed) r.body = lie_(r.body);
    return Queue::deliver(agent, job, device, changed);
  }

 private:
  Lie lie_;
};

class LyingAgent : public ::testing::Test {
 protected:
  ~LyingAgent() override {
    stop_ = true;
    if (agent_.joinable()) agent_.join();
  }
  void start(const std::vector<int>& cpus = affinity_cpus()) {
    agent_ = std::thread([this, cpus] {
      set_affinity(cpus);
      fleet::AgentOptions options;
      options.connect = [this] {
        return std::make_unique<LyingQueue>(url_, [this](const std::string& bytes) { return answer(bytes); });
      };
      options.name = "liar", options.device_class = "this", options.device = "this machine";
      options.worker = KILTER_WORKER, options.trust = fleet::Trust::in_anyone();
      fleet::run_agent(options, stop_);
    });
  }
  void tell(Lie lie) {
    const std::lock_guard hold(lock_);
    lie_ = std::move(lie);
  }
  std::string answer(const std::string& bytes) {
    const std::lock_guard hold(lock_);
    last_ = bytes;
    return lie_ ? lie_(bytes) : bytes;
  }
  RunnerOptions remote() const {
    RunnerOptions options = worker();
    options.make = [url = url_](RunnerOptions made) -> std::unique_ptr<Runner> {
      fleet::RemoteOptions there;
      there.url = url, there.device_class = "this";
      return std::make_unique<fleet::RemoteRunner>(there, std::move(made));
    };
    return options;
  }
  NetworkBench bench() const {
    const Graph graph = small_network();
    RunnerOptions options = remote();
    options.inputs = inputs_of(graph);
    return {graph, native(), std::move(options)};
  }
  /// Returns the error of some work while the agent delivers a wrong result.
  std::string refusal(const Lie& lie, const std::function<void()>& work) {
    tell(lie);
    const std::string error = error_of(work, ErrorKind::bad_input);
    tell({});
    return error;
  }

  const std::string url_ = server().url(new_database());
  std::atomic<bool> stop_ = false;
  std::mutex lock_;
  Lie lie_;
  std::string last_;  ///< the last result, before the lie
  std::thread agent_;
};

const std::string kAdvice =
    ". Its answer is not used: install the same version of Kilter there, or take the agent out of the fleet (`kilter "
    "fleet drain liar`) and check its machine";

TEST_F(LyingAgent, AbsurdTimesAreRefused) {
  start();
  NetworkBench there = bench();
  const std::vector<VariantId> ids{there.fallback_id()};
  const auto with = [&](const std::function<void(Lap&)>& change) {
    return refusal(saying([&](TrialAnswer& a) { change(a.laps.laps.at(0).at(0)); }),
                   [&] { (void)there.runner().measure(ids); });
  };
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const auto run_of = [](const std::string& ms) {
    return MatchesRegex("agent liar: a run of variant 1 took " + ms +
                        " ms; expected at most [0-9]+ ms, the time since the job was submitted\\. Its answer is not "
                        "used: .* \\(`kilter fleet drain liar`\\) and check its machine");
  };
  EXPECT_THAT(with([](Lap& l) { l.total_ms = -3; }), run_of("-3"));
  EXPECT_THAT(with([](Lap& l) { l.total_ms = kNaN; }), run_of("nan"));
  EXPECT_THAT(with([](Lap& l) { l.total_ms = 1e9; }), run_of("1e\\+09"));
  EXPECT_THAT(with([](Lap& l) { l.total_ms = HUGE_VAL; }), run_of("inf"));
  EXPECT_EQ(with([](Lap& l) { l.total_ms = 0; }), "agent liar: a run of variant 1 took no time" + kAdvice);
  const auto step = HasSubstr("agent liar: one of the times of steps of a run of variant 1 is ");
  EXPECT_THAT(with([](Lap& l) { l.step_ms[2] = -1; }), AllOf(step, HasSubstr(" is -1; expected 0 to ")));
  EXPECT_THAT(with([](Lap& l) { l.step_ms[2] = kNaN; }), AllOf(step, HasSubstr(" is nan; expected 0 to ")));
  EXPECT_THAT(with([](Lap& l) { l.step_ms[2] = 1e30; }), AllOf(step, HasSubstr(" is 1e+30; expected 0 to ")));
  EXPECT_THAT(with([](Lap& l) { l.gap_ms[0] = -1; }), HasSubstr("one of the times between steps of a run of "));
  EXPECT_THAT(with([](Lap& l) { l.width[0] = kNaN; }), HasSubstr("one of the widths of a run of variant 1 is nan"));
  EXPECT_THAT(with([](Lap& l) { l.disturbance.drift = kNaN; }),
              HasSubstr("a disturbance of a run of variant 1 is nan"));
  EXPECT_FALSE(there.runner().measure(ids).laps[0].empty()) << "after the lies, it can be measured";
}

TEST_F(LyingAgent, MeasurementsOfOtherSizesAreRefused) {
  start();
  NetworkBench there = bench();
  const std::vector<VariantId> ids{there.fallback_id()};
  const size_t steps = there.fallback().compiled.plan.steps.size();
  const auto with = [&](const std::function<void(Laps&)>& change) {
    return refusal(saying([&](TrialAnswer& a) { change(a.laps); }), [&] { (void)there.runner().measure(ids); });
  };
  EXPECT_EQ(with([](Laps& l) { l = {}; }),
            "agent liar: it measured 0 variants, with 0 lists of runs; expected the 1 of the job" + kAdvice);
  EXPECT_THAT(with([](Laps& l) { l.ids[0] = 7; }), HasSubstr("it measured 1 variants, with 1 lists of runs"));
  EXPECT_THAT(with([](Laps& l) { l.laps.emplace_back(); }), HasSubstr("it measured 1 variants, with 2 lists of runs"));
  EXPECT_EQ(
      with([](Laps& l) { l.laps[0][0].step_ms.pop_back(); }),
      fmt::format("agent liar: a run of variant 1 has {} times of steps; expected {}", steps - 1, steps) + kAdvice);
  EXPECT_THAT(with([](Laps& l) { l.laps[0][0].gap_ms.clear(); }), HasSubstr(" has 0 times between steps; expected "));
  EXPECT_THAT(with([](Laps& l) { l.laps[0][0].width.push_back(1); }), HasSubstr(" widths; expected "));
  EXPECT_THAT(with([](Laps& l) { l.laps[0][0].round = -1; }),
              HasSubstr("a run of variant 1 was in round -1; expected "));
  EXPECT_THAT(with([](Laps& l) { l.laps[0][0].round = 1 << 30; }),
              HasSubstr(" was in round 1073741824; expected 0 to "));
  EXPECT_THAT(with([](Laps& l) { l.rounds = -1; }), HasSubstr("it measured in -1 rounds, with "));
  EXPECT_THAT(with([](Laps& l) { l.rounds = int64_t{1} << 50; }),
              HasSubstr(" expected at most as many rounds as runs"));
  EXPECT_THAT(with([](Laps& l) { l.wall_ms = -1; }), HasSubstr("a measurement took -1 ms; expected at most "));
  EXPECT_THAT(with([](Laps& l) { l.faults = {{9, FaultKind::crash, -1, "", ""}}; }),
              HasSubstr("it found a fault in variant 9, which is not in the job"));
  EXPECT_THAT(with([](Laps& l) { l.faults = {{1, FaultKind::crash, 1 << 20, "", ""}}; }),
              HasSubstr("it found a fault in step 1048576 of variant 1; expected one of "));
  EXPECT_THAT(with([](Laps& l) { l.faults = {{1, FaultKind::crash, 0, "a layer", ""}}; }),
              HasSubstr("it found a fault in step 0 of variant 1, in layer 'a layer'; expected '"));
}

TEST_F(LyingAgent, LoadedVariantsAndValuesOfOtherSizesAreRefused) {
  start();
  NetworkBench there = bench();
  const auto variant = there.build({});
  const auto loading = [&](const std::function<void(std::vector<Loaded>&)>& change) {
    return refusal(saying([&](TrialAnswer& a) { change(a.loaded); }), [&] { (void)there.load(*variant); });
  };
  EXPECT_EQ(loading([](auto& all) { all.clear(); }), "agent liar: it loaded 0 variants; expected 1" + kAdvice);
  EXPECT_THAT(loading([](auto& all) { all[0].id = 99; }), StartsWith("agent liar: it loaded variant 99; expected "));
  EXPECT_THAT(loading([](auto& all) { all[0].id.reset(); }), HasSubstr(", but found no fault in it"));
  EXPECT_THAT(loading([](auto& all) { all[0].step_ms.pop_back(); }), HasSubstr(" times of steps; expected "));
  EXPECT_THAT(loading([](auto& all) { all[0].step_ms[0] = -1; }), HasSubstr(" is -1; expected 0 to "));
  EXPECT_THAT(loading([](auto& all) { all[0].faults = {{77, FaultKind::wrong, 0, "", ""}}; }),
              HasSubstr("a fault in variant 77, which is not in the job"));
  EXPECT_TRUE(there.load(*variant).id) << "after the lies, it can be loaded";

  const Tap tap{0, there.fallback().compiled.plan.steps.front().args.back()};
  const auto tracing = [&](const std::function<void(Traced&)>& change) {
    return refusal(saying([&](TrialAnswer& a) { change(a.traced); }),
                   [&] { (void)there.runner().trace(there.fallback_id(), {&tap, 1}); });
  };
  EXPECT_EQ(tracing([](Traced& t) { t.values.clear(); }), "agent liar: it returned 0 values; expected 1" + kAdvice);
  EXPECT_EQ(
      tracing([](Traced& t) { t.values[0].resize(3); }),
      fmt::format("agent liar: it returned 3 bytes of the value that step 0 leaves; expected {}", tap.buffer.bytes) +
          kAdvice);
  EXPECT_THAT(tracing([](Traced& t) { t.fault = Fault{5, FaultKind::crash, 0, "", ""}; }),
              HasSubstr("a fault in variant 5, which is not in the job"));
}

TEST_F(LyingAgent, AbsurdPeaksAreRefused) {
  start();
  fleet::RemoteOptions there;
  there.url = url_, there.device_class = "this";
  const auto why = [&](const std::function<void(Peaks&)>& change) {
    return refusal(saying([&](TrialAnswer& answer) { change(answer.peaks); }),
                   [&] { (void)fleet::RemoteRunner(there, {}).measure_peaks(1); });
  };
  EXPECT_THAT(why([](Peaks& peaks) { peaks.gflops = {0}; }),
              HasSubstr("it measured GFLOP/s of 0; expected 1 to 1 numbers from 0.001 to 1e+07"));
  EXPECT_THAT(why([](Peaks& peaks) { peaks.dram_gbps = {std::nan("")}; }), HasSubstr("GB/s of the memory of nan"));
  EXPECT_THAT(why([](Peaks& peaks) { peaks.l2_gbps.clear(); }), HasSubstr("GB/s of L2 of ; expected 1 to 1 numbers"));
  EXPECT_THAT(why([](Peaks& peaks) { peaks.region_us = {0, 1}; }), HasSubstr("us of a parallel region of 0, 1; "));
}

TEST_F(LyingAgent, InvalidAnswersAreRefused) {
  start();
  NetworkBench there = bench();
  const std::vector<VariantId> ids{there.fallback_id()};
  const auto with = [&](const Lie& lie) { return refusal(lie, [&] { (void)there.runner().measure(ids); }); };
  EXPECT_EQ(
      with([](const std::string&) { return ""; }),
      "agent liar: its answer of 0 bytes cannot be read: answer 'trial': protocol at byte 0 of the message: expected "
      "4 bytes, got 0; the message is cut off" +
          kAdvice);
  EXPECT_THAT(with([](const std::string& bytes) { return bytes.substr(0, bytes.size() / 2); }),
              AllOf(StartsWith("agent liar: its answer of "), HasSubstr(" cannot be read: answer 'trial': ")));
  tell([](const std::string&) { return "a page in HTML"; });
  EXPECT_EQ(error_of([&] { (void)there.runner().measure(ids); }, ErrorKind::unsupported),
            fmt::format("agent liar: its answer of 14 bytes cannot be read: the sender of an answer uses protocol "
                        "1634738273, and this tuner uses {}: install the same version of Kilter on both",
                        fleet::kTrialProtocol) +
                kAdvice);
}

/// A right result with changed bytes is either refused or is a valid result with different figures.
TEST_F(LyingAgent, ChangedBytesAreRefusedOrHarmless) {
  start();
  NetworkBench there = bench();
  const auto variant = there.build({});
  const VariantId id = there.load(*variant).id.value();
  const std::string loaded = last_;
  const std::vector<VariantId> ids{there.fallback_id(), id};
  (void)there.runner().measure(ids);
  const std::string measured = last_;
  fleet::StepNames names;
  for (const Step& step : variant->compiled.plan.steps) names[id].push_back(step.name);
  names[there.fallback_id()] = names[id];
  std::mt19937 random(5);
  int refused = 0, used = 0;
  for (int i = 0; i < 4000; ++i) {
    const bool load = i % 2 == 0;
    std::string bytes = load ? loaded : measured;
    const size_t head = load ? bytes.size() : std::min<size_t>(bytes.size(), 600);
    bytes[random() % (i % 4 < 2 ? head : bytes.size())] ^= static_cast<char>(1 << random() % 8);
    try {
      const fleet::Answered given{fleet::read_answer("liar", bytes), "liar", 10'000};
      load ? check_loaded(given, {&id, 1}, names) : check_laps(given, ids, names);
      ++used;
    } catch (const Error& e) {
      ++refused;
      EXPECT_THAT(e.message(), StartsWith("agent liar: "));
    }
  }
  EXPECT_GT(refused, 400);
  EXPECT_GT(used, 400) << "such as a slightly different time";
}

/// Changes all values that a run returned, and claims that they are right.
void corrupt(TrialAnswer& answer) {
  for (auto& value : answer.traced.values) {
    for (size_t i = 3; i < value.size(); i += 4) value[i] ^= std::byte{0x41};  // signs and exponents
  }
}

TEST_F(LyingAgent, WrongValuesOfTheDefaultPlanEndTheRun) {
  start();
  NetworkBench there = bench();
  tell(saying(corrupt));
  const ReferenceCheck check = check_default(there);
  EXPECT_THAT(check.wrong, HasSubstr(" of layer '"));
  EXPECT_THAT(
      error_of([&] { require_right(check); }, ErrorKind::internal),
      AllOf(
          HasSubstr("the default plan is wrong: value '"),
          HasSubstr(
              "If an agent of a fleet ran the plan, let a different agent do it, since its machine may be at fault")));
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.runner = remote();
  const Graph graph = small_network();
  EXPECT_THAT(error_of([&] { tune(graph, inputs_of(graph), slow_default(), options); }, ErrorKind::internal),
              HasSubstr("the default plan is wrong: value '"));
}

TEST_F(LyingAgent, WrongValuesOfTheWinnerAreNotAccepted) {
  const std::vector<int> all = affinity_cpus();
  const CpuShares shares = cpus_for(1);
  start(shares.measuring);
  set_affinity(shares.building);
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.runner = remote();
  options.trials = 20;
  std::atomic<int> checks = 0;
  options.check = [&](NetworkBench& bench, const Choices& choices) {  // the default plan was right
    ++checks;
    tell(saying(corrupt));
    const ReferenceCheck check = check_choices(bench, choices);
    tell({});
    return check;
  };
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), slow_default(), options);
  set_affinity(all);
  EXPECT_GT(checks, 0) << "something was faster, so it was checked";
  EXPECT_TRUE(result.choices.empty());
  EXPECT_THAT(result.refused, HasSubstr("value '"));
}

}  // namespace
}  // namespace kilter::tune
