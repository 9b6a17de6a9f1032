// Plants defects in real networks and checks that `explain` names them and predicts the gain of fixing them. The real
// gain is measured by an interleaved comparison of both networks.
//
// A prediction is judged over several attempts: three in four of those made while the machine was quiet enough must be
// right. On one thread, the real gain is measured in CPU time, which other processes hardly affect.
#pragma once

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <cmath>

#include "explain_network.h"
#include "measure/compare.h"
#include "profile/explain/explain_trials.h"

namespace kilter::profile {

struct Defect {
  std::string cause, layer;  ///< cause that `explain` must name
  std::string network;
  int64_t size = 0;
  int threads = 1;
  CompileOptions planted = {};
};

inline void PrintTo(const Defect& d, std::ostream* out) { *out << d.cause << " in " << d.network; }

inline Defect reference_kernel() {
  Defect d{"reference kernel", "pool1", "squeezenet1_1", 224};
  d.planted.choices["pool1"].schedule = parse_schedule("reference");
  return d;
}

/// Returns the CPU time of this thread in milliseconds, which excludes other processes that run in between.
inline double cpu_ms() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

/// Returns the share of the planted network's time that the repaired one saves.
inline Ratio real_gain(const Subject& planted, const Subject& mended, double seconds) {
  const auto pool = std::make_shared<ThreadPool>(planted.threads);
  const auto a = Network::compile(planted, planted.compile, nullptr, pool),
             b = Network::compile(mended, mended.compile, nullptr, pool);
  const auto candidate = [&](const char* name, Network& network) {
    Candidate c{name, [&] { network.run(); }, [&] { network.run(); }};
    if (planted.threads > 1) return c;
    c.timed = [&](int64_t calls) {
      network.run();
      const double start = cpu_ms();
      for (int64_t i = 0; i < calls; ++i) network.run();
      return (cpu_ms() - start) / static_cast<double>(calls);
    };
    return c;
  };
  CompareOptions how;
  how.max_seconds = seconds;
  how.target_half_width = 0.004;
  how.stop_when_different = false;
  how.slice_ms = 10;
  const Ratio r = compare({candidate("planted", *a), candidate("mended", *b)}, how).ratio(0, 1);
  return {1 - r.value, 1 - r.high, 1 - r.low};
}

enum class Verdict : uint8_t { agrees, differs, too_busy };
struct Outcome {
  Verdict verdict = Verdict::too_busy;
  std::string text;
};

/// Judges whether the gain that `explain` gives for a defect is within 30 % of the real one, which must be at least 5 %
/// of the network's time. If the real gain is known less precisely than +-20 %, the attempt counts as too busy.
inline Outcome judged(const Finding& finding, const Ratio& real) {
  const double told = finding.gain_percent * 0.01;
  const std::string text = fmt::format("{} at {}: told {:.2f} % ({:.2f} to {:.2f}), real {:.2f} % ({:.2f} to {:.2f})",
                                       finding.cause, finding.name, 100 * told, 100 * finding.interval.low,
                                       100 * finding.interval.high, 100 * real.value, 100 * real.low, 100 * real.high);
  std::cout << text << std::endl;
  if (real.high - real.low > 0.4 * std::abs(real.value)) return {Verdict::too_busy, text};
  const bool agrees = real.value >= 0.05 && std::abs(told - real.value) <= 0.3 * real.value;
  return {agrees ? Verdict::agrees : Verdict::differs, text};
}

/// Returns the finding of a cause at a layer among the first `most` actions; null if there is none.
inline const Finding* told(const Explanation& e, const std::string& cause, const std::string& layer, size_t most) {
  for (size_t i = 0; i < std::min(most, e.findings.size()); ++i) {
    const Finding& f = e.findings[i];
    if (f.cause == cause && f.name == layer && !f.action.empty()) return &f;
  }
  return nullptr;
}

/// Makes one attempt, which takes about three times `seconds`.
inline Outcome attempt(const Defect& d, double seconds) {
  const Subject planted = subject_of(d.network, d.size, d.threads, d.planted);
  ExplainOptions options;
  options.seconds = 0.3 * seconds;
  options.trial_seconds = 0.7 * seconds;
  options.read_quiet = quiet_machine();  // gains are judged, not whether the machine is busy
  const Explanation e = explain(planted, options);
  const Finding* f = told(e, d.cause, d.layer, 3);
  if (f == nullptr) return {Verdict::differs, "not among the first three actions:\n" + explanation_text(e, "")};
  return judged(*f, real_gain(planted, subject_of(d.network, d.size, d.threads), seconds));
}

/// Limits for judging attempts together. Of at most kMostAttempts attempts, at least kLeastJudged must be made while
/// the machine is quiet enough, and three quarters of these must be right.
constexpr int kLeastJudged = 4, kMostAttempts = 8;

enum class Judgement : uint8_t { open, right, wrong };
/// Returns the verdict on `agree` right attempts among `judged`, which is open while further attempts may change it.
inline Judgement judge(int agree, int judged) {
  const int wrong = judged - agree;
  if (4 * agree >= 3 * judged && judged >= kLeastJudged) return Judgement::right;
  // Even if all remaining attempts were right, fewer than three in four would be.
  if (4 * wrong > kMostAttempts) return Judgement::wrong;
  return judged >= kMostAttempts ? Judgement::wrong : Judgement::open;
}

/// Makes attempts until three quarters of at least four agree, or no longer can. Later attempts are longer, since the
/// machine may be busy. Skips the test if the machine was too busy for four attempts to be judged.
inline void expect_explained(const std::function<Outcome(double seconds)>& attempt, double seconds) {
  std::string texts;
  int agree = 0, judged = 0;
  for (int i = 0; i < kMostAttempts && judge(agree, judged) == Judgement::open; ++i) {
    const Outcome o = attempt(seconds * (1 + 0.5 * i));
    texts += fmt::format("{}: {}\n", i + 1, o.text);
    if (o.verdict == Verdict::too_busy) continue;
    ++judged;
    agree += o.verdict == Verdict::agrees ? 1 : 0;
  }
  if (judge(agree, judged) == Judgement::right) return;
  if (judged < kLeastJudged && 4 * agree >= 3 * judged)
    GTEST_SKIP() << "the machine was too busy for all but " << judged << " attempts:\n" << texts;
  FAIL() << agree << " of " << judged << " attempts agree:\n" << texts;
}

}  // namespace kilter::profile
