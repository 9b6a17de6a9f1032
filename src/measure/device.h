// What is known of this machine: the processor, its caches, and what it does at most as measured once and stored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "measure/caches.h"
#include "measure/peaks.h"

namespace kilter {

struct PeakRow {
  int threads = 1;
  double gflops = 0;  ///< fp32, a multiply-add counts 2
  std::string loop;
};

struct BandwidthRow {
  Level level = Level::dram;
  int threads = 1;
  double read_gbs = 0;  ///< 1e9 bytes per second, all threads together
  double copy_gbs = 0;  ///< read plus written, while copying
  std::string loop;     ///< that read fastest
};

struct Device {
  std::string cpu;               ///< cpu_brand()
  int cpus = 1;                  ///< of the machine, online; those that a process may use are a condition of its runs
  std::vector<std::string> isa;  ///< cpu_features()
  CacheSizes caches;
  double clock_ghz = 0;        ///< of one core, as measured; 0: not known
  std::vector<PeakRow> peaks;  ///< ascending threads; empty until measured
  std::vector<BandwidthRow> bandwidths;
  std::string measured;      ///< date of the measurement, ISO 8601
  std::string disturbed_by;  ///< what disturbed the measurement as a whole, in words; empty on a quiet machine

  /// "AMD EPYC, 2 CPUs, avx512, L1 48K, L2 1M, L3 32M".
  std::string fingerprint() const;
  /// For any number of threads: linear between those measured, and that of the most threads above. 0 when not measured.
  double peak_gflops(int threads) const;
  double bandwidth_gbs(Level level, int threads) const;
  double copy_gbs(Level level, int threads) const;
};

/// Without measuring anything.
Device describe_device();

/// Called before each measurement with how many are done, how many there are, and what it is.
using DeviceProgress = std::function<void(int done, int all, const std::string& what)>;
/// describe_device() with peaks and bandwidths for 1..max_threads threads (0: CPUs that the calling thread may run on),
/// `ms_each` milliseconds each; of
/// more than eight, the powers of two and the last.
Device measure_device(int max_threads = 0, double ms_each = 200, const DeviceProgress& progress = {});

nlohmann::json to_json(const Device& device);
/// Throws bad_input, naming the field, for JSON of another form.
Device device_from_json(const nlohmann::json& json);

/// $XDG_CACHE_HOME/kilter/device.json, or ~/.cache/kilter/device.json; empty when neither variable is set.
std::filesystem::path device_file();

/// The stored measurements of this machine; measured and stored when there are none, when the file is damaged, of
/// another machine or of fewer threads than there are CPUs to run on, or when `again` is set. A file that cannot be
/// written is no error: the measurements are answered.
Device this_device(bool again = false, const DeviceProgress& progress = {});
Device this_device(const std::filesystem::path& file, bool again, const std::function<Device()>& measure);

}  // namespace kilter
