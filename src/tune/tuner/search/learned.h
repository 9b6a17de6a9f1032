// Cost models that work on tables of features, behind the interface that the searchers use.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tune/cost/model.h"
#include "tune/cost/tree_model.h"
#include "tune/search/cost_model.h"

namespace kilter::tune {

/// Trains a table model on rows of features.
class LearnedPoints : public TrainablePointModel {
 public:
  explicit LearnedPoints(std::unique_ptr<TrainableModel> model) : model_(std::move(model)) {}

  void fit(const FeatureRows& rows, std::span<const double> log2_costs, std::span<const uint32_t> groups) override;
  std::vector<double> predict(const FeatureRows& rows) const override;

 private:
  std::unique_ptr<TrainableModel> model_;
};

/// Predicts with a model that is already trained.
class CostPoints : public PointModel {
 public:
  /// Keeps a reference to `model`.
  explicit CostPoints(const CostModel& model) : model_(&model) {}
  std::vector<double> predict(const FeatureRows& rows) const override;

 private:
  const CostModel* model_;
};

/// The model that ships with Kilter, trained by scripts/train_cost_model.sh on bench/searchers.
const TreeModel& shipped_model();

/// Loads the model named `what`. "none": null; "shipped": shipped_model(); anything else: a file of `kilter cost-model
/// train`. Throws io or bad_input, naming the file, if it cannot be read, is not a model, needs features that schedules
/// do not have, or predicts an order instead of costs.
std::unique_ptr<const PointModel> load_points(const std::string& what);

/// Returns the model that a searcher trains: XGBoost's for `xgb` (regression) and `xgb-rank` (pairwise rank), null for
/// all others. Throws unsupported if XGBoost is missing; the message names the places searched and how to install it.
std::unique_ptr<TrainablePointModel> model_for(std::string_view searcher);

}  // namespace kilter::tune
