// The queue of a fleet: order and shares, leases, failures, repeated and late deliveries, rights, crashes.
#include "fleet/queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>

#include "../base/error_of.h"
#include "base/files.h"
#include "base/text.h"
#include "fleet/agent/trial_job.h"
#include "support/databases.h"

namespace kilter::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

NewJob job_of(std::string payload, std::string run = "run") {
  return {.run = std::move(run), .kind = "test", .device_class = "class", .payload = std::move(payload)};
}

Result result_of(std::string schedule, std::string body = "body") {
  return {"problem", std::move(schedule), "threads=1", "code", std::move(body)};
}

std::vector<std::string> payloads(const std::vector<Job>& jobs) {
  std::vector<std::string> out;
  for (const Job& job : jobs) out.push_back(job.payload);
  return out;
}

class QueueTest : public ::testing::Test {
 protected:
  std::string url(const std::string& user = "postgres") const { return server().url(database_, user); }
  void sql(const std::string& statement) const { run_on_server(url(), statement); }
  int64_t count(const std::string& what) const {
    return run_on_server(url(), "SELECT count(*) FROM " + what).number(0, 0);
  }
  /// Lets the lease of a job expire now.
  void expire(int64_t job) const {
    sql(fmt::format("UPDATE kilter.queue SET lease_until = clock_timestamp() - interval '1 s' WHERE job = {}", job));
  }
  /// Makes jobs whose attempts failed claimable without a pause.
  void skip_pause() const { sql("UPDATE kilter.queue SET ready = '-infinity'"); }
  /// Simulates moving the server's clock: all times in its tables move in the opposite direction.
  void move_clock(const std::string& by) const {
    sql("UPDATE kilter.queue SET lease_until = lease_until - interval '" + by +
        "', lease_from = lease_from - interval '" + by + "', ready = ready - interval '" + by + "'");
    sql("UPDATE kilter.agents SET seen = seen - interval '" + by + "', started = started - interval '" + by + "'");
    sql("UPDATE kilter.jobs SET submitted = submitted - interval '" + by + "'");
  }
  /// Returns the remaining seconds of the lease of the only job.
  double lease_left() const {
    const std::string left = "SELECT extract(epoch FROM lease_until - clock_timestamp()) FROM kilter.queue";
    return try_parse_float(run_on_server(url(), left).text(0, 0).value_or("")).value_or(0);
  }
  void announce(const std::string& agent) { queue_.announce(agent, "class", R"({"device": "a machine"})"); }

  std::string database_ = new_database();
  Queue queue_{url()};
};

TEST_F(QueueTest, AJobIsClaimedMeasuredAndDelivered) {
  std::string payload = "all bytes: ";
  for (int i = 0; i < 256; ++i) payload += static_cast<char>(i);
  announce("a");
  EXPECT_THAT(queue_.claim("a"), IsEmpty());
  const int64_t id =
      queue_.submit({.run = "r", .kind = "variants", .device_class = "class", .candidates = 7, .payload = payload});
  EXPECT_THAT(queue_.endings({{id}}), IsEmpty());
  const std::vector<Job> jobs = queue_.claim("a", 10);
  ASSERT_THAT(jobs, SizeIs(1));
  EXPECT_EQ(jobs[0].id, id);
  EXPECT_EQ(jobs[0].kind, "variants");
  EXPECT_EQ(jobs[0].run, "r");
  EXPECT_EQ(jobs[0].candidates, 7);
  EXPECT_EQ(jobs[0].attempt, 1);
  EXPECT_EQ(jobs[0].payload, payload);
  EXPECT_THAT(queue_.claim("a", 10), IsEmpty()) << "it is leased";
  EXPECT_THAT(queue_.beat("a").held, ElementsAre(id));
  EXPECT_EQ(queue_.deliver("a", id, "a machine", {{result_of("x", payload), result_of("y \"{,\\")}}), Delivery::stored);
  EXPECT_THAT(queue_.beat("a").held, IsEmpty());
  const std::vector<Ending> endings = queue_.endings({{id}});
  ASSERT_THAT(endings, SizeIs(1));
  EXPECT_EQ(endings[0].how, Delivery::stored);
  EXPECT_EQ(endings[0].agent, "a");
  EXPECT_THAT(endings[0].bodies, ElementsAre(payload, "body"));
  EXPECT_EQ(count("kilter.payloads"), 0) << "what is done needs no payload";
}

