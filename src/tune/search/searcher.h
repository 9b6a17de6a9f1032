// Searchers: what to measure next. They propose points of a space and learn what they cost; they never measure, never
// race and never decide which point wins.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tune/search/cost_model.h"
#include "tune/search/options.h"
#include "tune/space/space.h"

namespace kilter::tune {

struct Trial {
  Point point;
  double cost = 0;     ///< time over that of the task's default schedule (1: the same); infinity for a failure
  double samples = 1;  ///< that `cost` is an estimate of: its error falls with their root
};

class Searcher {
 public:
  virtual ~Searcher() = default;
  /// Up to `most` points that are worth a trial, most wanted first; none of them was proposed before or is known.
  /// Empty: nothing is left, or the search has stopped early. What was proposed need not be learned before the next
  /// call.
  virtual std::vector<Point> propose(size_t most) = 0;
  /// What trials cost, in any order, proposed here or not; of points that are learned twice the later cost counts.
  /// Costs that are not positive numbers count as failures.
  virtual void learn(std::span<const Trial> measured) = 0;
};

/// What is searched, and what is known before.
struct SearchSpace {
  const Space* space = nullptr;  ///< outlives the searcher
  /// That may be proposed, cheapest by the analytic model first: what prune() left. Legal ones, each once.
  std::vector<Point> points;
  int threads = 1;
  std::vector<Trial> known;                ///< from earlier runs: learned at once, never proposed
  const PointModel* pretrained = nullptr;  ///< `model`: joins the analytic estimate; outlives the searcher
  TrainablePointModel* trained = nullptr;  ///< `xgb`, `xgb-rank`: the model that is fitted; outlives the searcher
  const EarlierTrials* earlier = nullptr;  ///< the same: rows of other tasks to learn from; may grow while it searches
  uint32_t own_group = UINT32_MAX;         ///< rows of `earlier` that are this task's own trials, which count once
};

/// The searcher that `options` names. The same options, space and costs give the same proposals on every machine.
/// Throws usage for an unknown name, and where `xgb` or `xgb-rank` lack a model.
std::unique_ptr<Searcher> make_searcher(const SearchOptions& options, SearchSpace space);

}  // namespace kilter::tune
