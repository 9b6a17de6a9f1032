// Records in an SQLite database, one per row. It uses write-ahead mode, so that readers never wait, and the file of a
// process that is killed contains everything up to the last completed append().

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "tune/records/row.h"
#include "tune/records/sqlite.h"
#include "tune/records/store.h"

namespace kilter::tune {
namespace {

constexpr int64_t kApplicationId = 0x4b4c5452;  // "KLTR", in the file's header

constexpr const char* kSchema = R"(
CREATE TABLE records(
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  problem TEXT NOT NULL,
  layouts TEXT NOT NULL,
  schedule TEXT NOT NULL,
  status TEXT NOT NULL,
  error TEXT NOT NULL,
  samples TEXT NOT NULL,
  versus TEXT,
  conditions TEXT NOT NULL,
  network TEXT NOT NULL,
  node TEXT NOT NULL,
  source TEXT NOT NULL,
  foreign_line TEXT NOT NULL,
  ms REAL,
  device TEXT,
  target TEXT,
  threads INTEGER);
CREATE INDEX records_problem ON records(problem, device, threads);
)";

void bind(Statement& s, const Row& row) {
  int at = 0;
  for (const std::optional<std::string>& text : row.texts) text ? s.bind(++at, *text) : s.bind_null(++at);
  row.ms ? s.bind(++at, *row.ms) : s.bind_null(++at);
  s.bind(++at, row.device);
  s.bind(++at, row.target);
  s.bind(++at, row.threads);
}

constexpr int kSeq = kColumns;  ///< the column after those of a record

RowTexts texts_of(const Statement& row) {
  RowTexts texts;
  for (size_t i = 0; i < kColumns; ++i) texts[i] = row.text(static_cast<int>(i));
  return texts;
}

std::string insert_or(const char* otherwise) {
  const std::vector<const char*> values(kColumns + kQueryColumns.size(), "?");
  return fmt::format("INSERT OR {} INTO records({}) VALUES({})", otherwise, row_columns(), fmt::join(values, ", "));
}

/// Version 1 had neither paired ratios nor the columns meant for other programs' queries.
void migrate_from_1(Connection& db) {
  db.run(
      "ALTER TABLE records ADD COLUMN versus TEXT; ALTER TABLE records ADD COLUMN ms REAL;"
      "ALTER TABLE records ADD COLUMN device TEXT; ALTER TABLE records ADD COLUMN target TEXT;"
      "ALTER TABLE records ADD COLUMN threads INTEGER;");
  // A damaged row keeps its nulls; read() reports it.
  db.run(
      "UPDATE records SET device = coalesce(json_extract(conditions, '$.device'), ''),"
      " target = coalesce(json_extract(conditions, '$.target'), ''),"
      " threads = coalesce(json_extract(conditions, '$.threads'), 1) WHERE json_valid(conditions);"
      "CREATE INDEX records_problem ON records(problem, device, threads);");
  std::vector<std::pair<int64_t, double>> times;
  Statement all(db, "SELECT seq, samples FROM records");
  while (all.step()) {
    const nlohmann::json samples = try_parse_json(all.text(1));
    try {
      if (const auto ms = samples.get<std::vector<double>>(); !ms.empty())
        times.emplace_back(all.number(0), mean_of_middle_half(ms));
    } catch (const nlohmann::json::exception&) {
      continue;
    }
  }
  Statement set(db, "UPDATE records SET ms = ? WHERE seq = ?");
  for (const auto& [seq, ms] : times) {
    set.bind(1, ms), set.bind(2, seq);
    set.step(), set.reset();
  }
}

class SqliteStore : public Store {
 public:
  SqliteStore(const std::filesystem::path& file, Mode mode, const StoreOptions& options)
      : Store(file.string()), db_(file, mode == Mode::write, options.busy_seconds) {
    if (mode == Mode::write) prepare();
    tell_left_out();
    inspect();
  }

  void wait_for_others(double seconds) override { db_.wait_for_others(seconds); }

