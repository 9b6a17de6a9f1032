// Records from elsewhere: text with records of any kind in it, JSON lines, databases.
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
  int64_t line = 0;                ///< of the text; 0 for one of a database
  std::optional<TvmLine> tvm;      ///< of TVM's logs
  std::vector<std::string> notes;  ///< what of its schedule has no counterpart
};

struct Imported {
  std::vector<Entry> entries;        ///< in order; the same line may come several times
  std::vector<std::string> notices;  ///< of the file as a whole: Store::notices()
  std::vector<std::string> damaged;  ///< what is no record and should be one, a line of words each, with its number
  std::vector<std::string> newer;    ///< records of a newer version
  std::vector<std::string> refused;  ///< records that are sound and have no counterpart, and why
  std::map<std::string, size_t> refused_for;  ///< these reasons, and how often

  std::vector<Record> records() const;
  /// Different ones among the entries.
  size_t distinct() const;
};

/// Every record in a text, named `name` in the words. Damaged is what begins as a record and is none; where most lines
/// are records of Kilter, or the name is that of JSON lines and one is, also every other line.
Imported import_text(std::string_view text, const std::string& name, const Target& target);
/// A database, or a file of JSON lines. Throws as Store::open() does.
Imported import_store(const std::filesystem::path& file);
/// A database, or any other file as text. Throws io for a file that cannot be read, bad_input for one that should be a
/// database, and is none and holds no record.
Imported import_file(const std::filesystem::path& file, const Target& target);

/// Tasks in the order of their first layer, and how many entries each has: a log with one line a layer is a plan.
struct PlanTask {
  std::string problem;
  size_t layers = 0;
};
std::vector<PlanTask> plan_of(const std::vector<Entry>& entries);

/// What came in, by version, device and algorithm, in lines of words.
std::vector<std::string> summary(const Imported& imported);

/// What has no counterpart, of records that were refused and of schedules, by reason and how often, the most frequent
/// first. Numbers that differ from record to record are N.
std::vector<std::pair<std::string, size_t>> reasons(const Imported& imported);

/// Appends what is not there, foreign lines that were translated for another target before included. Answers how many
/// were new.
int64_t add_missing(Store& store, const std::vector<Record>& records);

}  // namespace kilter::tune
