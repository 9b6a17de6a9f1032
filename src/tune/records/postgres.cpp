#include "tune/records/postgres.h"

#include <dlfcn.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "base/text.h"
#include "tune/records/place.h"

#ifdef KILTER_HAS_LIBPQ

#include <libpq-fe.h>

namespace kilter::tune {

/// The functions that are used, by their names in libpq.
struct Libpq {
  decltype(&::PQclear) clear;
  decltype(&::PQcmdTuples) changed;
  decltype(&::PQconnectdbParams) connect;
  decltype(&::PQconnectStartParams) start;
  decltype(&::PQconninfo) settings;
  decltype(&::PQconninfoFree) free_settings;
  decltype(&::PQconninfoParse) parse;
  decltype(&::PQconsumeInput) consume;
  decltype(&::PQerrorMessage) message;
  decltype(&::PQfinish) finish;
  decltype(&::PQflush) flush;
  decltype(&::PQfreemem) free_memory;
  decltype(&::PQgetisnull) is_null;
  decltype(&::PQgetlength) length;
  decltype(&::PQgetResult) result;
  decltype(&::PQgetvalue) value;
  decltype(&::PQisBusy) busy;
  decltype(&::PQntuples) count;
  decltype(&::PQresultErrorField) error_field;
  decltype(&::PQresultStatus) result_status;
  decltype(&::PQsendQueryParams) send;
  decltype(&::PQserverVersion) version;
  decltype(&::PQsetnonblocking) set_nonblocking;
  decltype(&::PQsetNoticeProcessor) on_notice;
  decltype(&::PQsocket) socket;
  decltype(&::PQstatus) status;
};

namespace {

constexpr int kLeastServer = 130000;  ///< PostgreSQL 13
/// Seconds beyond the wait for other processes: for the work of a statement, then for its answer on the network.
constexpr double kWorkSeconds = 5, kAnswerSeconds = 5;

template <class F>
void find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (function == nullptr) {
    fail(ErrorKind::unsupported, "libpq has no function {}; install the client library of PostgreSQL 13 or newer",
         name);
  }
}

Libpq open_library() {
  constexpr const char* kFile = "libpq.so.5";
  void* const library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail(ErrorKind::unsupported,
         "records on a PostgreSQL server need its client library {}, which cannot be loaded ({}); install it (Debian: "
         "libpq5), or give a file of records",
         kFile, dlerror());
  }
  Libpq l{};
  find(library, "PQclear", l.clear), find(library, "PQcmdTuples", l.changed);
  find(library, "PQconnectdbParams", l.connect), find(library, "PQconnectStartParams", l.start);
  find(library, "PQconninfo", l.settings), find(library, "PQconninfoFree", l.free_settings);
  find(library, "PQconninfoParse", l.parse), find(library, "PQconsumeInput", l.consume);
  find(library, "PQerrorMessage", l.message), find(library, "PQfinish", l.finish);
  find(library, "PQflush", l.flush), find(library, "PQfreemem", l.free_memory);
  find(library, "PQgetisnull", l.is_null), find(library, "PQgetlength", l.length);
  find(library, "PQgetResult", l.result), find(library, "PQgetvalue", l.value);
  find(library, "PQisBusy", l.busy), find(library, "PQntuples", l.count);
  find(library, "PQresultErrorField", l.error_field), find(library, "PQresultStatus", l.result_status);
  find(library, "PQsendQueryParams", l.send), find(library, "PQserverVersion", l.version);
  find(library, "PQsetnonblocking", l.set_nonblocking), find(library, "PQsetNoticeProcessor", l.on_notice);
  find(library, "PQsocket", l.socket), find(library, "PQstatus", l.status);
  return l;
}

std::string lost_text(const std::string& why) {
  return fmt::format(
      "the connection to the server was lost ({}); what was stored before is safe: run the same command again",
      why.empty() ? "the server closed it" : why);
}

/// Whether the user gave the setting in the URL or the environment, or in the service that these name.
bool is_given(const PQconninfoOption* all, std::string_view name) {
  for (; all->keyword != nullptr; ++all) {
    if (name != all->keyword) continue;
    const bool here = all->val != nullptr && *all->val != '\0';
    return here || (all->envvar != nullptr && std::getenv(all->envvar) != nullptr);
  }
  return false;
}

}  // namespace

const Libpq& load_libpq() {
  static const Libpq loaded = open_library();
  return loaded;
}

Rows::~Rows() { libpq_->clear(result_); }

int Rows::count() const { return libpq_->count(result_); }

