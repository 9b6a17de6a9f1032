// Workers live and die with their tuner: no process and no descriptor is left behind.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "../base/scratch_folder.h"
#include "base/error.h"
#include "hand_made.h"

namespace kilter::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

size_t open_files() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

/// Whether the process has ended; it may still be a zombie that its parent has not reaped.
bool dead(int pid) {
  std::string line;
  std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/stat"), line);
  const size_t end = line.rfind(')');
  return end == std::string::npos || line[end + 2] == 'Z' || line[end + 2] == 'X';
}

/// Sleeps until the process is dead. Returns the number of naps of 2 ms, at most 30000. (Time would not do, since this
/// process may be stopped for minutes.)
int naps_to_death(int pid) {
  int naps = 0;
  for (; !dead(pid) && naps < 30000; ++naps) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return naps;
}

VariantId load(Runner& runner, const std::map<int, Deed>& deeds, bool check = true) {
  const Plan plan = hand_made(deeds);
  return runner.load(plan, hand_made_values(plan), {.check = check}).id.value_or(0);
}

TEST(Life, FiftyCrashesInARow) {
  const size_t before = open_files();
  {
    LocalRunner runner(hand_made_options());
    const VariantId good = load(runner, {});
    ASSERT_NE(good, 0);
    const std::array deeds = {Deed::illegal, Deed::null_store, Deed::recursion, Deed::divide, Deed::abort};
    for (int i = 0; i < 50; ++i) {
      const Plan bad = hand_made({{i % 4, deeds[static_cast<size_t>(i) % deeds.size()]}});
      const Loaded loaded = runner.load(bad, hand_made_values(bad));
      ASSERT_FALSE(loaded.id);
      ASSERT_THAT(brief(loaded.faults), ElementsAre(fmt::format("{} crash layer{}", i % 4, i % 4)));
    }
    EXPECT_EQ(runner.restarts(), 50);
    const Laps laps = runner.measure(std::vector{good}, {.rounds = 3});
    EXPECT_THAT(laps.faults, IsEmpty());
    EXPECT_EQ(laps.rounds, 3);
  }
  EXPECT_EQ(open_files(), before);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
}

TEST(Life, RunnerLeavesNothingBehind) {
  const size_t before = open_files();
  int pid = 0;
  {
    LocalRunner runner(hand_made_options());
    EXPECT_FALSE(runner.worker_pid());
    load(runner, {});
    pid = *runner.worker_pid();
    EXPECT_FALSE(dead(pid));
    EXPECT_NE(getpgid(pid), getpgrp()) << "Ctrl-C would reach the worker";
  }
  EXPECT_TRUE(dead(pid));
  EXPECT_EQ(open_files(), before);
}

/// The state of a worker: idle, running forever, or running forever after a thread other than the first started it.
enum class Life { idle, busy, thread };
/// Starts a tuner in its own process. Returns the process ids of the tuner and its worker.
std::pair<pid_t, int> start_tuner(Life life) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t tuner = fork();
  if (tuner == 0) {
    const auto live = [&] {
      RunnerOptions options = hand_made_options();
      options.timeout_ms = 1e6;
      LocalRunner runner(options);
      load(runner, {});
      const VariantId hangs = load(runner, {{1, Deed::hang}}, false);
      const int pid = *runner.worker_pid();
      if (write(ends[1], &pid, sizeof(pid)) != sizeof(pid)) _exit(1);
      if (life != Life::idle) (void)runner.measure(std::vector{hangs});
      pause();
    };
    if (life == Life::thread) {
      std::thread(live).join();
    } else {
      live();
    }
    _exit(0);
  }
  int worker = 0;
  EXPECT_EQ(read(ends[0], &worker, sizeof(worker)), static_cast<ssize_t>(sizeof(worker)));
  close(ends[0]);
  close(ends[1]);
  return {tuner, worker};
}

class WorkerDies : public testing::TestWithParam<Life> {};
TEST_P(WorkerDies, WithItsTuner) {
  const auto [tuner, worker] = start_tuner(GetParam());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(dead(worker));
  kill(tuner, SIGKILL);
  waitpid(tuner, nullptr, 0);
  EXPECT_LT(naps_to_death(worker), 500) << "more than a second";
}
INSTANTIATE_TEST_SUITE_P(Life, WorkerDies, testing::Values(Life::idle, Life::busy, Life::thread));

TEST(Life, NonWorkerProgramsAreRefused) {
  RunnerOptions options = hand_made_options();
  const Plan plan = hand_made();
  const auto message = [&](const std::filesystem::path& program) {
    options.worker = program;
    try {
      LocalRunner(options).load(plan, hand_made_values(plan));
      return std::string("no error");
    } catch (const Error& e) {
      return e.message();
    }
  };
  EXPECT_EQ(message("/no/such/program"), "cannot start the worker /no/such/program: No such file or directory");
  EXPECT_EQ(message("/bin/false"), "the worker /bin/false does not start: the worker ended with code 1");
  EXPECT_THAT(message(built_kilter()), HasSubstr("does not start: the worker ended with code "));
}

TEST(Life, WorkerKilledDuringStartIsRestarted) {
  const ScratchFolder folder;
  const std::filesystem::path killed = folder.path() / "killed", program = folder.path() / "worker";
  std::ofstream(program) << "#!/bin/sh\nmkdir '" << killed.string() << "' 2> /dev/null && kill -9 $$\nexec '"
                         << built_worker().string() << "' \"$@\"\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  RunnerOptions options = hand_made_options();
  options.worker = program;
  LocalRunner runner(options);
  EXPECT_NE(load(runner, {}), 0);
  EXPECT_TRUE(std::filesystem::exists(killed));
}

TEST(Life, WorkersAreFoundNextToTheProgram) {
  EXPECT_EQ(find_worker("kilter-worker", built_kilter()), built_worker());
  try {
    (void)find_worker("no-worker", "/usr/bin/env");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.message(),
              "the program 'no-worker', which measures candidates, is neither at /usr/bin/no-worker nor at "
              "/usr/libexec/kilter/no-worker; build or install it");
  }
}

TEST(Life, WorkerStartedByHandExplainsItself) {
  const std::string command = built_worker().string() + " 2>&1";
  FILE* out = popen(command.c_str(), "r");
  ASSERT_NE(out, nullptr);
  std::string text(200, '\0');
  text.resize(fread(text.data(), 1, text.size(), out));
  EXPECT_EQ(WEXITSTATUS(pclose(out)), 2);
  EXPECT_EQ(text, "kilter-worker: is started by a tuner (kilter tune), not by hand\n");
}

}  // namespace
}  // namespace kilter::tune
