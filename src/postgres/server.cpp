#include "postgres/server.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "base/text.h"
#include "postgres/libpq.h"
#include "postgres/url.h"

namespace kilter::postgres {

namespace {

constexpr int kLeastServer = 130000;  ///< PostgreSQL 13
/// Seconds beyond the wait for other processes: for the work of a statement, then for its response on the network.
constexpr double kWorkSeconds = 5, kAnswerSeconds = 5;

std::string lost_text(const std::string& why) {
  return fmt::format(
      "the connection to the server was lost ({}); what was stored before is safe: run the same command again",
      why.empty() ? "the server closed it" : why);
}

using Clock = std::chrono::steady_clock;

Clock::time_point end_after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(seconds, 1e8)));
}

double seconds_until(Clock::time_point end) { return std::chrono::duration<double>(end - Clock::now()).count(); }

/// Returns whether the user gave the setting in the URL or the environment, or in the service that these name.
bool is_given(const ConnectionSetting* all, std::string_view name) {
  for (; all->keyword != nullptr; ++all) {
    if (name != all->keyword) continue;
    const bool here = all->value != nullptr && *all->value != '\0';
    return here || (all->environment != nullptr && std::getenv(all->environment) != nullptr);
  }
  return false;
}

}  // namespace

Rows::~Rows() { libpq_->PQclear(result_); }

int Rows::count() const { return libpq_->PQntuples(result_); }

int64_t Rows::changed() const { return try_parse_int(libpq_->PQcmdTuples(result_)).value_or(0); }

std::optional<std::string> Rows::text(int row, int column) const {
  if (libpq_->PQgetisnull(result_, row, column) != 0) return std::nullopt;
  return std::string(libpq_->PQgetvalue(result_, row, column),
                     static_cast<size_t>(libpq_->PQgetlength(result_, row, column)));
}

int64_t Rows::number(int row, int column) const { return try_parse_int(text(row, column).value_or("0")).value_or(0); }

Server::Server(std::string url, ServerOptions options)
    : libpq_(load_libpq(options.instead)),
      url_(std::move(url)),
      name_(shown_url(url_)),
      label_(options.subject + " " + name_),
      options_(std::move(options)) {
  try {
    connect();
  } catch (...) {
    close();
    throw;
  }
}

void Server::close() {
  libpq_.PQfinish(std::exchange(connection_, nullptr));  // null is allowed
}

void Server::reconnect() {
  close();
  connect();
}

bool Server::usable() const { return libpq_.PQstatus(connection_) == kConnectionOk; }

std::vector<std::pair<std::string, std::string>> Server::defaults() const {
  char* why = nullptr;
  ConnectionSetting* given = libpq_.PQconninfoParse(url_.c_str(), &why);
  if (given == nullptr) {
    const std::string text = why == nullptr ? "out of memory" : why;
    libpq_.PQfreemem(why);
    kilter::fail(ErrorKind::usage,
                 "{}: not a URL of a PostgreSQL server: {}; expected "
                 "postgresql://USER@HOST:PORT/DATABASE?SETTING=VALUE, where special characters are written as %XX",
                 label_, without_passwords(text, url_));
  }
  if (is_given(given, "service")) {  // only an attempt to connect reads the service's settings
    libpq_.PQconninfoFree(given);
    const std::array<const char*, 2> names{"dbname", nullptr}, values{url_.c_str(), nullptr};
    pg_conn* const attempt = libpq_.PQconnectStartParams(names.data(), values.data(), 1);
    given = libpq_.PQconninfo(attempt);
    libpq_.PQfinish(attempt);
  }
  std::vector<std::pair<std::string, std::string>> out{{"fallback_application_name", "kilter"}};
  for (const auto& [name, value] :
       {std::pair("connect_timeout", "10"), std::pair("keepalives_idle", "10"), std::pair("keepalives_interval", "10"),
        std::pair("keepalives_count", "3"), std::pair("tcp_user_timeout", "30000")}) {
    if (given == nullptr || !is_given(given, name)) out.emplace_back(name, value);
  }
  libpq_.PQconninfoFree(given);
  return out;
}

void Server::connect() {
  const auto settings = defaults();
  std::vector<const char*> names, values;
  for (const auto& [name, value] : settings) names.push_back(name.c_str()), values.push_back(value.c_str());
  // The URL's own settings replace those before it.
  names.insert(names.end(), {"dbname", "client_encoding", nullptr});
  values.insert(values.end(), {url_.c_str(), "UTF8", nullptr});
  connection_ = libpq_.PQconnectdbParams(names.data(), values.data(), 1);
  if (!usable()) {
    kilter::fail(ErrorKind::io,
                 "{}: cannot connect: {}; check the server, the database, the user and the password (which "
                 "belongs in a passfile such as ~/.pgpass)",
                 label_, without_passwords(libpq_.PQerrorMessage(connection_), url_));
  }
  if (const int version = libpq_.PQserverVersion(connection_); version < kLeastServer) {
    kilter::fail(ErrorKind::unsupported, "{}: the server is PostgreSQL {}.{}; Kilter needs 13 or newer", label_,
                 version / 10000, version % 10000);
  }
  libpq_.PQsetNoticeProcessor(connection_, [](void*, const char*) {}, nullptr);
  libpq_.PQsetnonblocking(connection_, 1);
  set_limits();
}

void Server::set_limits() {
  const auto milliseconds = [](double seconds) { return fmt::format("{:.0f}", std::clamp(seconds * 1e3, 1.0, 2e9)); };
  const std::vector<Parameter> values{milliseconds(options_.busy_seconds),
                                      milliseconds(options_.busy_seconds + kWorkSeconds)};
  // The search path keeps objects of other users from replacing functions of the system. A server that does not wait
  // for its disk could lose records that append() has reported as safe.
  run("SELECT set_config('lock_timeout', $1, false), set_config('statement_timeout', $2, false),"
      " set_config('search_path', 'pg_catalog', false), set_config('synchronous_commit',"
      " CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END,"
      " false)",
      values);
}