int64_t Rows::changed() const { return try_parse_int(libpq_->changed(result_)).value_or(0); }

std::optional<std::string> Rows::text(int row, int column) const {
  if (libpq_->is_null(result_, row, column) != 0) return std::nullopt;
  return std::string(libpq_->value(result_, row, column), static_cast<size_t>(libpq_->length(result_, row, column)));
}

int64_t Rows::number(int row, int column) const { return try_parse_int(text(row, column).value_or("0")).value_or(0); }

Server::Server(std::string url, double busy_seconds)
    : libpq_(load_libpq()), url_(std::move(url)), name_(shown(url_)), busy_seconds_(busy_seconds) {
  try {
    connect();
  } catch (...) {
    close();
    throw;
  }
}

void Server::close() {
  libpq_.finish(std::exchange(connection_, nullptr));  // null is allowed
}

void Server::reconnect() {
  close();
  connect();
}

bool Server::usable() const { return libpq_.status(connection_) == CONNECTION_OK; }

std::vector<std::pair<std::string, std::string>> Server::defaults() const {
  char* why = nullptr;
  PQconninfoOption* given = libpq_.parse(url_.c_str(), &why);
  if (given == nullptr) {
    const std::string text = why == nullptr ? "out of memory" : why;
    libpq_.free_memory(why);
    kilter::fail(ErrorKind::usage,
                 "records {}: not a URL of a PostgreSQL server: {}; expected "
                 "postgresql://USER@HOST:PORT/DATABASE?SETTING=VALUE, where special characters are written as %XX",
                 name_, without_passwords(text, url_));
  }
  if (is_given(given, "service")) {  // only an attempt to connect reads the service's settings
    libpq_.free_settings(given);
    const std::array<const char*, 2> names{"dbname", nullptr}, values{url_.c_str(), nullptr};
    PGconn* const attempt = libpq_.start(names.data(), values.data(), 1);
    given = libpq_.settings(attempt);
    libpq_.finish(attempt);
  }
  std::vector<std::pair<std::string, std::string>> out{{"fallback_application_name", "kilter"}};
  for (const auto& [name, value] :
       {std::pair("connect_timeout", "10"), std::pair("keepalives_idle", "10"), std::pair("keepalives_interval", "10"),
        std::pair("keepalives_count", "3"), std::pair("tcp_user_timeout", "30000")}) {
    if (given == nullptr || !is_given(given, name)) out.emplace_back(name, value);
  }
  libpq_.free_settings(given);
  return out;
}

void Server::connect() {
  const auto settings = defaults();
  std::vector<const char*> names, values;
  for (const auto& [name, value] : settings) names.push_back(name.c_str()), values.push_back(value.c_str());
  // The URL's own settings replace those before it.
  names.insert(names.end(), {"dbname", "client_encoding", nullptr});
  values.insert(values.end(), {url_.c_str(), "UTF8", nullptr});
  connection_ = libpq_.connect(names.data(), values.data(), 1);
  if (!usable()) {
    kilter::fail(ErrorKind::io,
                 "records {}: cannot connect: {}; check the server, the database, the user and the password (which "
                 "belongs in a passfile such as ~/.pgpass)",
                 name_, without_passwords(libpq_.message(connection_), url_));
  }
  if (const int version = libpq_.version(connection_); version < kLeastServer) {
    kilter::fail(ErrorKind::unsupported, "records {}: the server is PostgreSQL {}.{}; Kilter needs 13 or newer", name_,
                 version / 10000, version % 10000);
  }
  libpq_.on_notice(connection_, [](void*, const char*) {}, nullptr);
  libpq_.set_nonblocking(connection_, 1);
  set_limits();
}

void Server::set_limits() {
  const auto milliseconds = [](double seconds) { return fmt::format("{:.0f}", std::clamp(seconds * 1e3, 1.0, 2e9)); };
  const std::vector<Parameter> values{milliseconds(busy_seconds_), milliseconds(busy_seconds_ + kWorkSeconds)};
  // The search path keeps objects of other users from replacing functions of the system. A server that does not wait
  // for its disk would lose records that append() called safe.
  run("SELECT set_config('lock_timeout', $1, false), set_config('statement_timeout', $2, false),"
      " set_config('search_path', 'pg_catalog', false), set_config('synchronous_commit',"
      " CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END,"
      " false)",
      values);
}

void Server::wait_for_others(double seconds) {
  busy_seconds_ = seconds;
  if (usable()) set_limits();
}

