// Rows of numbers with named columns: the form in which cost models get schedules.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace kilter::tune {

/// Dense, row-major. NaN stands for an unknown value; infinities are not allowed.
struct Matrix {
  std::vector<std::string> features;  ///< column names, all different
  std::vector<float> values;          ///< rows() times columns() values

  size_t columns() const { return features.size(); }
  size_t rows() const { return features.empty() ? 0 : values.size() / features.size(); }
  std::span<const float> row(size_t i) const { return {values.data() + i * columns(), columns()}; }
  /// Returns the rows with these indices, in this order.
  Matrix take(std::span<const size_t> which) const;
};

/// Throws bad_input, naming `where`, the row and the feature, for missing or unusable names (empty, repeated, with
/// blanks or control characters), values that do not fill the last row, and infinite values.
void check_matrix(const Matrix& matrix, const std::string& where);

/// Returns the column in `features` of each name in `wanted`. If some are missing, throws bad_input, with `what` as the
/// name of the model that needs them.
std::vector<size_t> find_features(const std::vector<std::string>& wanted, const std::vector<std::string>& features,
                                  const std::string& what);

}  // namespace kilter::tune
