// Schedules to be tried again because their trials gave no result: trials disturbed by other processes, and variants
// that failed without naming a layer, which are retried in ever smaller groups until the faulty schedule is isolated.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace kilter::tune {

/// A schedule on trial on one layer.
struct Probe {
  size_t task = 0;
  std::string node;
  Schedule schedule;
  int suspected = 0;  ///< failed variants with this schedule that named no layer
  int disturbed = 0;  ///< trials without a sample because other processes used the core
};

class Retries {
 public:
  bool empty() const { return waiting_.empty(); }
  /// Adds a schedule whose trial was ended by another layer's fault.
  void add(Probe probe) { waiting_.push_back(std::move(probe)); }
  /// Adds a schedule whose trial gave no sample. If this has happened too often, drops it instead and returns false.
  bool disturbed(Probe probe);
  /// Adds a schedule from a variant of `company` probes that failed as a whole. Returns false if it was the only one,
  /// which means that it is at fault.
  bool suspect(Probe probe, size_t company);
  /// Takes the probes of the next variant, longest waiting first: at most `most`, one per node, and fewer the more
  /// often they were suspected.
  std::vector<Probe> take(size_t most);

 private:
  std::deque<Probe> waiting_;
};

}  // namespace kilter::tune