void Server::fail_lost(const std::string& why) {
  const std::string text = without_passwords(why, url_);
  close();
  throw ServerError(ErrorKind::io, fmt::format("records {}: {}", name_, lost_text(text)), "", true);
}

/// Sends what is left of a statement, and waits until a result has arrived.
void Server::await(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(std::min(seconds, 1e8));
  for (;;) {
    const int unsent = libpq_.flush(connection_);
    if (unsent < 0) fail_lost(libpq_.message(connection_));
    if (unsent == 0 && libpq_.busy(connection_) == 0) return;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) fail_lost(fmt::format("no answer for {:g} s", seconds));
    pollfd waiting{libpq_.socket(connection_), static_cast<short>(unsent != 0 ? POLLIN | POLLOUT : POLLIN), 0};
    if (::poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left, 60000))) < 0 && errno != EINTR)
      fail_lost("poll failed");
    if (libpq_.consume(connection_) == 0) fail_lost(libpq_.message(connection_));
  }
}

Rows Server::run(const std::string& sql, std::span<const Parameter> parameters) {
  if (connection_ == nullptr) fail_lost("it was closed after an error");
  std::vector<const char*> values;
  for (const Parameter& p : parameters) values.push_back(p ? p->c_str() : nullptr);
  if (libpq_.send(connection_, sql.c_str(), static_cast<int>(values.size()), nullptr, values.data(), nullptr, nullptr,
                  0) == 0)
    fail_lost(libpq_.message(connection_));
  const double most = busy_seconds_ + kWorkSeconds + kAnswerSeconds;
  std::optional<Rows> rows;
  for (;;) {
    await(most);
    PGresult* const result = libpq_.result(connection_);
    if (result == nullptr) break;
    rows.emplace(libpq_, result);
    const ExecStatusType status = libpq_.result_status(result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) continue;
    for (await(most); PGresult* const more = libpq_.result(connection_); await(most)) libpq_.clear(more);
    fail(*result);
  }
  if (!rows) fail_lost(libpq_.message(connection_));
  return std::move(*rows);
}

void Server::fail(const pg_result& result) {
  const auto field = [&](int code) {
    const char* const text = libpq_.error_field(&result, code);
    return std::string(text == nullptr ? "" : text);
  };
  const std::string state = field(PG_DIAG_SQLSTATE);
  const std::string why = without_passwords(field(PG_DIAG_MESSAGE_PRIMARY), url_);
  // The server is shutting down or has closed this session.
  const bool lost = state.starts_with("57P") || state.starts_with("08") || !usable();
  if (lost) close();
  throw ServerError(ErrorKind::io,
                    fmt::format("records {}: {}", name_, lost ? lost_text(why) : refusal_text(state, why)), state,
                    lost);
}

std::string Server::refusal_text(std::string_view state, const std::string& why) const {
  if (state == "55P03") {
    return fmt::format(
        "another process has held the records for {} s; nothing was written: try again when it has ended",
        busy_seconds_);
  }
  if (state == "57014") {
    return fmt::format(
        "a statement took longer than {} s ({}); nothing was written: try again when the server is less "
        "busy",
        busy_seconds_ + kWorkSeconds, why);
  }
  if (state == "42501") {
    return fmt::format(
        "the server refuses this user: {}; ask the database's owner for a role that may do this (the "
        "page doc/records.md lists the roles)",
        why);
  }
  if (state == "53100") {
    return fmt::format(
        "no space left to write ({}); earlier records are safe, but the last ones are not stored: free "
        "space and run the same command again",
        why);
  }
  if (state == "25006") return fmt::format("cannot be written ({}); give the URL of the primary server", why);
  return fmt::format("the server reports: {} (SQLSTATE {})", why, state);
}

ServerTransaction::ServerTransaction(Server& server, const char* how) : server_(server) { server.run(how); }

ServerTransaction::~ServerTransaction() {
  if (!open_ || !server_.usable()) return;
  try {
    server_.run("ROLLBACK");
  } catch (const Error&) {  // the server rolls back by itself
    return;
  }
}

void ServerTransaction::commit() {
  server_.run("COMMIT");
  open_ = false;
}

}  // namespace kilter::tune

#else

#include "tune/records/store.h"

namespace kilter::tune {

std::unique_ptr<Store> open_postgres_store(const std::string& url, Store::Mode /*mode*/,
                                           const StoreOptions& /*options*/) {
  fail(ErrorKind::unsupported,
       "records {}: this build of Kilter cannot use servers; give a file of records, or build Kilter where "
       "libpq-fe.h is installed (Debian: libpq-dev)",
       shown(url));
}

}  // namespace kilter::tune

#endif
