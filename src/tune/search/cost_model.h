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

/// What earlier tasks taught: rows of other spaces, for models that transfer.
struct EarlierTrials {
  FeatureRows rows;
  std::vector<double> log2_costs;
  std::vector<uint32_t> groups;

  void append(const EarlierTrials& more);
};

}  // namespace kilter::tune
