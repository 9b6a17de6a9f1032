// Schedules whose trials said nothing, to be tried again: those that others disturbed, and those of variants that
// failed without a layer to blame, in ever smaller company until one of them is alone with its fault.
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
  int suspected = 0;  ///< variants with it that failed, and no layer was named
  int disturbed = 0;  ///< trials that gave no sample, as others had the core
};

class Retries {
 public:
  bool empty() const { return waiting_.empty(); }
  /// Its trial was ended by another layer's fault.
  void add(Probe probe) { waiting_.push_back(std::move(probe)); }
  /// Its trial gave no sample. False after too many of these: it is left.
  bool disturbed(Probe probe);
  /// It was in a variant of `company` probes that failed as a whole. False when it was alone there: then it is at
  /// fault.
  bool suspect(Probe probe, size_t company);
  /// The next variant's, longest waiting first: at most `most`, one a node, and the fewer the more they are suspected.
  std::vector<Probe> take(size_t most);

 private:
  std::deque<Probe> waiting_;
};

}  // namespace kilter::tune