TEST_F(QueueTest, ARepeatedSubmissionAddsNothing) {
  const std::vector<NewJob> jobs{job_of("1"), job_of("2")};
  const std::vector<int64_t> ids = queue_.submit(jobs, "token");
  EXPECT_EQ(queue_.submit(jobs, "token"), ids);
  EXPECT_NE(queue_.submit(jobs), ids);
  EXPECT_EQ(count("kilter.jobs"), 4);
}

TEST_F(QueueTest, OnlyAgentsOfTheClassGetAJob) {
  announce("a");
  queue_.announce("b", "another class", "{}");
  queue_.submit(job_of("1"));
  EXPECT_THAT(queue_.claim("b"), IsEmpty());
  EXPECT_THAT(payloads(queue_.claim("a")), ElementsAre("1"));
}

TEST_F(QueueTest, HigherPrioritiesComeFirstThenTheOrderOfSubmission) {
  announce("a");
  NewJob urgent = job_of("urgent"), late = job_of("late");
  urgent.priority = 5, late.priority = -1;
  queue_.submit(std::vector<NewJob>{late, job_of("1"), job_of("2"), urgent});
  EXPECT_THAT(payloads(queue_.claim("a", 10)), ElementsAre("urgent", "1", "2", "late"));
}

TEST_F(QueueTest, SubmittersGetEqualShares) {
  announce("a");
  sql("DO $$ BEGIN CREATE ROLE other LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
  sql("GRANT USAGE ON SCHEMA kilter TO other"), sql("GRANT SELECT ON ALL TABLES IN SCHEMA kilter TO other");
  sql("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA kilter TO other");
  Queue other(url("other"));
  std::vector<NewJob> many(20, job_of("mine"));
  queue_.submit(many);
  EXPECT_THAT(queue_.claim("a", 4), SizeIs(4));
  for (int i = 0; i < 4; ++i) other.submit(job_of("theirs"));
  const std::vector<std::string> next = payloads(queue_.claim("a", 8));
  EXPECT_EQ(std::count(next.begin(), next.end(), "theirs"), 4) << "they need not wait for the 16 jobs before them";
  // A user who submits jobs with four times as many candidates gets a quarter as many jobs.
  queue_.cancel("run");
  NewJob large = job_of("large");
  large.candidates = 4;
  queue_.submit(std::vector<NewJob>(10, large));
  other.submit(std::vector<NewJob>(20, job_of("small")));
  const std::vector<std::string> shares = payloads(queue_.claim("a", 10));
  EXPECT_EQ(std::count(shares.begin(), shares.end(), "large"), 2);
}

TEST_F(QueueTest, ANewSubmitterDoesNotOvertakeWhenAllJobsAreLeased) {
  announce("a");
  queue_.submit(std::vector<NewJob>(50, job_of("old")));
  EXPECT_THAT(queue_.claim("a", 49), SizeIs(49));
  EXPECT_THAT(queue_.claim("a", 1), SizeIs(1));
  const int64_t first = run_on_server(url(), "SELECT max(turn) FROM kilter.queue").number(0, 0);
  sql("UPDATE kilter.queue SET submitter = 'other'");
  queue_.submit(job_of("new"));
  EXPECT_EQ(run_on_server(url(), "SELECT turn FROM kilter.queue WHERE lease_owner IS NULL").number(0, 0), first);
}

TEST_F(QueueTest, ExpiredLeaseGoesToAnotherAgent) {
  announce("a"), announce("b");
  const int64_t id = queue_.submit(job_of("1"));
  ASSERT_THAT(queue_.claim("a"), SizeIs(1));
  EXPECT_EQ(queue_.reap(), 0);
  expire(id);
  EXPECT_EQ(queue_.reap(), 1);
  EXPECT_THAT(queue_.beat("a").held, IsEmpty()) << "the agent learns that it has lost the job";
  skip_pause();
  const std::vector<Job> again = queue_.claim("b");
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again[0].attempt, 2);
  EXPECT_THAT(queue_.jobs().at(0).reason, HasSubstr("agent a was not heard of until its lease ended at 20"));
}