void Server::wait_for_others(double seconds) {
  options_.busy_seconds = seconds;
  if (usable()) set_limits();
}

void Server::fail_lost(const std::string& why) {
  const std::string text = without_passwords(why, url_);
  close();
  throw ServerError(ErrorKind::io, fmt::format("{}: {}", label_, lost_text(text)), "", true);
}

bool Server::wait_on_socket(double seconds, bool write) {
  pollfd waiting{libpq_.PQsocket(connection_), static_cast<short>(write ? POLLIN | POLLOUT : POLLIN), 0};
  const int ready = ::poll(&waiting, 1, static_cast<int>(std::clamp(seconds * 1e3, 0.0, 60e3)));
  if (ready < 0 && errno != EINTR) fail_lost("poll failed");
  if (libpq_.PQconsumeInput(connection_) == 0) fail_lost(libpq_.PQerrorMessage(connection_));
  return ready > 0;
}

/// Sends what is left of a statement, and waits until a result has arrived.
void Server::await(double seconds) {
  const auto end = end_after(seconds);
  for (;;) {
    const int unsent = libpq_.PQflush(connection_);
    if (unsent < 0) fail_lost(libpq_.PQerrorMessage(connection_));
    if (unsent == 0 && libpq_.PQisBusy(connection_) == 0) return;
    const double left = seconds_until(end);
    if (left <= 0) fail_lost(fmt::format("no response for {:g} s", seconds));
    wait_on_socket(left, unsent != 0);
  }
}

std::vector<std::string> Server::wait_for_notifications(double seconds) {
  if (connection_ == nullptr) fail_lost("it was closed after an error");
  std::vector<std::string> arrived;
  for (const auto end = end_after(seconds);;) {
    while (Notification* const notification = libpq_.PQnotifies(connection_)) {
      arrived.emplace_back(notification->payload);
      libpq_.PQfreemem(notification);
    }
    const double left = seconds_until(end);
    if (!arrived.empty() || left <= 0) return arrived;
    wait_on_socket(left, false);
  }
}

/// Waits for the results of what was sent, and returns the last one.
Rows Server::results() {
  const double most = options_.busy_seconds + kWorkSeconds + kAnswerSeconds;
  std::optional<Rows> rows;
  for (;;) {
    await(most);
    pg_result* const result = libpq_.PQgetResult(connection_);
    if (result == nullptr) break;
    rows.emplace(libpq_, result);
    const int status = libpq_.PQresultStatus(result);
    if (status == kCommandOk || status == kTuplesOk) continue;
    for (await(most); pg_result* const more = libpq_.PQgetResult(connection_); await(most)) libpq_.PQclear(more);
    fail(*result);
  }
  if (!rows) fail_lost(libpq_.PQerrorMessage(connection_));
  return std::move(*rows);
}

Rows Server::run(const std::string& sql, std::span<const Parameter> parameters, Format format) {
  if (connection_ == nullptr) fail_lost("it was closed after an error");
  std::vector<const char*> values;
  std::vector<int> lengths, formats;
  for (const Parameter& p : parameters) {
    values.push_back(p.value ? p.value->c_str() : nullptr);
    lengths.push_back(p.value ? static_cast<int>(p.value->size()) : 0);
    formats.push_back(p.binary ? 1 : 0);
  }
  if (libpq_.PQsendQueryParams(connection_, sql.c_str(), static_cast<int>(values.size()), nullptr, values.data(),
                               lengths.data(), formats.data(), format == Format::binary ? 1 : 0) == 0)
    fail_lost(libpq_.PQerrorMessage(connection_));
  return results();
}

void Server::run_script(const std::string& sql) {
  if (connection_ == nullptr) fail_lost("it was closed after an error");
  if (libpq_.PQsendQuery(connection_, sql.c_str()) == 0) fail_lost(libpq_.PQerrorMessage(connection_));
  results();
}

void Server::fail(const pg_result& result) {
  const auto field = [&](int code) {
    const char* const text = libpq_.PQresultErrorField(&result, code);
    return std::string(text == nullptr ? "" : text);
  };
  const std::string state = field(kSqlState);
  const std::string why = without_passwords(field(kPrimaryMessage), url_);
  // The server is shutting down or has closed this session.
  const bool lost = state.starts_with("57P") || state.starts_with("08") || !usable();
  if (lost) close();
  throw ServerError(ErrorKind::io, fmt::format("{}: {}", label_, lost ? lost_text(why) : refusal_text(state, why)),
                    state, lost);
}

std::string Server::refusal_text(std::string_view state, const std::string& why) const {
  if (state == "KL001") return why;  // from a function of Kilter's schema
  if (state == "55P03") {
    return fmt::format("another process has held the {} for {} s; nothing was written: try again when it has ended",
                       options_.subject, options_.busy_seconds);
  }
  if (state == "57014") {
    return fmt::format(
        "a statement took longer than {} s ({}); nothing was written: try again when the server is less "
        "busy",
        options_.busy_seconds + kWorkSeconds, why);
  }
  if (state == "42501") {
    return fmt::format(
        "the server refuses this user: {}; ask the database's owner for a role that may do this (the "
        "page doc/records.md lists the roles)",
        why);
  }
  if (state == "53100") {
    return fmt::format(
        "no space left to write ({}); what was stored before is safe, but nothing of this was stored: free space and "
        "run the same command again",
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

}  // namespace kilter::postgres
