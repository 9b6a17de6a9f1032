// Load for the queue of a fleet: agents that claim, extend and deliver jobs while submitters add them. Prints rates,
// latencies and dead rows. The agents of each thread share a connection to the database or, if a broker is given, each
// agent has its own connection to the broker.
//
//   queue_load URL AGENTS THREADS SECONDS [BROKER TOKEN_FILE CA_FILE]
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <mutex>
#include <queue>
#include <random>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "fleet/broker_client/broker_client.h"
#include "fleet/queue.h"
#include "measure/stats.h"

namespace kilter::fleet {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr double kMeasures = 4;  ///< seconds that a job takes on average
constexpr int kPayload = 20000, kResults = 32, kBody = 200;

struct Latencies {
  std::vector<double> claim, beat, deliver;  ///< milliseconds
  int64_t empty = 0;                         ///< claims without a job
  double late_ms = 0;                        ///< the largest delay of an action
};

/// The agents of one thread.
class Agents {
 public:
  Agents(const std::string& url, const BrokerAccess& broker, int number, int agents) : random_(number) {
    std::shared_ptr<JobSource> source;
    for (int i = 0; i < agents; ++i) {
      const std::string name = fmt::format("agent-{}-{}", number, i);
      if (!broker.url.empty()) source = std::make_shared<BrokerClient>(broker);
      if (!source) source = std::make_shared<Queue>(url, QueueOptions{.lease_seconds = 30});
      source->announce(name, fmt::format("class{}", i % 4), R"({"device": "simulated"})");
      agents_.push_back({name, source, {}});
      at(in(kMeasures * share_(random_)), [this, i] { claim(i); });
      at(in(10 * share_(random_)), [this, i] { beat(i); });
    }
  }

  void run(Clock::time_point end) {
    while (!actions_.empty() && actions_.top().when < end) {
      const Action next = actions_.top();
      actions_.pop();
      std::this_thread::sleep_until(next.when);
      seen_.late_ms = std::max(seen_.late_ms, Seconds(Clock::now() - next.when).count() * 1e3);
      next.work();
    }
  }
  const Latencies& seen() const { return seen_; }

 private:
  struct Agent {
    std::string name;
    std::shared_ptr<JobSource> source;
    std::optional<Job> job;
  };
  struct Action {
    Clock::time_point when;
    std::function<void()> work;
    bool operator<(const Action& other) const { return when > other.when; }
  };

  static Clock::time_point in(double seconds) {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(seconds));
  }
  void at(Clock::time_point when, std::function<void()> work) { actions_.push({when, std::move(work)}); }

  template <class Work>
  static auto timed(std::vector<double>& into, Work work) {
    const auto start = Clock::now();
    auto result = work();
    into.push_back(Seconds(Clock::now() - start).count() * 1e3);
    return result;
  }

  void claim(int i) {
    Agent& agent = agents_[static_cast<size_t>(i)];
    std::vector<Job> jobs = timed(seen_.claim, [&] { return agent.source->claim(agent.name); });
    if (jobs.empty()) {
      ++seen_.empty;
      at(in(1 + share_(random_)), [this, i] { claim(i); });
      return;
    }
    agent.job = std::move(jobs.front());
    at(in(kMeasures * (0.5 + share_(random_))), [this, i] { deliver(i); });
  }

  void deliver(int i) {
    Agent& agent = agents_[static_cast<size_t>(i)];
    std::vector<Result> results;
    for (int r = 0; r < kResults; ++r)
      results.push_back({"a problem", fmt::format("schedule {} of {}", r, agent.job->id), "threads=1", "code",
                         std::string(kBody, 'b')});
    (void)timed(seen_.deliver, [&] { return agent.source->deliver(agent.name, agent.job->id, "simulated", results); });
    agent.job.reset();
    claim(i);
  }

  void beat(int i) {
    Agent& agent = agents_[static_cast<size_t>(i)];
    (void)timed(seen_.beat, [&] { return agent.source->beat(agent.name).held.size(); });
    at(in(10), [this, i] { beat(i); });
  }

  std::mt19937 random_;
  std::uniform_real_distribution<double> share_{0, 1};
  std::vector<Agent> agents_;
  std::priority_queue<Action> actions_;
  Latencies seen_;
};

