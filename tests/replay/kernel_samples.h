// The hash of each template's kernels (schedule/kernel_versions.h), computed from samples: tasks, each with some
// schedules.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kilter::replay {

/// A task in one of the forms that tests/search/tasks.h reads, and the schedules whose kernels are hashed.
struct KernelSample {
  std::string task;
  std::vector<std::string> schedules;
};

/// Reads kernel_samples.txt: unindented lines are tasks, each followed by its schedules in indented lines.
std::vector<KernelSample> parse_kernel_samples(const std::string& text);

/// The targets of the samples: every vector width of x86-64, NEON and SVE.
std::vector<std::string_view> sample_targets();

/// The kernels of all samples.
struct SampledKernels {
  std::map<std::string, uint64_t> hashes;                ///< by template
  std::map<std::string, std::set<std::string>> targets;  ///< by template: the targets for which it made a kernel
  std::vector<std::string> unused;                       ///< "SCHEDULE of TASK": schedules that no target accepts
};
/// Lowers each sample for each target that accepts the schedule, runs the loop passes, and hashes the loop IR and the
/// back end's revision. Throws if a task cannot be built or a template is unknown.
SampledKernels sampled_kernels(const std::vector<KernelSample>& samples);

}  // namespace kilter::replay
