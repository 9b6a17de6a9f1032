// Searchers compared without measuring anything: each plays against a table of all costs, with the time that each trial
// took, so that luck can be averaged out over as many seeds as are wanted.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tune/search/cost_table.h"
#include "tune/search/searcher.h"

namespace kilter::tune {

/// One search. Before any trial the default schedule stands, at cost 1.
struct Curve {
  std::vector<double> best;     ///< true cost of what would be chosen, after each trial; without noise the best so far
  std::vector<double> seconds;  ///< simulated time at its end
  double thinking_ms = 0;       ///< of the searcher itself; part of `seconds` where a clock was given

  double best_after(double at_seconds) const;
  double best_after_trials(size_t trials) const;
};

struct PlayOptions {
  size_t most_trials = 100000;
  double most_seconds = 1e9;
  size_t batch = 8;  ///< proposals that are asked for at a time
  /// Standard deviation of the logarithm of one sample. Above 0, trials take samples of the table's costs, one trial in
  /// three measures again what may be the best, and the schedule with the least upper end of its interval is chosen.
  double noise = 0;
  size_t samples = 1;                      ///< of a trial, where there is noise
  bool stop_at_optimum = false;            ///< without noise: nothing better can follow
  std::function<double()> clock = {};      ///< milliseconds; where given, the searcher's own time counts
  TrainablePointModel* trained = nullptr;  ///< for xgb and xgb-rank
  const PointModel* pretrained = nullptr;
  const EarlierTrials* earlier = nullptr;  ///< for xgb and xgb-rank
};

/// A table and the space that it is of.
class Game {
 public:
  /// Keeps references. Throws bad_input naming `where` when a schedule is not in the space or comes twice, or when the
  /// default is not in the table.
  Game(const Space& space, const CostTable& table, const std::string& where);

  /// The same options and table give the same curve, but for the time that the searcher itself takes.
  Curve play(const SearchOptions& options, const PlayOptions& how = {}) const;
  /// Least cost of the table, or 1 where none is below: the default stands at 1.
  double optimum() const { return optimum_; }
  /// What a later task learns from this one: at most so many points of the table, evenly from the cheapest estimate to
  /// the dearest; failures are left out.
  EarlierTrials lessons(uint32_t group, size_t most) const;
  size_t points() const { return points_.size(); }
  /// Cost of the default by the table's own measurement: 1 but for its error.
  double default_cost() const { return default_cost_; }
  /// How much longer than the optimum the best so far takes: 0.02 is 2 %.
  double regret(double best) const { return best / optimum_ - 1; }

 private:
  const Space* space_;
  const CostTable* table_;
  std::vector<Point> points_;   ///< cheapest estimate first
  std::vector<size_t> row_of_;  ///< by place in the space's legal points; the row, or none
  double optimum_ = 0, default_cost_ = 0;
};

/// How far one searcher is from another on the same tasks with the same seeds: the mean difference of a figure.
struct Lead {
  double mean = 0;
  double half = 0;            ///< of the interval of 95 % over seeds, for just these tasks
  size_t less = 0, more = 0;  ///< tasks with a mean difference below and above 0
  bool told() const { return mean < -half || mean > half; }
};
/// Of differences by task, then seed. Throws internal unless each task has two or more.
Lead lead_of(const std::vector<std::vector<double>>& differences);

/// Mean and quartiles of one figure over several searches.
struct Spread {
  double mean = 0, low = 0, median = 0, high = 0;
};
/// Throws internal for no values.
Spread spread_of(std::vector<double> values);

}  // namespace kilter::tune
