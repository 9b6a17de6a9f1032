// Prefetching of packed weights while a kernel computes with them. A network has read other weights since, so they are
// no longer in the near caches.
#pragma once

#include <cstdint>

#include "loop/loop.h"
#include "schedule/schedule.h"

namespace kilter {

/// Value of knob `prefetch`: the tiles that read a panel prefetch the next one, a share each. A panel then arrives only
/// as fast as the current one is used up. At a fixed distance, its first tile would wait for all of it.
constexpr int64_t kNextPanel = 1;

/// Knob `prefetch`: the prefetch distance of streamed weights in bytes; 0 disables prefetching.
Knob prefetch_knob();
/// Like prefetch_knob(), with kNextPanel, for weights in panels.
Knob panel_prefetch_knob();

/// The target's prefetch distance for weights that do not fit in L1.
int64_t pick_prefetch(int64_t weight_bytes, const TargetLimits& limits);
/// kNextPanel if several tiles read each of several panels, and two panels fit in L2 beside other data.
int64_t pick_prefetch(int64_t weight_bytes, int64_t panel_bytes, int64_t passes, const TargetLimits& limits);

/// Prefetches `elems` f32 elements of `buf` from `at` on.
void prefetch_lines(LoopBuilder& b, const Buf& buf, const Expr& at, int64_t elems);

/// Consecutive panels of packed weights. `passes` tiles read each panel in turn.
struct WeightStream {
  Buf weights;
  int64_t prefetch = 0;  ///< value of the knob
  int64_t panel = 0;     ///< elements of a panel; needed, like `passes`, only for kNextPanel
  int64_t passes = 1;
};

/// Emits the prefetches of a step that reads `elems` elements from `at` on, counted from the panel's first element
/// `begin`, in tile `pass` of that panel (0 <= pass < passes).
void emit_prefetch(LoopBuilder& b, const WeightStream& stream, const Expr& begin, const Expr& at, int64_t elems,
                   const Expr& pass = 0);

}  // namespace kilter
