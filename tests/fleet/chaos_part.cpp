// A process that the chaos test starts and kills: a broker, an agent, a submitter, or an agent that delivers wrong
// results.
//
//   chaos_part broker URL TOKENS PORT
//   chaos_part agent|slow_agent NAME NOTES SEED direct URL
//   chaos_part agent|slow_agent NAME NOTES SEED broker URL TOKEN_FILE
//   chaos_part submitter NAME NOTES SEED URL
//   chaos_part liar NAME NOTES SEED URL
#include <signal.h>
#include <sys/prctl.h>

#include <ctime>
#include <map>
#include <random>

#include "base/text.h"
#include "chaos_parts.h"
#include "fleet/broker/broker.h"
#include "fleet/broker_client/broker_client.h"

namespace kilter::fleet {
namespace {

/// The role of a process, from its command line.
struct Part {
  std::string name;
  Notes notes;
  std::mt19937 random;
  bool one_in(uint32_t n) { return random() % n == 0; }
};

[[noreturn]] void be_broker(const std::string& url, const std::string& tokens, const std::string& port) {
  const auto number = static_cast<int>(parse_int(port, "port"));
  const Broker broker({.url = url, .tokens = tokens, .server = {.listen = {"127.0.0.1", number}}});
  for (;;) pause(1);
}

/// An agent that does jobs in any order, and delivers twice, late, long after, or not at all.
class ChaosAgent {
 public:
  ChaosAgent(Part& self, Connect connect, bool slow) : self_(self), connect_(std::move(connect)), slow_(slow) {}

  [[noreturn]] void run() {
    for (;;) patiently(&self_.notes, [&] { serve(); });
  }

 private:
  void serve() {
    const std::unique_ptr<JobSource> connected = connect_();
    connected->announce(self_.name, "class", "{}");
    for (;;) {
      // It is not doing a job now, so if it has one, the response to its claim was lost with the connection.
      for (const int64_t id : connected->beat(self_.name).held) {
        (void)connected->give_back(self_.name, id);
        self_.notes.write("given_back");
      }
      std::vector<Job> jobs = connected->claim(self_.name, 2);
      if (jobs.empty()) connected->wait_for_jobs(0.3);
      if (jobs.size() == 2 && self_.one_in(2)) {
        std::swap(jobs[0], jobs[1]);
        self_.notes.write("reordered");
      }
      for (const Job& job : jobs) do_job(*connected, job);
    }
  }

  void do_job(JobSource& queue, const Job& job) {
    const bool hangs = slow_ && self_.one_in(3);
    pause(hangs ? (self_.one_in(2) ? 1.25 : 2.5) * kLease : 0.02);
    if (!slow_ && self_.one_in(40)) {
      queue.fail(self_.name, job.id, "chaos");
      self_.notes.write("failed");
      return;
    }
    deliver(queue, job, hangs);
    if (self_.one_in(5)) deliver(queue, job, false);
    if (!done_.empty() && self_.one_in(10)) again(queue);
    done_.push_back(job);
  }

  void deliver(JobSource& queue, const Job& job, bool late) {
    const std::vector<Result> results = results_of(job.payload);
    const auto answer =
        patiently(&self_.notes, [&] { return queue.deliver(self_.name, job.id, "a machine", results); });
    if (answer == Delivery::stored) self_.notes.write("stored {}", job.id);
    if (answer == Delivery::duplicate && !late) self_.notes.write("duplicate");
    if (late && answer == Delivery::duplicate) self_.notes.write("late_second");
    if (late && answer == Delivery::stored) self_.notes.write("late_first");
  }

  /// Delivers an old job once more.
  void again(JobSource& queue) {
    deliver(queue, done_[self_.random() % done_.size()], false);
    self_.notes.write("again");
  }

