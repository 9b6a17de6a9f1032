// The options that determine how a trial is measured: one table for the command line, for `kilter options` and for the
// code that uses the options. The names are those that users of TVM know; each row says what the option does here.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace kilter::tune {

struct TrialOptions {
  int64_t number = 1;        ///< minimum number of runs in a turn
  int64_t repeat = 0;        ///< rounds of a trial; 0: automatic_rounds()
  double min_repeat_ms = 2;  ///< a turn has enough runs to last this long
  double timeout_ms = 1000;  ///< RunnerOptions::timeout_ms
  int n_parallel = 0;        ///< threads that compile candidates; 0: one for each CPU that may compile
};

/// Number of rounds in a trial of a network whose run takes `ms`: 2 to 6, more for shorter runs.
int64_t automatic_rounds(double ms);

struct TrialOptionRow {
  std::string_view name, meaning, legal, fallback;
};
std::span<const TrialOptionRow> all_trial_options();

}  // namespace kilter::tune
