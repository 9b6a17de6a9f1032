// One kept trial: what was measured, how it was scheduled, what came of it and under which conditions. Records are only
// ever added; an id made of the content keeps importing, merging and resuming from making doubles.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/conditions.h"
#include "measure/stats.h"

namespace kilter::tune {

/// What became of a trial. Only `ok` has times that count.
enum class Status : uint8_t {
  ok,
  wrong,     ///< ran, and its result differs from the reference
  crash,     ///< its process ended
  timeout,   ///< it, or its compilation, took longer than it may
  rejected,  ///< the template or the compiler does not take the schedule
};
std::string_view name(Status status);
/// Throws usage, listing the legal names.
Status parse_status(std::string_view text);

/// Time of a schedule over the time of the default schedule, taken in pairs in one sitting: below 1 is faster. Unlike
/// milliseconds it compares between sittings.
struct Versus {
  Ratio ratio;
  std::string schedule;  ///< the default's text
};

struct Record {
  std::string problem;   ///< Task::problem()
  std::string layouts;   ///< Task::layouts(); empty: not known
  std::string schedule;  ///< Schedule::text(), or a foreign system's description where `mapped` does not hold
  Status status = Status::ok;
  std::string error;               ///< in words; empty for ok
  std::vector<double> samples_ms;  ///< of one run each; empty unless ok
  std::optional<Versus> versus;
  Conditions conditions;          ///< threads 0: not known
  std::string network;            ///< where it was measured; may be empty
  std::string node;               ///< anchor's node there
  std::string source = "kilter";  ///< "kilter", "tvm v0.1", "tvm v0.2"
  std::string foreign;            ///< the line that it was imported from, whole; empty for Kilter's own
  /// Conditions that this version does not know, as a JSON object, kept for those that do; empty: none.
  std::string more_conditions = {};

  /// The project's estimate of the samples, milliseconds; 0 without samples.
  double ms() const;
  /// 32 hexadecimal digits: a hash of every field. Fields of Conditions that hold their default do not count, so that
  /// a field that is added later changes no id.
  std::string id() const;
  /// Whether another system measured it.
  bool imported() const { return source != "kilter"; }
  /// False where its pairs with the default show no sure gain, or it has none: then nothing uses it.
  bool may_be_faster() const { return versus && versus->ratio.high < 1; }
  /// Whether `schedule` is one of Kilter's (a name and knobs) and not a foreign description.
  bool mapped() const;
};

constexpr size_t kShownDigits = 12;  ///< of an id, where people see it

/// What a foreign description of a schedule starts with.
constexpr std::string_view kForeignSchedule = "tvm:";

/// Version of the schema of records in files of either kind.
constexpr int kRecordVersion = 2;

/// With "kilter_record" (the version) and "id"; fields that are empty or have their default are left out.
nlohmann::json to_json(const Record& record);
/// to_json() in one line, text that is not UTF-8 made so.
std::string to_line(const Record& record);
/// Whether a record's id is compared with its content. What a newer version made may be hashed in another way, or hold
/// what is not seen here.
enum class IdCheck : uint8_t { content, none };
/// Throws bad_input naming the field: missing, of another type, a time that is not positive, or an id that does not
/// belong to the content; unsupported for a newer version.
Record record_from_json(const nlohmann::json& json, IdCheck ids = IdCheck::content);
/// Throws bad_input for text that is no JSON, and as record_from_json() does.
Record record_from_line(std::string_view line);

/// Throws bad_input naming the field: what every record has to hold (problem, schedule, times above 0, an error where
/// the status is not ok).
void check(const Record& record);

}  // namespace kilter::tune
