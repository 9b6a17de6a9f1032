#include "tune/records/sqlite.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "tune/records/store.h"

namespace kilter::tune {
namespace {

/// Returns a URI that opens the file as it is, without the files that SQLite keeps next to it. This is for folders and
/// media that cannot be written.
std::string immutable_uri(const std::filesystem::path& file) {
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(file).string()) {
    if (c == '?' || c == '#' || c == '%') {
      uri += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    } else {
      uri += c;
    }
  }
  return uri + "?immutable=1";
}

/// Returns the system's error code of an I/O error. SQLite stores it only for some of them; for the others, it is in
/// errno.
int system_error(sqlite3* db, int code, int last_errno) {
  const int kept = db == nullptr ? 0 : sqlite3_system_errno(db);
  return kept != 0 || (code & 0xff) != SQLITE_IOERR ? kept : last_errno;
}

bool disk_is_full(int code, int system) {
  return code == SQLITE_FULL || system == ENOSPC || system == EDQUOT || system == EFBIG;
}

/// Creates a missing file, private to the user; SQLite gives the files next to it the same mode. Leaves an existing
/// file alone: opening and closing it would release this process's locks on it. Failures are left to SQLite to report.
void make_private(const std::filesystem::path& file) {
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (fd >= 0) ::close(fd);
}

}  // namespace

Connection::Connection(std::filesystem::path file, bool writes, double busy_seconds)
    : file_(std::move(file)), busy_seconds_(busy_seconds) {
  try {
    open(writes);
  } catch (...) {
    sqlite3_close(db_);
    throw;
  }
}

Connection::~Connection() { sqlite3_close(db_); }

bool Connection::readable() const {
  return sqlite3_exec(db_, "SELECT 1 FROM sqlite_master", nullptr, nullptr, nullptr) == SQLITE_OK;
}

void Connection::wait_for_others(double seconds) {
  busy_seconds_ = seconds;
  sqlite3_busy_timeout(db_, static_cast<int>(std::min(seconds * 1e3, 2e9)));
}

void Connection::open(bool writes) {
  const int flags = writes ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  if (writes) make_private(file_);
  int code = sqlite3_open_v2(file_.c_str(), &db_, flags, nullptr);
  if (code != SQLITE_OK) fail(code, "open");
  sqlite3_extended_result_codes(db_, 1);
  wait_for_others(busy_seconds_);
  if (writes || readable()) return;
  const int first = sqlite3_extended_errcode(db_);
  if ((first & 0xff) != SQLITE_CANTOPEN && (first & 0xff) != SQLITE_READONLY) fail(first, "read");
  sqlite3_close(db_);
  fixed_ = true;
  code = sqlite3_open_v2(immutable_uri(file_).c_str(), &db_, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
  if (code != SQLITE_OK || !readable()) fail(sqlite3_errcode(db_), "read");
}

void Connection::run(const char* sql) {
  const int code = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code, "write");
}

int64_t Connection::number(const char* sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.number(0) : 0;
}

void Connection::fail(int code, std::string_view doing) const {
  const int system = system_error(db_, code, errno);
  const std::string file = file_.string();
  const std::string why = db_ == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(db_);
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      kilter::fail(ErrorKind::io,
                   "records {}: another process has held the database for {} s; nothing was written: try again when it "
                   "has ended",
                   file, busy_seconds_);
    case SQLITE_NOTADB:
      if (should_be_database(file_)) fail_damaged_header(file_);
      kilter::fail(
          ErrorKind::bad_input,
          "records {}: not an SQLite database; if it is a text file of records, run `kilter records import {}`", file,
          file);
    case SQLITE_CORRUPT:
      kilter::fail(
          ErrorKind::bad_input,
          "records {}: the database is damaged ({}); save what can be read with `kilter records export "
          "--records {} --output saved.jsonl`, move the database away, then `kilter records import saved.jsonl`",
          file, why, file);
    case SQLITE_FULL:
    case SQLITE_IOERR:
      if (disk_is_full(code & 0xff, system)) {
        kilter::fail(ErrorKind::io,
                     "records {}: no space left to write ({}); earlier records are safe, but the last ones are not "
                     "stored: free space and run the same command again",
                     file, system == 0 ? why : std::generic_category().message(system));
      }
      break;
    case SQLITE_READONLY:
    case SQLITE_PERM:
      kilter::fail(ErrorKind::io, "records {}: cannot be written ({}); give another file of records", file, why);
    default:
      break;
  }
  kilter::fail(ErrorKind::io, "records {}: cannot {}: {}{}", file, doing, why,
               system == 0 ? "" : " (" + std::generic_category().message(system) + ")");
}

Statement::Statement(Connection& connection, const std::string& sql) : connection_(connection) {
  const int code = sqlite3_prepare_v2(connection.handle(), sql.c_str(), -1, &statement_, nullptr);
  if (code != SQLITE_OK) connection.fail(code, "read");
}

void Statement::bind(int at, std::string_view text) {
  sqlite3_bind_text64(statement_, at, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}

bool Statement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) connection_.fail(code, sqlite3_stmt_readonly(statement_) != 0 ? "read" : "write");
  return false;
}

std::string Statement::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  if (bytes == nullptr) return {};
  return {bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

Transaction::Transaction(Connection& connection) : connection_(connection) { connection.run("BEGIN IMMEDIATE"); }

Transaction::~Transaction() {
  // Does nothing if SQLite has already rolled back by itself.
  if (open_ && sqlite3_get_autocommit(connection_.handle()) == 0)
    sqlite3_exec(connection_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void Transaction::commit() {
  connection_.run("COMMIT");
  open_ = false;
}

}  // namespace kilter::tune
