// Compares searchers without measuring: each plays against a table of all costs and trial times, so that chance can be
// averaged out over any number of seeds.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tune/search/cost_table.h"
#include "tune/search/searcher.h"

namespace kilter::tune {

/// The course of one search. It starts at cost 1, the default schedule's.
struct Curve {
  /// By trial: true cost of the point that would be chosen then; without noise, the best cost so far.
  std::vector<double> best;
  std::vector<double> seconds;  ///< by trial: simulated time at its end
  double thinking_ms = 0;       ///< time of the searcher itself; part of `seconds` if a clock was given

  double best_after(double at_seconds) const;
  double best_after_trials(size_t trials) const;
};

struct PlayOptions {
  size_t most_trials = 100000;
  double most_seconds = 1e9;
  size_t batch = 8;  ///< proposals requested at a time
  /// Standard deviation of one sample's logarithm. If it is above 0, trials draw noisy samples of the table's costs,
  /// one trial in three repeats a likely winner, and the schedule whose interval has the lowest upper end is chosen.
  double noise = 0;
  size_t samples = 1;                      ///< number of samples in one trial, if there is noise
  bool stop_at_optimum = false;            ///< ends the search at the optimum; only without noise
  std::function<double()> clock = {};      ///< milliseconds; if set, the searcher's own time counts
  TrainablePointModel* trained = nullptr;  ///< for xgb and xgb-rank
  const PointModel* pretrained = nullptr;
  const EarlierTrials* earlier = nullptr;  ///< for xgb and xgb-rank
};

/// A table with its space.
class Game {
 public:
  /// Keeps references. Throws bad_input naming `where` if a schedule is not in the space or appears twice, or if the
  /// default is not in the table.
  Game(const Space& space, const CostTable& table, const std::string& where);

  /// Plays one search. The same options and table give the same curve, except for the searcher's own time.
  Curve play(const SearchOptions& options, const PlayOptions& how = {}) const;
  /// The lowest cost in the table, at most 1, since the default has cost 1.
  double optimum() const { return optimum_; }
  /// Returns training data for a later task: at most `most` points of the table, evenly spread from the cheapest
  /// estimate to the most expensive, without failures.
  EarlierTrials lessons(uint32_t group, size_t most) const;
  size_t points() const { return points_.size(); }
  /// Cost of the default as measured in the table: 1 except for the error of measurement.
  double default_cost() const { return default_cost_; }
  /// The share by which `best` exceeds the optimum: 0.02 is 2 %.
  double regret(double best) const { return best / optimum_ - 1; }

 private:
  const Space* space_;
  const CostTable* table_;
  std::vector<Point> points_;   ///< cheapest estimate first
  std::vector<size_t> row_of_;  ///< by index in the space's legal points: the row, or none
  double optimum_ = 0, default_cost_ = 0;
};

/// The distance between two searchers on the same tasks with the same seeds: the mean difference in one figure.
struct Lead {
  double mean = 0;
  double half = 0;            ///< half width of the 95 % interval over seeds, for just these tasks
  size_t less = 0, more = 0;  ///< tasks with a mean difference below and above 0
  bool told() const { return mean < -half || mean > half; }
};
/// Computes the lead from differences by task, then by seed. Throws internal unless each task has at least two.
Lead lead_of(const std::vector<std::vector<double>>& differences);

/// Mean and quartiles of one figure over several searches.
struct Spread {
  double mean = 0, low = 0, median = 0, high = 0;
};
/// Throws internal if there are no values.
Spread spread_of(std::vector<double> values);

}  // namespace kilter::tune
