// Where records are kept: an SQLite database, or JSON lines. Several processes may append to one file at once; what
// append() has returned from survives the end of the process at any moment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tune/records/record.h"

namespace kilter::tune {

/// Which records; what is empty admits all.
struct Filter {
  std::string problem = {};   ///< exactly
  std::string contains = {};  ///< a part of the problem line
  std::string device = {};    ///< a part of the device or of the target
  std::string network = {};   ///< exactly
  std::string source = {};    ///< exactly, or its first word ("tvm")
  std::optional<Status> status = {};
  std::optional<int> threads = {};

  bool admits(const Record& record) const;
};

/// What reading a file gave.
struct Reading {
  std::vector<Record> records;       ///< in the order in which they were added
  std::vector<std::string> damaged;  ///< a line of words for each row or line that was skipped, with its number
  std::vector<std::string> newer;    ///< the same for lines that a newer version made, which are sound
};

struct StoreOptions {
  double busy_seconds = 120;  ///< how long to wait for other writers
};

class Store {
 public:
  enum class Mode : uint8_t { read, write };

  /// By content, then by name: an SQLite database; JSON lines where the name ends in .jsonl or .json. In mode write a
  /// missing file is made when append() is first called, and the default file's folder with it, both for the user
  /// alone. Throws io for a file that is missing (read), damaged as a whole or no
  /// database of records; unsupported for writing into one that a newer version made.
  static std::unique_ptr<Store> open(const std::filesystem::path& file, Mode mode, const StoreOptions& options = {});
  virtual ~Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// All or, where it throws, none of them; answers how many were not there before. Throws bad_input for a record that
  /// check() refuses, io when the disk is full or another process holds the file for too long; what was there stays.
  virtual int64_t append(std::span<const Record> records) = 0;
  int64_t append(const Record& record) { return append(std::span(&record, 1)); }
  /// Never throws for damaged rows and lines.
  virtual Reading read(const Filter& filter = {}) = 0;
  /// Removes by id; answers how many there were. Throws as append() does.
  virtual int64_t remove(const std::set<std::string>& ids) = 0;
  /// From now on writing waits so long for other writers.
  virtual void wait_for_others(double seconds) = 0;
  /// What is wrong with the file itself, a line of words each; empty: sound. Rows are read()'s to judge.
  virtual std::vector<std::string> check_file() = 0;

  const std::filesystem::path& file() const { return file_; }
  /// What the user has to know of the file beside its records, a line each.
  const std::vector<std::string>& notices() const { return notices_; }

 protected:
  explicit Store(std::filesystem::path file) : file_(std::move(file)) {}
  std::filesystem::path file_;
  std::vector<std::string> notices_;
};

/// $XDG_DATA_HOME/kilter/records.db, or ~/.local/share/kilter/records.db. Throws usage when neither variable is set.
std::filesystem::path default_records_file();

/// Makes the folder of a file that lies where the default one does, for the user alone; nothing where it is there, and
/// for a file elsewhere.
void make_default_folder(const std::filesystem::path& file);

/// Whether a file of this name would be JSON lines.
bool is_json_lines(const std::filesystem::path& file);
/// Whether the file begins as an SQLite database does.
bool is_database(const std::filesystem::path& file);
/// Whether its name ends in .db, or a database's log is beside it.
bool should_be_database(const std::filesystem::path& file);
/// Throws bad_input for one that should be a database and does not begin so.
[[noreturn]] void fail_damaged_header(const std::filesystem::path& file);

std::unique_ptr<Store> open_sqlite_store(const std::filesystem::path& file, Store::Mode mode,
                                         const StoreOptions& options);
std::unique_ptr<Store> open_json_store(const std::filesystem::path& file, Store::Mode mode,
                                       const StoreOptions& options);

}  // namespace kilter::tune
