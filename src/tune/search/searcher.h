// Searchers decide what to measure next. They propose points of a space and learn their costs; they never measure, race
// or decide which point wins.
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
  double cost = 0;     ///< time over that of the task's default schedule; infinity for a failure
  double samples = 1;  ///< number of samples behind `cost`; its error falls with the square root of this number
};

class Searcher {
 public:
  virtual ~Searcher() = default;
  /// Returns up to `most` points that are worth a trial, most wanted first. None of them was proposed before or has a
  /// known cost. Empty: nothing is left, or the search has stopped early. Proposed points need not be learned before
  /// the next call.
  virtual std::vector<Point> propose(size_t most) = 0;
  /// Learns the costs of trials, in any order, proposed here or not. If a point is learned twice, the later cost
  /// counts. Costs that are not positive numbers count as failures.
  virtual void learn(std::span<const Trial> measured) = 0;
};

/// The space to search, and the trials and models that are already known.
struct SearchSpace {
  const Space* space = nullptr;  ///< must outlive the searcher
  /// Candidates that survived prune(), cheapest first by the analytic model. All are legal and appear once.
  std::vector<Point> points;
  int threads = 1;
  std::vector<Trial> known;  ///< trials of earlier runs: learned when the search starts, never proposed
  /// For `model`: complements the analytic estimate; must outlive the searcher.
  const PointModel* pretrained = nullptr;
  TrainablePointModel* trained = nullptr;  ///< for `xgb`, `xgb-rank`: the model to train; must outlive the searcher
  const EarlierTrials* earlier = nullptr;  ///< for `xgb`, `xgb-rank`: rows of other tasks; may grow during the search
  /// Group of this task's own trials in `earlier`, so that they count only once.
  uint32_t own_group = UINT32_MAX;
};

/// Creates the searcher that `options` name. The same options, space and costs give the same proposals on every
/// machine. Throws usage for an unknown name, and for `xgb` or `xgb-rank` without a model.
std::unique_ptr<Searcher> make_searcher(const SearchOptions& options, SearchSpace space);

}  // namespace kilter::tune
