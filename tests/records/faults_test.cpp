// Stores with several writers at once, with writers that are killed, and on full disks.
#include <gmock/gmock.h>
#include <sched.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <map>

#include "../base/scratch_folder.h"
#include "base/files.h"
#include "base/random.h"
#include "base/text.h"
#include "places.h"
#include "samples.h"
#include "tune/records/store.h"

namespace kilter::tune {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class FaultsTest : public PlaceTest {};
INSTANTIATE_TEST_SUITE_P(Kinds, FaultsTest, testing::Values("records.db", "records.jsonl", "postgres"), kind_name);

class FullTest : public PlaceTest {};
INSTANTIATE_TEST_SUITE_P(Kinds, FullTest, testing::Values("records.db", "records.jsonl"), kind_name);

/// Returns how often each node occurs.
std::map<std::string, int> counts(const std::vector<Record>& records) {
  std::map<std::string, int> all;
  for (const Record& r : records) ++all[r.node];
  return all;
}

TEST_P(FaultsTest, TwoProcessesWriteAThousandRecordsEach) {
  const auto writer = [&](int first) {
    return start([=, this] {
      // Both processes also write the same 20 records, which must create no duplicates.
      const auto store = Store::open(place(), Store::Mode::write);
      int64_t added = 0;
      for (int i = 0; i < 1000; i += 5) added += store->append(numbered(first + i, 5));
      for (int i = 0; i < 1000; i += 50) store->append(numbered(2000 + i, 1));
      return added == 1000 ? 0 : 1;
    });
  };
  const pid_t a = writer(0), b = writer(1000);
  EXPECT_EQ(finish(a), 0);
  EXPECT_EQ(finish(b), 0);
  const auto store = Store::open(place(), Store::Mode::read);
  const Reading reading = store->read();
  EXPECT_THAT(reading.damaged, IsEmpty());
  EXPECT_THAT(store->check_file(), IsEmpty());
  const auto all = counts(reading.records);
  EXPECT_EQ(all.size(), 2020U);
  EXPECT_TRUE(std::all_of(all.begin(), all.end(), [](const auto& one) { return one.second == 1; }));
}

TEST_P(FaultsTest, ManyProcessesCreateTheFileAtOnce) {
  std::vector<pid_t> all;
  for (int p = 0; p < 8; ++p) {
    all.push_back(start(
        [=, this] { return Store::open(place(), Store::Mode::write)->append(numbered(p * 10, 10)) == 10 ? 0 : 1; }));
  }
  for (const pid_t p : all) EXPECT_EQ(finish(p), 0);
  EXPECT_THAT(Store::open(place(), Store::Mode::read)->read().records, SizeIs(80));
}

/// Acquires the lock of a writer and keeps it. Writes a byte to `ready` once it has the lock.
int hold(const std::string& file, int ready) {
  sqlite3* db = nullptr;
  std::optional<postgres::Server> server;
  if (is_server(file)) {
    server.emplace(file, postgres::ServerOptions{.busy_seconds = 100});
    server->run("BEGIN"), server->run("LOCK TABLE kilter.records IN EXCLUSIVE MODE");
  } else if (file.ends_with(".db")) {
    sqlite3_open(file.c_str(), &db);
    sqlite3_busy_timeout(db, 100000);
    if (sqlite3_exec(db, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) != SQLITE_OK) return 1;
  } else if (flock(open(file.c_str(), O_RDWR), LOCK_EX) != 0) {
    return 1;
  }
  if (write(ready, "x", 1) != 1) return 1;
  for (;;) pause();
}

TEST_P(FaultsTest, LockedFileIsWaitedForThenReported) {
  Store::open(place(), Store::Mode::write)->append(numbered(0));
  std::array<int, 2> ready{};
  ASSERT_EQ(pipe(ready.data()), 0);
  const pid_t holder = start([&] { return hold(place(), ready[1]); });
  close(ready[1]);
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const auto append = [&](double seconds) {
    Store::open(place(), Store::Mode::write, {.busy_seconds = seconds})->append(numbered(1));
  };
  const std::string message = error_of([&] { append(0.1); });
  EXPECT_THAT(message, HasSubstr("another process has held the "));
  EXPECT_THAT(message, HasSubstr(" for 0.1 s; nothing was written: try again when it has ended"));
  // Readers do not wait, and a waiting writer continues when the other process ends, even if it is killed.
  EXPECT_THAT(Store::open(place(), Store::Mode::read)->read().records, SizeIs(1));
  const pid_t waiting = start([&] {
    append(1000);
    return 0;
  });
  usleep(20000);
  kill(holder, SIGKILL);
  finish(holder);
  EXPECT_EQ(finish(waiting), 0);
  close(ready[0]);
  EXPECT_THAT(Store::open(place(), Store::Mode::read)->read().records, SizeIs(2));
}

/// Appends batches of records from `first` on, and writes to `said` after each batch how many records are safe.
int write_until_killed(const std::string& file, const std::filesystem::path& said, int first, uint64_t seed) {
  const auto store = Store::open(file, Store::Mode::write);
  const int out = open(said.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0666);
  const Random random(seed);
  for (uint64_t i = 0;; ++i) {
    const int count = static_cast<int>(random.integer(i, 1, 7));
    store->append(numbered(first, count));
    first += count;
    const std::string line = std::to_string(first) + "\n";
    if (write(out, line.data(), line.size()) != static_cast<ssize_t>(line.size())) return 1;
  }
}

/// Returns the number of the first record that is not safe, as read from the last complete line.
int safe_until(const std::filesystem::path& said) {
  if (!std::filesystem::exists(said)) return 0;
  const std::string text = read_file(said);
  const size_t end = text.rfind('\n');
  if (end == std::string::npos) return 0;
  const size_t begin = text.rfind('\n', end - 1);
  const size_t from = end == 0 || begin == std::string::npos ? 0 : begin + 1;
  return static_cast<int>(try_parse_int(std::string_view(text).substr(from, end - from)).value_or(0));
}

TEST_P(FaultsTest, KilledFiftyTimesAndResumed) {
  const auto said = folder_.path() / "said";
  const Random random(7);
  int last = 0;
  size_t interrupted = 0;
  for (uint64_t round = 0; round < 50; ++round) {
    // The next writer begins with records that are already safe: none may appear twice.
    const int first = std::max(0, last - 10);
    const pid_t writer = start([&] { return write_until_killed(place(), said, first, round); });
    // Waits until at least one more batch is safe, then kills the writer at a random moment.
    for (int i = 0; i < 60000 && safe_until(said) <= last; ++i) usleep(1000);
    usleep(static_cast<useconds_t>(random.integer(round, 0, 4000)));
    kill(writer, SIGKILL);
    ASSERT_EQ(finish(writer), 128 + SIGKILL) << "round " << round;
    const int safe = safe_until(said);
    ASSERT_GT(safe, last) << "round " << round;
    last = safe;
    const auto store = Store::open(place(), Store::Mode::read);
    const Reading reading = store->read();
    const auto all = counts(reading.records);
    for (int i = 0; i < last; ++i) {
      const auto at = all.find(std::to_string(i));
      ASSERT_TRUE(at != all.end()) << "record " << i << " is lost in round " << round;
      ASSERT_EQ(at->second, 1) << "record " << i << " is double in round " << round;
    }
    if (all.size() > static_cast<size_t>(last)) ++interrupted;
    // A line of text may have been cut off; a row of the database never is.
    ASSERT_LE(reading.damaged.size(), std::string(GetParam()) != "records.jsonl" ? 0 : round + 1);
    if (std::string(GetParam()) != "records.jsonl") {
      ASSERT_THAT(store->check_file(), IsEmpty());
    }
  }
  RecordProperty("killed_between_append_and_saying", static_cast<int>(interrupted));
}

constexpr int kDone = 40;

/// Appends until it fails. Returns 40 if the message is as expected and all stored records are there.
int fill(const std::string& file) {
  int stored = 0;
  std::string message;
  {
    const auto store = Store::open(file, Store::Mode::write);
    for (message = "no error"; message == "no error" && stored < 100000; stored += 10)
      message = error_of([&] { store->append(numbered(stored, 10)); });
    stored -= 10;  // the batch that failed
    if (message.find(": no space left to write (") == std::string::npos) return 1;
    if (message.find(
            "earlier records are safe, but the last ones are not stored: free space and run the same command again") ==
        std::string::npos)
      return 2;
  }
  if (stored < 20) return 3;
  const Reading reading = Store::open(file, Store::Mode::read)->read();
  if (!reading.damaged.empty()) return 4;
  const auto all = counts(reading.records);
  for (int i = 0; i < stored; ++i) {
    if (!all.contains(std::to_string(i))) return 5;
  }
  return all.size() == static_cast<size_t>(stored) ? kDone : 6;
}

TEST_P(FullTest, FileSizeLimitActsAsAFullDisk) {
  const pid_t writer = start([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{300 << 10, 300 << 10};
    return setrlimit(RLIMIT_FSIZE, &limit) == 0 ? fill(place()) : 7;
  });
  ASSERT_EQ(finish(writer), kDone);
  const auto store = Store::open(place(), Store::Mode::write);
  const size_t before = store->read().records.size();
  EXPECT_EQ(store->append(numbered(static_cast<int>(before), 100)), 100);
  EXPECT_THAT(store->read().records, SizeIs(before + 100));
  EXPECT_THAT(store->check_file(), IsEmpty());
}

TEST_P(FullTest, AFullDiskLosesNothing) {
  constexpr int kNoMount = 41;
  const pid_t writer = start([&] {
    // A small file system that only this process sees.
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kNoMount;
    if (mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, "size=512k") != 0) return kNoMount;
    const int code = fill(place());
    if (code != kDone) return code;
    if (mount("tmpfs", folder_.path().c_str(), "tmpfs", MS_REMOUNT, "size=4m") != 0) return 8;
    const auto store = Store::open(place(), Store::Mode::write);
    const size_t before = store->read().records.size();
    return store->append(numbered(static_cast<int>(before), 100)) == 100 ? kDone : 9;
  });
  const int code = finish(writer);
  if (code == kNoMount) GTEST_SKIP() << "this user may not mount a file system";
  EXPECT_EQ(code, kDone);
}

}  // namespace
}  // namespace kilter::tune
