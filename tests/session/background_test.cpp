// Plans that are compiled in the background while a session runs.
#include "compile/background.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "../base/error_of.h"
#include "../base/scratch_folder.h"
#include "../vm/program_models.h"
#include "compile/memory_model.h"
#include "kilter/kilter.h"
#include "models.h"

namespace kilter {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

template <class F>
void wait_until(F reached) {
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (!reached() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
  ASSERT_TRUE(reached());
}

TEST(Background, RunsTasksUntilThereAreNoMore) {
  std::atomic<int> done{0};
  Background background("net", [&](const Background::Check&) { return ++done < 5; });
  wait_until([&] { return background.ended(); });
  EXPECT_EQ(done, 5);
  const auto pause = background.pause();
}

TEST(Background, StopsWhilePaused) {
  std::atomic<int> done{0};
  Background background("net", [&](const Background::Check&) { return ++done > 0; });
  wait_until([&] { return done > 0; });
  {
    const auto pause = background.pause(), inner = background.pause();
    const int before = done;
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(done, before);
  }
  const int before = done;
  wait_until([&] { return done > before; });
}

TEST(Background, PauseWaitsForTheRunningTask) {
  std::atomic<int> started{0}, ended{0};
  Background background("net", [&](const Background::Check&) {
    ++started;
    std::this_thread::sleep_for(20ms);
    ++ended;
    return true;
  });
  for (int i = 0; i < 5; ++i) {
    wait_until([&] { return started > ended; });
    const int running = started;
    const auto pause = background.pause();
    EXPECT_EQ(ended, started);
    EXPECT_EQ(started, running);
  }
}

TEST(Background, DestructionEndsTheTask) {
  std::atomic<bool> started{false};
  {
    const Background background("net", [&](const Background::Check& check) {
      started = true;
      for (;;) check();
      return true;
    });
    wait_until([&] { return started.load(); });
  }
  SUCCEED() << "the destructor returned";
}

TEST(Background, ThrowingTaskIsTheLast) {
  Background background("net", [](const Background::Check&) -> bool { throw std::bad_alloc(); });
  wait_until([&] { return background.ended(); });
}

TEST(Background, ForkDuringATaskIsReportedInTheChild) {
  std::atomic<bool> running{false}, go_on{false};
  Background background("net", [&](const Background::Check& check) {
    running = true;
    while (!go_on) check();
    return false;
  });
  const auto in_a_child = [&](const std::string& expected) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      _exit(error_of([&] { const auto pause = background.pause(); }) == expected ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
  };
  wait_until([&] { return running.load(); });
  EXPECT_EQ(
      in_a_child(
          "net: plans were being compiled in the background when this process was forked; create another network here"),
      0);
  go_on = true;
  wait_until([&] { return background.ended(); });
  EXPECT_EQ(in_a_child("no error"), 0);
}

// Sessions.

struct Told {
  std::vector<std::string> notices;
  std::unique_ptr<Session> open(const std::string& model, const std::string& range, int64_t cache_bytes = 1 << 30) {
    Session::Options options;
    options.compile.target = parse_target("native");
    options.compile.report.notice = [this](const std::string& text) { notices.push_back(text); };
    options.threads = 1;
    options.plan_cache_bytes = cache_bytes;
    options.ranges = ShapeRanges::parse({range});
    return Session::open(model, std::move(options));
  }
};

std::vector<Tensor> run(Session& session, const Shape& shape) {
  return session.run({{"input", random_input("input", DType::f32, shape)}});
}

void expect_near(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape());
  for (int64_t i = 0; i < got.elems(); ++i) ASSERT_NEAR(got.as_double(i), want.as_double(i), 1e-3);
}

TEST(BackgroundPlans, AreMadeForAllShapes) {
  const ScratchFolder folder;
  const std::string model = open_zoo(folder.path(), "squeezenet1_1", 64);
  Told told;
  const auto session = told.open(model, "input={1,2}x3x{64..96:16}x64");
  EXPECT_TRUE(session->plans_ahead().ended) << "none are asked for";
  session->specialise_in_background();
  EXPECT_EQ(session->plans_ahead().of, 6);
  EXPECT_EQ(run(*session, {2, 3, 96, 64}).size(), 1U) << "a run while plans are made";
  wait_until([&] { return session->plans_ahead().ended; });
  EXPECT_EQ(session->plans_ahead().made, 6);
  const auto alone = open_session(model);
  for (const auto& shapes : session->ranges().all()) {
    expect_near(run(*session, shapes.at("input"))[0], run(*alone, shapes.at("input"))[0]);
  }
  EXPECT_EQ(session->plans(), 6U) << "no run made another plan";
  EXPECT_THAT(told.notices, ElementsAre());
}

TEST(BackgroundPlans, RunsContinueWhilePlansAreMade) {
  const ScratchFolder folder;
  const std::string model = open_zoo(folder.path(), "squeezenet1_1", 64);
  Told told;
  const auto session = told.open(model, "input=1x3x{64..96:8}x{64..80:8}");
  const auto alone = open_session(model);
  session->specialise_in_background();
  for (int i = 0; !session->plans_ahead().ended && i < 1000; ++i) {
    const Shape shape{1, 3, 64 + i * 3 % 5 * 8, 64 + i % 3 * 8};
    expect_near(run(*session, shape)[0], run(*alone, shape)[0]);
  }
  wait_until([&] { return session->plans_ahead().ended; });
  run(*session, {1, 3, 64, 64});
  EXPECT_EQ(session->plans(), 15U) << "each shape has one plan";
}

TEST(BackgroundPlans, EndAtTheMemoryLimit) {
  const ScratchFolder folder;
  const std::string model = open_zoo(folder.path(), "squeezenet1_1", 64);
  Told told;
  const auto session = told.open(model, "input=1x3x{64..192:16}x64", 1);
  session->specialise_in_background();
  wait_until([&] { return session->plans_ahead().ended; });
  EXPECT_LT(session->plans_ahead().made, 9);
  run(*session, {1, 3, 192, 64});
  EXPECT_THAT(told.notices,
              ElementsAre(HasSubstr("squeezenet1_1.onnx: plans were compiled in advance for 1 of 9 shapes; more would "
                                    "exceed the memory limit for plans (--plan-cache)")));
}

TEST(BackgroundPlans, EndWithTheirSession) {
  const ScratchFolder folder;
  const std::string model = open_zoo(folder.path(), "squeezenet1_1", 64);
  Told told;
  for (const auto pause : {0ms, 30ms, 200ms}) {
    const auto session = told.open(model, "input=1x3x{64..192:16}x64");
    session->specialise_in_background();
    std::this_thread::sleep_for(pause);
  }
}

TEST(BackgroundPlans, WithoutAThreadAreAnError) {
  const ScratchFolder folder;
  const std::string model = open_zoo(folder.path(), "squeezenet1_1", 64);
  const pid_t child = fork();
  if (child == 0) {  // the limit applies only to the child
    alarm(60);
    Told told;
    const auto session = told.open(model, "input=1x3x{64..80:16}x64");
    const rlimit none{0, 0};
    if (setresuid(65534, 65534, 65534) != 0 || setrlimit(RLIMIT_NPROC, &none) != 0) _exit(77);
    const std::string error = error_of([&] { session->specialise_in_background(); }, ErrorKind::usage);
    const bool right =
        error.find("cannot start the thread that compiles plans in the background: ") != std::string::npos &&
        error.ends_with("compile them at once (--specialise now) or when they are needed (never)");
    _exit(right && session->plans_ahead().of == 0 && run(*session, {1, 3, 64, 64}).size() == 1 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "the number of threads cannot be limited here";
  EXPECT_EQ(status, 0);
}

TEST(BackgroundPlans, AreNotMadeForPrograms) {
  const MemoryModel model(onnx::picking_model().parse());
  Told told;
  const auto session = told.open(model.name(), "x={2..6:2}x4");
  session->specialise_in_background();
  wait_until([&] { return session->plans_ahead().ended; });
  const auto values = session->run({{"x", random_input("x", DType::f32, {4, 4})}});
  EXPECT_FALSE(values.empty());
}

TEST(BackgroundPlans, OfTheCppInterface) {
  const ScratchFolder folder;
  NetworkOptions options{.threads = 1};
  options.shape_ranges = {{"input", "1x3x{64..80:16}x64"}};
  options.specialise = "auto";
  Network net = Network::load(open_zoo(folder.path(), "squeezenet1_1", 64), options);
  EXPECT_EQ(net.plans_ahead().of, 2);
  wait_until([&] { return net.plans_ahead().ended; });
  EXPECT_EQ(net.plans_ahead().made, 2);
}

}  // namespace
}  // namespace kilter
