// The circumstances that a measured figure holds for. They travel with every result.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kilter {

struct Conditions {
  std::string device;               ///< Device::fingerprint()
  int threads = 1;                  ///< that ran the network
  std::string pinning;              ///< CPUs that the process may run on, "0-1"
  std::string huge_pages;           ///< transparent huge pages: "always", "madvise", "never", "unknown"
  std::string weights = "warm";     ///< "warm" (as the last run left them) or "cold" (rotated through memory)
  std::string weights_from;         ///< where the weights stream from: "L1", "L2", "L3", "DRAM"; empty: not known
  std::string activations;          ///< "as the predecessor left them", "warm", ...
  std::string clock;                ///< tick_source()
  std::string estimator;            ///< kEstimator
  int64_t taken = 0;                ///< samples that were taken,
  int64_t kept = 0;                 ///< that the figure is made of,
  int64_t disturbed = 0;            ///< and that the machine disturbed
  std::string disturbed_by;         ///< DisturbedCount::why()
  double best_ms = 0;               ///< of the shortest sample; 0: not known
  std::string date;                 ///< ISO 8601, UTC
  std::string target;               ///< Target::name that code was generated for
  std::string codegen;              ///< codegen_version()
  std::string records = "none";     ///< which tuning records were used
  std::string program;              ///< Kilter's own version
  std::string executor = "kilter";  ///< what ran it
};

/// device left empty, threads 1, and what the machine says of itself now: pinning, huge_pages, clock, estimator, date.
Conditions current_conditions();

/// Whether the machine left a figure alone.
enum class Quietness : uint8_t {
  unknown,  ///< no sample was judged
  quiet,    ///< at most a quarter of the samples was disturbed, which the estimator leaves out
  partly,   ///< up to half of them
  busy,     ///< most of them: the figure is an upper bound
};
Quietness quietness(const Conditions& conditions);
/// "not known", "quiet", "partly disturbed", "busy".
std::string_view name(Quietness quietness);
/// Of the samples, those that were disturbed; 0 where none were taken.
double disturbed_share(const Conditions& conditions);
/// More threads than CPUs that the process may use: they wait for each other, whatever else runs.
bool more_threads_than_cpus(const Conditions& conditions);
/// The line that stands beside a figure: "quiet: 3 of 200 runs disturbed (1.5 %), best 2.601 ms". `samples`: what was
/// taken, in the plural.
std::string quiet_text(const Conditions& conditions, std::string_view samples = "runs");
/// "2.601 ms"; of a busy machine "2.601 to 6.833 ms", from the best sample to the figure. `decimals` of each.
std::string figure_text(double ms, const Conditions& conditions, int decimals);

/// Every field under its own name; of what is not known best_ms and what is made of it are left out.
nlohmann::json to_json(const Conditions& conditions);
/// Fields that are missing keep their defaults; throws bad_input for a field of another type.
Conditions conditions_from_json(const nlohmann::json& json);

struct Difference {
  std::string what;  ///< in words: "threads", "tuning records", ...
  std::string a, b;
};
/// What differs, those that change times most first: threads, target, records, versions, device, weights, the rest.
/// Dates and counts of samples are no conditions and never listed.
std::vector<Difference> differences(const Conditions& a, const Conditions& b);

/// "0-3,8" of the CPUs that the calling thread may run on.
std::string affinity_text();
/// The same rule for any ascending list: "0-3,8".
std::string cpu_list_text(const std::vector<int>& cpus);
/// The CPUs that the calling thread may run on, ascending.
std::vector<int> affinity_cpus();
/// CPUs of the machine that are online, whether this process may use them or not; at least 1.
int online_cpus();
/// The core of each of these CPUs, named by its first hardware thread; the CPU itself where the machine does not tell.
std::vector<int> cores_of(const std::vector<int>& cpus);
/// How many CPUs a list such as "0-3,8" has; 0 for text of another form.
int count_cpus(std::string_view list);
/// Keeps the calling thread, and threads that it starts from now on, to these CPUs; false, with errno, where the kernel
/// refuses. None: nothing changes.
bool set_affinity(const std::vector<int>& cpus);
/// The chosen word of /sys/kernel/mm/transparent_hugepage/enabled, "unknown" without it.
std::string huge_pages_text();
/// The current moment, "2026-03-01T12:34:56Z".
std::string iso_date();
/// Seconds since 1970 of "2026-03-01", or with a time "2026-03-01T12:34", "...:56", "...:56Z"; nothing for another
/// text.
std::optional<int64_t> second_of(std::string_view iso_date);

}  // namespace kilter
