// Kilter's own trainer of boosted regression trees, used if XGBoost is not available.
#pragma once

#include <optional>

#include "tune/cost/model.h"
#include "tune/cost/tree_model.h"

namespace kilter::tune {

/// Gradient boosting for squared error, with histogram-based splits (Friedman 2001; Chen and Guestrin 2016). Gains are
/// exact, for at most `bins` split places. There is no subsampling, so the seed has no effect. Runs on the calling
/// thread.
class BoostedTrees : public TrainableModel {
 public:
  explicit BoostedTrees(BoostOptions options = {}) : options_(options) {}
  void fit(const TrainingSet& set) override;
  const TreeModel& trees() const override;

 private:
  BoostOptions options_;
  std::optional<TreeModel> model_;
};

}  // namespace kilter::tune
