// What is expected to be left to gain on a task, and how much of it more trials bring: the one estimate that progress,
// --until, the summary of a tuning run and `kilter explain` share.
#pragma once

#include <cstdint>
#include <span>

#include "tune/tuner/noise.h"

namespace kilter::tune {

/// With so many schedules tried the mean regret of the default searcher is three and a half percent (doc/search.md);
/// some spaces have 12 points.
constexpr int64_t kEnoughTried = 8;
/// Schedules that are tried, per trial; the other trials race what was tried (doc/search.md).
constexpr double kTriedPerTrial = 2.0 / 3;
/// The mean regret before the first trial, of the default schedules: a prior for what no record tells of.
constexpr double kDefaultLeft = 0.043;

/// Share of a task's time that is expected to be left after so many trials, where nothing is known of their outcome:
/// the default searcher's mean regret on the measured tables, with the noise of tuning (doc/search.md).
double mean_regret(double trials);

/// Share of a task's time that is expected to be left to gain by schedules that were not tried. `tried`: ratios over
/// the default, in the order in which the schedules were first tried. It is what the best of all is believed to gain
/// over the best of the first half of them, the default among these, since gains halve with each doubling of the trials
/// (doc/search.md); at least what noise would hide. Of fewer than kEnoughTried schedules: mean_regret().
double left_to_gain(std::span<const LogRatios* const> tried, double noise);

/// The part of `left` that `more` schedules are expected to bring where `tried` were tried: of as many again, half of
/// it. `size`: of all that are worth a trial, where that is known; all of `left` where none remains.
double gain_of_more(double left, double tried, double more, double size = 0);

}  // namespace kilter::tune
