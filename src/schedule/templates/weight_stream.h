// How packed weights are prefetched while a kernel computes with them: a network has read other ones since, so that
// they come from far.
#pragma once

#include <cstdint>

#include "loop/loop.h"
#include "schedule/schedule.h"

namespace kilter {

/// Value of knob `prefetch`: the tiles that read a panel prefetch the panel behind it, each a share. A panel then comes
/// no faster than it is used up, where at a fixed distance its first tile waits for all of it.
constexpr int64_t kNextPanel = 1;

/// Knob `prefetch`: how far ahead streamed weights are prefetched, bytes; 0 is not at all.
Knob prefetch_knob();
/// As prefetch_knob(), for weights that lie in panels: also kNextPanel.
Knob panel_prefetch_knob();

/// The target's distance for weights that do not fit L1.
int64_t pick_prefetch(int64_t weight_bytes, const TargetLimits& limits);
/// kNextPanel where several tiles read each of several panels and two of these fit L2 beside other data.
int64_t pick_prefetch(int64_t weight_bytes, int64_t panel_bytes, int64_t passes, const TargetLimits& limits);

/// Prefetches `elems` f32 of `buf` from `at` on.
void prefetch_lines(LoopBuilder& b, const Buf& buf, const Expr& at, int64_t elems);

/// Panels of packed weights, one after the other, each of which `passes` tiles read in turn.
struct WeightStream {
  Buf weights;
  int64_t prefetch = 0;  ///< the knob
  int64_t panel = 0;     ///< elements of one; needed by kNextPanel alone, as are the passes
  int64_t passes = 1;
};

/// What a step prefetches that reads `elems` elements from element `at` on of the panel that begins at `begin`, in tile
/// `pass` of the panel's (0 <= pass < passes).
void emit_prefetch(LoopBuilder& b, const WeightStream& stream, const Expr& begin, const Expr& at, int64_t elems,
                   const Expr& pass = 0);

}  // namespace kilter