TEST_F(QueueTest, AHeartbeatKeepsTheLease) {
  announce("a");
  const int64_t id = queue_.submit(job_of("1"));
  ASSERT_THAT(queue_.claim("a"), SizeIs(1));
  expire(id);
  EXPECT_THAT(queue_.beat("a").held, ElementsAre(id)) << "nobody has taken it meanwhile";
  EXPECT_EQ(queue_.reap(), 0);
}

TEST_F(QueueTest, LeaseExpiresOnTimeIfTheClockMovesBack) {
  queue_.set_lease(20);
  announce("a"), announce("b");
  queue_.submit(job_of("1"));
  ASSERT_THAT(queue_.claim("a"), SizeIs(1));
  move_clock("-1 h");
  EXPECT_GT(lease_left(), 3600);
  EXPECT_EQ(queue_.reap(), 0);
  EXPECT_LE(lease_left(), 20) << "it begins again";
  EXPECT_GT(lease_left(), 10);
  move_clock("-1 h");
  EXPECT_THAT(queue_.beat("a").held, SizeIs(1));
  EXPECT_LE(lease_left(), 20);
  move_clock("-5 s"), queue_.reap();
  EXPECT_LE(lease_left(), 40) << "at most as much longer as has passed of it";
  move_clock("1 h");
  EXPECT_EQ(queue_.reap(), 1) << "forward, it ends";
  EXPECT_THAT(queue_.claim("b"), IsEmpty()) << "after a failure, a job pauses";
  move_clock("-1 h");
  EXPECT_THAT(queue_.claim("b"), SizeIs(1)) << "but not for an hour";
}

TEST_F(QueueTest, HeartbeatsCountAfterClockChange) {
  announce("a"), announce("dead");
  const auto seen = [&](size_t agent) { return queue_.agents().at(agent).seen_seconds; };
  queue_.submit(job_of("1"));
  move_clock("-1 h");
  EXPECT_GT(seen(1), 3500) << "nobody has corrected it yet";
  EXPECT_EQ(queue_.agents().at(1).started_seconds, 0);
  EXPECT_EQ(queue_.jobs().at(0).age_seconds, 0);
  queue_.beat("a"), queue_.reap();
  EXPECT_LT(seen(0), 10);
  EXPECT_LT(seen(1), 10) << "it was heard of before the clock was moved, which may have been now";
  move_clock("60 s");
  EXPECT_GT(seen(1), 50) << "but it ages";
}

TEST_F(QueueTest, OutlierIsRememberedAfterClockChange) {
  const auto speed = [](double gflops) { return fmt::format("{{\"reference\": {}}}", gflops); };
  for (const char* name : {"a", "b", "c"}) announce(name);
  const auto beat = [&] { queue_.beat("a", speed(50)), queue_.beat("b", speed(100)), queue_.beat("c", speed(100)); };
  beat(), beat();
  ASSERT_TRUE(queue_.agents().at(0).outlier);
  for (const char* by : {"1 h", "-1 h"}) {
    move_clock(by);
    queue_.beat("a", speed(50));
    EXPECT_TRUE(queue_.agents().at(0).outlier) << by;
    beat(), queue_.reap(), beat();
    EXPECT_EQ(queue_.agents().at(0).relative_speed, 0.5) << by;
    EXPECT_EQ(queue_.agents().at(1).relative_speed, 1) << by;
  }
}

