// The queue of a fleet while everything around it fails: agents, submitters, the broker and the database are killed,
// connections are cut, delayed and drop data, clocks are wrong and moved, the database's disk is full for a while,
// deliveries are repeated, late and out of order, and an agent delivers wrong results. No acknowledged submission or
// result is lost or duplicated, no wrong one is accepted, and leases end. KILTER_CHAOS_SECONDS sets the duration.
// tests/tuner/lying_agent_test.cpp tests what a tuner does with an agent that delivers wrong results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <map>
#include <random>
#include <set>

#include "../base/scratch_folder.h"
#include "../fleet/bad_network.h"
#include "base/files.h"
#include "base/text.h"
#include "chaos_parts.h"
#include "fleet/broker/tokens.h"
#include "support/databases.h"

namespace kilter::fleet {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAgents = 6, kSlowAgents = 2, kSubmitters = 3;
constexpr int64_t kHour = 3600;
constexpr double kFullSeconds = 2.5;  ///< how long the disk stays full

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double wanted_seconds() {
  const char* const given = std::getenv("KILTER_CHAOS_SECONDS");
  return given != nullptr ? try_parse_float(given).value_or(20) : 20;
}

/// The content of all notes.
struct Noted {
  std::map<std::string, int64_t> counts;            ///< of the notes that are one word
  std::set<int64_t> stored;                         ///< jobs whose delivery was acknowledged
  std::map<std::string, std::vector<int64_t>> ids;  ///< acknowledged submissions, by token
  std::set<std::string> begun;                      ///< tokens of all submissions
};

/// The processes of a test, and their notes.
class Parts {
 public:
  explicit Parts(const std::filesystem::path& folder) : folder_(folder) {
    for (const int64_t hours : {-1, 0, 1}) {
      const int64_t by = hours * kHour * 1'000'000'000;
      std::ofstream(clock(static_cast<int>(hours))).write(reinterpret_cast<const char*>(&by), sizeof by);
    }
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    while (!running_.empty()) kill(running_.begin()->first);
  }

  std::string notes_of(const std::string& name) const { return folder_ / (name + ".notes"); }

  /// Starts a part whose clock is wrong by this many hours.
  void start(const std::string& name, const std::vector<std::string>& words, int clock_hours) {
    std::vector<std::string> all{KILTER_CHAOS_PART};
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> argv, env;
    for (std::string& word : all) argv.push_back(word.data());
    std::string clock_setting = "KILTER_MOVED_CLOCK=" + clock(clock_hours);
    for (char** e = environ; *e != nullptr; ++e) env.push_back(*e);
    env.push_back(clock_setting.data());
    argv.push_back(nullptr), env.push_back(nullptr);
    pid_t pid = 0;
    ASSERT_EQ(posix_spawn(&pid, KILTER_CHAOS_PART, nullptr, nullptr, argv.data(), env.data()), 0);
    running_[name] = pid;
  }
  void kill(const std::string& name) {
    const auto found = running_.find(name);
    if (found == running_.end()) return;
    ::kill(found->second, SIGKILL), waitpid(found->second, nullptr, 0);
    running_.erase(found);
  }
  /// Whether a part has ended without being killed. Parts end if they get an unexpected error.
  bool has_ended(const std::string& name, int expected_code) {
    int status = 0;
    const auto found = running_.find(name);
    if (found == running_.end() || waitpid(found->second, &status, WNOHANG) != found->second) return false;
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == expected_code) << name << " has failed, and says why above";
    running_.erase(found);
    return true;
  }
  std::vector<std::string> running() const {
    std::vector<std::string> names;
    for (const auto& [name, pid] : running_) names.push_back(name);
    return names;
  }
  /// Whether a submitter has begun a submission that is not acknowledged.
  bool is_submitting(const std::string& name) const {
    const std::string text = read_file(notes_of(name));
    if (text.empty() || text.back() != '\n') return false;
    const std::string_view last = std::string_view(text).substr(text.rfind('\n', text.size() - 2) + 1);
    return last.starts_with("begin ") || last.starts_with("repeat ");
  }
  Noted noted() const {
    Noted out;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (entry.path().extension() != ".notes") continue;
      const std::string text = read_file(entry.path()), name = entry.path().stem();
      for (const std::string_view line : split(text, '\n')) add(out, name, line);
    }
    return out;
  }

 private:
  static void add(Noted& out, const std::string& name, std::string_view line) {
    const std::vector<std::string_view> words = split(line, ' ');
    const auto number = [&](size_t word) { return try_parse_int(words.at(word)).value_or(-1); };
    if (words[0] == "believed") ADD_FAILURE() << name << ": " << line;
    if (words[0] == "clock") {
      const int64_t off = std::abs(number(1) - static_cast<int64_t>(std::time(nullptr)));
      ++out.counts[off > kHour / 2 ? "wrong clock" : "right clock"];
    } else if (words[0] == "stored") {
      EXPECT_TRUE(out.stored.insert(number(1)).second) << "job " << words[1] << " was stored twice";
    } else if (words[0] == "begin") {
      out.begun.insert(token_of(name, number(1)));
    } else if (words[0] == "ids") {
      std::vector<int64_t>& ids = out.ids[token_of(name, number(1))];
      for (size_t i = 2; i < words.size(); ++i) ids.push_back(number(i));
    } else {
      ++out.counts[std::string(words[0])];
    }
  }
  std::string clock(int hours) const { return folder_ / fmt::format("clock{}", hours); }

  const std::filesystem::path& folder_;
  std::map<std::string, pid_t> running_;
};

