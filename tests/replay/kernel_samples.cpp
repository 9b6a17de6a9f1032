#include "kernel_samples.h"

#include "../search/tasks.h"
#include "base/hash.h"
#include "base/text.h"
#include "codegen/backend.h"
#include "loop/passes/passes.h"
#include "schedule/schedule.h"

namespace kilter::replay {
namespace {

/// Returns the lowered kernels as text; "" if the template does not accept the task with this schedule.
std::string kernels_text(const Template& from, const tune::TaskOf& of, const Schedule& schedule) {
  const auto lowered = from.lower(*of.task, schedule, of.limits);
  if (!lowered) return {};
  std::string text;
  for (const Stage& stage : lowered->stages) text += print(loop_passes::lower(stage.func, of.limits));
  return text;
}

}  // namespace

std::vector<KernelSample> parse_kernel_samples(const std::string& text) {
  std::vector<KernelSample> samples;
  for (const std::string_view line : split(text, '\n')) {
    const std::string_view words = trim(line);
    if (words.empty() || words.starts_with('#')) continue;
    if (line.front() != ' ') {
      samples.push_back({std::string(words), {}});
    } else {
      require(!samples.empty(), "kernel samples: '{}' stands before the first task", words);
      samples.back().schedules.emplace_back(words);
    }
  }
  return samples;
}

std::vector<std::string_view> sample_targets() {
  return {"x86-64-v2", "x86-64-v3", "sapphirerapids", "znver4", "neoverse-n1", "neoverse-v1"};
}

SampledKernels sampled_kernels(const std::vector<KernelSample>& samples) {
  SampledKernels out;
  for (const KernelSample& sample : samples) {
    std::set<std::string> unused(sample.schedules.begin(), sample.schedules.end());
    for (const std::string_view target : sample_targets()) {
      const Backend& backend = backend_of(parse_target(target));
      const tune::TaskOf of(sample.task, target);
      for (const std::string& schedule : sample.schedules) {
        const Schedule parsed = parse_schedule(schedule);
        const Template* from = find_template(parsed.name);
        require(from != nullptr, "kernel samples: no template has the name '{}'", parsed.name);
        const std::string text = kernels_text(*from, of, parsed);
        if (text.empty()) continue;
        uint64_t& hash = out.hashes.try_emplace(parsed.name, kHashSeed).first->second;
        hash = hash_text(fmt::format("{} for {} by {} {}\n", schedule, target, backend.name, backend.revision), hash);
        hash = hash_text(text, hash);
        out.targets[parsed.name].emplace(target);
        unused.erase(schedule);
      }
    }
    for (const std::string& schedule : unused) out.unused.push_back(schedule + " of " + sample.task);
  }
  return out;
}

}  // namespace kilter::replay
