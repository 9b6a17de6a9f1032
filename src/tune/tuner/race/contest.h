// Races of whole plans of one network, which run interleaved.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tune/tuner/network_bench.h"
#include "tune/tuner/plan_memory.h"

namespace kilter::tune {

/// A plan's times by round. Times of different plans from the same round of a contest form pairs.
struct Series {
  std::vector<double> total;                         ///< by round, in ms
  std::map<std::string, std::vector<double>> layer;  ///< by anchor, by round
};

/// The result of a contest. The default plan comes first, then the plans that were passed.
struct Contest {
  std::vector<std::shared_ptr<const Variant>> variants;
  std::vector<VariantId> ids;
  std::vector<Series> series;
  std::vector<Fault> faults;  ///< if there are any, times may be missing
  int64_t rounds = 0;
};

/// Seconds that races may still take after an interruption.
constexpr double kInterruptedRace = 3;

/// The time, by now_ms(), at which a race ends. It becomes earlier if the run is interrupted. `beat` is called at each
/// check, between rounds.
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

/// Runs the plans interleaved until `seconds` have passed, `end` is reached or the contest is sharp (is_sharp()).
/// Throws what NetworkBench::build() throws; no plan stays loaded in that case.
Contest hold_contest(NetworkBench& bench, const std::vector<Choices>& plans, double seconds, double half_width,
                     RaceEnd* end = nullptr);
/// Returns the plan to which a fault belongs, by its index in the contest's series (0: the default plan). If the fault
/// names none of the loaded plans, it is the one that failed to load. Empty if no plan was begun.
std::optional<size_t> entrant_of(const Contest& contest, const Fault& fault);
/// Unloads the plans of a contest.
void release(NetworkBench& bench, const Contest& contest);

/// Whether the intervals of the first plan's ratios over the default and over each other plan extend at most
/// `half_width` to each side. Verdicts are based on these ratios.
bool is_sharp(const Contest& contest, double half_width);

/// The memory of an entrant's plan.
PlanMemory memory_of(const Contest& contest, size_t entrant, int threads);
/// Ratio of whole runs, `other` over `base`.
Ratio ratio_of(const Series& base, const Series& other);
/// Ratio of the total times of layers, given by their anchors, which may differ between the plans.
Ratio layers_ratio(const Series& base, const std::vector<std::string>& base_layers, const Series& other,
                   const std::vector<std::string>& other_layers);

}  // namespace kilter::tune
