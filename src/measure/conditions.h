// The conditions under which a figure was measured. They are stored with every result.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kilter {

struct Conditions {
  std::string device;                  ///< Device::fingerprint()
  int threads = 1;                     ///< threads that ran the network
  std::vector<double> took_part = {};  ///< by thread: Attendance::took_part(); empty: not known
  std::string pinning;                 ///< CPUs that the process may run on, "0-1"
  std::string huge_pages;              ///< transparent huge pages: "always", "madvise", "never", "unknown"
  std::string weights = "warm";        ///< "warm" (as the last run left them) or "cold" (rotated through memory)
  std::string weights_from;            ///< where the weights stream from: "L1", "L2", "L3", "DRAM"; empty: not known
  std::string activations;             ///< "as the predecessor left them", "warm", ...
  std::string clock;                   ///< tick_source()
  std::string estimator;               ///< kEstimator
  int64_t taken = 0;                   ///< number of samples taken
  int64_t kept = 0;                    ///< samples that the figure is computed from
  int64_t disturbed = 0;               ///< samples that the machine disturbed
  std::string disturbed_by;            ///< DisturbedCount::why()
  double best_ms = 0;                  ///< time of the shortest sample; 0: not known
  std::string date;                    ///< ISO 8601, UTC
  std::string target;                  ///< Target::name that code was generated for
  std::string precision = "declared";  ///< name of the Precision that the network was compiled with
  std::string codegen;                 ///< version of the code that ran (KernelVersions)
  std::string records = "none";        ///< the tuning records that were used
  std::string program;                 ///< Kilter's own version
  std::string executor = "kilter";     ///< the runtime that ran it
};

/// Returns the current conditions: `device` empty, threads 1, and pinning, huge_pages, clock, estimator and date as the
/// machine reports them now.
Conditions current_conditions();

/// Whether the machine left a measurement undisturbed.
enum class Quietness : uint8_t {
  unknown,   ///< no sample was judged
  quiet,     ///< at most one sample in twenty was disturbed
  slightly,  ///< up to a quarter of the samples were; the estimator leaves that many out
  partly,    ///< up to half of them were
  busy,      ///< more than half of them were: the figure is an upper bound
};
Quietness quietness(const Conditions& conditions);
/// Returns "not known", "quiet", "slightly disturbed", "partly disturbed" or "busy".
std::string_view name(Quietness quietness);
/// Returns whether the estimator left out all disturbed samples: quiet or slightly.
bool undisturbed_figure(const Conditions& conditions);
/// Returns the share of samples that were disturbed; 0 if none were taken.
double disturbed_share(const Conditions& conditions);
/// Returns whether there are more threads than CPUs that the process may use. They then wait for each other, whatever
/// else runs.
bool more_threads_than_cpus(const Conditions& conditions);
/// Returns the line printed with a figure: "quiet: 3 of 200 runs disturbed (1.5 %), best 2.601 ms". `samples` is the
/// word for samples, in the plural.
std::string quiet_text(const Conditions& conditions, std::string_view samples = "runs");
/// Returns "2.601 ms"; for a busy machine "2.601 to 6.833 ms", from the best sample to the figure. Each has `decimals`
/// decimal places.
std::string figure_text(double ms, const Conditions& conditions, int decimals);

/// Returns every field under its own name. If best_ms is not known, it and the values derived from it are left out.
nlohmann::json to_json(const Conditions& conditions);
/// Reads conditions; missing fields keep their defaults. Throws bad_input for a field of the wrong type.
Conditions conditions_from_json(const nlohmann::json& json);

struct Difference {
  std::string what;  ///< in words: "threads", "tuning records", ...
  std::string a, b;
};
/// Returns the conditions that differ, starting with those that change times most: threads, target, records, versions,
/// device, weights, the rest. Dates and counts of samples are not conditions and never listed.
std::vector<Difference> differences(const Conditions& a, const Conditions& b);

/// Returns the CPUs that the calling thread may run on, as "0-3,8".
std::string affinity_text();
/// Returns any ascending list of CPUs as "0-3,8".
std::string cpu_list_text(const std::vector<int>& cpus);
/// Returns the CPUs that the calling thread may run on, ascending.
std::vector<int> affinity_cpus();
/// Returns the number of CPUs of the machine that are online, whether or not this process may use them; at least 1.
int online_cpus();
/// Returns the core of each of these CPUs, identified by its first hardware thread, or the CPU itself if the machine
/// does not report cores.
std::vector<int> cores_of(const std::vector<int>& cpus);
/// Returns the CPUs in a list such as "0-3,8", ascending; none for text of another form.
std::vector<int> cpus_in(std::string_view list);
/// Returns the number of cpus_in().
int count_cpus(std::string_view list);
/// Restricts the calling thread, and threads that it starts from now on, to these CPUs. Returns false, with errno set,
/// if the kernel refuses. An empty list changes nothing.
bool set_affinity(const std::vector<int>& cpus);
/// Returns the selected word of /sys/kernel/mm/transparent_hugepage/enabled; "unknown" without that file.
std::string huge_pages_text();
/// Returns the current time, "2026-03-01T12:34:56Z".
std::string iso_date();
/// Returns the seconds since 1970 of "2026-03-01", or with a time "2026-03-01T12:34", "...:56", "...:56Z". Returns
/// nothing for other text.
std::optional<int64_t> second_of(std::string_view iso_date);

}  // namespace kilter
