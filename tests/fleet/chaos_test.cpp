// The queue of a fleet while agents, the broker and the database are killed, and connections are cut: no acknowledged
// result is lost, none is double, and leases come back. Half of the agents reach the broker over a bad network.
// KILTER_CHAOS_SECONDS sets how long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "../base/scratch_folder.h"
#include "../fleet/bad_network.h"
#include "base/error.h"
#include "base/text.h"
#include "fleet/broker/broker.h"
#include "fleet/broker_client/broker_client.h"
#include "fleet/queue.h"
#include "support/databases.h"

namespace kilter::fleet {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLease = 2;
constexpr int kAgents = 6, kResults = 3;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }
void pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// What an agent computes from a payload.
std::string answer_to(const std::string& payload, int item) { return fmt::format("{} of {}", item, payload); }

/// Repeats work until the server answers.
template <class Work>
auto patiently(Work work) {
  for (;;) {
    try {
      return work();
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::io) throw;
      pause(0.1);
    }
  }
}

[[noreturn]] void be_broker(const std::string& url, const std::string& tokens, int port) {
  try {
    const Broker broker({.url = url, .tokens = tokens, .server = {.listen = {"127.0.0.1", port}}});
    for (;;) pause(1);
  } catch (const Error&) {  // the database is away
    _exit(1);
  }
}

/// An agent process. Writes the number of each job whose delivery was acknowledged to a file. Now and then it delivers
/// twice, late, or fails a job.
[[noreturn]] void be_agent(const Connect& connect, const std::string& name, const std::string& file, uint32_t seed) {
  std::mt19937 random(seed);
  const auto one_in = [&](uint32_t n) { return random() % n == 0; };
  std::ofstream acknowledged(file, std::ios::app);
  patiently([&] {
    const std::unique_ptr<JobSource> connected = connect();
    JobSource& queue = *connected;
    queue.announce(name, "class", "{}");
    for (;;) {
      const std::vector<Job> jobs = queue.claim(name, 2);
      if (jobs.empty()) queue.wait_for_jobs(0.3);
      for (const Job& job : jobs) {
        pause(one_in(50) ? 1.5 * kLease : 0.005);
        if (one_in(40)) {
          queue.fail(name, job.id, "chaos");
          continue;
        }
        std::vector<Result> results;
        for (int i = 0; i < kResults; ++i)
          results.push_back({job.payload, std::to_string(i), "chaos", "code", answer_to(job.payload, i)});
        for (int times = one_in(5) ? 2 : 1; times > 0; --times) {
          const Delivery answer = patiently([&] { return queue.deliver(name, job.id, "a machine", results); });
          if (answer == Delivery::stored) acknowledged << job.id << std::endl;  // flushes
        }
      }
      (void)queue.beat(name);
    }
  });
  _exit(0);
}

class Chaos : public ::testing::Test {
 protected:
  ~Chaos() override {
    for (int a = 0; a < kAgents; ++a) stop_agent(a);
    stop(broker_), stop(network_);
  }
  void SetUp() override {
    access_.token_file = folder_.path() / "token";
    std::ofstream(access_.token_file) << Tokens::add(tokens_, TokenUse::agent, "*") << "\n";
    close(listen_on(port_));
    int network_port = 0;
    const int listening = listen_on(network_port);
    const auto seed = static_cast<uint32_t>(random_());
    network_ = fork();
    if (network_ == 0) be_bad_network(listening, port_, seed);
    close(listening);
    access_.url = fmt::format("http://127.0.0.1:{}", network_port);
  }
  void start_broker() {
    stop(broker_);
    broker_ = fork();
    if (broker_ == 0) be_broker(url_, tokens_, port_);
  }
  void start_broker_if_gone() {
    if (waitpid(broker_, nullptr, WNOHANG) == broker_) broker_ = 0, start_broker();
  }
  static void stop(pid_t& process) {
    if (process > 0) kill(process, SIGKILL), waitpid(process, nullptr, 0);
    process = 0;
  }
  void start_agent(int a) {
    const std::string file = folder_.path() / fmt::format("agent{}", a);
    const auto seed = static_cast<uint32_t>(random_());
    const pid_t pid = fork();
    const Connect direct = [this] { return std::make_unique<Queue>(url_, QueueOptions{.lease_seconds = kLease}); };
    const Connect brokered = [this] { return std::make_unique<BrokerClient>(access_); };
    if (pid == 0) be_agent(a % 2 == 0 ? direct : brokered, fmt::format("agent{}", a), file, seed);
    agents_[a] = pid;
  }
  void stop_agent(int a) {
    if (!agents_.contains(a)) return;
    kill(agents_[a], SIGKILL);
    waitpid(agents_[a], nullptr, 0);
    agents_.erase(a);
  }
  void cut() {
    run_on_server(url_,
                  "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "
                  "application_name = 'kilter' AND random() < 0.5");
  }
  std::set<int64_t> acknowledged() {
    std::set<int64_t> all;
    for (int a = 0; a < kAgents; ++a) {
      std::ifstream in(folder_.path() / fmt::format("agent{}", a));
      for (int64_t id = 0; in >> id;) EXPECT_TRUE(all.insert(id).second) << "job " << id << " was stored twice";
    }
    return all;
  }
  /// Returns for how many seconds the oldest lease has been over.
  double longest_over() {
    const postgres::Rows rows = run_on_server(url_,
                                              "SELECT extract(epoch FROM max(clock_timestamp() - lease_until)) FROM "
                                              "kilter.queue WHERE lease_owner IS NOT NULL");
    return try_parse_float(rows.text(0, 0).value_or("0")).value_or(0);
  }

