// How many CPUs and how much memory this process may use. The functions on strings hold the rules; available_cpus() and
// available_memory() feed them the kernel's files (Linux: sched_getaffinity, /proc/self/cgroup, /proc/self/mountinfo,
// cpu.max, cpu.cfs_quota_us, memory.max, memory.limit_in_bytes).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kilter {

constexpr int kMaxThreads = 1024;

/// Value of KILTER_NUM_THREADS: 1..1024, anything else is a usage error that names the value and the range.
int parse_thread_count(std::string_view text);
/// Value of KILTER_SPIN_US: 0..1000000 microseconds, anything else is a usage error.
int parse_spin_us(std::string_view text);

/// CPUs of a cgroup v2 `cpu.max` ("150000 100000" is 1.5); nothing for "max ..." and for text of another form.
std::optional<double> parse_cpu_max(std::string_view text);
/// CPUs of cgroup v1's `cpu.cfs_quota_us` and `cpu.cfs_period_us`; nothing for a quota of -1 or text of another form.
std::optional<double> parse_cfs_quota(std::string_view quota, std::string_view period);

/// Bytes of cgroup v2's `memory.max` and v1's `memory.limit_in_bytes`; nothing for "max" and text of another form.
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
  bool cpu = false, memory = false;  ///< which of them; both for v2
  std::string root;                  ///< which cgroup the mount shows as its top
  std::string point;                 ///< where it is mounted
};
std::vector<CgroupMount> parse_mountinfo(std::string_view text);

/// Folders whose quota binds the process: its own cgroup and all its parents up to the mount, innermost first. The
/// mount's top alone when the path lies outside of what the mount shows.
std::vector<std::string> cgroup_folders(const CgroupMount& mount, std::string_view path);

/// Whole CPUs of a quota: rounded up, at least 1.
int cpus_of_quota(double quota);

// Of the process whose files `cgroup` and `mountinfo` lie in the folder `proc`; without them no cgroup limits it.
/// The smallest of the affinity mask and every cgroup quota, at least 1.
int available_cpus(const std::string& proc = "/proc/self");
/// Bytes: the smaller of the machine's memory and every cgroup limit.
int64_t available_memory(const std::string& proc = "/proc/self");

}  // namespace kilter
