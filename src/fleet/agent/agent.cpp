#include "fleet/agent/agent.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/connection_error.h"
#include "base/error.h"
#include "fleet/agent/health.h"
#include "fleet/agent/trial_host.h"
#include "fleet/agent/trial_job.h"

namespace kilter::fleet {
namespace {

constexpr double kPoll = 2;             ///< seconds between checks for jobs if no notification arrives
constexpr double kMostPause = 30;       ///< seconds between attempts to reach a server
constexpr double kLookForProgram = 60;  ///< seconds between checks for a newer program
constexpr int kMostDeliveries = 10;     ///< attempts to deliver an answer; the server may refuse its contents

/// Sends heartbeats in a thread of its own, over a connection of its own, so that leases do not expire while a job
/// runs.
class Heart {
 public:
  Heart(const AgentOptions& options, const Health& health)
      : options_(options), health_(health), thread_([this] { beat(); }) {}
  ~Heart() {
    {
      const std::lock_guard hold(lock_);
      end_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Heart(const Heart&) = delete;
  Heart& operator=(const Heart&) = delete;

  bool draining() const { return draining_; }

 private:
  void beat() {
    std::unique_ptr<JobSource> source;
    std::unique_lock hold(lock_);
    while (!end_) {
      hold.unlock();
      try {
        if (!source) source = options_.connect();
        if (source->beat(options_.name, health_.text()).draining) draining_ = true;
      } catch (const Error&) {  // the main thread reports what is wrong
        source.reset();
      }
      hold.lock();
      changed_.wait_for(hold, std::chrono::duration<double>(options_.lease_seconds / 3), [this] { return end_; });
    }
  }

  const AgentOptions& options_;
  const Health& health_;
  std::atomic<bool> draining_ = false;
  std::mutex lock_;
  std::condition_variable changed_;
  bool end_ = false;
  std::thread thread_;
};

class Agent {
 public:
  Agent(const AgentOptions& options, const std::atomic<bool>& stop) : options_(options), stop_(stop) {}

  AgentEnd run() {
    double pause = 0.5;
    while (!stop_) {
      try {
        serve(pause);
        return end_;
      } catch (const Error& e) {
        if (e.kind() != ErrorKind::io) throw;
        tell(fmt::format("{}; trying again in {:g} s", e.message(), pause));
      }
      wait(pause);
      pause = std::min(2 * pause, kMostPause);
    }
    return end_;
  }

 private:
  void serve(double& pause) {
    const std::unique_ptr<JobSource> connection = options_.connect();
    JobSource& source = *connection;
    deliver_answer(source);  // first, since an agent that is announced again has lost its jobs
    source.announce(options_.name, options_.device_class, options_.facts);
    tell(fmt::format("agent {} waits for jobs of the device class {}", options_.name, options_.device_class));
    pause = 0.5;
    Health health;
    health.measure();
    const Heart heart(options_, health);
    TrialHost host(source, options_.worker);
    look_for_program(source, 0);
    while (!stop_ && !heart.draining() && !end_.replaced) {
      health.measure();
      // The agent runs no job now, so any job that it still holds was claimed by a call whose response was lost.
      const Beat beat = source.beat(options_.name, health.text());
      for (const int64_t id : beat.held) (void)source.give_back(options_.name, id);
      if (beat.draining) return;
      const std::vector<Job> jobs = source.claim(options_.name);
      for (const Job& job : jobs) do_job(source, host, job);
      if (jobs.empty()) source.wait_for_jobs(kPoll);
      look_for_program(source, kLookForProgram);
    }
  }

  /// Installs a newer program if the fleet offers one and the last check was at least `seconds` ago.
  void look_for_program(JobSource& source, double seconds) {
    const auto now = std::chrono::steady_clock::now();
    if (options_.upgrades == nullptr || end_.replaced || now - looked_ < std::chrono::duration<double>(seconds)) return;
    looked_ = now;
    end_.replaced = options_.upgrades->take(source) && !source.beat(options_.name).draining;
  }

  void do_job(JobSource& source, TrialHost& host, const Job& job) {
    TrialAnswer answer;
    try {
      if (job.kind != kTrialKind)
        fail(ErrorKind::unsupported, "this agent does not know jobs of the kind '{}': install a newer one", job.kind);
      answer = answer_to(host, job);
    } catch (const ConnectionError&) {
      throw;
    } catch (const std::exception& e) {
      look_for_program(source, 0);  // perhaps the job needs a newer one
      if (end_.replaced) {
        (void)source.give_back(options_.name, job.id);
        return;
      }
      (void)source.fail(options_.name, job.id, e.what());
      tell(fmt::format("job {} failed: {}", job.id, e.what()));
      return;
    }
    answer_ = {job.id, {job.run, std::to_string(job.id), "trial", std::to_string(kTrialProtocol), pack(answer)}, 0};
    deliver_answer(source);
  }

  /// Delivers the pending answer, if there is one. It is kept while the server cannot be reached or has no room,
  /// because the first delivery counts even if the lease has ended.
  void deliver_answer(JobSource& source) {
    if (!answer_) return;
    if (answer_->attempts++ < kMostDeliveries) {
      try {
        (void)source.deliver(options_.name, answer_->job, options_.device, {&answer_->result, 1});
        ++end_.done;
      } catch (const ConnectionError&) {
        throw;
      } catch (const Error& e) {
        tell(fmt::format("the answer to job {} was not accepted: {}", answer_->job, e.message()));
      }
    }
    answer_.reset();
  }

  /// A job that must not be run is answered, not failed: another attempt would be refused as well.
  TrialAnswer answer_to(TrialHost& host, const Job& job) const {
    std::string_view payload;
    try {
      payload = options_.trust.unwrap(job.payload, {job.run, job.kind, options_.device_class});
    } catch (const Error& e) {
      tell(fmt::format("job {} is refused: {}", job.id, e.message()));
      TrialAnswer answer;
      answer.error = e.message(), answer.kind = e.kind();
      return answer;
    }
    return host.run(unpack_job(payload));
  }

  void tell(const std::string& line) const {
    if (options_.tell) options_.tell(line);
  }

  void wait(double seconds) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!stop_ && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }

  struct Answer {
    int64_t job = 0;
    Result result;
    int attempts = 0;
  };

  const AgentOptions& options_;
  const std::atomic<bool>& stop_;
  std::optional<Answer> answer_;  ///< not delivered yet
  AgentEnd end_;
  std::chrono::steady_clock::time_point looked_;  ///< time of the last check for a program
};

}  // namespace

AgentEnd run_agent(const AgentOptions& options, const std::atomic<bool>& stop) { return Agent(options, stop).run(); }

}  // namespace kilter::fleet
