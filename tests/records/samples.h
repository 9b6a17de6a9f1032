// Records for tests, and helpers for processes and errors.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <deque>
#include <functional>
#include <set>
#include <string>

#include "../base/error_of.h"
#include "base/error.h"
#include "schedule/kernel_versions.h"
#include "tune/records/store.h"

namespace kilter::tune {

constexpr const char* kEpyc = "AMD EPYC, 2 CPUs, avx512, L1 48K, L2 1M, L3 32M";
constexpr const char* kConv = "conv2d n1 c64 h56 w56 k64 r3 s3 pad1 f32 +bias +relu";

/// The kernel versions of the sample records. `winograd` is the hash of the Winograd template.
inline KernelVersions versions(uint64_t winograd = 0x83b1d47e) {
  static std::deque<std::array<KernelHash, 2>> tables;
  tables.push_back({KernelHash{"conv2d_direct", 0x1f3a0c2bULL << 32}, KernelHash{"conv2d_winograd", winograd << 32}});
  return KernelVersions("LLVM 22.1.8", tables.back());
}

inline Record measured(const std::string& schedule, double ms, const std::string& problem = kConv) {
  Record r;
  r.problem = problem;
  r.layouts = "c16halo1,1,1,1 plain plain -> c16";
  r.schedule = schedule;
  r.samples_ms = {ms, ms, ms};
  r.conditions.device = kEpyc;
  r.conditions.threads = 1;
  r.conditions.target = "znver5";
  r.conditions.codegen = code_version(r, versions());
  r.conditions.date = "2026-11-22T05:00:00Z";
  r.network = "resnet18";
  r.node = "layer1.0.conv1";
  return r;
}

inline Record failed(Status status, const std::string& schedule) {
  Record r = measured(schedule, 1);
  r.samples_ms.clear();
  r.status = status;
  r.error = "largest error 3.5 at element 17, 0.001 allowed";
  return r;
}

/// The `i`th of many records that differ in their node and times.
inline Record numbered(int i) {
  Record r = measured("conv2d_direct vectors=2 rows=1 tile=14 prefetch=0", 1 + i * 0.001);
  r.node = std::to_string(i);
  return r;
}
inline std::vector<Record> numbered(int first, int count) {
  std::vector<Record> all;
  for (int i = first; i < first + count; ++i) all.push_back(numbered(i));
  return all;
}

/// Runs `action` in a process of its own and returns the process's id. The process exits with the result of `action`,
/// or with 99 or 98 after an exception.
inline pid_t start(const std::function<int()>& action) {
  const pid_t child = fork();
  if (child != 0) return child;
  int code = 99;
  try {
    code = action();
  } catch (const Error& e) {
    static_cast<void>(!write(STDERR_FILENO, (e.message() + "\n").c_str(), e.message().size() + 1));
  } catch (...) {
    code = 98;
  }
  _exit(code);
}

/// Waits for a process. Returns its exit code, or 128 + the signal that ended it.
inline int finish(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace kilter::tune