class Chaos : public ::testing::Test {
 protected:
  ~Chaos() override {
    if (network_ > 0) kill(network_, SIGKILL), waitpid(network_, nullptr, 0);
  }
  void SetUp() override {
    std::ofstream(token_file_) << Tokens::add(tokens_, TokenUse::agent, "*") << "\n";
    close(listen_on(port_));
    int network_port = 0;
    const int listening = listen_on(network_port);
    const auto seed = static_cast<uint32_t>(random_());
    network_ = fork();
    if (network_ == 0) be_bad_network(listening, port_, seed);
    close(listening);
    network_url_ = fmt::format("http://127.0.0.1:{}", network_port);
  }

  // --- parts ---

  void start_broker() {
    parts_.kill("broker");
    parts_.start("broker", {"broker", url_, tokens_, std::to_string(port_)}, -1);
  }
  /// Every second agent is behind the broker and the bad network; every fourth has a correct clock.
  void start_agent(int a) {
    const std::string name = agent(a);
    std::vector<std::string> words{a < kAgents ? "agent" : "slow_agent", name, parts_.notes_of(name), new_seed()};
    if (a % 2 == 0)
      words.insert(words.end(), {"direct", url_});
    else
      words.insert(words.end(), {"broker", network_url_, token_file_});
    parts_.start(name, words, a % 4 == 3 ? -1 : a % 4 == 0 ? 0 : 1);
    dead_.erase(name);
  }
  void start_submitter(int s) {
    const std::string name = submitter(s);
    parts_.start(name, {"submitter", name, parts_.notes_of(name), new_seed(), url_}, s - 1);
  }
  void start_all() {
    start_broker();
    for (int a = 0; a < kAgents + kSlowAgents; ++a) start_agent(a);
    for (int s = 0; s < kSubmitters; ++s) start_submitter(s);
    parts_.start("liar", {"liar", "liar", parts_.notes_of("liar"), new_seed(), url_}, 0);
  }
  void look_after_parts() {
    if (parts_.has_ended("broker", 1)) start_broker();  // the database was unavailable when it started
    for (const std::string& name : parts_.running()) EXPECT_FALSE(parts_.has_ended(name, 0)) << name;
    for (int a = 0; a < kAgents; ++a) {
      const auto dead = dead_.find(agent(a));
      if (dead != dead_.end() && seconds_since(dead->second.since) > 3 * kLease) start_agent(a);
    }
  }
  static std::string agent(int a) { return fmt::format("agent{}", a); }
  static std::string submitter(int s) { return fmt::format("submitter{}", s); }
  std::string new_seed() { return std::to_string(random_()); }

  // --- troubles ---