  int64_t append(std::span<const Record> records) override {
    for (const Record& r : records) check(r);
    Transaction transaction(db_);
    int64_t added = 0;
    {
      Statement insert(db_, insert_or("IGNORE")), replace(db_, insert_or("REPLACE"));
      for (const Record& r : records) {
        if (put(r, insert) || (holds_damaged(r.id()) && put(r, replace))) ++added;
      }
    }
    transaction.commit();
    return added;
  }

  Reading read(const Filter& filter) override {
    Reading reading;
    if (!readable_) return reading;
    int64_t last = 0;
    const int code = walk(filter, "ASC", [&](const Statement& row) {
      last = row.number(kSeq);
      take(row, filter, reading);
      return true;
    });
    if (code != SQLITE_DONE) read_from_the_end(filter, last, reading);
    return reading;
  }

  int64_t remove(const std::set<std::string>& ids) override {
    int64_t removed = 0;
    Transaction transaction(db_);
    {
      Statement remove(db_, "DELETE FROM records WHERE id = ?");
      for (const std::string& id : ids) {
        remove.bind(1, id);
        remove.step();
        removed += sqlite3_changes(db_.handle());
        remove.reset();
      }
    }
    transaction.commit();
    // Gives the space back. If this fails because others use the file, the space is reused later.
    if (removed > 0) sqlite3_exec(db_.handle(), "VACUUM", nullptr, nullptr, nullptr);
    return removed;
  }

  std::vector<std::string> check_file() override {
    std::vector<std::string> faults;
    Statement check(db_, "PRAGMA integrity_check(20)");
    int code = check.try_step();
    for (; code == SQLITE_ROW; code = check.try_step()) {
      if (const std::string text = check.text(0); text != "ok") faults.push_back(text);
    }
    if (code != SQLITE_DONE) faults.emplace_back(sqlite3_errmsg(db_.handle()));
    return faults;
  }

 private:
  /// Returns whether the statement changed anything.
  bool put(const Record& record, Statement& statement) {
    bind(statement, row_of(record));
    statement.step();
    statement.reset();
    return sqlite3_changes(db_.handle()) > 0;
  }

  /// Whether the row with this id can be read but its content does not match the id.
  bool holds_damaged(const std::string& id) {
    Statement row(db_, fmt::format("SELECT {} WHERE id = ?", select_));
    row.bind(1, id);
    if (row.try_step() != SQLITE_ROW) return false;
    try {
      record_of(texts_of(row), ids_);
      return false;
    } catch (const Error&) {
      return true;
    }
  }

  /// Creates or migrates the schema.
  void prepare() {
    check_version();
    write_ahead();
    if (check_version() == kRecordVersion) return;
    Transaction transaction(db_);
    const int64_t version = check_version();  // another process may have prepared the file meanwhile
    if (version == 0) db_.run(kSchema);
    if (version == 1) {
      migrate_from_1(db_);
      notices_.push_back(fmt::format("records {}: migrated from schema 1 to {}", name(), kRecordVersion));
    }
    const std::string mark =
        fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplicationId, kRecordVersion);
    db_.run(mark.c_str());
    transaction.commit();
  }

  /// Returns the schema's version; 0 for a new file. Throws for files that this program must not write.
  int64_t check_version() {
    // Reads the tables first: both are created in one transaction, so if tables are visible, their version is as well.
    const int64_t tables = db_.number("SELECT count(*) FROM sqlite_master");
    const int64_t version = db_.number("PRAGMA user_version");
    if (version > kRecordVersion) fail_newer_schema(name(), version, kRecordVersion);
    if (version == 0 && tables > 0) refuse_other();
    return version;
  }

  /// Changing the mode requires exclusive access to the file, and SQLite itself does not wait for others here.
  void write_ahead() {
    const auto start = std::chrono::steady_clock::now();
    for (;;) {
      const int code = sqlite3_exec(db_.handle(), "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", nullptr,
                                    nullptr, nullptr);
      if (code == SQLITE_OK) return;
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
      if ((code & 0xff) != SQLITE_BUSY || waited.count() > db_.busy_seconds()) db_.fail(code, "open");
      usleep(2000);
    }
  }

