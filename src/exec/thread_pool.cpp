#include "exec/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/float_environment.h"
#include "base/pause.h"
#include "exec/cpu_limits.h"
#include "exec/work_range.h"

namespace kilter {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLine = 64;
constexpr int kDefaultSpinUs = 50;

/// A 32-bit word on which one thread waits: spins for a bounded time, then sleeps in the kernel until the word changes.
struct alignas(kLine) Gate {
  std::atomic<uint32_t> word{0};
  std::atomic<uint32_t> parked{0};
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

  /// Changes the word and wakes the waiter if it sleeps. Both sides access (word, parked) in sequentially consistent
  /// order, so either the waiter sees the new word or this thread sees `parked`.
  void set(uint32_t value) {
    word.store(value, std::memory_order_seq_cst);
    wake();
  }
  /// Makes at most one system call each time the waiter falls asleep, even if a long time passes before a CPU runs the
  /// waiter.
  void wake() {
    if (parked.load(std::memory_order_seq_cst) != 0 && parked.exchange(0, std::memory_order_seq_cst) != 0) {
      syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
    }
  }

  /// Waits until `done(word)` is true and returns the word.
  template <class Done>
  uint32_t wait(std::chrono::nanoseconds spin, Done done) {
    uint32_t value = word.load(std::memory_order_acquire);
    if (done(value)) return value;
    if (spin.count() > 0) {
      const auto deadline = std::chrono::steady_clock::now() + spin;
      do {
        for (int i = 0; i < 16; ++i) {
          pause_cpu();
          value = word.load(std::memory_order_acquire);
          if (done(value)) return value;
        }
      } while (std::chrono::steady_clock::now() < deadline);
    }
    for (;;) {
      parked.store(1, std::memory_order_seq_cst);
      if (done(value = word.load(std::memory_order_seq_cst))) break;
      // A wake() between the last two lines may have been for an offer that has already been taken back. Sleeping now
      // would leave `parked` at 0, so that no later wake() would make the system call.
      if (parked.load(std::memory_order_seq_cst) == 0) continue;
      syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
    }
    parked.store(0, std::memory_order_relaxed);
    return value;
  }
};

constexpr int kMostVictims = 8;

/// Among the pieces that one thread ran, the failure that comes first in the range: its result or exception.
struct Failure {
  int64_t at = INT64_MAX;
  int32_t result = 0;
  std::exception_ptr error;
};

/// The state of a worker's part of the current job, in the low bits of its gate's word. The higher bits count jobs.
enum PartState : uint32_t {
  kNone = 0,     ///< no part, or the caller took it back before the worker claimed it
  kOffered = 1,  ///< the worker may take the part, or the caller may take it back
  kTaken = 2,    ///< the worker is running the part or has run it; `pending` tells which
  kStateMask = 3,
};

/// Decides whether a worker takes part in a job: another process may be using its CPU. A worker that is late in more
/// than one region in nine is left out for a while, and for twice as long if it is soon late again. A wait longer than
/// kPreempted means that the worker lost its CPU, and counts double.
class Punctuality {
 public:
  bool left_out(Clock::time_point now) const { return now < until_; }
  void on_time() { score_ = std::max(score_ - 1, 0); }
  void late(Clock::time_point now, Clock::duration waited, Clock::duration region) {
    score_ += waited > kPreempted ? 2 * kLate : kLate;
    if (score_ < kMost) return;
    const bool again = now - until_ < kProbation * length_;
    length_ = std::clamp<Clock::duration>(again ? 2 * length_ : kRegions * region, kShortest, kLongest);
    until_ = now + length_;
    score_ = kMost - kLate;
  }

 private:
  static constexpr int kLate = 8, kMost = 24;
  static constexpr int kProbation = 4, kRegions = 8;
  static constexpr std::chrono::microseconds kPreempted{500}, kShortest{200}, kLongest{100'000};
  Clock::time_point until_{};
  Clock::duration length_ = kShortest;
  int score_ = 0;
};

struct Job {
  ThreadPool::Body body = nullptr;
  void* context = nullptr;
  int64_t extent = 0;
  int parts = 0;
  bool on_each = false;  ///< each thread must run its own part
  bool for_all = false;  ///< it has work for all threads and counts in the attendance
  int victims = 0;       ///< number of other ranges, following its own, in which a thread looks for work when its own
                         ///< is done
};

/// The state of one worker: its gate (job count and PartState), and the place for its result.
struct Worker {
  Gate gate;
  alignas(kLine) Failure failure;
  std::atomic<bool> finished{true};  ///< whether it has finished its part of the current job
  int part = 0;                      ///< its part of the current job
  std::thread thread;
  // Only the thread that calls run() uses these:
  Punctuality punctuality;
  Clock::time_point woken{};  ///< the last time that it was offered a part while asleep
  bool waited_for = false;    ///< whether its part was unfinished when the caller ran out of work
  int64_t missed = 0;         ///< Attendance::missed

