// Cost models of tables as searchers of points want them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tune/cost/model.h"
#include "tune/cost/tree_model.h"
#include "tune/search/cost_model.h"

namespace kilter::tune {

/// Trains a model of tables on rows of features.
class LearnedPoints : public TrainablePointModel {
 public:
  explicit LearnedPoints(std::unique_ptr<TrainableModel> model) : model_(std::move(model)) {}

  void fit(const FeatureRows& rows, std::span<const double> log2_costs, std::span<const uint32_t> groups) override;
  std::vector<double> predict(const FeatureRows& rows) const override;

 private:
  std::unique_ptr<TrainableModel> model_;
};

/// A model that was trained before.
class CostPoints : public PointModel {
 public:
  /// Keeps a reference.
  explicit CostPoints(const CostModel& model) : model_(&model) {}
  std::vector<double> predict(const FeatureRows& rows) const override;

 private:
  const CostModel* model_;
};

/// The model that Kilter ships, made by scripts/train_cost_model.sh from bench/searchers.
const TreeModel& shipped_model();

/// "none": null; "shipped": shipped_model(); else a file of `kilter cost-model train`. Throws io or bad_input, naming
/// the file, when it cannot be read, is no model, asks for features that schedules do not have, or gives an order and
/// no costs.
std::unique_ptr<const PointModel> load_points(const std::string& what);

/// The model that a searcher trains: XGBoost's for `xgb` (regression) and `xgb-rank` (pairwise rank), null for all
/// others. Throws unsupported, saying where it was looked for and how to install it, when XGBoost is not there.
std::unique_ptr<TrainablePointModel> model_for(std::string_view searcher);

}  // namespace kilter::tune
