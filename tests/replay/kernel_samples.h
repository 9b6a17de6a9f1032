// The hashes of all templates' kernels (schedule/kernel_versions.h), made from samples, which are tasks with some of
// their schedules.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kilter::replay {

/// A task, as tests/search/tasks.h reads it, and the schedules whose kernels count.
struct KernelSample {
  std::string task;
  std::vector<std::string> schedules;
};

/// Reads kernel_samples.txt: tasks at the margin, each followed by its schedules, indented.
std::vector<KernelSample> parse_kernel_samples(const std::string& text);

/// The targets of the samples: every width of vectors on x86-64, NEON and SVE.
std::vector<std::string_view> sample_targets();

/// The kernels of all samples.
struct SampledKernels {
  std::map<std::string, uint64_t> hashes;                ///< by template
  std::map<std::string, std::set<std::string>> targets;  ///< by template: targets with a kernel of it
  std::vector<std::string> unused;                       ///< "SCHEDULE of TASK": schedules that no target accepts
};
/// Lowers each sample for each target that accepts the schedule, runs the loop passes, and hashes the loop IR and the
/// back end's revision. Throws if a task cannot be made or a template is not known.
SampledKernels sampled_kernels(const std::vector<KernelSample>& samples);

}  // namespace kilter::replay