TEST_F(QueueTest, TheFirstDeliveryCountsEvenIfItIsLate) {
  announce("a"), announce("b");
  const int64_t id = queue_.submit(job_of("1"));
  ASSERT_THAT(queue_.claim("a"), SizeIs(1));
  expire(id), queue_.reap(), skip_pause();
  ASSERT_THAT(queue_.claim("b"), SizeIs(1));
  EXPECT_EQ(queue_.deliver("a", id, "a machine", {{result_of("x", "of a")}}), Delivery::stored);
  EXPECT_EQ(queue_.deliver("b", id, "a machine", {{result_of("x", "of b")}}), Delivery::duplicate);
  EXPECT_EQ(queue_.deliver("a", id, "a machine", {{result_of("x", "again")}}), Delivery::duplicate);
  EXPECT_THAT(queue_.endings({{id}}).at(0).bodies, ElementsAre("of a"));
  EXPECT_EQ(count("kilter.results"), 1);
}

TEST_F(QueueTest, DuplicateResultsAreStoredOnce) {
  announce("a");
  const std::vector<int64_t> ids = queue_.submit(std::vector<NewJob>(2, job_of("1")));
  ASSERT_THAT(queue_.claim("a", 2), SizeIs(2));
  EXPECT_EQ(queue_.deliver("a", ids[0], "a machine", {{result_of("x", "first")}}), Delivery::stored);
  EXPECT_EQ(queue_.deliver("a", ids[1], "a machine", {{result_of("x", "second"), result_of("y", "other")}}),
            Delivery::stored);
  EXPECT_THAT(queue_.endings({{ids[1]}}).at(0).bodies, ElementsAre("first", "other"));
  EXPECT_EQ(count("kilter.results"), 2);
}

TEST_F(QueueTest, AfterThreeAttemptsAJobIsSetAside) {
  announce("a"), announce("b");
  const int64_t id = queue_.submit(job_of("poison"));
  ASSERT_THAT(queue_.claim("a"), SizeIs(1));
  EXPECT_TRUE(queue_.fail("a", id, "out of memory"));
  EXPECT_FALSE(queue_.fail("a", id, "out of memory")) << "it does not have the job any more";
  EXPECT_THAT(queue_.claim("b"), IsEmpty()) << "after a failure, a job pauses";
  skip_pause();
  ASSERT_THAT(queue_.claim("b"), SizeIs(1));
  expire(id);
  EXPECT_EQ(queue_.reap(), 1);
  skip_pause();
  ASSERT_THAT(queue_.claim("a"), SizeIs(1));
  EXPECT_TRUE(queue_.fail("a", id, "the child was killed"));
  EXPECT_THAT(queue_.claim("a"), IsEmpty());
  const Ending ending = queue_.endings({{id}}).at(0);
  EXPECT_EQ(ending.how, Delivery::set_aside);
  EXPECT_THAT(
      ending.reason,
      HasSubstr("3 attempts failed: agent a: out of memory; agent b was not heard of until its lease ended at "));
  EXPECT_THAT(ending.reason, HasSubstr("; agent a: the child was killed"));
  EXPECT_EQ(queue_.jobs().at(0).state, "set aside") << "it is listed until the owner removes it";
  EXPECT_EQ(count("kilter.payloads"), 1) << "and can be looked at";
  EXPECT_EQ(queue_.deliver("b", id, "a machine", {{result_of("x")}}), Delivery::set_aside);
  EXPECT_EQ(queue_.agents().at(0).failed, 2);
}

