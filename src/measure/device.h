// The properties of this machine: the processor, its caches, and its peak rates, which are measured once and stored.
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
  double gflops = 0;  ///< fp32; a multiply-add counts as 2
  std::string loop;
};

struct BandwidthRow {
  Level level = Level::dram;
  int threads = 1;
  double read_gbs = 0;  ///< 1e9 bytes per second, all threads together
  double copy_gbs = 0;  ///< bytes read plus bytes written, while copying
  std::string loop;     ///< the loop that read fastest
};

struct Device {
  std::string cpu;               ///< cpu_brand()
  int cpus = 1;                  ///< the machine's online CPUs; those that a process may use are a condition of its
                                 ///< runs
  std::vector<std::string> isa;  ///< cpu_features()
  CacheSizes caches;
  double clock_ghz = 0;        ///< measured clock of one core; 0: not known
  std::vector<PeakRow> peaks;  ///< ascending threads; empty until measured
  std::vector<BandwidthRow> bandwidths;
  std::string measured;      ///< date of the measurement, ISO 8601
  std::string disturbed_by;  ///< what disturbed the measurement as a whole, in words; empty on a quiet machine

  /// Returns "AMD EPYC, 2 CPUs, avx512, L1 48K, L2 1M, L3 32M".
  std::string fingerprint() const;
  /// Return rates for any number of threads: interpolated linearly between the measured thread counts, and constant
  /// above the largest of them. 0 when not measured.
  double peak_gflops(int threads) const;
  double bandwidth_gbs(Level level, int threads) const;
  double copy_gbs(Level level, int threads) const;
};

/// Returns a description of this machine without measuring anything.
Device describe_device();

/// Called before each measurement with the number done, the total number, and a description.
using DeviceProgress = std::function<void(int done, int all, const std::string& what)>;
/// Returns describe_device() with peaks and bandwidths for 1..max_threads threads (0: the CPUs that the calling thread
/// may run on), measured for `ms_each` milliseconds each. Above eight threads, measures only powers of two and
/// max_threads itself.
Device measure_device(int max_threads = 0, double ms_each = 200, const DeviceProgress& progress = {});

nlohmann::json to_json(const Device& device);
/// Reads a device. Throws bad_input, naming the field, for JSON of another form.
Device device_from_json(const nlohmann::json& json);

/// Returns $XDG_CACHE_HOME/kilter/device.json, or ~/.cache/kilter/device.json; empty when neither variable is set.
std::filesystem::path device_file();

/// Returns the stored measurements of this machine. Measures and stores them when there are none, when the file is
/// damaged, when it describes another machine or covers fewer threads than there are CPUs to run on, or when `again` is
/// set. A file that cannot be written is not an error: the measurements are still returned.
Device this_device(bool again = false, const DeviceProgress& progress = {});
Device this_device(const std::filesystem::path& file, bool again, const std::function<Device()>& measure);

}  // namespace kilter