  void offer() {
    const uint32_t job = (gate.word.load(std::memory_order_relaxed) | kStateMask) + 1;
    gate.set(job | kOffered);
  }
  void offer(int of_job, Clock::time_point now) {
    part = of_job;
    finished.store(false, std::memory_order_relaxed);
    if (gate.parked.load(std::memory_order_relaxed) != 0) woken = now;
    offer();
  }
  /// Records whether the worker was late for a region, and whether it took part at all. Lateness does not count within
  /// kWakes after it was woken.
  void judge(const Job& job, bool came, bool late, Clock::time_point now, Clock::duration waited,
             Clock::duration region) {
    constexpr std::chrono::microseconds kWakes{200};
    if (!late) return punctuality.on_time();
    if (now - woken <= kWakes) return;
    punctuality.late(now, waited, region);
    missed += job.for_all && !came ? 1 : 0;
  }
  /// Claims an offered part for the worker (state kTaken) or the caller (kNone); exactly one of them succeeds.
  bool claim(PartState state) {
    uint32_t word = gate.word.load(std::memory_order_relaxed);
    return (word & kStateMask) == kOffered &&
           gate.word.compare_exchange_strong(word, (word & ~kStateMask) | state, std::memory_order_acq_rel);
  }
};

int64_t range_begin(int64_t extent, int parts, int part) {
  return extent / parts * part + std::min<int64_t>(extent % parts, part);
}

/// The pool whose body this thread is running; a nested run() on it would wait for itself.
thread_local const void* current_pool = nullptr;

/// The number of forks between the first pool's creation and this process.
std::atomic<uint32_t> forks{0};

uint32_t fork_count() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  require(registered == 0, "pthread_atfork() failed with {}", registered);
  return forks.load(std::memory_order_relaxed);
}

/// Restricts a thread to one CPU.
void bind_thread(std::thread& thread, int cpu) {
  constexpr int kMostCpus = 1 << 20;
  int code = EINVAL;
  if (cpu >= 0 && cpu < kMostCpus) {
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(cpu) + 1);
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(static_cast<size_t>(cpu) + 1),
                                                               [](cpu_set_t* s) { CPU_FREE(s); });
    if (set == nullptr) throw std::bad_alloc();
    CPU_ZERO_S(bytes, set.get());
    CPU_SET_S(static_cast<size_t>(cpu), bytes, set.get());
    code = pthread_setaffinity_np(thread.native_handle(), bytes, set.get());
  }
  if (code == 0) return;
  fail(ErrorKind::usage,
       "cannot bind a thread to CPU {}: {}; expected a CPU that this process may use (Cpus_allowed_list in "
       "/proc/self/status, and the cpuset of its cgroup)",
       cpu, std::generic_category().message(code));
}

struct Entered {
  const void* outer = current_pool;
  explicit Entered(const void* pool) { current_pool = pool; }
  ~Entered() { current_pool = outer; }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
};

}  // namespace

struct ThreadPool::Impl {
  explicit Impl(int count)
      : threads(count), workers(static_cast<size_t>(count - 1)), ranges(static_cast<size_t>(count)) {
    team.reserve(workers.size());
    const char* text = std::getenv("KILTER_SPIN_US");
    const int us = text != nullptr ? parse_spin_us(text) : kDefaultSpinUs;
    // With more threads than CPUs, spinning only takes time from the other threads.
    spin = std::chrono::microseconds(text == nullptr && count > 1 && count > available_cpus() ? 0 : us);
  }

  void start(const std::vector<int>& cpus) {
    size_t started = 0;
    try {
      for (; started < workers.size(); ++started) {
        workers[started].thread = std::thread([this, i = static_cast<int>(started)] { work(i); });
        if (!cpus.empty()) bind_thread(workers[started].thread, cpus[(started + 1) % cpus.size()]);
      }
    } catch (const std::system_error& e) {
      stop();
      fail(ErrorKind::usage, "cannot start thread {} of {}: {}; ask for fewer threads", started + 2, threads, e.what());
    } catch (...) {  // out of memory: running threads must not be destroyed
      stop();
      throw;
    }
  }

