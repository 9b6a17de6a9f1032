#include "tune/cost/matrix.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace kilter::tune {
namespace {

bool is_usable_name(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return static_cast<uint8_t>(c) > ' '; });
}

/// Joins the first few of many names.
std::string some(const std::vector<std::string>& names) {
  constexpr size_t kShown = 6;
  std::vector<std::string> shown(names.begin(), names.begin() + static_cast<long>(std::min(names.size(), kShown)));
  std::string text = join(shown, ", ");
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

}  // namespace

Matrix Matrix::take(std::span<const size_t> which) const {
  Matrix out{features, {}};
  out.values.reserve(which.size() * columns());
  for (const size_t i : which) {
    const std::span<const float> from = row(i);
    out.values.insert(out.values.end(), from.begin(), from.end());
  }
  return out;
}

void check_matrix(const Matrix& matrix, const std::string& where) {
  if (matrix.features.empty())
    fail(ErrorKind::bad_input, "{}: no features; a cost model needs one column or more", where);
  std::set<std::string> seen;
  for (const std::string& name : matrix.features) {
    if (!is_usable_name(name)) {
      fail(ErrorKind::bad_input,
           "{}: feature name '{}'; names have one or more characters, none of them a blank or a control character",
           where, name);
    }
    if (!seen.insert(name).second) fail(ErrorKind::bad_input, "{}: feature {} appears twice", where, name);
  }
  if (matrix.values.size() % matrix.columns() != 0) {
    fail(ErrorKind::bad_input, "{}: expected rows of {} values, got {} values in all", where, matrix.columns(),
         matrix.values.size());
  }
  for (size_t i = 0; i < matrix.values.size(); ++i) {
    if (!std::isinf(matrix.values[i])) continue;
    fail(ErrorKind::bad_input,
         "{}: row {}, feature {}: got {}; legal values are finite numbers, and NaN for an unknown one", where,
         i / matrix.columns(), matrix.features[i % matrix.columns()], format_float(matrix.values[i]));
  }
}

std::vector<size_t> find_features(const std::vector<std::string>& wanted, const std::vector<std::string>& features,
                                  const std::string& what) {
  std::map<std::string, size_t> at;
  for (size_t i = 0; i < features.size(); ++i) at.emplace(features[i], i);
  std::vector<size_t> columns;
  std::vector<std::string> missing;
  for (const std::string& name : wanted) {
    const auto found = at.find(name);
    if (found == at.end()) {
      missing.push_back(name);
    } else {
      columns.push_back(found->second);
    }
  }
  if (!missing.empty()) {
    fail(ErrorKind::bad_input,
         "{} was trained on {} features, of which {} {} not among the {} given: {}; given are {}. Use rows of the same "
         "version, or train a model on these: kilter cost-model train",
         what, wanted.size(), missing.size(), missing.size() == 1 ? "is" : "are", features.size(), some(missing),
         some(features));
  }
  return columns;
}

}  // namespace kilter::tune
