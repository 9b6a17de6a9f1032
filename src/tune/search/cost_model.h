// The interfaces through which searchers use a learned cost model. The models themselves are implemented elsewhere.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tune/space/features.h"

namespace kilter::tune {

class PointModel {
 public:
  virtual ~PointModel() = default;
  /// Returns a number for each row that grows with the log2 of the cost. For models that rank, only the order within
  /// one task is meaningful.
  virtual std::vector<double> predict(const FeatureRows& rows) const = 0;
};

/// A model that is trained while a search runs.
class TrainablePointModel : public PointModel {
 public:
  /// Trains from scratch on rows, the log2 of each row's cost (finite) and each row's group. Rows of one group belong
  /// to one task: costs are comparable only within a group.
  virtual void fit(const FeatureRows& rows, std::span<const double> log2_costs, std::span<const uint32_t> groups) = 0;
};

/// Maximum number of rows that one task contributes to others: about as many as one search measures.
inline constexpr size_t kMostLessons = 64;

/// Training data from other tasks: rows of their spaces, for models that learn across tasks.
struct EarlierTrials {
  FeatureRows rows;
  std::vector<double> log2_costs;
  std::vector<uint32_t> groups;  ///< by row: its task

  size_t count() const { return log2_costs.size(); }
  void add(std::span<const float> row, double log2_cost, uint32_t group);
  void append(const EarlierTrials& more);
  EarlierTrials without(uint32_t group) const;
};

}  // namespace kilter::tune
