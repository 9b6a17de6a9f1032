// Determines how many CPUs and how much memory this process may use. The functions on strings contain the rules;
// available_cpus() and available_memory() apply them to the kernel's files (Linux: sched_getaffinity,
// /proc/self/cgroup, /proc/self/mountinfo, cpu.max, cpu.cfs_quota_us, memory.max, memory.limit_in_bytes).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kilter {

constexpr int kMaxThreads = 1024;

/// Parses KILTER_NUM_THREADS: 1..1024. Anything else is a usage error that names the value and the range.
int parse_thread_count(std::string_view text);
/// Parses KILTER_SPIN_US: 0..1000000 microseconds. Anything else is a usage error.
int parse_spin_us(std::string_view text);

/// Parses the number of CPUs in cgroup v2's `cpu.max` ("150000 100000" is 1.5). Returns nothing for "max ..." and
/// malformed text.
std::optional<double> parse_cpu_max(std::string_view text);
/// Computes the number of CPUs from cgroup v1's `cpu.cfs_quota_us` and `cpu.cfs_period_us`. Returns nothing for a quota
/// of -1 and malformed text.
std::optional<double> parse_cfs_quota(std::string_view quota, std::string_view period);

/// Parses the limit in bytes in cgroup v2's `memory.max` and v1's `memory.limit_in_bytes`. Returns nothing for "max"
/// and malformed text.
std::optional<int64_t> parse_memory_limit(std::string_view text);

/// The cgroup paths of a process, from the text of /proc/<pid>/cgroup.
struct CgroupPaths {
  std::optional<std::string> v2;         ///< line "0::PATH"
  std::optional<std::string> v1_cpu;     ///< line "N:...,cpu,...:PATH"
  std::optional<std::string> v1_memory;  ///< line "N:...,memory,...:PATH"
};
CgroupPaths parse_proc_cgroup(std::string_view text);

/// A mounted cgroup hierarchy that can limit CPUs or memory, from the text of /proc/<pid>/mountinfo.
struct CgroupMount {
  bool v2 = false;
  bool cpu = false, memory = false;  ///< which of them it can limit; both for v2
  std::string root;                  ///< the cgroup at the root of the mount
  std::string point;                 ///< the mount point
};
std::vector<CgroupMount> parse_mountinfo(std::string_view text);

/// Returns the folders whose quota limits the process: its own cgroup and all its parents up to the mount, innermost
/// first. If the path is not below the root of the mount, returns only the mount point.
std::vector<std::string> cgroup_folders(const CgroupMount& mount, std::string_view path);

/// Returns a quota in whole CPUs: rounded up, at least 1.
int cpus_of_quota(double quota);

/// Returns the smallest of the number of CPUs in the affinity mask and all cgroup quotas, at least 1. The process's
/// files `cgroup` and `mountinfo` are read from the folder `proc`; if they are missing, no cgroup limit applies.
int available_cpus(const std::string& proc = "/proc/self");
/// Returns the smallest of the machine's memory and all cgroup limits, in bytes. `proc` is as for available_cpus().
int64_t available_memory(const std::string& proc = "/proc/self");

}  // namespace kilter