  [[noreturn]] void refuse_other() const {
    fail(ErrorKind::bad_input, "records {}: an SQLite database, but not one of tuning records; give another file",
         name());
  }

  void tell_left_out() {
    std::error_code ignored;
    const std::filesystem::path log = name() + "-wal";
    if (!db_.fixed() || !std::filesystem::exists(log, ignored) || std::filesystem::file_size(log, ignored) == 0) return;
    notices_.push_back(
        fmt::format("records {}: {} contains records of a writer that was stopped; they are left out, because nothing "
                    "can be written here: copy both files to a folder of your own and give --records the copy",
                    name(), log.string()));
  }

  /// Finds out which columns can be read.
  void inspect() {
    // reads this before the version: see check_version()
    const int64_t tables = db_.number("SELECT count(*) FROM sqlite_master");
    const int64_t version = db_.number("PRAGMA user_version");
    std::set<std::string> have;
    Statement columns(db_, "SELECT name FROM pragma_table_info('records')");
    while (columns.step()) have.insert(columns.text(0));
    if (have.empty() && version == 0 && tables == 0) return;
    const bool all = std::all_of(kRecordColumns.begin(), kRecordColumns.begin() + kColumnsNeeded,
                                 [&](const char* c) { return have.contains(c); });
    if (!all && version > kRecordVersion) fail_newer_schema(name(), version, kRecordVersion);
    if (!all) refuse_other();
    readable_ = true;
    for (const char* column : kRecordColumns) select_ += have.contains(column) ? fmt::format("{}, ", column) : "NULL, ";
    select_ += "seq FROM records";
    if (version > kRecordVersion) {
      ids_ = IdCheck::none;
      notices_.push_back(newer_schema_notice(name(), version, kRecordVersion));
    }
  }

  /// Calls `each` for every row with the filter's problem (empty: every row) until it returns false. Returns SQLite's
  /// last result code.
  template <class Each>
  int walk(const Filter& filter, const char* order, Each each) {
    const std::string where = filter.problem.empty() ? "" : " WHERE problem = ?";
    Statement rows(db_, fmt::format("SELECT {}{} ORDER BY seq {}", select_, where, order));
    if (!filter.problem.empty()) rows.bind(1, filter.problem);
    int code = rows.try_step();
    for (; code == SQLITE_ROW; code = rows.try_step()) {
      if (!each(rows)) return SQLITE_DONE;
    }
    return code;
  }

  void take(const Statement& row, const Filter& filter, Reading& reading) const {
    try {
      Record record = record_of(texts_of(row), ids_);
      if (filter.admits(record)) reading.records.push_back(std::move(record));
    } catch (const Error& e) {
      reading.damaged.push_back(fmt::format("{}: row {}: skipped: {}", name(), row.number(kSeq), e.message()));
    }
  }

  /// Reads the rows after a damaged page, starting from the end.
  void read_from_the_end(const Filter& filter, int64_t last, Reading& reading) {
    const std::string why = sqlite3_errmsg(db_.handle());
    Reading tail;
    int64_t first = 0;
    walk(filter, "DESC", [&](const Statement& row) {
      if (row.number(kSeq) <= last) return false;
      first = row.number(kSeq);
      take(row, filter, tail);
      return true;
    });
    std::move(tail.records.rbegin(), tail.records.rend(), std::back_inserter(reading.records));
    reading.damaged.insert(reading.damaged.end(), tail.damaged.rbegin(), tail.damaged.rend());
    reading.damaged.push_back(fmt::format("{}: rows after {}{} cannot be read ({}); skipped", name(), last,
                                          first > 0 ? fmt::format(" and before {}", first) : "", why));
  }

  Connection db_;
  std::string select_;
  bool readable_ = false;
  IdCheck ids_ = IdCheck::content;
};

}  // namespace

std::unique_ptr<Store> open_sqlite_store(const std::filesystem::path& file, Store::Mode mode,
                                         const StoreOptions& options) {
  return std::make_unique<SqliteStore>(file, mode, options);
}

}  // namespace kilter::tune
