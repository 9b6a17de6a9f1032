// The analytic model of templates without a formula of their own: it lowers a schedule, which is cheap, and counts its
// loops.
#pragma once

#include "schedule/model/loop_count.h"
#include "schedule/schedule.h"

namespace kilter {

/// The functions that a template provides.
struct LoopTemplate {
  Answer<std::vector<Knob>> (*space)(const Task&, const TargetLimits&);
  /// The schedule that is the default unless the model predicts clearly fewer cycles for another.
  Answer<Schedule> (*usual)(const Task&, const TargetLimits&);
  Answer<Lowered> (*lower)(const Task&, const Schedule&, const TargetLimits&);
};

/// Relative error of a counting model between two schedules of one template. A smaller predicted gain is not a reason
/// to leave the usual schedule.
constexpr double kCountError = 0.2;

/// Cycles of all stages in sequence. For each stage, arithmetic overlaps in part with fetching its operands from the
/// level of memory that holds them; if a parallel item's working set does not stay in L1, with everything that it
/// reads.
Estimate estimate_lowered(const Task& task, const Lowered& lowered, const TargetLimits& limits);

/// All points of the space, the usual schedule first. Leaves out points with fewer parallel items than kFewItems and
/// than the usual schedule has, since they leave threads idle.
std::vector<Schedule> loop_candidates(const LoopTemplate& from, const Task& task, const TargetLimits& limits);
/// The cheapest candidate, or the usual schedule if that costs no more than kCountError more.
Answer<Schedule> loop_pick(const LoopTemplate& from, const Task& task, const TargetLimits& limits);
Answer<Estimate> loop_estimate(const LoopTemplate& from, const Task& task, const Schedule& schedule,
                               const TargetLimits& limits);

/// Fewer parallel items than this leave threads idle.
constexpr int64_t kFewItems = 16;

/// A LoopTemplate's model as the functions of a Template.
template <auto kSpace, auto kUsual, auto kLower>
struct LoopModel {
  static constexpr LoopTemplate kFrom{kSpace, kUsual, kLower};
  static std::vector<Schedule> candidates(const Task& task, const TargetLimits& limits) {
    return loop_candidates(kFrom, task, limits);
  }
  static Answer<Schedule> pick(const Task& task, const TargetLimits& limits) { return loop_pick(kFrom, task, limits); }
  static Answer<Estimate> estimate(const Task& task, const Schedule& schedule, const TargetLimits& limits) {
    return loop_estimate(kFrom, task, schedule, limits);
  }
};

}  // namespace kilter