  PostgresCluster cluster_{{"synchronous_commit=off", "wal_writer_delay=10000", "max_connections=100"}};
  const std::string url_ = cluster_.url("postgres");
  ScratchFolder folder_;
  std::mt19937 random_{7};
  std::map<int, pid_t> agents_;
  const std::string tokens_ = folder_.path() / "tokens";
  BrokerAccess access_{.url = "", .token_file = "", .ca_file = "", .lease_seconds = kLease, .patience = 1};
  int port_ = 0;
  pid_t broker_ = 0, network_ = 0;
};

TEST_F(Chaos, NoAcknowledgedResultIsLostOrDouble) {
  const char* const given = std::getenv("KILTER_CHAOS_SECONDS");
  const double seconds = given != nullptr ? try_parse_float(given).value_or(20) : 20;
  Queue queue(url_, {.lease_seconds = kLease});
  std::map<int64_t, std::string> jobs;  // payloads of those whose submission was acknowledged
  start_broker();
  for (int a = 0; a < kAgents; ++a) start_agent(a);
  double over = 0;
  int crashes = 0, cuts = 0, kills = 0, brokers = 0;
  const auto start = Clock::now();
  for (int turn = 0; seconds_since(start) < seconds; ++turn) {
    patiently([&] {
      std::vector<NewJob> some;
      for (int i = 0; i < 10; ++i)
        some.push_back(
            {.run = "chaos", .kind = "test", .device_class = "class", .payload = fmt::format("{}.{}", turn, i)});
      const std::vector<int64_t> ids = queue.submit(some, fmt::format("chaos-{}", turn));
      for (size_t i = 0; i < ids.size(); ++i) jobs[ids[i]] = some[i].payload;
    });
    if (turn % 4 == 1) {
      const int a = static_cast<int>(random_() % kAgents);
      stop_agent(a), start_agent(a);
      ++kills;
    }
    start_broker_if_gone();
    if (turn % 10 == 5) start_broker(), ++brokers;
    if (turn % 7 == 3) patiently([&] { cut(); }), ++cuts;
    if (turn % 25 == 12) cluster_.crash(), cluster_.start(), ++crashes;
    over = std::max(over, patiently([&] { return longest_over(); }));
    pause(0.2);
  }
  const auto end = Clock::now();
  while (patiently([&] { return !queue.jobs().empty() && queue.jobs().front().state != "set aside"; })) {
    ASSERT_LT(seconds_since(end), 120) << "jobs are left";
    start_broker_if_gone();
    pause(0.2);
  }
  for (int a = 0; a < kAgents; ++a) stop_agent(a);

  std::vector<int64_t> ids;
  for (const auto& [id, payload] : jobs) ids.push_back(id);
  const std::vector<Ending> endings = queue.endings(ids);
  ASSERT_EQ(endings.size(), jobs.size()) << "some jobs are lost";
  const std::set<int64_t> stored = acknowledged();
  int64_t done = 0, done_by_broker = 0;
  for (const Ending& ending : endings) {
    if (ending.how == Delivery::set_aside) {
      EXPECT_FALSE(stored.contains(ending.job)) << "an acknowledged result is lost";
      EXPECT_THAT(ending.reason, ::testing::StartsWith("3 attempts failed: "));
      continue;
    }
    ++done;
    if ((ending.agent.back() - '0') % 2 == 1) ++done_by_broker;
    ASSERT_EQ(ending.how, Delivery::stored);
    ASSERT_EQ(ending.bodies.size(), kResults);
    for (int i = 0; i < kResults; ++i)
      EXPECT_EQ(ending.bodies[static_cast<size_t>(i)], answer_to(jobs.at(ending.job), i));
  }
  EXPECT_EQ(run_on_server(url_, "SELECT count(*) FROM kilter.results").number(0, 0), done * kResults)
      << "some are double";
  EXPECT_EQ(queue.jobs(std::nullopt, 1 << 20).size(), jobs.size() - static_cast<size_t>(done))
      << "jobs nobody submitted";
  EXPECT_LT(over, kLease) << "a lease came back later than two lease times after it began";
  EXPECT_GT(done, 0);
  EXPECT_GT(done_by_broker, 0);
  fmt::print(
      "{} jobs, {} done, {} of them through the broker, {} set aside; {} agents killed, the broker {} times, {} "
      "crashes "
      "of the server, {} times half of the connections cut; "
      "leases were over for at most {:.2f} s\n",
      jobs.size(), done, done_by_broker, std::ssize(endings) - done, kills, brokers, crashes, cuts, over);
}

}  // namespace
}  // namespace kilter::fleet