TEST_F(QueueTest, ReturnedJobDoesNotCountAsAnAttempt) {
  announce("a");
  const int64_t id = queue_.submit(job_of("1"));
  for (int i = 0; i < 5; ++i) {
    const std::vector<Job> jobs = queue_.claim("a");
    ASSERT_THAT(jobs, SizeIs(1));
    EXPECT_EQ(jobs[0].attempt, 1);
    EXPECT_TRUE(queue_.give_back("a", id));
  }
  EXPECT_FALSE(queue_.give_back("a", id));
}

TEST_F(QueueTest, CancelEndsOnlyUnfinishedJobs) {
  announce("a");
  const std::vector<int64_t> ids = queue_.submit(std::vector<NewJob>{job_of("1"), job_of("2"), job_of("3")});
  const int64_t other = queue_.submit(job_of("4", "other run"));
  ASSERT_THAT(queue_.claim("a", 2), SizeIs(2));
  queue_.deliver("a", ids[0], "a machine", {{result_of("x")}});
  EXPECT_EQ(queue_.cancel("run"), 2);
  EXPECT_EQ(queue_.cancel("run"), 0);
  EXPECT_THAT(queue_.beat("a").held, IsEmpty());
  EXPECT_EQ(queue_.deliver("a", ids[1], "a machine", {{result_of("y")}}), Delivery::cancelled);
  const std::vector<Ending> endings = queue_.endings(ids);
  ASSERT_THAT(endings, SizeIs(3));
  EXPECT_EQ(endings[0].how, Delivery::stored);
  EXPECT_EQ(endings[2].how, Delivery::cancelled);
  EXPECT_EQ(endings[2].reason, "cancelled by postgres");
  const std::vector<Job> left = queue_.claim("a", 5);
  ASSERT_THAT(left, SizeIs(1));
  EXPECT_EQ(left[0].id, other);
  EXPECT_EQ(count("kilter.results"), 1);
}

TEST_F(QueueTest, DrainingAgentsGetNoJobsAndRemovedOnesLoseTheirs) {
  announce("a"), announce("b");
  const std::vector<int64_t> ids = queue_.submit(std::vector<NewJob>(2, job_of("1")));
  ASSERT_THAT(queue_.claim("a"), SizeIs(1));
  EXPECT_TRUE(queue_.drain("a"));
  EXPECT_FALSE(queue_.drain("c"));
  EXPECT_THAT(queue_.claim("a"), IsEmpty());
  EXPECT_TRUE(queue_.beat("a").draining);
  EXPECT_EQ(queue_.deliver("a", ids[0], "a machine", {{result_of("x")}}), Delivery::stored);
  ASSERT_THAT(queue_.claim("b"), SizeIs(1));
  EXPECT_TRUE(queue_.remove_agent("b"));
  EXPECT_FALSE(queue_.remove_agent("b"));
  EXPECT_THAT(error_of([&] { queue_.claim("b"); }),
              HasSubstr(": agent b is not known, or was removed; start it again"));
  announce("a"), skip_pause();
  EXPECT_FALSE(queue_.beat("a").draining) << "it has started again";
  EXPECT_THAT(queue_.claim("a"), SizeIs(1));
  EXPECT_THAT(queue_.jobs().at(0).reason, HasSubstr("agent b was removed"));
}

TEST_F(QueueTest, RestartedAgentHasNoLeases) {
  announce("a");
  queue_.submit(job_of("1"));
  ASSERT_THAT(queue_.claim("a"), SizeIs(1));
  announce("a");
  EXPECT_THAT(queue_.beat("a").held, IsEmpty());
  skip_pause();
  EXPECT_THAT(queue_.claim("a"), SizeIs(1));
}

