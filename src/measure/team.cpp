#include "measure/team.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "base/pause.h"
#include "base/ticks.h"
#include "measure/conditions.h"

namespace kilter {
namespace {

void pin_to(int cpu) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(cpu, &mask);
  pthread_setaffinity_np(pthread_self(), sizeof mask, &mask);
}

/// Waits by spinning at first: a thread that yields its CPU on a busy machine gets it back milliseconds later.
template <class Condition>
void wait_until(Condition&& holds) {
  constexpr int kSpins = 20000;
  for (int i = 0; !holds(); ++i) {
    if (i >= kSpins) std::this_thread::yield();
    pause_cpu();
  }
}

}  // namespace

Team::Team(int threads) : threads_(threads), spans_(static_cast<size_t>(threads)) {
  if (threads == 1) return;
  std::vector<int> cpus = affinity_cpus();
  pinned_ = static_cast<size_t>(threads) <= cpus.size() && cpus.back() < CPU_SETSIZE &&
            pthread_getaffinity_np(pthread_self(), sizeof mask_, &mask_) == 0;
  // The caller stays on its CPU.
  if (const auto here = std::find(cpus.begin(), cpus.end(), sched_getcpu()); here != cpus.end()) {
    std::iter_swap(cpus.begin(), here);
  }
  if (pinned_) pin_to(cpus.front());
  pool_.reserve(static_cast<size_t>(threads));
  try {
    for (int i = 1; i < threads; ++i) {
      pool_.emplace_back([this, i, cpu = pinned_ ? cpus[static_cast<size_t>(i)] : -1] { work(i, cpu); });
    }
  } catch (const std::system_error& e) {
    stop();
    fail(ErrorKind::usage, "cannot start thread {} of {}: {}; ask for fewer threads", pool_.size() + 2, threads,
         e.what());
  }
}

Team::~Team() { stop(); }

void Team::stop() {
  body_ = nullptr;
  start_.fetch_add(1);
  for (std::thread& t : pool_) t.join();
  if (pinned_) pthread_setaffinity_np(pthread_self(), sizeof mask_, &mask_);
}

const Team::Window& Team::run(const Body& body) {
  body_ = &body;
  done_.store(0);
  arrived_.store(0);
  start_.fetch_add(1);
  take_part(0);
  wait_until([&] { return done_.load() == threads_; });
  uint64_t first = spans_[0].start;
  uint64_t last = spans_[0].end;
  uint64_t shortest = last - first;
  window_.threads.clear();
  for (const Span& s : spans_) {
    first = std::min(first, s.start);
    last = std::max(last, s.end);
    shortest = std::min(shortest, s.end - s.start);
    window_.threads.push_back(ms_between(s.start, s.end) * 1e-3);
  }
  window_.seconds = ms_between(first, last) * 1e-3;
  window_.together = last > first ? static_cast<double>(shortest) / static_cast<double>(last - first) : 1;
  return window_;
}

void Team::take_part(int thread) {
  // All threads arrive before any begins: one that wakes late would stretch the window.
  arrived_.fetch_add(1);
  wait_until([&] { return arrived_.load() == threads_; });
  Span& span = spans_[static_cast<size_t>(thread)];
  span.start = ticks();
  (*body_)(thread);
  span.end = ticks();
  done_.fetch_add(1);
}

void Team::work(int thread, int cpu) {
  if (cpu >= 0) pin_to(cpu);
  for (int64_t seen = 0;; ++seen) {
    wait_until([&] { return start_.load() != seen; });
    if (body_ == nullptr) return;
    take_part(thread);
  }
}

}  // namespace kilter
