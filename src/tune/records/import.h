// Records from elsewhere: text with records of any kind in it, JSON lines, databases.
#pragma once

#include <cstdint>
#include <filesystem>
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
  std::vector<std::string> damaged;  ///< what begins as a record and is none, a line of words each, with its number
  std::vector<std::string> refused;  ///< records that are sound and have no counterpart, and why

  std::vector<Record> records() const;
  /// Different ones among the entries.
  size_t distinct() const;
};

/// Every record in a text, named `name` in the words.
Imported import_text(std::string_view text, const std::string& name, const Target& target);
/// A database, or any other file as text. Throws io for a file that cannot be read.
Imported import_file(const std::filesystem::path& file, const Target& target);

/// Tasks in the order of their first layer, and how many entries each has: a log with one line a layer is a plan.
struct PlanTask {
  std::string problem;
  size_t layers = 0;
};
std::vector<PlanTask> plan_of(const std::vector<Entry>& entries);

/// What came in, by version, device and algorithm, in lines of words.
std::vector<std::string> summary(const Imported& imported);

/// Appends what is not there, foreign lines that were translated for another target before included. Answers how many
/// were new.
int64_t add_missing(Store& store, const std::vector<Record>& records);

}  // namespace kilter::tune
