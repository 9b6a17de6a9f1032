// A process that keeps one CPU busy, for tests.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

namespace kilter {

/// A child process that computes and walks through memory on one CPU until this object is destroyed.
class Competitor {
 public:
  explicit Competitor(int cpu) : pid_(fork()) {
    if (pid_ == 0) keep_busy(cpu);
  }
  ~Competitor() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Competitor(const Competitor&) = delete;
  Competitor& operator=(const Competitor&) = delete;

 private:
  [[noreturn]] static void keep_busy(int cpu) {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(cpu, &mask);
    sched_setaffinity(0, sizeof mask, &mask);
    constexpr size_t kBytes = size_t{64} << 20;
    std::vector<unsigned char> memory(kBytes);
    const pid_t parent = getppid();
    for (size_t at = 0; getppid() == parent;) {
      for (int i = 0; i < 10000; ++i) {
        memory[at] = static_cast<unsigned char>(memory[at] * 5 + 1);
        at = (at + 4096 + 64) % kBytes;
      }
    }
    _exit(0);
  }

  pid_t pid_;
};

/// Restricts the calling thread to one CPU during this object's lifetime.
class PinnedTo {
 public:
  explicit PinnedTo(int cpu) {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(cpu, &mask);
    sched_setaffinity(0, sizeof mask, &mask);
  }
  ~PinnedTo() { sched_setaffinity(0, sizeof before_, &before_); }
  PinnedTo(const PinnedTo&) = delete;
  PinnedTo& operator=(const PinnedTo&) = delete;

 private:
  cpu_set_t before_{};
};

}  // namespace kilter
