// Imports records from databases, JSON lines, or any other text that contains records.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tune/records/store.h"
#include "tune/records/tvm.h"

namespace kilter::tune {

struct Entry {
  Record record;
  int64_t line = 0;                ///< line in the text; 0 if it came from a database
  std::optional<TvmLine> tvm;      ///< set for lines of TVM's logs
  std::vector<std::string> notes;  ///< the parts of its schedule that have no counterpart in Kilter
};

struct Imported {
  std::vector<Entry> entries;                 ///< in order; the same record may appear several times
  std::vector<std::string> notices;           ///< about the file as a whole: Store::notices()
  std::vector<std::string> damaged;           ///< damaged records, a message with the line number for each
  std::vector<std::string> newer;             ///< records written by a newer version
  std::vector<std::string> refused;           ///< sound records that have no counterpart in Kilter, with the reason
  std::map<std::string, size_t> refused_for;  ///< the number of refused records by reason

  std::vector<Record> records() const;
  /// Number of distinct records among the entries.
  size_t distinct() const;
};

/// Reads every record in a text, called `name` in messages. Text that begins like a record but is not one counts as
/// damaged. If most lines are Kilter records, or if at least one is and the name is that of a JSON lines file, any line
/// that is not a record counts as damaged.
Imported import_text(std::string_view text, const std::string& name, const Target& target);
/// Reads all records of a store. Throws the errors of Store::open().
Imported import_store(const std::string& place);
/// Reads a database, also one of a server, or any other file as text. Throws io for a file that cannot be read, and
/// bad_input for a file that should be a database but is not one and contains no record.
Imported import_file(const std::string& place, const Target& target);

/// A task with its number of entries. If a log has one line per layer, its tasks form a plan.
struct PlanTask {
  std::string problem;
  size_t layers = 0;
};
/// Returns the tasks in the order of their first entries.
std::vector<PlanTask> plan_of(const std::vector<Entry>& entries);

/// Summarises the import by version, device and algorithm, one line of text each.
std::vector<std::string> summary(const Imported& imported);

/// Returns why records were refused and which parts of schedules have no counterpart: each reason with its count, most
/// frequent first. Numbers that differ from record to record are replaced by N.
std::vector<std::pair<std::string, size_t>> reasons(const Imported& imported);

/// Appends the records that the store lacks, and returns how many were added. A foreign line that was already
/// translated for another target is not added again.
int64_t add_missing(Store& store, const std::vector<Record>& records);

}  // namespace kilter::tune