  bool has_leases(const std::string& name) {
    const std::string held = fmt::format("SELECT count(*) FROM kilter.queue WHERE lease_owner = '{}'", name);
    return patiently(nullptr, [&] { return run_on_server(url_, held).number(0, 0); }) > 0;
  }
  /// Kills an agent that has leases. If it is not started again immediately, they have to expire.
  void kill_agent(bool start_again) {
    const int a = static_cast<int>(random_() % kAgents);
    if (dead_.contains(agent(a))) return;
    for (int look = 0; look < 20 && !has_leases(agent(a)); ++look) pause(0.01);
    parts_.kill(agent(a));
    dead_[agent(a)] = {Clock::now(), outage_};
    ++counts_["agents killed"];
    if (start_again) start_agent(a);
  }
  /// Kills a submitter while it submits.
  void kill_submitter() {
    const int s = static_cast<int>(random_() % kSubmitters);
    for (int look = 0; look < 5000 && !parts_.is_submitting(submitter(s)); ++look) pause(1e-4);
    pause(static_cast<double>(random_() % 8) / 1000);
    parts_.kill(submitter(s));
    ++counts_["submitters killed"];
    if (parts_.is_submitting(submitter(s))) ++counts_["submitters killed while they submitted"];
    start_submitter(s);
  }
  void kill_broker() {
    start_broker();
    ++counts_["brokers killed"];
  }
  void cut() {
    patiently(nullptr, [&] {
      run_on_server(url_,
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "
                    "application_name = 'kilter' AND random() < 0.5");
    });
    ++counts_["times half of the connections cut"];
  }
  void crash() {
    const auto start = Clock::now();
    cluster_.crash(), cluster_.start();
    outage_ += seconds_since(start);
    ++counts_["crashes of the server"];
  }
  /// Moves the server's clock by an hour: forward, twice back, forward.
  void move_clock() {
    constexpr std::array<int64_t, 4> kOffsets{kHour, 0, -kHour, 0};
    const int64_t before = std::exchange(offset_, kOffsets[moved_++ % kOffsets.size()]);
    if (offset_ < before) kill_agent(false);  // its leases must not last an hour longer
    cluster_.move_clock(offset_);
    ++counts_[offset_ > before ? "times the server's clock moved forward" : "times the server's clock moved back"];
    const auto rows =
        patiently(nullptr, [&] { return run_on_server(url_, "SELECT extract(epoch FROM clock_timestamp())::bigint"); });
    EXPECT_NEAR(static_cast<double>(rows.number(0, 0) - static_cast<int64_t>(std::time(nullptr))),
                static_cast<double>(offset_), 60);
  }
  void fill_disk() {
    if (!no_small_disk_.empty()) return;
    const auto start = Clock::now();
    no_small_disk_ = cluster_.fill_disk();
    if (!no_small_disk_.empty()) return;
    pause(kFullSeconds);
    cluster_.free_disk(), cluster_.restart();
    outage_ += seconds_since(start);
    ++counts_["times the disk full"];
  }
  void make_trouble(int turn) {
    if (turn % 3 == 1) kill_agent(turn % 2 == 0);
    if (turn % 4 == 2) kill_submitter();
    if (turn % 10 == 5) kill_broker();
    if (turn % 7 == 3) cut();
    if (turn % 14 == 8) move_clock();
    if (turn % 18 == 12) crash();
    if (turn % 40 == 17) fill_disk();
  }

  /// Checks for how long agents that were killed still have leases. Time without a server does not count.
  void watch_leases() {
    for (const auto& [name, dead] : dead_) {
      if (!has_leases(name)) continue;
      ++counts_["looks at leases of dead agents"];
      longest_lease_ = std::max(longest_lease_, seconds_since(dead.since) - (outage_ - dead.outage));
    }
  }

  // --- the end ---

  /// Submits again the batch that a submitter had begun when it was killed.
  void finish_submissions(Queue& queue) {
    for (int s = 0; s < kSubmitters; ++s) parts_.kill(submitter(s));
    const Noted noted = parts_.noted();
    Notes notes(parts_.notes_of("test"));
    for (const std::string& token : noted.begun) {
      if (!noted.ids.contains(token))
        ids_[token] = patiently(nullptr, [&] { return queue.submit(batch_of(token), token); });
    }
    ids_.insert(noted.ids.begin(), noted.ids.end());
  }
  void wait_for_jobs(Queue& queue) {
    const auto end = Clock::now();
    const auto left = [&] {
      std::map<std::string, int64_t> counts = queue.job_counts();
      return counts["waits"] + counts["leased"];
    };
    while (patiently(nullptr, left) > 0) {
      ASSERT_LT(seconds_since(end), 120) << "jobs are left";
      look_after_parts();
      watch_leases();
      pause(0.2);
    }
  }
  /// Returns the payloads of all jobs, by number, and checks that each was added once.
  std::map<int64_t, std::string> check_submissions() {
    std::map<int64_t, std::string> payloads;
    for (const auto& [token, ids] : ids_) {
      const std::vector<NewJob> batch = batch_of(token);
      EXPECT_EQ(ids.size(), batch.size()) << token;
      for (size_t i = 0; i < ids.size(); ++i)
        EXPECT_TRUE(payloads.emplace(ids[i], batch[i].payload).second) << "two submissions have job " << ids[i];
    }
    EXPECT_EQ(run_on_server(url_, "SELECT count(*) FROM kilter.jobs").number(0, 0), std::ssize(payloads))
        << "some jobs are double, or nobody's";
    return payloads;
  }
  void check_endings(Queue& queue, const std::map<int64_t, std::string>& payloads, const Noted& noted) {
    std::vector<int64_t> ids;
    for (const auto& [id, payload] : payloads) ids.push_back(id);
    const std::vector<Ending> endings = queue.endings(ids);
    ASSERT_EQ(endings.size(), payloads.size()) << "some jobs are lost";
    for (const Ending& ending : endings) {
      if (ending.how == Delivery::set_aside) {
        EXPECT_FALSE(noted.stored.contains(ending.job)) << "an acknowledged result is lost";
        EXPECT_THAT(ending.reason, ::testing::StartsWith("3 attempts failed: "));
        ++counts_["jobs set aside"];
        continue;
      }
      ++counts_["jobs done"];
      if ((ending.agent.back() - '0') % 2 == 1) ++counts_["jobs done through the broker"];
      ASSERT_EQ(ending.how, Delivery::stored);
      ASSERT_EQ(ending.bodies.size(), kResults);
      for (int i = 0; i < kResults; ++i)
        EXPECT_EQ(ending.bodies[static_cast<size_t>(i)], answer_to(payloads.at(ending.job), i));
    }
    EXPECT_EQ(run_on_server(url_, "SELECT count(*) FROM kilter.results").number(0, 0), counts_["jobs done"] * kResults)
        << "some are double";
  }
  /// Checks that every kind of trouble has happened.
  void check_troubles(const Noted& noted) {
    for (const auto& [note, name] :
         std::map<std::string, std::string>{{"repeat", "submissions repeated"},
                                            {"reordered", "jobs done in another order"},
                                            {"duplicate", "deliveries repeated"},
                                            {"again", "deliveries repeated much later"},
                                            {"late_first", "deliveries after the lease"},
                                            {"late_second", "deliveries after another agent's"},
                                            {"failed", "jobs failed"},
                                            {"refused", "lies refused"},
                                            {"wrong clock", "processes with a wrong clock"},
                                            {"full", "calls refused by a full disk"}}) {
      const auto found = noted.counts.find(note);
      counts_[name] = found == noted.counts.end() ? 0 : found->second;
    }
    for (const char* name : {"agents killed", "submitters killed while they submitted", "brokers killed",
                             "times half of the connections cut", "crashes of the server",
                             "times the server's clock moved forward", "times the server's clock moved back",
                             "jobs done through the broker", "looks at leases of dead agents", "times the disk full"})
      counts_.try_emplace(name, 0);
    if (!no_small_disk_.empty()) {
      fmt::print("the disk was never full: {}\n", no_small_disk_);
      counts_.erase("times the disk full"), counts_.erase("calls refused by a full disk");
    }
    for (const auto& [name, count] : counts_) EXPECT_TRUE(count > 0 || name == "jobs set aside") << name << ": none";
  }

