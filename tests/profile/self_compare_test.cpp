// The comparison of a compiled network with itself while the other core is kept busy, and with a copy that is 3 %
// slower.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "measure/clock.h"
#include "measure/compare.h"
#include "measure/conditions.h"
#include "network.h"

namespace kilter::profile {
namespace {

void pin(pthread_t thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(thread, sizeof(set), &set);
}

/// Streams through memory and multiplies on one CPU until this object is destroyed.
class Stress {
 public:
  explicit Stress(int cpu) : thread_([this] { work(); }) { pin(thread_.native_handle(), cpu); }
  ~Stress() {
    stop_ = true;
    thread_.join();
  }
  Stress(const Stress&) = delete;
  Stress& operator=(const Stress&) = delete;

 private:
  void work() {
    std::vector<float> data(1 << 22, 1.0f);
    while (!stop_) {
      for (float& x : data) x = x * 1.0000001f + 1e-9f;
    }
  }
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class SelfCompare : public testing::Test {
 protected:
  void SetUp() override {
    cpus_ = affinity_cpus();
    if (cpus_.size() < 2) GTEST_SKIP() << "one CPU: no other core to keep busy";
    pin(pthread_self(), cpus_[0]);
    stress_ = std::make_unique<Stress>(cpus_[1]);
  }
  void TearDown() override {
    stress_.reset();
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu : cpus_) CPU_SET(cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
  }
  CompareOptions options(int repetition) const {
    CompareOptions o;
    o.max_seconds = 15;
    o.seed = static_cast<uint64_t>(repetition) + 1;
    return o;
  }

  std::vector<int> cpus_;
  std::unique_ptr<Stress> stress_;
  TestNetwork net_{"zoo:squeezenet1_1", 1};
};

TEST_F(SelfCompare, IntervalOfEqualNetworksIsNarrowAndContainsOne) {
  int contained = 0;
  const auto run = [&] { net_.instance().run(net_.from, net_.to); };
  for (int i = 0; i < 20; ++i) {
    const Comparison c = compare({{"network", run}, {"network", run}}, options(i));
    const Ratio r = c.ratio(0, 1);
    contained += r.contains(1) ? 1 : 0;
    EXPECT_LE(r.half_width(), 0.01) << "repetition " << i << ": " << c.stopped_because;
    std::printf("  %2d  %.4f (%.4f to %.4f)  %lld rounds, %s\n", i + 1, r.value, r.low, r.high,
                static_cast<long long>(c.taken), c.dropped.c_str());
  }
  EXPECT_GE(contained, 17);
}

TEST_F(SelfCompare, ThreePercentSlowdownIsAlwaysFound) {
  const auto run = [&] { net_.instance().run(net_.from, net_.to); };
  run();
  std::vector<double> ms;
  for (int i = 0; i < 50; ++i) {
    const int64_t start = now_ns();
    run();
    ms.push_back(static_cast<double>(now_ns() - start) * 1e-6);
  }
  const auto extra_ns = static_cast<int64_t>(median(ms) * 0.03e6);
  const auto slower = [&] {
    run();
    for (const int64_t end = now_ns() + extra_ns; now_ns() < end;) {
    }
  };
  for (int i = 0; i < 20; ++i) {
    const Comparison c = compare({{"network", run}, {"3 % slower", slower}}, options(i));
    const Ratio r = c.ratio(0, 1);
    EXPECT_GT(r.low, 1.0) << "repetition " << i << ": " << c.stopped_because;
    std::printf("  %2d  %.4f (%.4f to %.4f)  %lld rounds\n", i + 1, r.value, r.low, r.high,
                static_cast<long long>(c.taken));
  }
}

}  // namespace
}  // namespace kilter::profile
