// SQLite with our errors: connections and prepared statements that close themselves. Of the records' own use.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace kilter::tune {

class Connection {
 public:
  /// Throws as fail() does.
  Connection(std::filesystem::path file, bool writes, double busy_seconds);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  sqlite3* handle() const { return db_; }
  /// Runs statements without results.
  void run(const char* sql);
  /// The first column of the first row as a number; 0 without rows.
  int64_t number(const char* sql);
  /// Throws io with what went wrong in words (`doing`: "write"): a full disk, another process that holds the file, a
  /// damaged file, ...
  [[noreturn]] void fail(int code, std::string_view doing) const;
  double busy_seconds() const { return busy_seconds_; }
  /// From now on so long, until another process that holds the file is a failure.
  void wait_for_others(double seconds);
  /// Whether the file is read as it is, without what a writer may have left beside it in FILE-wal: where SQLite's own
  /// files cannot be made.
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

  /// Parameters count from 1. Text is copied.
  void bind(int at, std::string_view text);
  void bind(int at, int64_t number) { sqlite3_bind_int64(statement_, at, number); }
  void bind(int at, double number) { sqlite3_bind_double(statement_, at, number); }
  void bind_null(int at) { sqlite3_bind_null(statement_, at); }
  /// Whether there is a row; throws as Connection::fail().
  bool step();
  /// The code as SQLite gives it.
  int try_step() { return sqlite3_step(statement_); }
  void reset() { sqlite3_reset(statement_); }

  /// Columns count from 0; empty for null.
  std::string text(int column) const;
  int64_t number(int column) const { return sqlite3_column_int64(statement_, column); }
  bool null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

 private:
  Connection& connection_;
  sqlite3_stmt* statement_ = nullptr;
};

/// BEGIN IMMEDIATE; rolls back unless commit() came back.
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
