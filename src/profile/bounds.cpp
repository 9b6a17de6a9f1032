#include "profile/bounds.h"

#include <algorithm>
#include <numeric>

#include "base/text.h"
#include "exec/plan_check.h"

namespace kilter::profile {
namespace {

/// Returns the share of `touched` bytes that does not fit in a cache of `cache` bytes.
double miss_share(int64_t touched, int64_t cache) {
  if (touched <= cache || touched == 0) return 0;
  return static_cast<double>(touched - cache) / static_cast<double>(touched);
}

double ms_at(double bytes, double gbps) { return gbps > 0 ? bytes / gbps * 1e-6 : 0; }

int used_threads(const Step& step, int threads) {
  if (step.max_threads > 0) threads = std::min(threads, step.max_threads);
  return static_cast<int>(std::clamp<int64_t>(step.extent, 1, threads));
}

}  // namespace

std::string_view name(Bound::Kind kind) {
  switch (kind) {
    case Bound::compute:
      return "compute";
    case Bound::memory:
      return "memory";
    case Bound::overhead:
      return "overhead";
    case Bound::none:
      break;
  }
  return "none";
}

int64_t weight_bytes(const Step& step) {
  int64_t bytes = 0;
  for (const BufferRef& ref : step.args) bytes += ref.space == Space::constant ? ref.bytes : 0;
  return bytes;
}

Footprint footprint(const Plan& plan) {
  Footprint all{plan.constants_bytes, plan.constants_bytes + plan.arena_bytes, plan.devices.front() == "cpu"};
  for (const auto* borders : {&plan.inputs, &plan.outputs}) {
    for (const PlanTensor& t : *borders) all.touched_bytes += tensor_bytes(t.type, t.shape).value_or(0);
  }
  return all;
}

Bound memory_bound_of(const Step& step, const Footprint& run, const Peaks& peaks, int threads) {
  const int used = used_threads(step, threads);
  const auto weights = static_cast<double>(std::min(weight_bytes(step), std::max<int64_t>(step.bytes, 0)));
  const double others = std::max(static_cast<double>(step.bytes) - weights, 0.0);
  const double l3 = peaks.at(peaks.l3_gbps, used), l2 = peaks.at(peaks.l2_gbps, used);
  const int64_t l2_all = peaks.l2_bytes * used;
  // A run reads each weight once. Each cache keeps as much of the touched memory as fits.
  const double past_l2 = miss_share(run.touched_bytes, l2_all);
  const double dram = std::min(miss_share(run.touched_bytes, peaks.l3_bytes), past_l2);
  double memory = ms_at(weights * (1 - past_l2), l2) + ms_at(weights * (past_l2 - dram), l3);
  memory += ms_at(weights * dram, peaks.at(peaks.dram_gbps, used));
  // The other operands may come from L2, up to its size, regardless of the step that wrote them; the rest comes from L3
  // or memory.
  const double beyond = miss_share(static_cast<int64_t>(others), l2_all);
  const double far = std::min(miss_share(static_cast<int64_t>(others), peaks.l3_bytes), beyond);
  const double from_l2 = ms_at(others * (1 - beyond), l2), from_l3 = ms_at(others * (beyond - far), l3);
  const double from_dram = ms_at(others * far, peaks.at(peaks.dram_gbps, used));
  memory += from_l2 + from_l3 + from_dram;
  if (weights > others) return {Bound::memory, memory, dram > 0.5 ? "DRAM" : past_l2 > 0.5 ? "L3" : "L2"};
  const double most = std::max({from_l2, from_l3, from_dram});
  return {Bound::memory, memory, most == from_l2 ? "L2" : most == from_l3 ? "L3" : "DRAM"};
}

Bound bound_of(const Step& step, const Footprint& run, const Peaks& peaks, int threads) {
  if (step.kind == StepKind::reference || peaks.gflops.empty() || !run.on_cpu) return {};
  const int used = used_threads(step, threads);
  Bound bound = memory_bound_of(step, run, peaks, threads);
  if (step.role == StepRole::contraction) {
    const double gflops = peaks.rate_of(step.multiplies, used);
    const double compute = gflops > 0 ? static_cast<double>(step.flops) / gflops * 1e-6 : 0;
    const char* unit = step.multiplies == DType::bf16 ? "bf16" : step.multiplies == DType::i8 ? "int8" : "FMA";
    if (compute >= bound.ms) bound = {Bound::compute, compute, unit};
  }
  const double region = peaks.at(peaks.region_us, used) * 1e-3;
  if (region > bound.ms) bound = {Bound::overhead, region, "fork and join"};
  return bound;
}

double bound_ms(const Plan& plan, std::span<const size_t> steps, const Peaks& peaks, int threads) {
  const Footprint run = footprint(plan);
  double ms = 0;
  for (const size_t s : steps) ms += bound_of(plan.steps[s], run, peaks, threads).ms;
  return ms;
}

double bound_ms(const Plan& plan, const Peaks& peaks, int threads) {
  std::vector<size_t> all(plan.steps.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return bound_ms(plan, all, peaks, threads);
}

}  // namespace kilter::profile
