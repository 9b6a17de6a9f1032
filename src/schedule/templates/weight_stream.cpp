#include "schedule/templates/weight_stream.h"

#include <algorithm>
#include <bit>

#include "base/align.h"
#include "schedule/model/register_tile.h"

namespace kilter {
Knob prefetch_knob() { return {"prefetch", {0, 1024, 2048, 4096, 8192, 16384}}; }

Knob panel_prefetch_knob() {
  Knob knob = prefetch_knob();
  knob.values.insert(knob.values.begin() + 1, kNextPanel);
  return knob;
}

int64_t pick_prefetch(int64_t weight_bytes, const CpuLimits& limits) {
  return weight_bytes > limits.l1_bytes ? limits.prefetch_bytes : 0;
}

int64_t pick_prefetch(int64_t weight_bytes, int64_t panel_bytes, int64_t passes, const CpuLimits& limits) {
  const int64_t distance = pick_prefetch(weight_bytes, limits);
  const bool shared = passes > 1 && weight_bytes >= 2 * panel_bytes && panel_bytes <= limits.l2_bytes / 4;
  return distance > 0 && shared ? kNextPanel : distance;
}

void prefetch_lines(LoopBuilder& b, const Buf& buf, const Expr& at, int64_t elems, int32_t line_bytes) {
  const int64_t line = line_bytes / size_bytes(b.buffer(buf).type);
  for (int64_t first = 0; first < elems; first += line) b.prefetch(buf, at + Expr(first));
}

void emit_prefetch(LoopBuilder& b, const WeightStream& stream, const Expr& begin, const Expr& at, int64_t elems,
                   const Expr& pass) {
  if (stream.prefetch == 0) return;
  const int64_t size = size_bytes(b.buffer(stream.weights).type);
  if (stream.prefetch != kNextPanel)
    return prefetch_lines(b, stream.weights, begin + at + Expr(stream.prefetch / size), elems, stream.line_bytes);
  // A step reads `lines` cache lines of its panel and prefetches `share` lines of the next one. `shares` passes cover
  // the whole panel.
  const int64_t line = stream.line_bytes / size;  // elements
  const int64_t lines = ceil_div(elems, line);
  int64_t share = ceil_div(lines, stream.passes);
  if (stream.open) share = std::min(lines, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(share))));
  const int64_t shares = ceil_div(lines, share), steps = ceil_div(stream.panel, elems);
  Expr mine = pass;
  if (stream.open)
    mine = min(pass, Expr(shares - 1));
  else if (shares != stream.passes)
    mine = pass * Expr(shares) / Expr(stream.passes);
  const Expr first = begin + Expr(stream.panel) + mine * Expr(steps * share * line);
  prefetch_lines(b, stream.weights, b.let("ahead", first + at * Expr(share) / Expr(lines)), share * line,
                 stream.line_bytes);
}

}  // namespace kilter