TEST_F(QueueTest, RuleViolationsGiveOneSentence) {
  const std::string label = "fleet " + url() + ": ";
  NewJob job = job_of("1");
  job.priority = 200;
  EXPECT_EQ(error_of([&] { queue_.submit(job); }), label + "a priority of 200 is not legal; expected -100 to 100");
  job.priority = 0, job.candidates = 0;
  EXPECT_EQ(error_of([&] { queue_.submit(job); }), label + "a job of 0 candidates is not legal; expected 1 to 100000");
  job.candidates = 1, job.payload.assign((64 << 20) + 1, 'x');
  EXPECT_EQ(
      error_of([&] { queue_.submit(job); }),
      label + "a job of 67108865 bytes is too large; at most 67108864 are legal: submit fewer candidates in a job");
  EXPECT_EQ(error_of([&] { queue_.claim("nobody"); }),
            label + "agent nobody is not known, or was removed; start it again");
  announce("a"), queue_.announce("c", "another", "{}");
  const int64_t id = queue_.submit(job_of("1"));
  EXPECT_EQ(error_of([&] { queue_.deliver("a", 4711, "a machine", {}); }), label + "job 4711 does not exist");
  EXPECT_EQ(error_of([&] { queue_.deliver("c", id, "a machine", {}); }),
            label + fmt::format("job {} is for the device class class; agent c is of another", id));
  EXPECT_EQ(count("kilter.jobs"), 1);
}

TEST_F(QueueTest, DocumentedRolesHaveOnlyTheirRights) {
  const std::string page = first_sql_of(KILTER_RECORDS_PAGE);
  for (const std::string_view statement : split(page, ';'))
    if (!trim(statement).empty()) sql(std::string(statement));
  for (const char* part : {"read", "submit", "measure"}) {
    sql(fmt::format("CREATE ROLE fleet_{} LOGIN", part));
    sql(fmt::format("GRANT kilter_{0} TO fleet_{0}", part));
  }
  Queue reader(url("fleet_read")), submitter(url("fleet_submit")), agent(url("fleet_measure"));
  const auto refused = HasSubstr("the server refuses this user: permission denied for ");
  EXPECT_THAT(error_of([&] { reader.submit(job_of("1")); }), refused);
  EXPECT_THAT(error_of([&] { agent.submit(job_of("1")); }), refused);
  EXPECT_THAT(error_of([&] { submitter.announce("a", "class", "{}"); }), refused);
  agent.announce("a", "class", "{}");
  const int64_t id = submitter.submit(job_of("1"));
  EXPECT_THAT(agent.claim("a"), SizeIs(1));
  EXPECT_THAT(error_of([&] { queue_.announce("a", "class", "{}"); }),
              HasSubstr("agent a: another user has an agent of this name; give this one another name"));
  EXPECT_THAT(error_of([&] { queue_.claim("a"); }), HasSubstr("agent a is not known")) << "another user's agent";
  EXPECT_EQ(agent.deliver("a", id, "a machine", {{result_of("x")}}), Delivery::stored);
  EXPECT_THAT(submitter.endings({{id}}).at(0).bodies, ElementsAre("body"));
  EXPECT_THAT(reader.endings({{id}}), SizeIs(1));
  submitter.submit(job_of("2"));
  EXPECT_THAT(error_of([&] { agent.cancel("run"); }), refused);
  const int64_t of_owner = queue_.submit(job_of("3"));
  EXPECT_EQ(submitter.cancel("run"), 1) << "not the owner's job";
  EXPECT_EQ(queue_.jobs().at(0).id, of_owner);
  EXPECT_THAT(error_of([&] { agent.drain("a"); }), refused);
  EXPECT_THAT(error_of([&] { agent.remove_agent("a"); }), refused);
  EXPECT_THAT(error_of([&] { submitter.purge(0); }), refused);
  for (const char* statement : {"UPDATE kilter.queue SET attempt = 0", "DELETE FROM kilter.results",
                                "SELECT kilter.end_job(1, 'done', 'a', '')"})
    EXPECT_THAT(error_of([&] { run_on_server(url("fleet_measure"), statement); }), refused) << statement;
  const std::string all = "kilter_read, kilter_measure, kilter_submit, fleet_read, fleet_measure, fleet_submit";
  sql("DROP OWNED BY " + all), sql("DROP ROLE " + all);
}

