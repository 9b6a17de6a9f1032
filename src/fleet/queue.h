// The queue of a fleet, in a database of a PostgreSQL server: submitters add jobs, agents lease them, measure and
// deliver results. The rules are functions of the database (postgres/migrations/2_queue.sql), so they hold for every
// version of this class, and all times are those of the server's clock. What a call has reported survives a crash of
// the server, except leases, which a crash may end.
//
//   Queue queue("postgresql://db.example.com/tuning");
//   const int64_t job = queue.submit({.run = "7f3a", .kind = "trial", .device_class = "cortex-a72", .payload = ...});
//   const std::vector<Ending> endings = queue.endings({&job, 1});  // after wait_for_ending()
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "fleet/agent/agent_program.h"
#include "fleet/agent/job_source.h"
#include "postgres/server.h"

namespace kilter::fleet {

/// Returns a random name of 32 hexadecimal digits, for runs and submissions.
std::string new_name();

struct NewJob {
  std::string run;           ///< jobs of one run are cancelled together
  std::string kind;          ///< what the agent has to do with the payload
  std::string device_class;  ///< device class of the agents that may run the job
  int priority = 0;          ///< -100 to 100; higher ones come first
  int candidates = 1;        ///< how much the job counts towards its submitter's share
  bool awaited = false;      ///< whether wait_for_ending() returns as soon as the job ends
  std::string payload;       ///< at most 64 MiB
};

/// How a job ended.
struct Ending {
  int64_t job = 0;
  Delivery how = Delivery::stored;  ///< stored, cancelled or set_aside
  std::string agent, reason;
  std::vector<std::string> bodies;  ///< bodies of its results, in order
};

struct QueueJob {
  int64_t id = 0;
  std::string run, kind, device_class, submitter;
  int priority = 0, candidates = 0, attempt = 0;
  std::string state;  ///< "waits", "leased", "done", "cancelled", "set aside"
  std::string agent;  ///< the agent that has it, or had it last
  std::string reason;
  double age_seconds = 0;  ///< since it was submitted
};

struct QueueAgent {
  std::string name, login, device_class, facts, state;
  bool draining = false;
  double seen_seconds = 0;     ///< since its last heartbeat
  double started_seconds = 0;  ///< since it was announced
  int64_t leases = 0;
  int64_t done = 0, failed = 0;  ///< done: jobs that it delivered; failed: jobs that it failed, or whose leases ran out
  /// Speed of the reference kernel relative to the median of the class; empty if too few agents are known.
  std::optional<double> relative_speed = {};
  /// Whether it gets no jobs because its speed differs by more than a tenth from the median of its class.
  bool outlier = false;
};

struct QueueOptions {
  double lease_seconds = 30;
  double busy_seconds = 10;  ///< how long a call waits for other processes
};

/// A connection to the queue. Only one thread at a time may use it. If the connection is lost, calls that may be
/// repeated are repeated once. All throw io if the server cannot be reached or refuses the user, and usage, with the
/// database's explanation, for what its rules do not allow.
class Queue : public JobSource {
 public:
  using Options = QueueOptions;
  /// Connects, and creates or migrates the schema. Throws usage for a malformed URL, and unsupported if libpq is
  /// missing or a newer version created the schema.
  explicit Queue(const std::string& url, Options options = {});

  // --- submitters ---

  /// Adds jobs, all or none, and returns their numbers. A submission with the token of an earlier one adds nothing and
  /// returns the numbers of the earlier jobs, so it can be repeated until it succeeds.
  std::vector<int64_t> submit(std::span<const NewJob> jobs, const std::string& token = "");
  int64_t submit(const NewJob& job) { return submit(std::span(&job, 1)).front(); }
  /// Cancels those of the caller's jobs in a run that have not ended, and returns how many.
  int64_t cancel(const std::string& run);
  /// Returns those of the jobs that have ended, with their results.
  std::vector<Ending> endings(std::span<const int64_t> jobs);
  /// Returns those of the hashes (SHA-256, 64 hexadecimal digits) that have a blob.
  std::set<std::string> known_blobs(std::span<const std::string> hashes);
  /// Adds bytes that jobs refer to, at most 64 MiB, and returns their hash.
  std::string put_blob(std::string bytes);
  /// Offers a program to agents on its architecture, in place of the previous one. Its data must already be in blobs.
  void offer_program(const AgentProgram& program, const SecretKey& key);
  /// Waits until an awaited job has ended, or for `seconds`. Only a hint: check with endings() in either case.
  void wait_for_ending(double seconds);

  // --- agents ---

  using JobSource::beat;
  using JobSource::claim;
  void announce(const std::string& agent, const std::string& device_class, const std::string& facts) override;
  std::vector<Job> claim(const std::string& agent, int most) override;
  Beat beat(const std::string& agent, const std::string& state) override;
  Delivery deliver(const std::string& agent, int64_t job, const std::string& device,
                   std::span<const Result> results) override;
  bool fail(const std::string& agent, int64_t job, const std::string& reason) override;
  bool give_back(const std::string& agent, int64_t job) override;
  std::string program(const std::string& architecture) override;
  std::string blob(const std::string& hash) override;
  void wait_for_jobs(double seconds) override;
  /// Waits like wait_for_jobs(), and returns the device classes of new jobs.
  std::vector<std::string> wait_for_classes(double seconds);
  /// Sets the length of leases for later calls of claim() and beat().
  void set_lease(double seconds) { options_.lease_seconds = seconds; }

  // --- everybody ---

  /// Ends leases that have run out, and returns how many jobs are available again. Heartbeats and waiting calls do
  /// this, each connection at most six times per lease.
  int64_t reap();
  /// Returns the jobs of a run, or all that have not ended, the oldest first, at most `most`.
  std::vector<QueueJob> jobs(const std::optional<std::string>& run = std::nullopt, int most = 1000);
  /// Returns the number of jobs that have not ended or were set aside, by QueueJob::state.
  std::map<std::string, int64_t> job_counts();
  /// Returns the jobs that have not ended, by device class: how many wait, and how many are leased.
  std::map<std::string, std::pair<int64_t, int64_t>> jobs_by_class();
  std::vector<QueueAgent> agents();
  /// For the owner of the schema: gives the agent no more jobs. Returns false if it is not known.
  bool drain(const std::string& agent);
  /// For the owner of the schema: forgets the agent and frees its jobs. Returns false if it was not known.
  bool remove_agent(const std::string& agent);
  /// For the owner of the schema: forgets jobs that ended at least `days` ago, and answers to trials, but no other
  /// results. Returns the number of jobs.
  int64_t purge(double days);

 private:
  postgres::Rows call(const std::string& sql, std::span<const postgres::Parameter> parameters);
  template <class Work>
  auto repeatedly(Work work);
  bool truth(const std::string& sql, std::span<const postgres::Parameter> parameters);
  std::vector<std::string> wait_on(const char* channel, double seconds);
  void reap_sometimes();

  Options options_;
  postgres::Server server_;
  std::set<std::string> channels_;  ///< channels that this connection listens to
  std::chrono::steady_clock::time_point reaped_;
};

}  // namespace kilter::fleet
