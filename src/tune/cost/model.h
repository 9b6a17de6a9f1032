// The interfaces of learned cost models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tune/cost/matrix.h"

namespace kilter::tune {

class TreeModel;

/// Predicts the times of schedules.
class CostModel {
 public:
  CostModel() = default;
  CostModel(const CostModel&) = default;
  CostModel& operator=(const CostModel&) = default;
  virtual ~CostModel() = default;
  /// Returns a number for each row; lower is faster. A regression model predicts the row's cost; a ranking model's
  /// numbers only give the order of the rows of one task. Features are found by name; columns unknown to the model are
  /// ignored. Throws bad_input if needed columns are missing, and internal if the model is not trained.
  virtual std::vector<double> predict(const Matrix& rows) const = 0;
};

/// Measured schedules.
struct TrainingSet {
  Matrix rows;
  /// Per row: the logarithm of its time over that of the task's default schedule; infinity if it failed.
  std::vector<double> costs;
  /// Per row: its task. Schedules are ranked only against those of the same task. Rows of a task need not be adjacent.
  std::vector<int64_t> groups;
  std::vector<double> weights;  ///< per row, at least 0; empty: all 1

  size_t size() const { return costs.size(); }
  TrainingSet take(std::span<const size_t> which) const;
};

/// Throws bad_input for an unusable matrix, costs that are NaN or -infinity, negative or infinite weights, a set
/// without any weight above 0, and lists whose length differs from the number of rows.
void check_training_set(const TrainingSet& set);

/// Replaces infinite costs, for models that need finite ones. A failure counts as if it took 1.5 times as long as the
/// slowest row of its task that ran. If none of the task ran, the slowest row of the whole set is used instead, and if
/// nothing ran at all, the default schedule is used. Failures are thus clearly separated from slow rows, but do not
/// outweigh the differences that matter.
std::vector<double> finite_costs(const TrainingSet& set);

/// A model that learns from rows. The same rows, options and number of threads give the same model, bit for bit.
class TrainableModel : public CostModel {
 public:
  /// Trains from scratch. Throws the errors of check_training_set().
  virtual void fit(const TrainingSet& set) = 0;
  /// The trained trees; throws internal before fit().
  virtual const TreeModel& trees() const = 0;
  std::vector<double> predict(const Matrix& rows) const override;
};

/// Options shared by all trainers of trees. fit() checks them and throws usage for values outside the limits.
struct BoostOptions {
  int trees = 100;              ///< 1..10000
  int depth = 6;                ///< levels of splits, 1..16
  double rate = 0.15;           ///< share of each tree's output that counts, above 0, up to 1
  double min_child_weight = 1;  ///< minimum sum of weights on each side of a split, at least 0
  double l2 = 1;                ///< added to a leaf's sum of weights, at least 0
  int bins = 256;               ///< maximum number of split places of a feature, 2..65536
  int threads = 1;              ///< 1..1024; Kilter's own trainer uses one
  uint64_t seed = 1;
  /// A model that the new trees correct: its predictions count in full, and the trees learn the remaining error. It
  /// must have the same objective, and its features must be among those of the rows. The owner of the options must keep
  /// it alive.
  const TreeModel* start = nullptr;
};
void check_boost_options(const BoostOptions& options);

}  // namespace kilter::tune