  /// Returns whether a fork() has left the threads of this pool in the parent.
  bool orphaned() const { return forks.load(std::memory_order_relaxed) != made_at; }

  void stop() {
    if (orphaned()) {
      // Handles of threads that do not exist can be neither joined nor destroyed.
      for (Worker& w : workers) static_cast<void>(new std::thread(std::move(w.thread)));
      return;
    }
    stopping.store(true, std::memory_order_seq_cst);
    for (Worker& w : workers) {
      if (!w.thread.joinable()) continue;
      w.offer();
      w.thread.join();
    }
  }

  void work(int index) {
    const Entered entered(this);
    const FloatEnvironment standard;  // not the environment of the thread that created the pool
    Worker& self = workers[static_cast<size_t>(index)];
    for (;;) {
      self.gate.wait(spin, [](uint32_t word) { return (word & kStateMask) == kOffered; });
      if (!self.claim(kTaken)) continue;
      if (stopping.load(std::memory_order_seq_cst)) return;  // the last offer, which has no part
      self.failure = part(self.part, index + 1);
      self.finished.store(true, std::memory_order_release);
      if (pending.word.fetch_sub(1, std::memory_order_seq_cst) == 1) pending.wake();
    }
  }

  /// Runs one range of the current job piece by piece, then takes pieces from the back of other ranges. `thread`: 0 for
  /// the caller.
  Failure part(int index, int thread) noexcept {
    Failure failure;
    WorkRange& own = ranges[static_cast<size_t>(index)];
    for (Piece p = own.take_front(); !p.empty(); p = own.take_front()) piece(p, thread, failure);
    for (int i = 1; i <= job.victims; ++i) {
      WorkRange& other = ranges[static_cast<size_t>((index + i) % job.parts)];
      for (Piece p = other.take_back(); !p.empty(); p = other.take_back()) piece(p, thread, failure);
    }
    return failure;
  }

  /// Runs the parts that workers have not claimed yet, so that the caller does not wait for a thread that sleeps or
  /// whose CPU is busy. Each part is claimed either by its worker or by the caller.
  void take_over(Failure& failure) noexcept {
    for (size_t i = 0; i < team.size() && pending.word.load(std::memory_order_acquire) != 0; ++i) {
      if (!team[i]->claim(kNone)) continue;
      WorkRange& left = ranges[i + 1];
      for (Piece p = left.take_back(); !p.empty(); p = left.take_back()) piece(p, 0, failure);
      pending.word.fetch_sub(1, std::memory_order_seq_cst);
    }
  }

  void piece(Piece p, int index, Failure& failure) const noexcept {
    Failure now{p.begin, 0, nullptr};
    try {
      now.result = job.body(job.context, p.begin, p.end, index);
    } catch (...) {
      now.error = std::current_exception();
    }
    if ((now.result != 0 || now.error) && now.at < failure.at) failure = std::move(now);
  }

  /// Chooses the workers for the next job, at most one for each part. The job then gets as many parts as it has
  /// threads.
  void choose_team(Clock::time_point now) {
    team.clear();
    for (Worker& w : workers) {
      if (std::ssize(team) == job.parts - 1) break;
      if (job.on_each || !w.punctuality.left_out(now)) {
        team.push_back(&w);
      } else {
        w.missed += job.for_all ? 1 : 0;
      }
    }
    regions += job.for_all ? 1 : 0;
    job.parts = static_cast<int>(team.size()) + 1;
    job.victims = job.on_each ? 0 : std::min(job.parts - 1, kMostVictims);
  }

  void offer_parts(Clock::time_point now) {
    for (int i = 0; i < job.parts; ++i)
      ranges[static_cast<size_t>(i)].reset(range_begin(job.extent, job.parts, i),
                                           range_begin(job.extent, job.parts, i + 1));
    pending.word.store(static_cast<uint32_t>(job.parts - 1), std::memory_order_relaxed);
    for (size_t i = 0; i < team.size(); ++i) team[i]->offer(static_cast<int>(i) + 1, now);
  }

