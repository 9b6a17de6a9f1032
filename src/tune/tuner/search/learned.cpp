#include "tune/tuner/search/learned.h"

#include <algorithm>
#include <cmath>

#include "tune/cost/xgboost_model.h"

namespace kilter::embedded {
extern const std::string_view shipped_trees;  // embedded by the build
}  // namespace kilter::embedded

namespace kilter::tune {
namespace {

Matrix matrix_of(const FeatureRows& rows) {
  Matrix out;
  for (const Feature& f : all_features()) out.features.push_back(f.name);
  out.values = rows.values;
  return out;
}

/// A model loaded from a file.
class FilePoints : public PointModel {
 public:
  explicit FilePoints(TreeModel model) : model_(std::move(model)) {}
  std::vector<double> predict(const FeatureRows& rows) const override { return CostPoints(model_).predict(rows); }

 private:
  TreeModel model_;
};

void check_points(const TreeModel& model, const std::string& file) {
  if (model.objective() != Objective::cost) {
    fail(ErrorKind::bad_input,
         "{}: this cost model's objective is {}; expected {}, as an order of schedules says nothing about their costs; "
         "train one with --trainer trees or xgb",
         file, name(model.objective()), name(Objective::cost));
  }
  for (const std::string& wanted : model.features()) {
    if (std::ranges::find(all_features(), wanted, &Feature::name) != all_features().end()) continue;
    fail(ErrorKind::bad_input,
         "{}: this cost model needs the feature '{}', which schedules do not have; train one on rows that `kilter "
         "cost-model rows` of this version has written",
         file, wanted);
  }
}

}  // namespace

void LearnedPoints::fit(const FeatureRows& rows, std::span<const double> log2_costs, std::span<const uint32_t> groups) {
  TrainingSet set;
  set.rows = matrix_of(rows);
  for (const double cost : log2_costs) set.costs.push_back(cost * std::log(2.0));
  set.groups.assign(groups.begin(), groups.end());
  model_->fit(set);
}

std::vector<double> LearnedPoints::predict(const FeatureRows& rows) const { return CostPoints(*model_).predict(rows); }

std::vector<double> CostPoints::predict(const FeatureRows& rows) const {
  std::vector<double> out = model_->predict(matrix_of(rows));
  for (double& cost : out) cost /= std::log(2.0);
  return out;
}

const TreeModel& shipped_model() {
  static const TreeModel kModel = TreeModel::parse(embedded::shipped_trees, "shipped cost model");
  return kModel;
}

std::unique_ptr<const PointModel> load_points(const std::string& what) {
  if (what == "none") return nullptr;
  if (what == "shipped") return std::make_unique<CostPoints>(shipped_model());
  TreeModel model = TreeModel::load(what);
  check_points(model, what);
  return std::make_unique<FilePoints>(std::move(model));
}

std::unique_ptr<TrainablePointModel> model_for(std::string_view searcher) {
  if (searcher != "xgb" && searcher != "xgb-rank") return nullptr;
  const Objective objective = searcher == "xgb" ? Objective::cost : Objective::rank;
  return std::make_unique<LearnedPoints>(std::make_unique<XgboostModel>(XgboostLibrary::load(), objective));
}

}  // namespace kilter::tune
