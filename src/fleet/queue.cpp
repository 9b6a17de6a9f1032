#include "fleet/queue.h"

#include <array>
#include <chrono>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "postgres/schema.h"
#include "postgres/text.h"
#include "postgres/url.h"

namespace kilter::fleet {
namespace {

using postgres::ArrayText;
using postgres::bytea_text;
using postgres::bytes_of;
using postgres::Parameter;
using postgres::Rows;
using postgres::ServerError;
using postgres::storable;

Parameter number(int64_t value) { return std::to_string(value); }
Parameter fraction(double value) { return fmt::format("{:.6f}", value); }

/// Returns the text of an array of numbers.
Parameter numbers(std::span<const int64_t> values) {
  ArrayText all;
  for (const int64_t v : values) all.add(std::to_string(v));
  return all.text();
}

std::string text_of(const Rows& rows, int row, int column) { return rows.text(row, column).value_or(""); }
double seconds_of(const Rows& rows, int row, int column) {
  return try_parse_float(text_of(rows, row, column)).value_or(0);
}
bool truth_of(const Rows& rows, int row, int column) { return text_of(rows, row, column) == "t"; }

/// Parses the text of an array of numbers: {1,2,3}.
std::set<int64_t> numbers_of(std::string_view text) {
  std::set<int64_t> out;
  require(text.starts_with('{') && text.ends_with('}'), "a server returned '{}' as an array", text);
  for (const std::string_view part : split(text.substr(1, text.size() - 2), ','))
    if (const auto value = try_parse_int(part)) out.insert(*value);
  return out;
}

/// Returns how a job of this outcome ended.
Delivery ended_how(std::string_view outcome) { return outcome == "done" ? Delivery::stored : delivery_of(outcome); }

}  // namespace

std::string new_name() {
  std::random_device random;
  std::string name;
  for (int i = 0; i < 4; ++i) name += fmt::format("{:08x}", random());
  return name;
}

Queue::Queue(const std::string& url, Options options)
    : options_(options), server_(url, {.subject = "fleet", .instead = "", .busy_seconds = options.busy_seconds}) {
  (void)postgres::prepare_schema(server_);
  if (const int64_t version = postgres::schema_version(server_); version > postgres::known_schema()) {
    kilter::fail(ErrorKind::unsupported,
                 "{}: the schema was created by a newer version of Kilter (schema {}; this version knows {}): install "
                 "the newer version",
                 server_.label(), version, postgres::known_schema());
  }
}

/// Runs work that is idempotent, and once more after the loss of the connection or a collision.
template <class Work>
auto Queue::repeatedly(Work work) {
  for (bool again = true;; again = false) {
    try {
      if (!server_.usable()) {
        channels_.clear();
        server_.reconnect();
      }
      return work();
    } catch (const ServerError& e) {
      if (e.is("KL001")) kilter::fail(ErrorKind::usage, "{}", e.message());
      if (!again || !(e.lost() || e.collided())) throw;
    }
  }
}

Rows Queue::call(const std::string& sql, std::span<const Parameter> parameters) {
  return repeatedly([&] { return server_.run(sql, parameters); });
}

bool Queue::truth(const std::string& sql, std::span<const Parameter> parameters) {
  return truth_of(call(sql, parameters), 0, 0);
}

std::vector<int64_t> Queue::submit(std::span<const NewJob> jobs, const std::string& given_token) {
  const std::string token = given_token.empty() ? new_name() : storable(given_token);
  return repeatedly([&] {
    std::vector<int64_t> ids;
    postgres::ServerTransaction transaction(server_);
    for (const NewJob& job : jobs) {
      const std::vector<Parameter> values{fmt::format("{}-{}", token, ids.size()),
                                          storable(job.run),
                                          storable(job.kind),
                                          storable(job.device_class),
                                          number(job.priority),
                                          number(job.candidates),
                                          job.awaited ? "t" : "f",
                                          Parameter::bytes(job.payload)};
      ids.push_back(server_.run("SELECT kilter.submit($1, $2, $3, $4, $5, $6, $7, $8)", values).number(0, 0));
    }
    transaction.commit();
    return ids;
  });
}

int64_t Queue::cancel(const std::string& run) {
  const std::vector<Parameter> values{storable(run)};
  return call("SELECT kilter.cancel($1)", values).number(0, 0);
}

std::vector<Ending> Queue::endings(std::span<const int64_t> jobs) {
  const std::vector<Parameter> values{numbers(jobs)};
  const Rows rows = call(
      "SELECT o.job, o.outcome, o.agent, o.reason, r.body FROM kilter.outcomes o LEFT JOIN LATERAL unnest(o.keys) WITH "
      "ORDINALITY AS k(key, place) ON true LEFT JOIN kilter.results r ON r.key = k.key WHERE o.job = ANY($1::bigint[]) "
      "ORDER BY o.job, k.place",
      values);
  std::vector<Ending> endings;
  for (int i = 0; i < rows.count(); ++i) {
    const int64_t job = rows.number(i, 0);
    if (endings.empty() || endings.back().job != job)
      endings.push_back({job, ended_how(text_of(rows, i, 1)), text_of(rows, i, 2), text_of(rows, i, 3), {}});
    if (const auto body = rows.text(i, 4)) endings.back().bodies.push_back(bytes_of(*body));
  }
  return endings;
}

void Queue::announce(const std::string& agent, const std::string& device_class, const std::string& facts) {
  const std::vector<Parameter> values{storable(agent), storable(device_class), storable(facts)};
  (void)call("SELECT kilter.announce($1, $2, $3)", values);
}

std::vector<Job> Queue::claim(const std::string& agent, int most) {
  const std::vector<Parameter> values{storable(agent), number(most), fraction(options_.lease_seconds)};
  const Rows rows = call("SELECT job, kind, run, candidates, attempt, payload FROM kilter.claim($1, $2, $3)", values);
  std::vector<Job> jobs;
  for (int i = 0; i < rows.count(); ++i) {
    jobs.push_back({rows.number(i, 0), text_of(rows, i, 1), text_of(rows, i, 2), static_cast<int>(rows.number(i, 3)),
                    static_cast<int>(rows.number(i, 4)), bytes_of(text_of(rows, i, 5))});
  }
  return jobs;
}

Beat Queue::beat(const std::string& agent, const std::string& state) {
  const std::vector<Parameter> values{storable(agent), fraction(options_.lease_seconds), storable(state)};
  const Rows rows = call("SELECT draining, held FROM kilter.beat($1, $2, $3)", values);
  reap_sometimes();
  return {truth_of(rows, 0, 0), numbers_of(text_of(rows, 0, 1))};
}

std::set<std::string> Queue::known_blobs(std::span<const std::string> hashes) {
  ArrayText all;
  for (const std::string& hash : hashes) all.add(hash);
  const std::vector<Parameter> values{all.text()};
  const Rows rows = call("SELECT kilter.known_blobs($1::text[])", values);
  std::set<std::string> known;
  for (int i = 0; i < rows.count(); ++i) known.insert(text_of(rows, i, 0));
  return known;
}

std::string Queue::put_blob(std::string bytes) {
  const std::vector<Parameter> values{Parameter::bytes(std::move(bytes))};
  return text_of(call("SELECT kilter.put_blob($1)", values), 0, 0);
}

std::string Queue::blob(const std::string& hash) {
  const std::vector<Parameter> values{hash};
  const Rows rows = repeatedly(
      [&] { return server_.run("SELECT bytes FROM kilter.blobs WHERE hash = $1", values, postgres::Format::binary); });
  if (rows.count() == 0)
    kilter::fail(ErrorKind::bad_input, "{}: the blob {} no longer exists; submit the job again", server_.label(), hash);
  return text_of(rows, 0, 0);
}

Delivery Queue::deliver(const std::string& agent, int64_t job, const std::string& device,
                        std::span<const Result> results) {
  std::array<ArrayText, 5> columns;
  for (const Result& r : results) {
    columns[0].add(storable(r.problem));
    columns[1].add(storable(r.schedule));
    columns[2].add(storable(r.conditions));
    columns[3].add(storable(r.code));
    columns[4].add(bytea_text(r.body));
  }
  std::vector<Parameter> values{storable(agent), number(job), storable(device)};
  for (const ArrayText& column : columns) values.emplace_back(column.text());
  return delivery_of(text_of(call("SELECT kilter.deliver($1, $2, $3, $4, $5, $6, $7, $8)", values), 0, 0));
}

bool Queue::fail(const std::string& agent, int64_t job, const std::string& reason) {
  const std::vector<Parameter> values{storable(agent), number(job), storable(reason)};
  return truth("SELECT kilter.fail($1, $2, $3)", values);
}

bool Queue::give_back(const std::string& agent, int64_t job) {
  const std::vector<Parameter> values{storable(agent), number(job)};
  return truth("SELECT kilter.give_back($1, $2)", values);
}

std::string Queue::program(const std::string& architecture) {
  const std::vector<Parameter> values{storable(architecture)};
  const Rows rows = repeatedly([&] {
    return server_.run("SELECT offer FROM kilter.programs WHERE architecture = $1", values, postgres::Format::binary);
  });
  return rows.count() == 0 ? std::string() : text_of(rows, 0, 0);
}

void Queue::offer_program(const AgentProgram& program, const SecretKey& key) {
  ArrayText blobs;
  for (const std::string& hash : program.data.hashes) blobs.add(hash);
  const std::vector<Parameter> values{storable(program.architecture), bytea_text(pack_offer(program, key)),
                                      blobs.text()};
  (void)call("SELECT kilter.offer_program($1, $2, $3)", values);
}

int64_t Queue::reap() { return call("SELECT kilter.reap()", {}).number(0, 0); }

void Queue::reap_sometimes() {
  const auto now = std::chrono::steady_clock::now();
  if (now - reaped_ < std::chrono::duration<double>(options_.lease_seconds / 6)) return;
  reaped_ = now;
  (void)reap();
}

/// Waits at least half of `seconds` unless a notification arrives, so that waiting callers do not all ask at once.
std::vector<std::string> Queue::wait_on(const char* channel, double seconds) {
  static thread_local std::minstd_rand random{std::random_device{}()};
  reap_sometimes();
  return repeatedly([&]() -> std::vector<std::string> {
    if (!channels_.contains(channel)) {
      (void)server_.run(std::string("LISTEN ") + channel);
      channels_.insert(channel);
      return {};  // something may have arrived before
    }
    return server_.wait_for_notifications(seconds * std::uniform_real_distribution<double>(0.5, 1)(random));
  });
}

void Queue::wait_for_jobs(double seconds) { (void)wait_on("kilter_jobs", seconds); }
std::vector<std::string> Queue::wait_for_classes(double seconds) { return wait_on("kilter_jobs", seconds); }
void Queue::wait_for_ending(double seconds) { (void)wait_on("kilter_results", seconds); }

std::vector<QueueJob> Queue::jobs(const std::optional<std::string>& run, int most) {
  const std::vector<Parameter> values{run ? Parameter(storable(*run)) : Parameter(std::nullopt), number(most)};
  const Rows rows = call(
      "SELECT j.id, j.run, j.kind, j.device_class, j.submitter, j.priority, j.candidates, coalesce(q.attempt, 0), "
      "coalesce(o.outcome, CASE WHEN q.lease_owner IS NULL THEN 'waits' ELSE 'leased' END), coalesce(o.agent, "
      "q.lease_owner, ''), coalesce(o.reason, array_to_string(q.reasons, '; ')), greatest(extract(epoch FROM "
      "clock_timestamp() - j.submitted), 0) FROM kilter.jobs j LEFT JOIN kilter.queue q ON q.job = j.id LEFT JOIN "
      "kilter.outcomes o ON o.job = "
      "j.id WHERE CASE WHEN $1::text IS NULL THEN q.job IS NOT NULL OR o.outcome = 'set aside' ELSE j.run = $1 END "
      "ORDER BY j.id LIMIT $2",
      values);
  std::vector<QueueJob> jobs;
  for (int i = 0; i < rows.count(); ++i) {
    const auto small = [&](int column) { return static_cast<int>(rows.number(i, column)); };
    jobs.push_back({rows.number(i, 0), text_of(rows, i, 1), text_of(rows, i, 2), text_of(rows, i, 3),
                    text_of(rows, i, 4), small(5), small(6), small(7), text_of(rows, i, 8), text_of(rows, i, 9),
                    text_of(rows, i, 10), seconds_of(rows, i, 11)});
  }
  return jobs;
}

std::map<std::string, int64_t> Queue::job_counts() {
  const Rows rows = call(
      "SELECT CASE WHEN lease_owner IS NULL THEN 'waits' ELSE 'leased' END, count(*) FROM kilter.queue GROUP BY 1 "
      "UNION "
      "ALL SELECT 'set aside', count(*) FROM kilter.outcomes WHERE outcome = 'set aside'",
      {});
  std::map<std::string, int64_t> counts{{"waits", 0}, {"leased", 0}};
  for (int i = 0; i < rows.count(); ++i) counts[text_of(rows, i, 0)] = rows.number(i, 1);
  return counts;
}

std::map<std::string, std::pair<int64_t, int64_t>> Queue::jobs_by_class() {
  const Rows rows = call(
      "SELECT device_class, count(*) FILTER (WHERE lease_owner IS NULL), count(lease_owner) FROM kilter.queue GROUP BY "
      "1",
      {});
  std::map<std::string, std::pair<int64_t, int64_t>> out;
  for (int i = 0; i < rows.count(); ++i) out[text_of(rows, i, 0)] = {rows.number(i, 1), rows.number(i, 2)};
  return out;
}

/// After the server's clock was moved back, an agent's last heartbeat may lie in the future. Heartbeats and waiting
/// calls of other agents correct such times. An agent that still has one counts as silent for as long as its heartbeat
/// lies ahead.
std::vector<QueueAgent> Queue::agents() {
  const Rows rows = call(
      "SELECT name, login, device_class, facts, state, draining, abs(extract(epoch FROM clock_timestamp() - seen)), "
      "greatest(extract(epoch FROM clock_timestamp() - started), 0), (SELECT count(*) FROM kilter.queue WHERE "
      "lease_owner = name), "
      "done, failed, relative_speed, kilter.is_outlier(agents) FROM kilter.agents ORDER BY name",
      {});
  std::vector<QueueAgent> agents;
  for (int i = 0; i < rows.count(); ++i) {
    agents.push_back({text_of(rows, i, 0), text_of(rows, i, 1), text_of(rows, i, 2), text_of(rows, i, 3),
                      text_of(rows, i, 4), truth_of(rows, i, 5), seconds_of(rows, i, 6), seconds_of(rows, i, 7),
                      rows.number(i, 8), rows.number(i, 9), rows.number(i, 10), try_parse_float(text_of(rows, i, 11)),
                      truth_of(rows, i, 12)});
  }
  return agents;
}

bool Queue::drain(const std::string& agent) {
  const std::vector<Parameter> values{storable(agent)};
  return truth("SELECT kilter.drain($1)", values);
}

bool Queue::remove_agent(const std::string& agent) {
  const std::vector<Parameter> values{storable(agent)};
  return truth("SELECT kilter.remove_agent($1)", values);
}

int64_t Queue::purge(double days) {
  const std::vector<Parameter> values{fraction(days)};
  return call("SELECT kilter.purge($1)", values).number(0, 0);
}

}  // namespace kilter::fleet
