// A cost model that XGBoost trains; what it learned is kept and evaluated as our own trees.
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
  /// `objective` cost trains reg:squarederror on finite_costs(); rank trains rank:pairwise on the order of the costs
  /// within each group, failures last and equal, pairs of all rows with each of the 256 that are held best so far, each
  /// group weighing what its rows do on average. Histograms, no subsampling.
  XgboostModel(std::shared_ptr<const XgboostLibrary> library, Objective objective, BoostOptions options = {});
  void fit(const TrainingSet& set) override;
  const TreeModel& trees() const override;
  /// What XGBoost itself answers for these rows, which must have the columns of those trained on; the same as
  /// predict(), there to check it. Trains nothing. Throws internal before fit().
  std::vector<double> predict_by_library(const Matrix& rows) const;

 private:
  std::shared_ptr<const XgboostLibrary> library_;
  Objective objective_;
  BoostOptions options_;
  std::shared_ptr<void> booster_;
  std::optional<TreeModel> model_;
};

/// A model that XGBoost saved as JSON ("gbtree" of one output) as trees of ours; of objective rank the signs are
/// turned, so that lower is better. `features` name the columns. Throws bad_input with `where` for anything else, trees
/// of categories and other boosters included.
TreeModel from_xgboost_json(std::string_view json, const std::vector<std::string>& features, Objective objective,
                            const std::string& where);

}  // namespace kilter::tune