  /// Waits for the workers and judges each. A worker was late if it did not claim its part, or if the caller waited for
  /// it longer than kLong and longer than a quarter of the region.
  void join(Clock::time_point begin) {
    const Clock::time_point done = Clock::now();
    for (Worker* w : team) w->waited_for = !w->finished.load(std::memory_order_acquire);
    pending.wait(spin, [](uint32_t left) { return left == 0; });
    const Clock::time_point end = Clock::now();
    constexpr std::chrono::microseconds kLong{20};
    const bool waited = end - done > std::max<Clock::duration>((done - begin) / 4, kLong);
    for (Worker* w : team) {
      const bool came = w->finished.load(std::memory_order_acquire);
      w->judge(job, came, !came || (w->waited_for && waited), end, end - done, end - begin);
    }
  }

  int32_t run(const Job& next) {
    const std::lock_guard turn(callers);
    job = next;
    job.for_all = job.parts == threads && !job.on_each;
    const Clock::time_point begin = Clock::now();
    choose_team(begin);
    if (team.empty()) {
      const Entered entered(this);
      return job.body(job.context, 0, job.extent, 0);
    }
    offer_parts(begin);
    Failure failure;
    {
      const Entered entered(this);
      failure = part(0, 0);
      if (!job.on_each) take_over(failure);
    }
    join(begin);
    for (Worker* w : team) {
      Failure& other = w->failure;
      if (other.at < failure.at) failure = std::move(other);
      other = {};
    }
    if (failure.error) std::rethrow_exception(failure.error);
    return failure.result;
  }

  int threads;
  const uint32_t made_at = fork_count();
  std::chrono::nanoseconds spin{0};
  std::mutex callers;
  Job job;  ///< written by the caller between jobs, read by the workers that take part
  std::atomic<bool> stopping{false};
  Gate pending;  ///< parts of the current job that workers have not finished
  std::vector<Worker> workers;
  std::vector<WorkRange> ranges;  ///< ranges of the current job, by part
  std::vector<Worker*> team;      ///< the workers of the current job; the first has part 1
  int64_t regions = 0;            ///< Attendance::regions
};

Attendance Attendance::since(const Attendance& earlier) const {
  Attendance out{regions - earlier.regions, missed};
  for (size_t i = 0; i < out.missed.size(); ++i) out.missed[i] -= earlier.missed[i];
  return out;
}

std::vector<double> Attendance::took_part() const {
  constexpr int64_t kFew = 10;
  std::vector<double> shares;
  if (regions < kFew) return shares;
  for (const int64_t m : missed) shares.push_back(1 - static_cast<double>(m) / static_cast<double>(regions));
  return shares;
}

ThreadPool::ThreadPool(int threads, const std::vector<int>& cpus) {
  const int count = threads != 0 ? threads : cpus.empty() ? default_threads() : static_cast<int>(cpus.size());
  if (count < 1 || count > kMaxThreads) {
    fail(ErrorKind::usage,
         "a thread pool of {} threads is not legal; expected 1 to {}, or 0 for as many as there are CPUs", count,
         kMaxThreads);
  }
  impl_ = std::make_unique<Impl>(count);
  impl_->start(cpus);
}

ThreadPool::~ThreadPool() { impl_->stop(); }

int ThreadPool::threads() const { return impl_->threads; }

Attendance ThreadPool::attendance() const {
  const std::lock_guard turn(impl_->callers);
  Attendance out{impl_->regions, {0}};  // the caller misses nothing
  for (const Worker& w : impl_->workers) out.missed.push_back(w.missed);
  return out;
}

int32_t ThreadPool::run(int64_t extent, int max_threads, Body body, void* context) {
  if (extent <= 0) return 0;
  const int64_t limit = max_threads > 0 ? std::min(max_threads, impl_->threads) : impl_->threads;
  const int parts = static_cast<int>(std::min(limit, extent));
  if (parts == 1 || current_pool == impl_.get() || extent > WorkRange::kMost || impl_->orphaned()) {
    return body(context, 0, extent, 0);
  }
  return impl_->run({body, context, extent, parts, false});
}

int32_t ThreadPool::run_on_each(Body body, void* context) {
  require(current_pool != impl_.get(), "run_on_each() was called from inside a body of the same pool");
  if (impl_->orphaned()) {
    fail(ErrorKind::usage,
         "the {} threads of this pool stayed in the process that called fork(); create a new pool in the child",
         threads());
  }
  return impl_->run({body, context, threads(), threads(), true});
}

}  // namespace kilter