/// Keeps jobs waiting for all classes until `end`.
void submit(const std::string& url, Clock::time_point end, std::atomic<int64_t>& submitted) {
  Queue queue(url);
  postgres::Server server(url);
  while (Clock::now() < end) {
    const int64_t waiting = server.run("SELECT count(*) FROM kilter.queue WHERE lease_owner IS NULL").number(0, 0);
    std::vector<NewJob> jobs;
    for (int64_t i = waiting; i < 2000 && jobs.size() < 200; ++i) {
      jobs.push_back({.run = "load",
                      .kind = "simulated",
                      .device_class = fmt::format("class{}", i % 4),
                      .candidates = kResults,
                      .payload = std::string(kPayload, 'p')});
    }
    if (!jobs.empty()) queue.submit(jobs);
    submitted += std::ssize(jobs);
    if (jobs.size() < 200) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

/// Returns the most dead rows that the queue had, and the most bytes with its indices.
std::pair<int64_t, int64_t> watch(const std::string& url, Clock::time_point end) {
  postgres::Server server(url);
  int64_t dead = 0, bytes = 0;
  for (; Clock::now() < end; std::this_thread::sleep_for(std::chrono::seconds(1))) {
    const postgres::Rows rows = server.run(
        "SELECT n_dead_tup, pg_total_relation_size(relid) FROM pg_stat_user_tables WHERE schemaname = 'kilter' AND "
        "relname = "
        "'queue'");
    dead = std::max(dead, rows.number(0, 0)), bytes = std::max(bytes, rows.number(0, 1));
  }
  return {dead, bytes};
}

std::string summary(const std::vector<double>& ms) {
  if (ms.empty()) return "none";
  return fmt::format("{}, median {:.2f}, p99 {:.2f}, most {:.1f} ms", ms.size(), quantile(ms, 0.5), quantile(ms, 0.99),
                     quantile(ms, 1));
}

void run(const std::string& url, int agents, int groups, double seconds, const BrokerAccess& broker) {
  std::vector<std::unique_ptr<Agents>> all_agents;
  for (int g = 0; g < groups; ++g) all_agents.push_back(std::make_unique<Agents>(url, broker, g, agents / groups));
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(seconds));
  std::atomic<int64_t> submitted = 0;
  std::pair<int64_t, int64_t> most;
  std::vector<std::thread> threads;
  threads.emplace_back([&] { submit(url, end, submitted); });
  threads.emplace_back([&] { most = watch(url, end); });
  for (const auto& group : all_agents) threads.emplace_back([&] { group->run(end); });
  for (std::thread& thread : threads) thread.join();
  Latencies all;
  for (const auto& group : all_agents) {
    const Latencies& seen = group->seen();
    all.claim.insert(all.claim.end(), seen.claim.begin(), seen.claim.end());
    all.beat.insert(all.beat.end(), seen.beat.begin(), seen.beat.end());
    all.deliver.insert(all.deliver.end(), seen.deliver.begin(), seen.deliver.end());
    all.empty += seen.empty, all.late_ms = std::max(all.late_ms, seen.late_ms);
  }
  fmt::print("{} agents of {} threads for {:g} s: {:.0f} claims, {:.0f} deliveries a second; {} jobs submitted\n",
             agents, groups, seconds, static_cast<double>(all.claim.size()) / seconds,
             static_cast<double>(all.deliver.size()) / seconds, submitted.load());
  fmt::print("claim:    {} ({} found no job)\ndeliver:  {} of {} results each\nbeat:     {}\n", summary(all.claim),
             all.empty, summary(all.deliver), kResults, summary(all.beat));
  fmt::print("an action came at most {:.0f} ms late; the queue had at most {} dead rows and {:.1f} MB\n", all.late_ms,
             most.first, static_cast<double>(most.second) / 1e6);
}

}  // namespace
}  // namespace kilter::fleet

int main(int argc, char** argv) {
  using namespace kilter;
  std::vector<int64_t> numbers;
  for (int i = 2; i < std::min(argc, 5); ++i) numbers.push_back(try_parse_int(argv[i]).value_or(0));
  if ((argc != 5 && argc != 8) || std::ranges::any_of(numbers, [](int64_t n) { return n < 1; })) {
    std::fputs("usage: queue_load URL AGENTS THREADS SECONDS [BROKER TOKEN_FILE CA_FILE]\n", stderr);
    return 2;
  }
  try {
    fleet::BrokerAccess broker;
    if (argc == 8) broker.url = argv[5], broker.token_file = argv[6], broker.ca_file = argv[7];
    fleet::run(argv[1], static_cast<int>(numbers[0]), static_cast<int>(numbers[1]), static_cast<double>(numbers[2]),
               broker);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "queue_load: %s\n", e.what());
    return 1;
  }
}
