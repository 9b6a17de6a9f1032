// The points of a space as numbers for a learned cost model. The columns are the same for every task and template, so
// that measurements of one task help with the next.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tune/space/space.h"

namespace kilter::tune {

/// Rows of equal width.
struct FeatureRows {
  size_t width = 0;
  std::vector<float> values;  ///< row after row

  size_t count() const { return width == 0 ? 0 : values.size() / width; }
  std::span<const float> row(size_t i) const { return std::span(values).subspan(i * width, width); }
  void append(std::span<const float> row) { values.insert(values.end(), row.begin(), row.end()); }
};

struct Feature {
  std::string name;      ///< "knob.vectors", "tile.registers", "task.flops"
  std::string meaning;   ///< with the unit
  bool derived = false;  ///< computed from knobs, task and machine: reuse, latency and footprints of the kernel's loops
};
/// The columns in order. Sizes and counts are base-2 logarithms, so that a factor becomes a distance. New columns are
/// added at the end of their group; a model file names the columns that it was trained with.
const std::vector<Feature>& all_features();

/// Computes the rows of one space's points, as a pure function of task, limits, threads and point.
class Featurizer {
 public:
  explicit Featurizer(const Space& space, int threads = 1);

  size_t width() const { return all_features().size(); }
  /// Returns the row of a legal point; throws internal for others.
  std::vector<float> row(const Point& point) const;
  FeatureRows rows(std::span<const Point> points) const;

 private:
  void add_point(const LegalPoint& at, std::vector<float>& row) const;
  void add_tile(const LegalPoint& at, std::vector<float>& row) const;

  const Space* space_;
  int threads_;
  std::vector<float> task_;  ///< the columns that all points share
  double rows_ = 1, columns_ = 1, reduction_ = 1, width_ = 1, weight_bytes_ = 0;
  double least_cycles_ = 0;
  std::vector<double> least_of_part_;
};

}  // namespace kilter::tune
