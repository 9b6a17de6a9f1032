// A wrapper around libpq, PostgreSQL's client library, that throws Kilter's errors: connections, results and
// transactions that close themselves. The library is loaded when a server is first named, so a program that names none
// runs without it. No call waits forever.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/connection_error.h"

struct pg_conn;
struct pg_result;

namespace kilter::postgres {

struct Libpq;

/// What a server refused, or the loss of the connection.
class ServerError : public ConnectionError {
 public:
  ServerError(ErrorKind kind, std::string message, std::string state, bool lost)
      : ConnectionError(kind, std::move(message)), state_(std::move(state)), lost_(lost) {}
  /// Returns whether the server refused for this reason (an SQLSTATE, of five characters).
  bool is(std::string_view state) const { return state_ == state; }
  /// Returns whether the connection is lost. The work may succeed on another one.
  bool lost() const { return lost_; }
  /// Returns whether the transaction collided with another one, so that repeating it may succeed.
  bool collided() const { return is("40P01") || is("40001"); }

 private:
  std::string state_;
  bool lost_;
};

/// A parameter of a statement: a text in UTF-8 without NUL, bytes, or null.
struct Parameter {
  Parameter(std::nullopt_t) {}
  Parameter(std::string text) : value(std::move(text)) {}
  Parameter(const char* text) : value(text) {}
  Parameter(std::optional<std::string> text) : value(std::move(text)) {}
  /// For a parameter of type bytea.
  static Parameter bytes(std::string value) {
    Parameter made(std::move(value));
    made.binary = true;
    return made;
  }

  std::optional<std::string> value;
  bool binary = false;
};

/// How a statement returns its columns.
enum class Format : uint8_t {
  text,
  binary,  ///< for columns of type bytea, whose bytes Rows::text() then returns
};

/// The rows that a statement returned.
class Rows {
 public:
  Rows(const Libpq& libpq, pg_result* result) : libpq_(&libpq), result_(result) {}
  Rows(Rows&& other) noexcept : libpq_(other.libpq_), result_(std::exchange(other.result_, nullptr)) {}
  Rows& operator=(Rows&&) = delete;
  ~Rows();

  int count() const;
  /// Returns the number of rows that the statement inserted or removed.
  int64_t changed() const;
  /// Returns the value, or nothing for null. Rows and columns are numbered from 0.
  std::optional<std::string> text(int row, int column) const;
  /// Returns the value as a number, or 0 for null.
  int64_t number(int row, int column) const;

 private:
  const Libpq* libpq_;
  pg_result* result_;
};

struct ServerOptions {
  std::string subject = "records";            ///< what the caller uses the server for; messages begin with it
  std::string instead = "a file of records";  ///< what to give if libpq is missing; empty: nothing
  double busy_seconds = 120;                  ///< how long a statement waits for other processes
};

/// A connection to a server.
class Server {
 public:
  /// Connects. Throws usage for a malformed URL, io if the server cannot be reached or refuses the user, and
  /// unsupported if libpq is missing or too old.
  explicit Server(std::string url, ServerOptions options = {});
  ~Server() { close(); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Replaces the connection with a new one.
  void reconnect();
  /// Runs one statement. Throws ServerError.
  Rows run(const std::string& sql, std::span<const Parameter> parameters = {}, Format format = Format::text);
  /// Runs statements that are separated by semicolons, in a transaction. Throws ServerError.
  void run_script(const std::string& sql);
  /// Waits until a notification arrives on a channel that this connection listens to, and returns the payloads of all
  /// that have arrived: none if none arrives within `seconds`. Throws ServerError if the connection is lost.
  std::vector<std::string> wait_for_notifications(double seconds);
  /// Sets how long a statement waits for other processes.
  void wait_for_others(double seconds);
  /// Returns whether statements can be sent.
  bool usable() const;
  /// Returns how messages begin: the subject and the URL without its passwords.
  const std::string& label() const { return label_; }
  /// Returns the URL without its passwords.
  const std::string& name() const { return name_; }

 private:
  void connect();
  void close();
  void set_limits();
  /// Returns the settings for the connection that neither the URL, nor the environment, nor a service gives.
  std::vector<std::pair<std::string, std::string>> defaults() const;
  void await(double seconds);
  /// Waits until something can be read or, if `write`, until something can be read or written. Returns false if the
  /// time is up.
  bool wait_on_socket(double seconds, bool write);
  Rows results();
  [[noreturn]] void fail_lost(const std::string& why);
  [[noreturn]] void fail(const pg_result& result);
  std::string refusal_text(std::string_view state, const std::string& why) const;

  const Libpq& libpq_;
  std::string url_, name_, label_;
  ServerOptions options_;
  pg_conn* connection_ = nullptr;
};

/// A transaction that is rolled back unless commit() has succeeded.
class ServerTransaction {
 public:
  /// `how`: "BEGIN", optionally with a mode.
  explicit ServerTransaction(Server& server, const char* how = "BEGIN");
  ~ServerTransaction();
  ServerTransaction(const ServerTransaction&) = delete;
  ServerTransaction& operator=(const ServerTransaction&) = delete;
  void commit();

 private:
  Server& server_;
  bool open_ = true;
};

}  // namespace kilter::postgres
