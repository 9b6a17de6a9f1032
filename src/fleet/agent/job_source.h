// Where an agent gets its jobs: the queue itself (fleet/queue.h), or a broker in front of it
// (fleet/broker_client/broker_client.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kilter::fleet {

/// A job as an agent gets it.
struct Job {
  int64_t id = 0;
  std::string kind, run;
  int candidates = 0;
  int attempt = 0;  ///< 1 for the first
  std::string payload;
};

/// One result. A result with the same device, problem, schedule, conditions and code as an earlier one is dropped.
struct Result {
  std::string problem, schedule, conditions, code;
  std::string body;
};

/// The answer to a delivery.
enum class Delivery : uint8_t {
  stored,
  duplicate,  ///< the job was done before
  cancelled,
  set_aside,  ///< three attempts had failed by then
};
/// "stored", "duplicate", "cancelled", "set aside".
std::string_view name(Delivery delivery);
/// Returns the delivery of a name. Throws internal for an unknown name.
Delivery delivery_of(std::string_view name);

/// The answer to a heartbeat.
struct Beat {
  bool draining = false;   ///< the agent should finish its jobs and exit
  std::set<int64_t> held;  ///< the jobs that the agent still has
};

/// Only one thread at a time may use a source. If the connection is lost, calls that may be repeated are repeated once.
/// All throw ConnectionError if the source cannot be reached or refuses the user, and usage, with an explanation, for
/// what the queue's rules do not allow.
class JobSource {
 public:
  virtual ~JobSource() = default;

  /// Registers the agent, without leases; a restarted agent registers again. `facts`: a JSON object, shown to users.
  /// Throws usage if another user has an agent of this name.
  virtual void announce(const std::string& agent, const std::string& device_class, const std::string& facts) = 0;
  /// Leases at most `most` jobs of the agent's class.
  virtual std::vector<Job> claim(const std::string& agent, int most) = 0;
  std::vector<Job> claim(const std::string& agent) { return claim(agent, 1); }
  /// Prolongs the agent's leases; due every third of a lease. `state`: a JSON object, shown to users.
  virtual Beat beat(const std::string& agent, const std::string& state) = 0;
  Beat beat(const std::string& agent) { return beat(agent, "{}"); }
  /// Ends a job with its results. May be repeated: the first delivery counts. `device`: the machine that measured.
  virtual Delivery deliver(const std::string& agent, int64_t job, const std::string& device,
                           std::span<const Result> results) = 0;
  /// Reports that the job as a whole failed. It is tried again, at most three times. Returns false if the agent no
  /// longer had it.
  virtual bool fail(const std::string& agent, int64_t job, const std::string& reason) = 0;
  /// Gives back a job that was not begun; the attempt does not count.
  virtual bool give_back(const std::string& agent, int64_t job) = 0;
  /// Returns the bytes of a blob. Throws bad_input if there is none.
  virtual std::string blob(const std::string& hash) = 0;
  /// Returns the offer of a kilter-agent program for this architecture (for unpack_offer()), or an empty text.
  virtual std::string program(const std::string& architecture) = 0;
  /// Waits until jobs may be available, or for `seconds`. Only a hint.
  virtual void wait_for_jobs(double seconds) = 0;
};

/// Connects to an agent's source of jobs.
using Connect = std::function<std::unique_ptr<JobSource>()>;

}  // namespace kilter::fleet