TEST_F(QueueTest, NoJobIsLeasedTwice) {
  constexpr int kJobs = 400, kAgents = 16;
  std::vector<NewJob> all;
  for (int i = 0; i < kJobs; ++i) all.push_back(job_of(std::to_string(i)));
  queue_.submit(all);
  std::mutex lock;
  std::multiset<std::string> done;
  std::vector<std::thread> agents;
  for (int a = 0; a < kAgents; ++a) {
    agents.emplace_back([&, a] {
      const std::string name = "agent" + std::to_string(a);
      Queue queue(url());
      queue.announce(name, "class", "{}");
      for (;;) {
        const std::vector<Job> jobs = queue.claim(name, 1 + a % 3);
        if (jobs.empty()) return;
        for (const Job& job : jobs) {
          ASSERT_EQ(queue.deliver(name, job.id, name, {{result_of(job.payload)}}), Delivery::stored);
          const std::lock_guard hold(lock);
          done.insert(job.payload);
        }
      }
    });
  }
  for (std::thread& agent : agents) agent.join();
  EXPECT_EQ(done.size(), kJobs);
  EXPECT_EQ(std::set<std::string>(done.begin(), done.end()).size(), kJobs) << "some were done twice";
  EXPECT_EQ(count("kilter.results"), kJobs);
  EXPECT_EQ(count("kilter.queue"), 0);
}

