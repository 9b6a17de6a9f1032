#include "tune/tuner/trial_options.h"

#include <algorithm>
#include <cmath>

namespace kilter::tune {
namespace {

constexpr TrialOptionRow kOptions[] = {
    {"number", "minimum number of runs of the network in a turn; in each round every variant has two turns",
     "a whole number from 1 to 1000", "1"},
    {"repeat",
     "rounds per trial; each gives one pair of times, the layer's and its default's, unless another program shared the "
     "core; 0: 2 to 6, depending on the time of a run",
     "a whole number from 0 to 1000", "0"},
    {"min-repeat-ms",
     "minimum length of a turn in milliseconds; it consists of as many runs of the network as fill this time",
     "a number from 0 to 10000", "2"},
    {"timeout",
     "time after which a layer that has not finished counts as failed, such as 500ms or 10s (a bare number is "
     "milliseconds); at least 20 times a run of the network",
     "a time from 10ms to 600s", "1000ms"},
    {"n-parallel",
     "number of threads that compile candidates, on CPUs that the network leaves free, if any, while it is measured; "
     "0: one for each such CPU, or for each CPU if there are none",
     "a whole number from 0 to 1024", "0"},
};

}  // namespace

int64_t automatic_rounds(double ms) { return std::clamp<int64_t>(std::llround(50 / ms), 2, 6); }

std::span<const TrialOptionRow> all_trial_options() { return kOptions; }

}  // namespace kilter::tune
