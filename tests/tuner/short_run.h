// A tuning run of the small network that ends after a number of trials, and a default plan that is easily beaten.
#pragma once

#include "network.h"
#include "tune/tuner/tuner.h"

namespace kilter::tune {

inline TuneOptions short_run(std::vector<Record>& kept) {
  TuneOptions options;
  options.seconds = 300;  // enough even on a busy machine: the number of trials ends the search
  options.trials = 150;
  options.network = "squeezenet1_1";
  options.device = "a device";
  options.program = "a test";
  options.runner = worker();
  options.trial.timeout_ms = 5000;
  options.keep = [&kept](std::span<const Record> records) { kept.insert(kept.end(), records.begin(), records.end()); };
  return options;
}

/// Options under which the default plan has the slowest tiles that exist, so a search soon finds faster schedules.
inline CompileOptions slow_default() {
  CompileOptions options = native();
  for (const Step& step : compile_graph(small_network(), options).plan.steps) {
    if (step.schedule.starts_with("conv2d_direct"))
      options.choices[step.name] = preferred(parse_schedule("conv2d_direct vectors=1 rows=1 tile=1 prefetch=0"));
  }
  return options;
}

}  // namespace kilter::tune
