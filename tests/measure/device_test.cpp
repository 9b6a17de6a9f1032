#include "measure/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "../base/scratch_folder.h"
#include "base/error.h"
#include "base/files.h"
#include "measure/conditions.h"

namespace kilter {
namespace {

using testing::HasSubstr;

/// Returns this machine with made-up measurements.
Device made_up() {
  Device d = describe_device();
  d.clock_ghz = 3.5;
  d.peaks = {{1, 100, "loop"}, {2, 190, "loop"}, {4, 300, "loop"}};
  for (const int threads : {1, 2, 4}) {
    d.bandwidths.push_back({Level::l2, threads, 200.0 * threads, 150.0 * threads, "x"});
    d.bandwidths.push_back({Level::dram, threads, 20.0 + threads, 30.0, "y"});
  }
  const auto all = static_cast<int>(affinity_cpus().size());
  if (all > 4) d.peaks.push_back({all, 300, "loop"});
  d.measured = "2026-01-02T03:04:05Z";
  d.disturbed_by = "waited 3.00 ms for a CPU";
  return d;
}

TEST(Device, DescribesThisMachine) {
  const Device d = describe_device();
  EXPECT_FALSE(d.cpu.empty());
  EXPECT_GE(d.cpus, 1);
  EXPECT_TRUE(d.peaks.empty());
  EXPECT_EQ(d.peak_gflops(1), 0);
  EXPECT_GT(last_level_cache_bytes(), 0);
#if defined(__x86_64__)
  EXPECT_GE(d.caches.l1_bytes, 8 << 10);
  EXPECT_GT(d.caches.l2_bytes, d.caches.l1_bytes);
#endif
}

TEST(Device, DoesNotDependOnAffinity) {
  const std::string fingerprint = describe_device().fingerprint();
  std::thread([&] {
    ASSERT_TRUE(set_affinity({affinity_cpus().front()}));
    EXPECT_EQ(describe_device().fingerprint(), fingerprint);
    EXPECT_EQ(describe_device().cpus, online_cpus());
  }).join();
}

TEST(Device, FingerprintNamesCpuIsaAndCaches) {
  Device d;
  d.cpu = "AMD EPYC";
  d.cpus = 2;
  d.isa = {"sse3", "avx", "fma", "avx2", "avx512f"};
  d.caches = {48 << 10, 1 << 20, 32 << 20};
  EXPECT_EQ(d.fingerprint(), "AMD EPYC, 2 CPUs, avx512, L1 48K, L2 1M, L3 32M");
  d.cpus = 1;
  d.isa = {"sse3", "avx", "fma", "avx2"};
  d.caches = {32 << 10, 1280 << 10, 0};
  EXPECT_EQ(d.fingerprint(), "AMD EPYC, 1 CPU, avx2, L1 32K, L2 1280K");
  d.isa = {};
  d.caches = {};
  EXPECT_EQ(d.fingerprint(), "AMD EPYC, 1 CPU, unknown vectors, L1 ?, L2 ?");
}

TEST(Device, RatesBetweenMeasuredThreadsAreLinear) {
  const Device d = made_up();
  EXPECT_EQ(d.peak_gflops(1), 100);
  EXPECT_EQ(d.peak_gflops(2), 190);
  EXPECT_EQ(d.peak_gflops(3), 245);
  EXPECT_EQ(d.peak_gflops(64), 300);
  EXPECT_EQ(d.bandwidth_gbs(Level::l2, 3), 600);
  EXPECT_EQ(d.copy_gbs(Level::l2, 2), 300);
  EXPECT_EQ(d.bandwidth_gbs(Level::l1, 1), 0);
}

TEST(Device, JsonRoundTrip) {
  const Device d = made_up();
  const nlohmann::json json = to_json(d);
  const Device back = device_from_json(nlohmann::json::parse(json.dump()));
  EXPECT_EQ(to_json(back), json);
  EXPECT_EQ(back.fingerprint(), d.fingerprint());
  EXPECT_EQ(back.bandwidth_gbs(Level::dram, 4), 24);
  EXPECT_EQ(back.disturbed_by, d.disturbed_by);
}

void expect_bad(const nlohmann::json& json, const std::string& text) {
  try {
    device_from_json(json);
    FAIL() << text;
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_input);
    EXPECT_THAT(e.message(), HasSubstr(text));
  }
}

TEST(Device, WrongJsonIsAnError) {
  expect_bad(nlohmann::json::array(), "device: ");
  expect_bad({{"format", 99}}, "device: expected format 1, got 99");
  nlohmann::json level = to_json(made_up());
  level["bandwidths"][0]["level"] = "L9";
  expect_bad(level, "device: level 'L9'; legal values are L1, L2, L3, DRAM");
  nlohmann::json missing = to_json(made_up());
  missing.erase("peaks");
  expect_bad(missing, "peaks");
}

struct Store {
  ScratchFolder folder;
  std::filesystem::path file = folder.path() / "cache" / "kilter" / "device.json";
  int measured = 0;
  Device get(bool again = false) {
    return this_device(file, again, [this] {
      ++measured;
      return made_up();
    });
  }
};

TEST(StoredDevice, IsMeasuredOnce) {
  Store store;
  EXPECT_EQ(store.get().peak_gflops(2), 190);
  EXPECT_EQ(store.measured, 1);
  EXPECT_TRUE(std::filesystem::exists(store.file));
  EXPECT_EQ(store.get().peak_gflops(2), 190);
  EXPECT_EQ(store.measured, 1);
  store.get(true);
  EXPECT_EQ(store.measured, 2);
}

TEST(StoredDevice, DamagedFilesAreMeasuredAgain) {
  Store store;
  store.get();
  const std::string good = read_file(store.file);
  int expected = 1;
  for (const std::string& bad :
       {std::string(), std::string("{"), good.substr(0, good.size() / 2), std::string("[1, 2]"),
        std::string("{\"format\": 1}"), std::string("{\"format\": \"one\"}"), std::string(1000, '\xff')}) {
    write_file_atomically(store.file, bad);
    EXPECT_EQ(store.get().peak_gflops(2), 190);
    EXPECT_EQ(store.measured, ++expected) << bad;
    EXPECT_EQ(read_file(store.file), good) << "the file is whole again";
  }
}

TEST(StoredDevice, FileOfAnotherMachineIsReplaced) {
  Store store;
  Device other = made_up();
  other.cpu = "another CPU";
  std::filesystem::create_directories(store.file.parent_path());
  write_file_atomically(store.file, to_json(other).dump());
  store.get();
  EXPECT_EQ(store.measured, 1);
  other = made_up();
  other.cpus += 1;
  write_file_atomically(store.file, to_json(other).dump());
  store.get();
  EXPECT_EQ(store.measured, 2);
  other = made_up();
  other.peaks.clear();
  write_file_atomically(store.file, to_json(other).dump());
  store.get();
  EXPECT_EQ(store.measured, 3);
}

TEST(StoredDevice, FileWithTooFewThreadsIsReplaced) {
  if (affinity_cpus().size() < 2) GTEST_SKIP() << "one CPU";
  Store store;
  Device few = made_up();
  few.peaks.resize(1);
  std::filesystem::create_directories(store.file.parent_path());
  write_file_atomically(store.file, to_json(few).dump());
  std::thread([&] {
    ASSERT_TRUE(set_affinity({affinity_cpus().front()}));
    EXPECT_EQ(store.get().peak_gflops(2), 100);
    EXPECT_EQ(store.measured, 0) << "enough for one CPU";
  }).join();
  EXPECT_EQ(store.get().peak_gflops(2), 190);
  EXPECT_EQ(store.measured, 1);
}

TEST(StoredDevice, UnwritableFolderIsNotAnError) {
  Store store;
  store.file = "/proc/no/such/folder/device.json";
  EXPECT_EQ(store.get().peak_gflops(2), 190);
  store.file.clear();
  EXPECT_EQ(store.get().peak_gflops(2), 190);
  EXPECT_EQ(store.measured, 2);
}

TEST(StoredDevice, LiesInTheCacheFolder) {
  const auto with = [](const char* cache, const char* home) {
    cache == nullptr ? unsetenv("XDG_CACHE_HOME") : setenv("XDG_CACHE_HOME", cache, 1);
    home == nullptr ? unsetenv("HOME") : setenv("HOME", home, 1);
    return device_file();
  };
  const char* cache = getenv("XDG_CACHE_HOME");
  const char* home = getenv("HOME");
  const std::string old_cache = cache == nullptr ? "" : cache;
  const std::string old_home = home == nullptr ? "" : home;
  EXPECT_EQ(with("/cache", "/home/me"), "/cache/kilter/device.json");
  EXPECT_EQ(with(nullptr, "/home/me"), "/home/me/.cache/kilter/device.json");
  EXPECT_EQ(with("relative", "/home/me"), "/home/me/.cache/kilter/device.json") << "XDG asks for absolute paths";
  EXPECT_EQ(with(nullptr, nullptr), "");
  with(cache == nullptr ? nullptr : old_cache.c_str(), home == nullptr ? nullptr : old_home.c_str());
}

TEST(Device, MeasuresAllRows) {
  std::vector<std::string> steps;
  const Device d = measure_device(2, 2, [&](int done, int all, const std::string& what) {
    EXPECT_EQ(done, static_cast<int>(steps.size()));
    EXPECT_LT(done, all);
    steps.push_back(what);
  });
  const size_t levels = memory_levels().size();
  EXPECT_EQ(steps.size(), 2 * (1 + levels));
  EXPECT_EQ(steps[0], "FLOP/s, 1 thread");
  EXPECT_EQ(steps.back(), "DRAM, 2 threads");
  ASSERT_EQ(d.peaks.size(), 2U);
  ASSERT_EQ(d.bandwidths.size(), 2 * levels);
  for (const PeakRow& row : d.peaks) EXPECT_GT(row.gflops, 0.1);
  for (const BandwidthRow& row : d.bandwidths) {
    EXPECT_GT(row.read_gbs, 0.1) << level_name(row.level);
    EXPECT_GT(row.copy_gbs, 0.1) << level_name(row.level);
    EXPECT_FALSE(row.loop.empty());
  }
}

}  // namespace
}  // namespace kilter
