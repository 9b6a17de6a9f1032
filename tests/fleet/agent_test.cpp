// What an agent does when its connection is lost or the server's disk is full: it delivers its result later.
#include "fleet/agent/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "base/connection_error.h"
#include "fleet/agent/trial_job.h"
#include "idle_source.h"

namespace kilter::fleet {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

/// What all connections of an agent share.
struct Server {
  std::mutex lock;
  std::vector<std::string> calls;  ///< without heartbeats
  int jobs = 1;                    ///< that are left
  int full = 0;                    ///< deliveries that are refused from now on, because the disk is full
  bool purged = false;             ///< the job of the next delivery is no longer known
  std::atomic<bool> stop = false;  ///< the agent ends
};

class Connection : public IdleSource {
 public:
  explicit Connection(Server& server) : server_(server) {}
  void announce(const std::string&, const std::string&, const std::string&) override { note("announce"); }
  std::vector<Job> claim(const std::string&, int) override {
    note("claim");
    if (server_.jobs == 0) {
      server_.stop = true;
      return {};
    }
    return {{.id = server_.jobs--, .kind = kTrialKind, .run = "run", .candidates = 1, .attempt = 1, .payload = "x"}};
  }
  Delivery deliver(const std::string&, int64_t job, const std::string&, std::span<const Result>) override {
    note(fmt::format("deliver {}", job));
    if (server_.full > 0 && server_.full-- > 0) throw ConnectionError(ErrorKind::io, "no space left to write");
    if (server_.purged) kilter::fail(ErrorKind::usage, "job {} does not exist", job);
    return Delivery::stored;
  }
  bool fail(const std::string&, int64_t, const std::string&) override { return note("fail"); }
  bool give_back(const std::string&, int64_t) override { return note("give back"); }

 private:
  bool note(const std::string& call) {
    const std::lock_guard hold(server_.lock);
    server_.calls.push_back(call);
    return true;
  }

  Server& server_;
};

/// Runs an agent that trusts nobody, so that it returns an error for each job, until there are no more jobs.
std::vector<std::string> run(Server& server) {
  std::vector<std::string> said;
  AgentOptions options;
  options.connect = [&] { return std::make_unique<Connection>(server); };
  options.name = "a", options.device_class = "class";
  options.tell = [&](const std::string& line) { said.push_back(line); };
  (void)run_agent(options, server.stop);
  return said;
}

TEST(Agent, AnswerIsRetriedUntilTheServerHasSpace) {
  Server server;
  server.full = 2;
  EXPECT_THAT(run(server), Contains("no space left to write; trying again in 1 s"));
  EXPECT_THAT(server.calls,
              ElementsAre("announce", "claim", "deliver 1", "deliver 1", "deliver 1", "announce", "claim"))
      << "before it is announced again, which would free the job";
}

TEST(Agent, AnswerToDeletedJobIsDropped) {
  Server server;
  server.purged = true, server.jobs = 2;
  EXPECT_THAT(run(server), Contains("the answer to job 2 was not accepted: job 2 does not exist"));
  EXPECT_THAT(server.calls, ElementsAre("announce", "claim", "deliver 2", "claim", "deliver 1", "claim"));
}

}  // namespace
}  // namespace kilter::fleet
