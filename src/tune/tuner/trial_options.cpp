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

constexpr AbsentOptionRow kAbsent[] = {
    {"tuner", "--searcher chooses the searcher that proposes schedules; `kilter options` lists searchers"},
    {"n-trial", "--trials ends the search after a number of trials over all tasks, and --time after a time limit"},
    {"n-trials", "--trials ends the search after a number of trials over all tasks, and --time after a time limit"},
    {"parallel", "--n-parallel sets the threads that compile candidates"},
    {"tuning-records", "--records names the file that every trial is kept in"},
    {"prior-records",
     "the file of --records is read at the start: records made under the same conditions count as trials, and "
     "tasks begin with the schedules of Kilter's other records; schedules from imported logs are not tried, because "
     "they were not measured against Kilter's default"},
    {"cooldown-interval",
     "every trial is paired with the default schedule in the same rounds, so that changes of the clock rate cancel "
     "out; --repeat sets the number of pairs"},
    {"enable-cpu-cache-flush",
     "layers are measured inside the network, where weights come from the same places as in normal use; there is "
     "nothing to flush"},
    {"enable-autoscheduler", "spaces are those of Kilter's templates; `kilter tasks` shows them"},
    {"rpc-key", "candidates run on the machine that tunes, in a process of their own; tune where the network will run"},
    {"hostname",
     "candidates run on the machine that tunes, in a process of their own; tune where the network will run"},
};

}  // namespace

int64_t automatic_rounds(double ms) { return std::clamp<int64_t>(std::llround(50 / ms), 2, 6); }

std::span<const TrialOptionRow> all_trial_options() { return kOptions; }
std::span<const AbsentOptionRow> all_absent_options() { return kAbsent; }

}  // namespace kilter::tune
