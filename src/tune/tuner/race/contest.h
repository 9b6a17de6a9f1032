// Whole plans of one network that run in turns.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tune/tuner/network_bench.h"

namespace kilter::tune {

/// Times of a plan, by round; those of several plans of a contest are pairs.
struct Series {
  std::vector<double> total;                         ///< by round, ms
  std::map<std::string, std::vector<double>> layer;  ///< by anchor, by round
};

/// The default plan first, then those that were asked for.
struct Contest {
  std::vector<std::shared_ptr<const Variant>> variants;
  std::vector<VariantId> ids;
  std::vector<Series> series;
  std::vector<Fault> faults;  ///< where there are some, there may be no times
  int64_t rounds = 0;
};

/// Seconds that races may still take once a run is interrupted.
constexpr double kInterruptedRace = 3;

/// Moment of now_ms() at which a race ends: it comes nearer when the run is interrupted. `beat` is called each time
/// that it is looked at, between rounds.
class RaceEnd {
 public:
  RaceEnd(double end_ms, std::function<bool()> interrupted, std::function<void()> beat = {})
      : end_ms_(end_ms), interrupted_(std::move(interrupted)), beat_(std::move(beat)) {}
  double left_seconds();
  bool interrupted() const { return seen_; }

 private:
  double end_ms_;
  std::function<bool()> interrupted_;
  std::function<void()> beat_;
  bool seen_ = false;
};

/// Until `seconds` are over, `end` is there or the contest is sharp. Throws what NetworkBench::build() throws; nothing
/// stays loaded then.
Contest hold_contest(NetworkBench& bench, const std::vector<Choices>& plans, double seconds, double half_width,
                     RaceEnd* end = nullptr);
/// The plan that a fault is of, counted as the contest's series are (0: the default plan): the one that did not load
/// where it is none of those that did. Nothing where no plan was begun.
std::optional<size_t> entrant_of(const Contest& contest, const Fault& fault);
/// What was loaded for it.
void release(NetworkBench& bench, const Contest& contest);

/// Whether the intervals of the first plan's ratios to the default and to each of the other plans are as narrow as
/// `half_width`: these ratios are what verdicts are about.
bool is_sharp(const Contest& contest, double half_width);

/// Of whole runs: `other` over `base`.
Ratio ratio_of(const Series& base, const Series& other);
/// Of layers together, by anchors; the plans may have other ones.
Ratio layers_ratio(const Series& base, const std::vector<std::string>& base_layers, const Series& other,
                   const std::vector<std::string>& other_layers);

}  // namespace kilter::tune
