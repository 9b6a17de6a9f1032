// A cost model trained by XGBoost, which is stored and evaluated as Kilter's own trees.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "tune/cost/model.h"
#include "tune/cost/tree_model.h"
#include "tune/cost/xgboost_library.h"

namespace kilter::tune {

class XgboostModel : public TrainableModel {
 public:
  /// Objective `cost` trains reg:squarederror on finite_costs(). Objective `rank` trains rank:pairwise on the order of
  /// the costs within each group, with failures last and equal. It pairs all rows with each of the 256 rows rated best
  /// so far, and weights each group by the mean weight of its rows. Uses histograms and no subsampling.
  XgboostModel(std::shared_ptr<const XgboostLibrary> library, Objective objective, BoostOptions options = {});
  void fit(const TrainingSet& set) override;
  const TreeModel& trees() const override;
  /// Returns XGBoost's own predictions for these rows, which must have the columns of the training rows. They equal
  /// those of predict(); this function exists to check that. Throws internal before fit().
  std::vector<double> predict_by_library(const Matrix& rows) const;

 private:
  std::shared_ptr<const XgboostLibrary> library_;
  Objective objective_;
  BoostOptions options_;
  std::shared_ptr<void> booster_;
  std::optional<TreeModel> model_;
};

/// Converts a model that XGBoost saved as JSON ("gbtree" with one output). For objective rank the signs are reversed,
/// so that lower is better. `features` name the columns. Throws bad_input with `where` for anything else, including
/// categorical trees and other boosters.
TreeModel from_xgboost_json(std::string_view json, const std::vector<std::string>& features, Objective objective,
                            const std::string& where);

}  // namespace kilter::tune
