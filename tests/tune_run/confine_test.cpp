// Kernels that make system calls which no kernel needs: the worker is stopped, the layer is blamed, and the next
// variant runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "hand_made.h"

namespace kilter::tune {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Confined : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(load({}));
    if (!runner_.confined()) GTEST_SKIP() << "no seccomp here, or a build with a sanitizer";
  }
  bool load(const std::map<int, Deed>& deeds) {
    const Plan plan = hand_made(deeds);
    const Loaded loaded = runner_.load(plan, hand_made_values(plan));
    faults_ = loaded.faults;
    return loaded.id.has_value();
  }
  /// Expects the layer to be blamed for this system call, and a sound variant to run afterwards.
  void expect_stopped(Deed deed, int call) {
    const int64_t before = runner_.restarts();
    EXPECT_FALSE(load({{1, deed}}));
    EXPECT_THAT(brief(faults_), ElementsAre("1 crash layer1"));
    ASSERT_FALSE(faults_.empty());
    EXPECT_EQ(faults_[0].words, "signal 31 (Bad system call) at step 1 'layer1' while checking: system call " +
                                    std::to_string(call) + ", which code on trial may not make");
    EXPECT_TRUE(load({})) << "the runner goes on";
    EXPECT_THAT(faults_, IsEmpty());
    EXPECT_EQ(runner_.restarts(), before + 1);
  }

  LocalRunner runner_{hand_made_options()};
  std::vector<Fault> faults_;
};

TEST_F(Confined, NoFileIsCreated) {
  const std::filesystem::path made = "/tmp/kilter-test-made-by-a-candidate";
  std::filesystem::remove(made);
  expect_stopped(Deed::open_file, 2);
  EXPECT_FALSE(std::filesystem::exists(made));
}

TEST_F(Confined, NoProgramIsStarted) { expect_stopped(Deed::start_program, 59); }
TEST_F(Confined, NoSocketIsOpened) { expect_stopped(Deed::open_socket, 41); }
TEST_F(Confined, NoProcessIsForked) { expect_stopped(Deed::fork_off, 57); }
TEST_F(Confined, NoOtherProcessIsSignalled) { expect_stopped(Deed::signal_tuner, 62); }

TEST_F(Confined, ReadingWorksAndOtherCallsOnlyFail) {
  for (const Deed deed : {Deed::read_file, Deed::ask_in_vain}) {
    EXPECT_TRUE(load({{2, deed}}));
    EXPECT_THAT(faults_, IsEmpty());
  }
  EXPECT_EQ(runner_.restarts(), 0);
}

TEST_F(Confined, VariantsAreMeasured) {
  const Plan plan = hand_made();
  const auto id = runner_.load(plan, hand_made_values(plan)).id;
  ASSERT_TRUE(id);
  MeasureOptions how;
  how.rounds = 3;
  const Laps laps = runner_.measure({&*id, 1}, how);
  EXPECT_THAT(laps.faults, IsEmpty());
  ASSERT_EQ(laps.laps.size(), 1U);
  EXPECT_FALSE(laps.laps[0].empty());
  EXPECT_TRUE(runner_.confined());
}

}  // namespace
}  // namespace kilter::tune
