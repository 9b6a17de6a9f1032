// What a searcher asks of a learned cost model. Models are made elsewhere; searchers know these two interfaces only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tune/space/features.h"

namespace kilter::tune {

class PointModel {
 public:
  virtual ~PointModel() = default;
  /// A figure for each row that grows with the log2 of the cost. Of models that rank, only the order within one task
  /// means something.
  virtual std::vector<double> predict(const FeatureRows& rows) const = 0;
};

/// A model that learns while a search runs.
class TrainablePointModel : public PointModel {
 public:
  /// Learns anew from rows and the log2 of their costs, both of equal number, costs finite. Rows of one group are of
  /// one task: costs are comparable within a group only.
  virtual void fit(const FeatureRows& rows, std::span<const double> log2_costs, std::span<const uint32_t> groups) = 0;
};

/// Rows that one task gives others: about what a search finds out.
inline constexpr size_t kMostLessons = 64;

/// What other tasks taught: rows of their spaces, for models that transfer.
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
