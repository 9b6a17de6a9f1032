// A tuning run of the small network that its trials end.
#pragma once

#include "network.h"
#include "tune/tuner/tuner.h"

namespace kilter::tune {

inline TuneOptions short_run(std::vector<Record>& kept) {
  TuneOptions options;
  options.seconds = 300;  // enough on a busy machine: the trials end the search
  options.trials = 150;
  options.network = "squeezenet1_1";
  options.device = "a device";
  options.program = "a test";
  options.runner = worker();
  options.trial.timeout_ms = 5000;
  options.keep = [&kept](std::span<const Record> records) { kept.insert(kept.end(), records.begin(), records.end()); };
  return options;
}

}  // namespace kilter::tune
