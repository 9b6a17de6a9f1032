// Rows of numbers with named columns: what cost models see of schedules.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace kilter::tune {

/// Dense, row-major. NaN is a value that is not known; infinities are no features.
struct Matrix {
  std::vector<std::string> features;  ///< names of the columns, all different
  std::vector<float> values;          ///< rows() times columns()

  size_t columns() const { return features.size(); }
  size_t rows() const { return features.empty() ? 0 : values.size() / features.size(); }
  std::span<const float> row(size_t i) const { return {values.data() + i * columns(), columns()}; }
  /// The rows with these numbers, in this order.
  Matrix take(std::span<const size_t> which) const;
};

/// Throws bad_input, naming `where`, the row and the feature: no or unusable names (empty, twice, with blanks or
/// control characters), values that do not fill the last row, an infinite value.
void check_matrix(const Matrix& matrix, const std::string& where);

/// Of each name of `wanted`, its column in `features`. Throws bad_input, naming `what` wants them, when some are
/// missing.
std::vector<size_t> find_features(const std::vector<std::string>& wanted, const std::vector<std::string>& features,
                                  const std::string& what);

}  // namespace kilter::tune
