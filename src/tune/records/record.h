// One stored trial: the problem, its schedule, the result and the conditions. Records are never changed. Their ids are
// hashes of the content, so importing, merging and resuming create no duplicates.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/conditions.h"
#include "measure/stats.h"
#include "schedule/kernel_versions.h"

namespace kilter::tune {

/// The outcome of a trial. Only `ok` trials have usable times.
enum class Status : uint8_t {
  ok,
  wrong,     ///< ran, and its result differs from the reference
  crash,     ///< its process ended
  timeout,   ///< it or its compilation exceeded the time limit
  rejected,  ///< the template or the compiler refused the schedule
};
std::string_view name(Status status);
/// Throws usage, listing the legal names.
Status parse_status(std::string_view text);

/// Time of a schedule over the time of the default schedule, from pairs measured in one run; below 1 is faster. Unlike
/// milliseconds, ratios are comparable between runs.
struct Versus {
  Ratio ratio;
  std::string schedule;  ///< the default's text
};

struct Record {
  std::string problem;   ///< Task::problem()
  std::string layouts;   ///< Task::layouts(); empty: unknown
  std::string schedule;  ///< Schedule::text(), or a foreign system's description if mapped() is false
  Status status = Status::ok;
  std::string error;               ///< in words; empty for ok
  std::vector<double> samples_ms;  ///< one run each; empty unless ok
  std::optional<Versus> versus;
  Conditions conditions;          ///< threads 0: unknown
  std::string network;            ///< the network it was measured in; may be empty
  std::string node;               ///< the anchor's node in that network
  std::string source = "kilter";  ///< "kilter", "tvm v0.1", "tvm v0.2"
  std::string foreign;            ///< the complete line that it was imported from; empty for Kilter's own records
  /// Conditions unknown to this version, as a JSON object, kept for versions that know them; empty: none.
  std::string more_conditions = {};

  /// The estimate of the samples in milliseconds (Conditions::estimator); 0 without samples.
  double ms() const;
  /// 32 hexadecimal digits: a hash of every field. Fields of Conditions that have their default are left out, so that
  /// adding a field later does not change ids.
  std::string id() const;
  /// Whether another system measured the record.
  bool imported() const { return source != "kilter"; }
  /// Whether its pairs with the default show a significant gain. A record for which this is false is never used.
  bool may_be_faster() const { return versus && versus->ratio.high < 1; }
  /// Whether `schedule` is a Kilter schedule (a name and knobs) and not a foreign description.
  bool mapped() const;
};

/// Returns the code version that a record with this schedule and default would get if it were measured today. If
/// Conditions::codegen differs from it, the record was measured with different code.
std::string code_version(const Record& record, const KernelVersions& versions);

constexpr size_t kShownDigits = 12;  ///< digits of an id shown to users

/// The prefix of a foreign description of a schedule.
constexpr std::string_view kForeignSchedule = "tvm:";

/// Version of the records' schema, for both kinds of files.
constexpr int kRecordVersion = 2;

/// Returns the record with "kilter_record" (the version) and "id". Fields that are empty or have their default are left
/// out.
nlohmann::json to_json(const Record& record);
/// Returns to_json() as one line, with invalid UTF-8 replaced.
std::string to_line(const Record& record);
/// Whether a record's id is compared with its content. Records of a newer version may be hashed differently or
/// contain fields unknown here.
enum class IdCheck : uint8_t { content, none };
/// Parses a record. Throws bad_input, naming the field, if a field is missing or has a different type, if a time is not
/// positive, or if the id does not match the content. Throws unsupported for a newer version.
Record record_from_json(const nlohmann::json& json, IdCheck ids = IdCheck::content);
/// Parses a line. Throws bad_input for text that is not JSON, and the errors of record_from_json().
Record record_from_line(std::string_view line);

/// Throws bad_input, naming the field, if the record lacks a field that every record must have: problem, schedule,
/// times above 0, and an error if the status is not ok.
void check(const Record& record);

}  // namespace kilter::tune
