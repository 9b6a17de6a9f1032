// A record of how the time of one run was spent: time stamps that the executor takes when it is given a trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ticks.h"

namespace kilter {

/// A span of time in ticks (base/ticks.h).
struct TickSpan {
  uint64_t begin = 0, end = 0;
};

/// The record of one run. Regions are listed in the order in which they ran, each with the step that it executed, so a
/// step that runs several times has several regions. Recording neither allocates nor locks. Regions beyond the capacity
/// are counted as lost. Every worker writes to its own memory, which nothing else touches during the run; a span older
/// than its region belongs to an earlier run.
class RunTrace {
 public:
  struct Region {
    size_t step = 0;
    TickSpan wall;  ///< from fork to join, as the caller's thread sees it
  };

  /// `capacity`: regions of one run; for a flat plan, the number of steps. `threads`: those of the pool.
  RunTrace(size_t capacity, int threads)
      : regions_(capacity), spans_(static_cast<size_t>(threads), std::vector<TickSpan>(capacity + kPad)) {}

  /// Returns the span of the whole run, from the caller's inputs to the caller's outputs.
  const TickSpan& run() const { return run_; }
  size_t size() const { return size_; }
  size_t lost() const { return lost_; }
  int threads() const { return static_cast<int>(spans_.size()); }
  const Region& region(size_t index) const { return regions_[index]; }
  /// Returns when one worker worked in a region; begin == 0 when it took no part.
  TickSpan worker(size_t index, int worker) const {
    const TickSpan& span = spans_[static_cast<size_t>(worker)][index];
    return span.begin >= regions_[index].wall.begin ? span : TickSpan{};
  }

  // --- for the executor ---
  void enter() {
    size_ = lost_ = 0;
    run_.begin = ticks();
  }
  void leave() { run_.end = ticks(); }
  void fork(size_t step) {
    open_ = size_ < regions_.size();
    if (!open_) {
      ++lost_;
      return;
    }
    regions_[size_].step = step;
    regions_[size_].wall.begin = ticks();
  }
  void join() {
    if (open_) regions_[size_++].wall.end = ticks();
  }
  /// Returns whether a span of the open region has already begun: a worker may run several pieces.
  bool started(const TickSpan& span) const { return span.begin >= regions_[size_].wall.begin; }
  /// Returns where a worker stamps its part of the open region; null when the region is lost.
  TickSpan* stamp(int worker) { return open_ ? &spans_[static_cast<size_t>(worker)][size_] : nullptr; }

 private:
  static constexpr size_t kPad = 8;  ///< keeps the last spans of one worker and the next worker's spans on separate
                                     ///< cache lines
  TickSpan run_;
  std::vector<Region> regions_;
  std::vector<std::vector<TickSpan>> spans_;
  size_t size_ = 0, lost_ = 0;
  bool open_ = false;
};

}  // namespace kilter
