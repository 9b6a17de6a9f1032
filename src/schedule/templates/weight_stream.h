// Prefetching of packed weights while a kernel computes with them. Since the kernel last ran, the network has read
// other weights, so the kernel's own are no longer in the near caches.
#pragma once

#include <cstdint>

#include "loop/loop.h"
#include "schedule/schedule.h"

namespace kilter {

/// A value of knob `prefetch`: each tile that reads a panel prefetches its share of the next one, so a panel arrives at
/// the rate at which the current one is consumed. With a fixed distance, the first tile of a panel would wait for the
/// whole panel.
constexpr int64_t kNextPanel = 1;

/// Knob `prefetch`: the prefetch distance of streamed weights in bytes; 0 disables prefetching.
Knob prefetch_knob();
/// Like prefetch_knob(), but for weights in panels, with kNextPanel as an additional value.
Knob panel_prefetch_knob();

/// The target's prefetch distance for weights that do not fit in L1.
int64_t pick_prefetch(int64_t weight_bytes, const CpuLimits& limits);
/// kNextPanel if there are several panels, several tiles read each of them, and two panels fit in L2 along with other
/// data.
int64_t pick_prefetch(int64_t weight_bytes, int64_t panel_bytes, int64_t passes, const CpuLimits& limits);

/// Prefetches `elems` elements of `buf` from `at` on, line by line.
void prefetch_lines(LoopBuilder& b, const Buf& buf, const Expr& at, int64_t elems, int32_t line_bytes);

/// Consecutive panels of packed weights. `passes` tiles read each panel in turn.
struct WeightStream {
  Buf weights;
  int64_t prefetch = 0;  ///< value of the knob
  int64_t panel = 0;     ///< elements of a panel; needed, like `passes`, only for kNextPanel
  int64_t passes = 1;
  int32_t line_bytes = 0;  ///< CpuLimits::line_bytes; needed unless `prefetch` is 0
  bool open = false;       ///< Task::open: small numbers of passes result in a different structure
};

/// Emits the prefetches of a step that reads `elems` elements from `at` on, counted from the panel's first element
/// `begin`, in tile `pass` of that panel (0 <= pass < passes).
void emit_prefetch(LoopBuilder& b, const WeightStream& stream, const Expr& begin, const Expr& at, int64_t elems,
                   const Expr& pass = 0);

}  // namespace kilter
