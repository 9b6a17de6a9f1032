// Storage of records: an SQLite database, JSON lines, or a database of a PostgreSQL server. Several processes may
// append at the same time. Once append() has returned, the records are safe even if the process is killed.
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

/// Selects records. Empty fields admit all.
struct Filter {
  std::string problem = {};   ///< exact match
  std::string contains = {};  ///< a substring of the problem line
  std::string device = {};    ///< a substring of the device or the target
  std::string network = {};   ///< exact match
  std::string source = {};    ///< exact match, or its first word ("tvm")
  std::optional<Status> status = {};
  std::optional<int> threads = {};

  bool admits(const Record& record) const;
};

/// The result of reading a file.
struct Reading {
  std::vector<Record> records;       ///< in the order of insertion
  std::vector<std::string> damaged;  ///< a message for each row or line that was skipped, with its number
  std::vector<std::string> newer;    ///< a message for each sound row or line that a newer version wrote
};

struct StoreOptions {
  double busy_seconds = 120;  ///< how long to wait for other writers
};

class Store {
 public:
  enum class Mode : uint8_t { read, write };

  /// Opens the store at a place (tune/records/place.h). The URL of a server leads to a PostgreSQL database. The kind of
  /// a file follows from its content, otherwise from its name: an SQLite database, or JSON lines if the name ends in
  /// .jsonl or .json. In mode write, a missing file is created when append() is first called, together with the default
  /// file's folder; both are private to the user. Throws io for a file that is missing (in mode read), damaged as a
  /// whole or not a database of records. Throws unsupported for writing to a database that a newer version created, and
  /// for a server if libpq is missing. In mode write, a server's schema is created or migrated at once. Throws io if
  /// the server cannot be reached or refuses the user.
  static std::unique_ptr<Store> open(const std::string& place, Mode mode, const StoreOptions& options = {});
  virtual ~Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// Appends all records, or none if it throws, and returns how many were new. Throws bad_input for a record that
  /// check() refuses, and io if the disk is full or another process keeps the file locked for too long. Existing
  /// records stay.
  virtual int64_t append(std::span<const Record> records) = 0;
  int64_t append(const Record& record) { return append(std::span(&record, 1)); }
  /// Reads the records that the filter admits. Skips damaged rows and lines instead of throwing.
  virtual Reading read(const Filter& filter = {}) = 0;
  /// Removes records by id and returns how many existed. Throws the errors of append().
  virtual int64_t remove(const std::set<std::string>& ids) = 0;
  /// Sets how long later writes wait for other writers.
  virtual void wait_for_others(double seconds) = 0;
  /// Returns the faults of the file itself, one message each; empty: sound. The contents of rows are checked by read().
  virtual std::vector<std::string> check_file() = 0;

  /// The name of the store in messages: its file, or its server's URL without passwords.
  const std::string& name() const { return name_; }
  /// Facts about the file, other than its records, that the user must know; one message each.
  const std::vector<std::string>& notices() const { return notices_; }

 protected:
  explicit Store(std::string name) : name_(std::move(name)) {}
  std::vector<std::string> notices_;

 private:
  std::string name_;
};

/// $XDG_DATA_HOME/kilter/records.db, or ~/.local/share/kilter/records.db. Throws usage if neither XDG_DATA_HOME nor
/// HOME is set.
std::filesystem::path default_records_file();

/// Creates the default folder, private to the user, if `file` is in it. Does nothing if the folder exists or the file
/// is elsewhere.
void make_default_folder(const std::filesystem::path& file);

/// Whether a file with this name contains JSON lines.
bool is_json_lines(const std::filesystem::path& file);
/// Whether the file begins like an SQLite database.
bool is_database(const std::filesystem::path& file);
/// Whether the file's name ends in .db, or a database's log is stored next to it.
bool should_be_database(const std::filesystem::path& file);
/// Throws bad_input for a file that should be a database but does not begin like one.
[[noreturn]] void fail_damaged_header(const std::filesystem::path& file);

/// Throws unsupported for a database whose schema is newer than `known`, the newest that this program writes.
[[noreturn]] void fail_newer_schema(const std::string& name, int64_t version, int64_t known);
/// Returns the notice for reading such a database.
std::string newer_schema_notice(const std::string& name, int64_t version, int64_t known);

std::unique_ptr<Store> open_sqlite_store(const std::filesystem::path& file, Store::Mode mode,
                                         const StoreOptions& options);
std::unique_ptr<Store> open_json_store(const std::filesystem::path& file, Store::Mode mode,
                                       const StoreOptions& options);
std::unique_ptr<Store> open_postgres_store(const std::string& url, Store::Mode mode, const StoreOptions& options);

}  // namespace kilter::tune