  const double seconds_ = wanted_seconds();
  PostgresCluster cluster_{{"synchronous_commit=off", "wal_writer_delay=10000", "max_connections=100",
                            "min_wal_size=32MB", "max_wal_size=64MB",
                            std::string("--clock=") + KILTER_MOVED_CLOCK_MODULE,
                            fmt::format("--disk={:.0f}", 192 + seconds_)}};
  const std::string url_ = cluster_.url("postgres");
  ScratchFolder folder_;
  Parts parts_{folder_.path()};
  std::mt19937 random_{7};
  const std::string tokens_ = folder_.path() / "tokens", token_file_ = folder_.path() / "token";
  std::string network_url_;
  int port_ = 0;
  pid_t network_ = 0;

  struct Dead {
    Clock::time_point since;
    double outage = 0;  ///< outage_ at that time
  };
  std::map<std::string, Dead> dead_;                 ///< agents that are
  double outage_ = 0;                                ///< seconds for which the server was unavailable or full
  double longest_lease_ = 0;                         ///< seconds, of an agent that was dead
  int64_t offset_ = 0;                               ///< of the server's clock, in seconds
  size_t moved_ = 0;                                 ///< how often that clock was
  std::string no_small_disk_;                        ///< why the disk cannot be filled
  std::map<std::string, std::vector<int64_t>> ids_;  ///< of all submissions, by token
  std::map<std::string, int64_t> counts_;
};

TEST_F(Chaos, AcknowledgedResultsAreNeverLostDuplicatedOrWrong) {
  Queue queue(url_, {.lease_seconds = kLease});
  start_all();
  const auto start = Clock::now();
  for (int turn = 0; seconds_since(start) < seconds_; ++turn) {
    make_trouble(turn);
    look_after_parts();
    watch_leases();
    pause(0.2);
  }
  finish_submissions(queue);
  wait_for_jobs(queue);
  if (HasFatalFailure()) return;
  for (const std::string& name : parts_.running()) parts_.kill(name);
  const Noted noted = parts_.noted();
  check_endings(queue, check_submissions(), noted);
  check_troubles(noted);
  EXPECT_LT(longest_lease_, 2 * kLease + kLease / 3) << "two lease times, and the time until somebody looks";
  std::string summary;
  for (const auto& [name, count] : counts_) summary += fmt::format("{} {}, ", count, name);
  fmt::print("{}leases of dead agents held for at most {:.2f} s; {:.1f} s in all\n", summary, longest_lease_,
             seconds_since(start));
}

}  // namespace
}  // namespace kilter::fleet
