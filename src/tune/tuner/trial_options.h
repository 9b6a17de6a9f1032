// How a trial is taken: one table for the command line, for `kilter options` and for the code that reads it. Names are
// those that TVM's users know; each says what it does here.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace kilter::tune {

struct TrialOptions {
  int64_t number = 1;        ///< runs of a turn, at least
  int64_t repeat = 0;        ///< rounds of a trial; 0: as automatic_rounds() says
  double min_repeat_ms = 2;  ///< a turn has as many runs as take so long
  double timeout_ms = 1000;  ///< RunnerOptions::timeout_ms
  int n_parallel = 0;        ///< threads that compile candidates; 0: one on each CPU that may compile
};

/// Rounds of a trial of a network whose run takes `ms`: more where they are cheap, 2 to 6.
int64_t automatic_rounds(double ms);

struct TrialOptionRow {
  std::string_view name, meaning, legal, fallback;
};
std::span<const TrialOptionRow> all_trial_options();

/// Options of TVM's tuners that mean nothing here, or something that another option does.
struct AbsentOptionRow {
  std::string_view name, instead;
};
std::span<const AbsentOptionRow> all_absent_options();

}  // namespace kilter::tune
