#include "tune/records/row.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"

namespace kilter::tune {
namespace {

/// The record's field of each column, in the order of kRecordColumns: first those that are text, then those that are
/// JSON.
constexpr std::array<const char*, kColumns> kFields = {"id",         "problem",    "layouts", "schedule", "status",
                                                       "error",      "network",    "node",    "source",   "foreign",
                                                       "samples_ms", "conditions", "versus"};
constexpr size_t kTexts = 10, kSamples = kTexts;

}  // namespace

std::string row_columns() {
  return fmt::format("{}, {}", fmt::join(kRecordColumns, ", "), fmt::join(kQueryColumns, ", "));
}

Row row_of(const Record& record) {
  const nlohmann::json json = to_json(record);
  Row row;
  for (size_t i = 0; i < kTexts; ++i) row.texts[i] = json.value(kFields[i], std::string());
  row.texts[kSamples] = "[]";
  for (size_t i = kTexts; i < kColumns; ++i) {
    if (json.contains(kFields[i])) row.texts[i] = json_text(json.at(kFields[i]));
  }
  if (!record.samples_ms.empty()) row.ms = record.ms();
  row.device = record.conditions.device, row.target = record.conditions.target;
  row.threads = record.conditions.threads;
  return row;
}

Record record_of(const RowTexts& texts, IdCheck ids) {
  nlohmann::json json;
  for (size_t i = 0; i < kTexts; ++i) json[kFields[i]] = texts[i].value_or("");
  for (size_t i = kTexts; i < kColumns; ++i) {
    if (texts[i].value_or("").empty()) continue;
    nlohmann::json value = try_parse_json(*texts[i]);
    if (value.is_discarded()) fail(ErrorKind::bad_input, "'{}' is not JSON", kFields[i]);
    json[kFields[i]] = std::move(value);
  }
  return record_from_json(json, ids);
}

}  // namespace kilter::tune
