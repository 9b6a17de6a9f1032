// The analytic model of templates that have no formula of their own: it lowers a schedule, which is cheap, and counts
// its loops.
#pragma once

#include "schedule/model/loop_count.h"
#include "schedule/schedule.h"

namespace kilter {

/// What a template states itself.
struct LoopTemplate {
  Answer<std::vector<Knob>> (*space)(const Task&, const TargetLimits&);
  /// The schedule that is the default unless the model expects clearly less of another one.
  Answer<Schedule> (*usual)(const Task&, const TargetLimits&);
  Answer<Lowered> (*lower)(const Task&, const Schedule&, const TargetLimits&);
};

/// A model that only counts is this much off between two schedules of one template: to expect less of another one is
/// no reason to leave the usual one.
constexpr double kCountError = 0.2;

/// Cycles of the stages one after another: those of their instructions beside those in which their operands come from
/// where so many bytes lie, or, where one parallel item does not keep what it works on in L1, all that it reads.
Estimate estimate_lowered(const Task& task, const Lowered& lowered, const TargetLimits& limits);

/// All points of the space, the usual one first. Points that leave threads idle, with fewer parallel items than
/// kFewItems and than the usual one has, are not among them.
std::vector<Schedule> loop_candidates(const LoopTemplate& from, const Task& task, const TargetLimits& limits);
/// The cheapest candidate; the usual one where that is cheaper by no more than kCountError.
Answer<Schedule> loop_pick(const LoopTemplate& from, const Task& task, const TargetLimits& limits);
Answer<Estimate> loop_estimate(const LoopTemplate& from, const Task& task, const Schedule& schedule,
                               const TargetLimits& limits);

/// Fewer parallel items leave threads idle.
constexpr int64_t kFewItems = 16;

/// These as the functions of a Template.
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
