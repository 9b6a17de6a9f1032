// Measured schedules as rows of features, the training data of `kilter cost-model train`.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "tune/records/record.h"
#include "tune/search/cost_model.h"
#include "tune/search/cost_table.h"

namespace kilter::tune {

/// Collects rows in the format of tune/cost/table.h: the features of each schedule and the logarithm of its time over
/// the default's, or null for a failure.
class CostRows {
 public:
  CostRows();
  /// Throws bad_input naming `where` for a schedule that is not in the space of the table's problem.
  void add(const CostTable& table, const std::string& where);
  /// Adds Kilter's own trials. Counts the other records as left out, by reason: imported; from foreign or unknown code;
  /// measured without the default in the same rounds; problems and schedules that this version does not know.
  void add(std::span<const Record> records);

  const std::string& text() const { return text_; }
  int64_t rows() const { return rows_; }
  const std::map<std::string, int64_t>& left_out() const { return left_out_; }

 private:
  void add_row(const std::string& task, const std::string& device, std::span<const float> x, double cost);

  std::string text_;
  int64_t rows_ = 0;
  std::map<std::string, int64_t> left_out_;
};

/// Returns the training data in Kilter's own trials, at most kMostLessons per task. Group numbers start at
/// `first_group`.
EarlierTrials lessons_of(std::span<const Record> records, uint32_t first_group);

}  // namespace kilter::tune