TEST_F(QueueTest, WaitersAreWoken) {
  announce("a");
  Queue agent(url()), submitter(url());
  agent.wait_for_jobs(0), submitter.wait_for_ending(0);  // listen from now on
  const auto took = [](const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  NewJob job = job_of("1");
  job.awaited = true;
  const int64_t id = submitter.submit(job);
  EXPECT_LT(took([&] { agent.wait_for_jobs(60); }), 20);
  ASSERT_THAT(agent.claim("a"), SizeIs(1));
  agent.deliver("a", id, "a machine", {{result_of("x")}});
  EXPECT_LT(took([&] { submitter.wait_for_ending(60); }), 20);
  EXPECT_THAT(submitter.endings({{id}}), SizeIs(1));
  EXPECT_GT(took([&] { agent.wait_for_jobs(0.2); }), 0.09) << "without a notification, it waits";
}

TEST_F(QueueTest, PurgeRemovesFinishedJobsAndKeepsResults) {
  announce("a");
  const std::vector<int64_t> ids = queue_.submit(std::vector<NewJob>(2, job_of("1")));
  ASSERT_THAT(queue_.claim("a"), SizeIs(1));
  queue_.deliver("a", ids[0], "a machine", {{result_of("x")}});
  EXPECT_EQ(queue_.purge(1), 0);
  EXPECT_EQ(queue_.purge(0), 1);
  EXPECT_EQ(count("kilter.jobs"), 1);
  EXPECT_EQ(count("kilter.results"), 1);
}

TEST_F(QueueTest, OutlierGetsNoJobsUntilItRecovers) {
  const auto speed = [](double gflops) { return fmt::format("{{\"reference\": {}}}", gflops); };
  for (const char* name : {"a", "b", "c"}) announce(name);
  queue_.announce("other", "other class", "{}");
  queue_.beat("other", speed(1));
  queue_.submit(std::vector<NewJob>(3, job_of("1")));
  queue_.beat("a", speed(50)), queue_.beat("b", speed(100));
  EXPECT_THAT(queue_.claim("a"), SizeIs(1)) << "of two, nobody can say which is off";
  queue_.beat("c", speed(102));
  queue_.beat("a", speed(50));
  EXPECT_THAT(queue_.claim("a"), IsEmpty());
  const std::vector<QueueAgent> agents = queue_.agents();
  ASSERT_THAT(agents, SizeIs(4));
  EXPECT_EQ(agents[0].relative_speed, 0.5);
  EXPECT_TRUE(agents[0].outlier);
  EXPECT_EQ(agents[2].relative_speed, 1.02);
  EXPECT_FALSE(agents[2].outlier);
  EXPECT_EQ(agents[3].relative_speed, std::nullopt) << "it is alone in its class";
  EXPECT_THAT(queue_.claim("c"), SizeIs(1));
  queue_.beat("a", speed(95));
  EXPECT_THAT(queue_.claim("a"), SizeIs(1));
  queue_.beat("a", "{}");
  EXPECT_EQ(queue_.agents()[0].relative_speed, std::nullopt);
}

TEST_F(QueueTest, TrialAnswersArePurgedWithTheirJobs) {
  announce("a");
  NewJob trial = job_of("1");
  trial.kind = kTrialKind;
  const int64_t id = queue_.submit(trial);
  ASSERT_THAT(queue_.claim("a"), SizeIs(1));
  queue_.deliver("a", id, "a machine", {{result_of("x")}});
  EXPECT_EQ(queue_.purge(1), 0);
  EXPECT_EQ(count("kilter.results"), 1);
  EXPECT_EQ(queue_.purge(0), 1);
  EXPECT_EQ(count("kilter.results"), 0);
}

/// A server for one test only.
class QueueFaultTest : public ::testing::Test {
 protected:
  std::string url() const { return cluster_.url("postgres"); }
  void cut() const {
    run_on_server(url(),
                  "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "
                  "application_name = 'kilter'");
  }
  PostgresCluster cluster_{{"synchronous_commit=off", "wal_writer_delay=10000"}};
};

TEST_F(QueueFaultTest, AcknowledgedDataSurvivesCrashes) {
  Queue queue(url());
  std::vector<int64_t> ids;
  for (int i = 0; i < 6; ++i) {
    queue.announce("a", "class", "{}");
    ids.push_back(queue.submit(job_of(std::to_string(i))));
    cluster_.crash(), cluster_.start();
    std::vector<Job> jobs;
    while (jobs.empty()) jobs = queue.claim("a");  // pauses end
    ASSERT_EQ(jobs[0].id, ids.back());
    ASSERT_EQ(queue.deliver("a", ids.back(), "a machine", {{result_of(std::to_string(i))}}), Delivery::stored);
    cluster_.crash(), cluster_.start();
    ASSERT_EQ(queue.deliver("a", ids.back(), "a machine", {{result_of(std::to_string(i))}}), Delivery::duplicate);
  }
  EXPECT_THAT(queue.endings(ids), SizeIs(6));
}

TEST_F(QueueFaultTest, DeliveryCountsIfACrashLostTheLease) {
  Queue queue(url());
  queue.announce("a", "class", "{}");
  const int64_t id = queue.submit(job_of("1"));
  ASSERT_THAT(queue.claim("a"), SizeIs(1));
  cluster_.crash(), cluster_.start();
  EXPECT_THAT(queue.beat("a").held, IsEmpty()) << "leases are not written at once";
  EXPECT_EQ(queue.deliver("a", id, "a machine", {{result_of("x")}}), Delivery::stored);
}

TEST_F(QueueFaultTest, CallsAreRepeatedOnceOnANewConnection) {
  Queue queue(url());
  queue.announce("a", "class", "{}");
  queue.wait_for_jobs(0);
  cut();
  const int64_t id = queue.submit(job_of("1"));
  cut();
  ASSERT_THAT(queue.claim("a"), SizeIs(1));
  cut();
  queue.wait_for_jobs(0);
  EXPECT_EQ(queue.deliver("a", id, "a machine", {{result_of("x")}}), Delivery::stored);
  cluster_.stop();
  EXPECT_THAT(error_of([&] { queue.claim("a"); }), HasSubstr("fleet " + url() + ": cannot connect: "));
  cluster_.start();
  EXPECT_THAT(queue.claim("a"), IsEmpty());
}

}  // namespace
}  // namespace kilter::fleet
