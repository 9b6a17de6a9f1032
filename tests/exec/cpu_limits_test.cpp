#include "exec/cpu_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "../base/error_of.h"
#include "../base/scratch_folder.h"
#include "base/error.h"
#include "exec/memory.h"
#include "exec/thread_pool.h"

namespace kilter {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(CpuLimits, CpuMax) {
  EXPECT_EQ(parse_cpu_max("max 100000\n"), std::nullopt);
  EXPECT_EQ(parse_cpu_max("150000 100000\n"), 1.5);
  EXPECT_EQ(parse_cpu_max("50000 100000"), 0.5);
  for (std::string_view bad : {"", "max", "100000", "a b", "-5 100000", "100 0"})
    EXPECT_EQ(parse_cpu_max(bad), std::nullopt);
}

TEST(CpuLimits, CfsQuota) {
  EXPECT_EQ(parse_cfs_quota("-1\n", "100000\n"), std::nullopt);
  EXPECT_EQ(parse_cfs_quota("400000\n", "100000\n"), 4.0);
  EXPECT_EQ(parse_cfs_quota("x", "100000"), std::nullopt);
}

TEST(CpuLimits, MemoryLimit) {
  EXPECT_EQ(parse_memory_limit("4294967296\n"), int64_t{4} << 30);
  for (std::string_view none : {"max\n", "", "x", "-1", "0", "99999999999999999999"})
    EXPECT_EQ(parse_memory_limit(none), std::nullopt) << none;
}

TEST(CpuLimits, TightestCgroupLimitApplies) {
  const ScratchFolder folder;
  const std::string proc = folder.path().string();
  const auto put = [&](const std::string& file, const std::string& text) {
    const std::filesystem::path path = folder.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  };
  const int64_t machine = available_memory(proc);
  ASSERT_GT(machine, 9000000);
  put("cgroup", "4:memory:/b\n0::/a/job\n");
  put("mountinfo", fmt::format("28 25 0:25 / {0}/v2 rw - cgroup2 cgroup2 rw\n"
                               "35 24 0:30 / {0}/v1 rw - cgroup cgroup rw,memory\n",
                               proc));
  put("v2/a/job/memory.max", "max\n");
  put("v2/a/job/memory.limit_in_bytes", "1000\n");  // version 2 does not use this file
  EXPECT_EQ(available_memory(proc), machine);
  put("v2/a/memory.max", "5000000\n");
  put("v2/memory.max", "9000000\n");
  EXPECT_EQ(available_memory(proc), 5000000);
  put("v1/b/memory.limit_in_bytes", "4000000\n");
  EXPECT_EQ(available_memory(proc), 4000000);
  put("v2/a/cpu.max", "50000 100000\n");
  EXPECT_EQ(available_cpus(proc), 1);
}

TEST(CpuLimits, TooLargeAllocationIsAnError) {
  EXPECT_GT(available_memory(), 0);
  EXPECT_THAT(error_of([] { Block(INT64_MAX, "the arena of 'x'"); }, ErrorKind::out_of_memory),
              testing::MatchesRegex("cannot allocate 9223 PB for the arena of 'x': out of memory "
                                    "\\([0-9.]+ ([kMGT]B|bytes) available\\)"));
}

TEST(CpuLimits, QuotaRoundsUpToWholeCpus) {
  EXPECT_EQ(cpus_of_quota(0.1), 1);
  EXPECT_EQ(cpus_of_quota(1.5), 2);
  EXPECT_EQ(cpus_of_quota(2.0), 2);
  EXPECT_GE(cpus_of_quota(1e30), 1);
}

TEST(CpuLimits, ProcCgroup) {
  const CgroupPaths v2 = parse_proc_cgroup("0::/user.slice/a\n");
  EXPECT_EQ(v2.v2, "/user.slice/a");
  EXPECT_EQ(v2.v1_cpu, std::nullopt);
  const CgroupPaths v1 = parse_proc_cgroup("12:cpuset:/set\n4:cpu,cpuacct:/docker/a:b\n1:name=systemd:/x\n0::/\n");
  EXPECT_EQ(v1.v1_cpu, "/docker/a:b");
  EXPECT_EQ(v1.v2, "/");
  EXPECT_EQ(v1.v1_memory, std::nullopt);
  EXPECT_EQ(parse_proc_cgroup("7:memory:/docker/m\n").v1_memory, "/docker/m");
  EXPECT_EQ(parse_proc_cgroup("nonsense\n\n:\n").v2, std::nullopt);
}

TEST(CpuLimits, Mountinfo) {
  const auto mounts = parse_mountinfo(
      "25 30 0:23 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n"
      "28 25 0:25 / /sys/fs/cgroup rw shared:9 master:1 - cgroup2 cgroup2 rw,nsdelegate\n"
      "33 24 0:28 /docker/abc /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
      "34 24 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
      "35 24 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
      "broken line - cgroup2\n");
  ASSERT_EQ(mounts.size(), 3U);
  EXPECT_TRUE(mounts[0].cpu && mounts[0].memory);
  EXPECT_TRUE(mounts[1].cpu && !mounts[1].memory);
  EXPECT_TRUE(!mounts[2].cpu && mounts[2].memory);
  EXPECT_TRUE(mounts[0].v2);
  EXPECT_EQ(mounts[0].point, "/sys/fs/cgroup");
  EXPECT_FALSE(mounts[1].v2);
  EXPECT_EQ(mounts[1].root, "/docker/abc");
}

TEST(CpuLimits, FoldersFromOwnCgroupToTheMount) {
  const CgroupMount top{true, true, true, "/", "/cg"};
  EXPECT_THAT(cgroup_folders(top, "/a/b"), ElementsAre("/cg/a/b", "/cg/a", "/cg"));
  EXPECT_THAT(cgroup_folders(top, "/"), ElementsAre("/cg"));
  EXPECT_THAT(cgroup_folders(top, "/../other"), ElementsAre("/cg"));
  const CgroupMount part{false, true, false, "/docker/x", "/cg"};
  EXPECT_THAT(cgroup_folders(part, "/docker/x/y"), ElementsAre("/cg/y", "/cg"));
  EXPECT_THAT(cgroup_folders(part, "/docker/x"), ElementsAre("/cg"));
  EXPECT_THAT(cgroup_folders(part, "/docker/xyz"), ElementsAre("/cg"));
  EXPECT_THAT(cgroup_folders(part, "/elsewhere"), ElementsAre("/cg"));
}

TEST(CpuLimits, ThreadCount) {
  EXPECT_EQ(parse_thread_count("1"), 1);
  EXPECT_EQ(parse_thread_count("1024"), 1024);
  for (const char* bad : {"0", "1025", "-1", "", "4x", "two", "99999999999999999999"}) {
    EXPECT_THAT(error_of([&] { parse_thread_count(bad); }, ErrorKind::usage),
                testing::AllOf(HasSubstr("KILTER_NUM_THREADS"), HasSubstr(std::string("'") + bad + "'"),
                               HasSubstr("1 to 1024")));
  }
  EXPECT_THAT(error_of([] { parse_spin_us("-1"); }, ErrorKind::usage), HasSubstr("KILTER_SPIN_US='-1'"));
}

TEST(CpuLimits, DefaultThreads) {
  EXPECT_GE(available_cpus(), 1);
  setenv("KILTER_NUM_THREADS", "3", 1);
  EXPECT_EQ(default_threads(), 3);
  EXPECT_EQ(ThreadPool().threads(), 3);
  setenv("KILTER_NUM_THREADS", "none", 1);
  EXPECT_THAT(error_of([] { default_threads(); }, ErrorKind::usage), HasSubstr("'none'"));
  unsetenv("KILTER_NUM_THREADS");
  EXPECT_GE(default_threads(), 1);
}

}  // namespace
}  // namespace kilter
