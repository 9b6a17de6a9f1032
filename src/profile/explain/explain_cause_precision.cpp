// Causes in the types of the values: f32 on a machine that multiplies narrower types faster.

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "compile/check_options.h"
#include "profile/explain/explain_causes.h"
#include "profile/schedules.h"

namespace kilter::profile {
namespace {

/// The layers that a narrower type makes faster.
struct Faster {
  int64_t layers = 0;
  double saved_ms = 0;
};

/// Returns the run's memory if its values and weights took `bytes_per_value` bytes instead of four.
Footprint narrowed(Footprint run, double bytes_per_value) {
  for (int64_t* bytes : {&run.weights_bytes, &run.touched_bytes})
    *bytes = static_cast<int64_t>(static_cast<double>(*bytes) * bytes_per_value / 4);
  return run;
}

/// Returns the step with operands of the given size that multiplies `products`. Winograd exists only for f32, so the
/// step runs all of the operator's multiplications.
Step narrowed(Step step, DType products, double bytes_per_value) {
  step.multiplies = products;
  if (!approximation_of(step.schedule).empty()) step.flops = std::max(step.flops, step.effective_flops);
  step.bytes = static_cast<int64_t>(static_cast<double>(step.bytes) * bytes_per_value / 4);
  for (BufferRef& arg : step.args)
    arg.bytes = static_cast<int64_t>(static_cast<double>(arg.bytes) * bytes_per_value / 4);
  return step;
}

/// Predicts the layers' times with narrower operands. Each layer is assumed to reach the same share of its bound.
Faster faster_with(const Context& c, DType products, double bytes_per_value) {
  const Peaks& peaks = c.profile.peaks;
  const Footprint run = narrowed(footprint(c.plan), bytes_per_value);
  Faster out;
  for (const Row* row : c.rows()) {
    const Step& step = c.step(*row);
    if (step.kind != StepKind::kernel || step.role != StepRole::contraction || step.multiplies != DType::f32) continue;
    if (row->bound.ms <= 0) continue;
    const Bound then = bound_of(narrowed(step, products, bytes_per_value), run, peaks, c.usable_threads(step));
    const double saved = row->time.mean * (1 - then.ms / row->bound.ms);
    if (saved <= 0) continue;  // this layer would stay in f32
    ++out.layers, out.saved_ms += saved;
  }
  return out;
}

bool multiplies_bytes(const Plan& plan) {
  return std::ranges::any_of(plan.steps, [](const Step& step) { return step.multiplies == DType::i8; });
}

}  // namespace

std::vector<Suspicion> find_faster_precisions(const Context& c) {
  if (c.compiled == nullptr || c.subject.compile.precision != Precision::declared) return {};
  std::vector<Suspicion> all;
  for (const Precision gear : {Precision::bf16, Precision::fp16}) {
    const DType products = gear == Precision::bf16 ? DType::bf16 : DType::f32;
    if (!has_instructions(c.subject.compile.target.limits, gear) || c.profile.peaks.rate_of(products, 1) <= 0) continue;
    const Faster faster = faster_with(c, products, 2);
    if (!c.matters(faster.saved_ms) || (!all.empty() && faster.saved_ms <= all.front().gain_ms)) continue;
    Suspicion s{{}, {}, {}, faster.saved_ms, fmt::format("--precision {}", name(gear)), c.setting()};
    s.evidence = fmt::format(
        "{} layers multiply f32; {} would take {} of {} if they reached the same shares of their bounds; results "
        "change, which `kilter run --precision {} --verify` shows",
        faster.layers, name(gear), ms_text(c.profile.end_to_end_ms - faster.saved_ms), ms_text(c.profile.end_to_end_ms),
        name(gear));
    s.mend->compile.precision = gear, s.changes_results = true;
    all = {std::move(s)};
  }
  return all;
}

std::vector<Suspicion> find_unquantised(const Context& c) {
  const CpuLimits& limits = c.subject.compile.target.limits;
  if (c.compiled == nullptr || !limits.multiplies_bytes() || multiplies_bytes(c.plan)) return {};
  if (!c.subject.parts.empty()) return {};  // the quantiser does not accept programs
  if (c.profile.peaks.at(c.profile.peaks.byte_gops, 1) <= 0) return {};
  const Faster faster = faster_with(c, DType::i8, 1);
  // Rounding results to integers costs time, and only contractions get faster, so small gains are uncertain.
  if (faster.saved_ms < 0.2 * c.profile.end_to_end_ms) return {};
  Suspicion s{{}, {}, {}, faster.saved_ms, "quantise the model with samples of its inputs, then compare the two"};
  s.evidence = fmt::format(
      "{} layers multiply f32; int8 would take {} of {} if they reached the same shares of their bounds, not counting "
      "the rounding of their results; results change, and the quantiser's report says by how much",
      faster.layers, ms_text(c.profile.end_to_end_ms - faster.saved_ms), ms_text(c.profile.end_to_end_ms));
  s.action = fmt::format("kilter quantize {} --samples DIR --per-channel -o int8.onnx", shell_word(c.subject.model));
  s.changes_results = true;
  return {s};
}

}  // namespace kilter::profile
