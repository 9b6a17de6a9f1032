// A wrapper around SQLite that throws Kilter's errors: connections and prepared statements that close themselves. Only
// for use by the records.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace kilter::tune {

class Connection {
 public:
  /// Throws the errors of fail().
  Connection(std::filesystem::path file, bool writes, double busy_seconds);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  sqlite3* handle() const { return db_; }
  /// Runs statements without results.
  void run(const char* sql);
  /// Returns the first column of the first row as a number; 0 without rows.
  int64_t number(const char* sql);
  /// Throws io with the cause in words (`doing`: "write"): a full disk, a lock of another process, a damaged file, ...
  [[noreturn]] void fail(int code, std::string_view doing) const;
  double busy_seconds() const { return busy_seconds_; }
  /// Sets how long to wait, before failing, while another process has the file locked.
  void wait_for_others(double seconds);
  /// Whether the file is read as it is, ignoring what a writer may have left in FILE-wal. This is the case if SQLite
  /// cannot create its own files next to it.
  bool fixed() const { return fixed_; }

 private:
  void open(bool writes);
  bool readable() const;

  std::filesystem::path file_;
  double busy_seconds_;
  sqlite3* db_ = nullptr;
  bool fixed_ = false;
};

class Statement {
 public:
  Statement(Connection& connection, const std::string& sql);
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  /// Parameters are numbered from 1. The text is copied.
  void bind(int at, std::string_view text);
  void bind(int at, int64_t number) { sqlite3_bind_int64(statement_, at, number); }
  void bind(int at, double number) { sqlite3_bind_double(statement_, at, number); }
  void bind_null(int at) { sqlite3_bind_null(statement_, at); }
  /// Returns whether there is a row. Throws the errors of Connection::fail().
  bool step();
  /// Returns SQLite's result code.
  int try_step() { return sqlite3_step(statement_); }
  void reset() { sqlite3_reset(statement_); }

  /// Columns are numbered from 0. Returns an empty text for null.
  std::string text(int column) const;
  int64_t number(int column) const { return sqlite3_column_int64(statement_, column); }
  bool null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

 private:
  Connection& connection_;
  sqlite3_stmt* statement_ = nullptr;
};

/// A transaction that starts with BEGIN IMMEDIATE and is rolled back unless commit() has succeeded.
class Transaction {
 public:
  explicit Transaction(Connection& connection);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Connection& connection_;
  bool open_ = true;
};

}  // namespace kilter::tune
