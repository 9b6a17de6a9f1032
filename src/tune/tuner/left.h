// The gain that can still be expected in a task, and the part of it that more trials are expected to bring. Progress,
// --until, the summary of a tuning run and `kilter explain` all use this estimate.
#pragma once

#include <cstdint>
#include <span>

#include "tune/tuner/noise.h"

namespace kilter::tune {

/// After this many schedules the mean regret of the default searcher is 3.5 % (doc/search.md). Some spaces have only 12
/// points.
constexpr int64_t kEnoughTried = 8;
/// Schedules tried per trial; the remaining trials re-measure schedules already tried (doc/search.md).
constexpr double kTriedPerTrial = 2.0 / 3;
/// The mean regret of the default schedules, before the first trial: a prior for tasks that have no records.
constexpr double kDefaultLeft = 0.043;

/// Share of a task's time that better schedules are expected to save after this many trials whose results are unknown:
/// the default searcher's mean regret on the measured tables, with the noise of tuning (doc/search.md).
double mean_regret(double trials);

/// Share of a task's time that schedules not tried yet are expected to gain. `tried`: ratios over the default, in the
/// order in which the schedules were first tried. The estimate is the believed gain of the best schedule tried over the
/// best of the first half tried (including the default), since gains halve with each doubling of the trials
/// (doc/search.md). It is at least the gain that could be hidden by noise. For fewer than kEnoughTried schedules, it is
/// mean_regret().
double left_to_gain(std::span<const LogRatios* const> tried, double noise);

/// The part of `left` that `more` schedules are expected to bring after `tried` schedules: half of it if `more` equals
/// `tried`. `size`: number of schedules worth a trial, if known; the result is all of `left` if none would remain.
double gain_of_more(double left, double tried, double more, double size = 0);

}  // namespace kilter::tune
