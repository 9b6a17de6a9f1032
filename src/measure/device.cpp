#include "measure/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/cpu_info.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json_text.h"
#include "base/text.h"
#include "base/ticks.h"
#include "measure/conditions.h"
#include "measure/quiet.h"

namespace kilter {
namespace {

/// Format version of the file; raised when the set of measurements changes.
constexpr int kFormat = 1;

std::string size_text(int64_t bytes) {
  if (bytes <= 0) return "?";
  return bytes % (1 << 20) == 0 ? fmt::format("{}M", bytes >> 20) : fmt::format("{}K", bytes >> 10);
}

/// Returns the widest vectors that the CPU has, in one word.
std::string isa_text(const std::vector<std::string>& isa) {
  const auto has = [&](std::string_view name) { return std::find(isa.begin(), isa.end(), name) != isa.end(); };
  if (has("avx512f")) return "avx512";
  if (has("avx2") && has("fma")) return "avx2";
  if (has("avx")) return "avx";
  if (has("sve")) return "sve";
  if (has("neon")) return "neon";
  return isa.empty() ? "unknown vectors" : "sse";
}

/// Interpolates the value at `threads` in rows with ascending numbers of threads.
double interpolate(const std::vector<std::pair<int, double>>& rows, int threads) {
  if (rows.empty()) return 0;
  if (threads <= rows.front().first) return rows.front().second;
  for (size_t i = 1; i < rows.size(); ++i) {
    const auto& [low, a] = rows[i - 1];
    const auto& [high, b] = rows[i];
    if (threads <= high) return a + (b - a) * (threads - low) / (high - low);
  }
  return rows.back().second;
}

std::vector<std::pair<int, double>> rows_of(const std::vector<BandwidthRow>& all, Level level,
                                            double BandwidthRow::* rate) {
  std::vector<std::pair<int, double>> rows;
  for (const BandwidthRow& row : all) {
    if (row.level == level) rows.emplace_back(row.threads, row.*rate);
  }
  return rows;
}

std::vector<int> thread_counts(int most) {
  std::vector<int> counts;
  for (int n = 1; n <= most; n += most <= 8 ? 1 : n) counts.push_back(n);
  if (counts.back() != most) counts.push_back(most);
  return counts;
}

int usable_cpus() { return static_cast<int>(affinity_cpus().size()); }

/// Returns whether the peaks cover `threads`: measurements on a few of the machine's CPUs say nothing about all of
/// them.
bool covers(const std::vector<PeakRow>& peaks, int threads) {
  return !peaks.empty() && peaks.back().threads >= threads;
}

bool same_machine(const Device& a, const Device& b) {
  return a.cpu == b.cpu && a.cpus == b.cpus && a.isa == b.isa && a.caches.l1_bytes == b.caches.l1_bytes &&
         a.caches.l2_bytes == b.caches.l2_bytes && a.caches.l3_bytes == b.caches.l3_bytes;
}

std::optional<Device> read_stored(const std::filesystem::path& file) {
  try {
    return device_from_json(parse_json(read_file(file)));
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::string Device::fingerprint() const {
  std::string text = fmt::format("{}, {} CPU{}, {}, L1 {}, L2 {}", cpu, cpus, cpus == 1 ? "" : "s", isa_text(isa),
                                 size_text(caches.l1_bytes), size_text(caches.l2_bytes));
  if (caches.l3_bytes > 0) text += ", L3 " + size_text(caches.l3_bytes);
  return text;
}

double Device::peak_gflops(int threads) const {
  std::vector<std::pair<int, double>> rows;
  for (const PeakRow& row : peaks) rows.emplace_back(row.threads, row.gflops);
  return interpolate(rows, threads);
}

double Device::bandwidth_gbs(Level level, int threads) const {
  return interpolate(rows_of(bandwidths, level, &BandwidthRow::read_gbs), threads);
}

double Device::copy_gbs(Level level, int threads) const {
  return interpolate(rows_of(bandwidths, level, &BandwidthRow::copy_gbs), threads);
}

Device describe_device() {
  Device device;
  device.cpu = cpu_brand();
  device.cpus = online_cpus();
  device.isa = cpu_features();
  device.caches = cache_sizes();
  return device;
}

Device measure_device(int max_threads, double ms_each, const DeviceProgress& progress) {
  Device device = describe_device();
  const std::vector<int> counts = thread_counts(max_threads > 0 ? max_threads : usable_cpus());
  const std::vector<Level> levels = memory_levels();
  const auto all = static_cast<int>(counts.size() * (1 + levels.size()));
  int done = 0;
  const auto report = [&](std::string_view what, int threads) {
    if (progress) progress(done, all, fmt::format("{}, {} thread{}", what, threads, threads == 1 ? "" : "s"));
    ++done;
  };
  QuietWatch watch;
  watch.start();
  const uint64_t start = ticks();
  device.clock_ghz = core_clock_ghz();
  for (const int threads : counts) {
    report("FLOP/s", threads);
    const PeakRate peak = measure_peak(threads, ms_each);
    device.peaks.push_back({threads, peak.rate, peak.loop});
    for (const Level level : levels) {
      report(level_name(level), threads);
      const PeakRate read = measure_read(level, threads, ms_each);
      const PeakRate copy = measure_copy(level, threads, ms_each);
      device.bandwidths.push_back({level, threads, read.rate, copy.rate, read.loop});
    }
  }
  device.clock_ghz = std::max(device.clock_ghz, core_clock_ghz());
  device.measured = iso_date();
  device.disturbed_by = watch.stop(ms_between(start, ticks())).why();
  return device;
}

nlohmann::json to_json(const Device& device) {
  nlohmann::json peaks = nlohmann::json::array();
  for (const PeakRow& row : device.peaks) {
    peaks.push_back({{"threads", row.threads}, {"gflops", row.gflops}, {"loop", row.loop}});
  }
  nlohmann::json bandwidths = nlohmann::json::array();
  for (const BandwidthRow& row : device.bandwidths) {
    bandwidths.push_back({{"level", level_name(row.level)},
                          {"threads", row.threads},
                          {"read_gbs", row.read_gbs},
                          {"copy_gbs", row.copy_gbs},
                          {"loop", row.loop}});
  }
  return {{"format", kFormat},
          {"cpu", device.cpu},
          {"cpus", device.cpus},
          {"isa", device.isa},
          {"l1_bytes", device.caches.l1_bytes},
          {"l2_bytes", device.caches.l2_bytes},
          {"l3_bytes", device.caches.l3_bytes},
          {"clock_ghz", device.clock_ghz},
          {"peaks", peaks},
          {"bandwidths", bandwidths},
          {"measured", device.measured},
          {"disturbed_by", device.disturbed_by}};
}

Device device_from_json(const nlohmann::json& json) {
  Device device;
  try {
    if (json.at("format").get<int>() != kFormat) {
      fail(ErrorKind::bad_input, "device: expected format {}, got {}", kFormat, json.at("format").get<int>());
    }
    json.at("cpu").get_to(device.cpu);
    json.at("cpus").get_to(device.cpus);
    json.at("isa").get_to(device.isa);
    json.at("l1_bytes").get_to(device.caches.l1_bytes);
    json.at("l2_bytes").get_to(device.caches.l2_bytes);
    json.at("l3_bytes").get_to(device.caches.l3_bytes);
    json.at("clock_ghz").get_to(device.clock_ghz);
    json.at("measured").get_to(device.measured);
    json.at("disturbed_by").get_to(device.disturbed_by);
    for (const nlohmann::json& row : json.at("peaks")) {
      device.peaks.push_back({row.at("threads"), row.at("gflops"), row.at("loop")});
    }
    for (const nlohmann::json& row : json.at("bandwidths")) {
      const std::string name = row.at("level");
      const std::optional<Level> level = parse_level(name);
      if (!level) fail(ErrorKind::bad_input, "device: level '{}'; legal values are L1, L2, L3, DRAM", name);
      device.bandwidths.push_back({*level, row.at("threads"), row.at("read_gbs"), row.at("copy_gbs"), row.at("loop")});
    }
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorKind::bad_input, "device: {}", e.what());
  }
  return device;
}

std::filesystem::path device_file() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  if (const auto cache = variable("XDG_CACHE_HOME"); cache.is_absolute()) return cache / "kilter" / "device.json";
  if (const auto home = variable("HOME"); home.is_absolute()) return home / ".cache" / "kilter" / "device.json";
  return {};
}

Device this_device(bool again, const DeviceProgress& progress) {
  return this_device(device_file(), again, [&] { return measure_device(0, 200, progress); });
}

Device this_device(const std::filesystem::path& file, bool again, const std::function<Device()>& measure) {
  if (!again && !file.empty()) {
    const std::optional<Device> stored = read_stored(file);
    if (stored && covers(stored->peaks, usable_cpus()) && same_machine(*stored, describe_device())) return *stored;
  }
  const Device device = measure();
  if (file.empty()) return device;
  try {
    std::filesystem::create_directories(file.parent_path());
    write_file_atomically(file, json_text(to_json(device), 2) + "\n");
  } catch (const Error&) {
    return device;
  } catch (const std::filesystem::filesystem_error&) {
    return device;
  }
  return device;
}

}  // namespace kilter