  Part& self_;
  Connect connect_;
  bool slow_;  ///< its leases often expire while it does jobs
  std::vector<Job> done_;
};

/// Submits batch after batch. A batch that it had begun when it was killed is submitted again, with the same token.
[[noreturn]] void be_submitter(Part& self, const std::string& notes, const std::string& url) {
  int64_t next = 0;
  bool begun = false;
  std::ifstream earlier(notes);
  for (std::string line; std::getline(earlier, line);) {
    const std::vector<std::string_view> words = split(line, ' ');
    if (words[0] == "begin") next = parse_int(words[1], "a note"), begun = true;
    if (words[0] == "ids") ++next, begun = false;
  }
  if (begun) self.notes.write("repeat {}", next);
  patiently(&self.notes, [&] {
    Queue queue(url, {.lease_seconds = kLease});
    for (;; ++next, begun = false) {
      const std::string token = token_of(self.name, next);
      if (!begun) self.notes.write("begin {}", next);
      begun = true;
      const std::vector<NewJob> batch = batch_of(token);
      const std::vector<int64_t> ids = patiently(&self.notes, [&] { return queue.submit(batch, token); });
      self.notes.write("ids {} {}", next, fmt::join(ids, " "));
      pause(0.3 * static_cast<double>(self.random() % 1000) / 1000);
    }
  });
  std::exit(0);
}

/// An agent of another class that delivers wrong results for all jobs that it can guess, and poses as agents that do
/// not exist.
[[noreturn]] void be_liar(Part& self, const std::string& url) {
  patiently(nullptr, [&] {
    Queue queue(url, {.lease_seconds = kLease});
    queue.announce(self.name, "other class", "{}");
    const auto refused = [&](const char* what, const auto& work) {
      try {
        if (work()) self.notes.write("believed {}", what);
      } catch (const Error& e) {
        if (e.kind() != ErrorKind::usage) throw;
        self.notes.write("refused");
      }
    };
    for (;; pause(0.1)) {
      const std::vector<QueueJob> jobs = queue.jobs();
      const Result wrong{"problem", "schedule", "chaos", "code", "a wrong value"};
      const auto deliver = [&](int64_t id) {
        return queue.deliver(self.name, id, "a machine", {&wrong, 1}) == Delivery::stored;
      };
      if (!jobs.empty())
        refused("a result of a job of another class", [&] { return deliver(jobs[self.random() % jobs.size()].id); });
      refused("a result of a job that does not exist", [&] { return deliver(int64_t{1} << 40); });
      refused("a claim of an agent that is not known", [&] { return !queue.claim("nobody", 10).empty(); });
      (void)queue.beat(self.name);
    }
  });
  std::exit(0);
}

int be(const std::vector<std::string>& words) {
  const std::string& role = words.at(1);
  if (role == "broker") be_broker(words.at(2), words.at(3), words.at(4));
  Part self{words.at(2), Notes(words.at(3)), std::mt19937(static_cast<uint32_t>(parse_int(words.at(4), "seed")))};
  self.notes.write("clock {}", std::time(nullptr));
  if (role == "submitter") be_submitter(self, words.at(3), words.at(5));
  if (role == "liar") be_liar(self, words.at(5));
  const std::string& url = words.at(6);
  if (words.at(5) == "direct")
    ChaosAgent(
        self, [&] { return std::make_unique<Queue>(url, QueueOptions{.lease_seconds = kLease}); }, role == "slow_agent")
        .run();
  const BrokerAccess access{
      .url = url, .token_file = words.at(7), .ca_file = "", .lease_seconds = kLease, .patience = 1};
  ChaosAgent(self, [&] { return std::make_unique<BrokerClient>(access); }, role == "slow_agent").run();
}

}  // namespace
}  // namespace kilter::fleet

int main(int count, char** words) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // the test itself may be killed
  try {
    return kilter::fleet::be({words, words + count});
  } catch (const std::exception& e) {
    const auto* const error = dynamic_cast<const kilter::Error*>(&e);
    if (error != nullptr && error->kind() == kilter::ErrorKind::io) return 1;  // a broker whose database is unavailable
    fmt::print(stderr, "chaos_part {} {}: {}\n", count > 1 ? words[1] : "", count > 2 ? words[2] : "", e.what());
    return 2;
  }
}
