// A record as a row of a database. The columns have the same names and contents in every kind of database.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "tune/records/record.h"

namespace kilter::tune {

/// The columns that hold a record. Only "versus" may be null or missing.
constexpr std::array kRecordColumns = {"id",   "problem", "layouts",      "schedule", "status",     "error", "network",
                                       "node", "source",  "foreign_line", "samples",  "conditions", "versus"};
constexpr size_t kColumns = kRecordColumns.size(), kColumnsNeeded = kColumns - 1;
/// The columns for queries by other programs; they repeat a part of the record.
constexpr std::array kQueryColumns = {"ms", "device", "target", "threads"};

/// The contents of kRecordColumns.
using RowTexts = std::array<std::optional<std::string>, kColumns>;

struct Row {
  RowTexts texts;
  std::optional<double> ms;  ///< Record::ms(), if there are samples
  std::string device, target;
  int64_t threads = 0;
};

/// Returns the names of all columns of a row, in the order of Row, separated by commas.
std::string row_columns();
Row row_of(const Record& record);
/// Throws bad_input for a row that contains no valid record.
Record record_of(const RowTexts& texts, IdCheck ids);

}  // namespace kilter::tune
