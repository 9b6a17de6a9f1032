#include "exec/cpu_limits.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "exec/thread_pool.h"

namespace kilter {
namespace {

/// Parses a number as the kernel's files write it, followed by a line end.
std::optional<int64_t> whole_number(std::string_view text) { return try_parse_int(trim(text)); }

bool lists(std::string_view comma_separated, std::string_view word) {
  const auto words = split(comma_separated, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::optional<std::string> slurp(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

int affinity_cpus() {
  for (int capacity = 1024; capacity <= (1 << 20); capacity *= 4) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(capacity));
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(capacity));
    const int status = sched_getaffinity(0, bytes, set);
    const int count = status == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (status == 0) return std::max(count, 1);
  }
  return static_cast<int>(std::max<long>(sysconf(_SC_NPROCESSORS_ONLN), 1));
}

std::optional<double> quota_of(const CgroupMount& mount, const std::string& folder) {
  if (mount.v2) {
    const auto text = slurp(folder + "/cpu.max");
    return text ? parse_cpu_max(*text) : std::nullopt;
  }
  const auto quota = slurp(folder + "/cpu.cfs_quota_us");
  const auto period = slurp(folder + "/cpu.cfs_period_us");
  return quota && period ? parse_cfs_quota(*quota, *period) : std::nullopt;
}

/// Calls `visit` with each folder of a cgroup that the process of `proc` belongs to. `path_of` selects the path that
/// applies to a mounted hierarchy.
template <class PathOf, class Visit>
void each_cgroup(const std::string& proc, PathOf&& path_of, Visit&& visit) {
  const auto own = slurp(proc + "/cgroup");
  const auto mounted = slurp(proc + "/mountinfo");
  if (!own || !mounted) return;
  const CgroupPaths paths = parse_proc_cgroup(*own);
  for (const CgroupMount& mount : parse_mountinfo(*mounted)) {
    const std::optional<std::string> path = path_of(mount, paths);
    if (!path) continue;
    for (const std::string& folder : cgroup_folders(mount, *path)) visit(mount, folder);
  }
}

int ranged(std::string_view name, std::string_view text, int low, int high, std::string_view unit) {
  const auto value = whole_number(text);
  if (!value || *value < low || *value > high) {
    fail(ErrorKind::usage, "{}='{}' is not legal; expected a whole number of {} from {} to {}", name, text, unit, low,
         high);
  }
  return static_cast<int>(*value);
}

}  // namespace

int parse_thread_count(std::string_view text) { return ranged("KILTER_NUM_THREADS", text, 1, kMaxThreads, "threads"); }
int parse_spin_us(std::string_view text) { return ranged("KILTER_SPIN_US", text, 0, 1000000, "microseconds"); }

std::optional<double> parse_cpu_max(std::string_view text) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  return parse_cfs_quota(text.substr(0, space), text.substr(space + 1));
}

std::optional<double> parse_cfs_quota(std::string_view quota, std::string_view period) {
  const auto quota_us = whole_number(quota);
  const auto period_us = whole_number(period);
  if (!quota_us || !period_us || *quota_us <= 0 || *period_us <= 0) return std::nullopt;
  return static_cast<double>(*quota_us) / static_cast<double>(*period_us);
}

CgroupPaths parse_proc_cgroup(std::string_view text) {
  CgroupPaths paths;
  for (std::string_view line : split(text, '\n')) {
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    if (line.substr(0, first) == "0" && controllers.empty()) paths.v2 = line.substr(second + 1);
    if (lists(controllers, "cpu")) paths.v1_cpu = line.substr(second + 1);
    if (lists(controllers, "memory")) paths.v1_memory = line.substr(second + 1);
  }
  return paths;
}

std::vector<CgroupMount> parse_mountinfo(std::string_view text) {
  std::vector<CgroupMount> mounts;
  for (std::string_view line : split(text, '\n')) {
    const auto words = split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 6 || words.end() - dash < 4) continue;
    const bool v2 = dash[1] == "cgroup2", v1 = dash[1] == "cgroup";
    const bool cpu = v2 || (v1 && lists(dash[3], "cpu")), memory = v2 || (v1 && lists(dash[3], "memory"));
    if (cpu || memory) mounts.push_back({v2, cpu, memory, std::string(words[3]), std::string(words[4])});
  }
  return mounts;
}

std::vector<std::string> cgroup_folders(const CgroupMount& mount, std::string_view path) {
  const std::string_view root = mount.root == "/" ? std::string_view() : std::string_view(mount.root);
  if (!path.starts_with(root) || path.find("/..") != std::string_view::npos) return {mount.point};
  path.remove_prefix(root.size());
  if (!path.empty() && path.front() != '/') return {mount.point};
  std::vector<std::string> folders;
  while (!path.empty()) {
    if (path != "/") folders.push_back(mount.point + std::string(path));
    path = path.substr(0, path.rfind('/'));
  }
  folders.push_back(mount.point);
  return folders;
}

int cpus_of_quota(double quota) {
  return static_cast<int>(std::clamp(std::ceil(quota), 1.0, static_cast<double>(1 << 20)));
}

int available_cpus(const std::string& proc) {
  int cpus = affinity_cpus();
  each_cgroup(
      proc,
      [](const CgroupMount& mount, const CgroupPaths& paths) {
        return !mount.cpu ? std::nullopt : mount.v2 ? paths.v2 : paths.v1_cpu;
      },
      [&](const CgroupMount& mount, const std::string& folder) {
        if (const auto quota = quota_of(mount, folder)) cpus = std::min(cpus, cpus_of_quota(*quota));
      });
  return cpus;
}

std::optional<int64_t> parse_memory_limit(std::string_view text) {
  const auto bytes = whole_number(text);
  return bytes && *bytes > 0 ? bytes : std::nullopt;
}

int64_t available_memory(const std::string& proc) {
  int64_t bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  each_cgroup(
      proc,
      [](const CgroupMount& mount, const CgroupPaths& paths) {
        return !mount.memory ? std::nullopt : mount.v2 ? paths.v2 : paths.v1_memory;
      },
      [&](const CgroupMount& mount, const std::string& folder) {
        const auto text = slurp(folder + (mount.v2 ? "/memory.max" : "/memory.limit_in_bytes"));
        if (const auto limit = text ? parse_memory_limit(*text) : std::nullopt) bytes = std::min(bytes, *limit);
      });
  return bytes;
}

int default_threads() {
  if (const char* text = std::getenv("KILTER_NUM_THREADS")) return parse_thread_count(text);
  return std::min(available_cpus(), kMaxThreads);
}

}  // namespace kilter
