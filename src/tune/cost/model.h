// What a learned cost model is to those who use one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tune/cost/matrix.h"

namespace kilter::tune {

class TreeModel;

/// Predicts how long schedules take.
class CostModel {
 public:
  CostModel() = default;
  CostModel(const CostModel&) = default;
  CostModel& operator=(const CostModel&) = default;
  virtual ~CostModel() = default;
  /// A number for each row; the lower, the faster. What a regression model predicts is the row's cost; the numbers of a
  /// ranking model have an order within a task and no unit. Features are found by name; columns that the model does not
  /// know are left. Throws bad_input when some that it needs are missing, internal before it was trained.
  virtual std::vector<double> predict(const Matrix& rows) const = 0;
};

/// Measured schedules.
struct TrainingSet {
  Matrix rows;
  /// Per row: the logarithm of its time over the time of the task's default schedule; infinity for one that failed.
  std::vector<double> costs;
  /// Per row: its task; schedules are only ranked against those of the same task. Rows of a task need not be
  /// neighbours.
  std::vector<int64_t> groups;
  std::vector<double> weights;  ///< per row, 0 or more; empty: all 1

  size_t size() const { return costs.size(); }
  TrainingSet take(std::span<const size_t> which) const;
};

/// Throws bad_input for an unusable matrix, costs that are NaN or -infinity, weights that are negative or not finite,
/// no row that counts, and lists that are not as long as there are rows.
void check_training_set(const TrainingSet& set);

/// How failures count where a model learns numbers: as the slowest row of the same task that ran, and half as slow
/// again (times 1.5); in a task where nothing ran as the slowest of the whole set that way, 1.5 when nothing ran at
/// all. A failure is thus told from slow, and its size does not drown the differences that matter.
std::vector<double> finite_costs(const TrainingSet& set);

/// A model that learns from rows. The same rows, options and number of threads give the same model, byte for byte.
class TrainableModel : public CostModel {
 public:
  /// Forgets what it was trained on before. Throws as check_training_set does.
  virtual void fit(const TrainingSet& set) = 0;
  /// What it learned; throws internal before fit().
  virtual const TreeModel& trees() const = 0;
  std::vector<double> predict(const Matrix& rows) const override;
};

/// Options of everything that grows trees. Checked by fit(): usage for values outside the limits.
struct BoostOptions {
  int trees = 100;              ///< 1..10000
  int depth = 6;                ///< levels of splits, 1..16
  double rate = 0.15;           ///< share of each tree's answer that counts, above 0, up to 1
  double min_child_weight = 1;  ///< least sum of weights on each side of a split, 0 or more
  double l2 = 1;                ///< added to the sum of weights of a leaf, 0 or more
  int bins = 256;               ///< different places of splits of a feature, 2..65536
  int threads = 1;              ///< 1..1024; our own trainer uses one
  uint64_t seed = 1;
  /// A model that the new trees correct: it counts in full, and they learn what it leaves. Must be of the same
  /// objective, and its features among those of the rows. Kept by whoever holds the options.
  const TreeModel* start = nullptr;
};
void check_boost_options(const BoostOptions& options);

}  // namespace kilter::tune
