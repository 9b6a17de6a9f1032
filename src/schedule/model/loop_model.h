// The analytic model of templates without a formula of their own: it lowers a schedule, which is cheap, and counts its
// loops.
#pragma once

#include "schedule/model/loop_count.h"
#include "schedule/schedule.h"

namespace kilter {

/// Relative error of a counting model between two schedules of one template. A smaller predicted gain does not justify
/// leaving the usual schedule.
constexpr double kCountError = 0.2;

/// Cycles of all stages in sequence. In each stage, arithmetic overlaps in part with memory traffic. The traffic counts
/// each operand once, from the level of memory where the operands fit. It counts every access instead if the working
/// set of a parallel item does not stay in L1 and this takes longer.
Estimate estimate_lowered(const Task& task, const Lowered& lowered, const CpuLimits& limits);

/// Fewer parallel items than this leave threads idle.
constexpr int64_t kFewItems = 16;

/// An analysed task whose schedules are rated by counting their loops.
class LoopModel : public Analysed {
 public:
  using Analysed::Analysed;
  /// The cheapest candidate, or the usual schedule if its cost exceeds the cheapest by at most the fraction
  /// kCountError.
  Result<Schedule> pick() const final;
  Result<Schedule> quick() const final { return usual(); }
  /// All points of the space, the usual schedule first. Leaves out points with fewer parallel items than both kFewItems
  /// and the usual schedule, since they leave threads idle.
  std::vector<Schedule> candidates() const final;

 protected:
  /// The schedule that is the default unless the model predicts clearly fewer cycles for a different one.
  virtual Schedule usual() const = 0;
  Estimate model(const Schedule& schedule) const final;
};

}  // namespace kilter
