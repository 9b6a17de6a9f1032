#include "schedule/register_tile.h"

namespace kilter {

double reread_rate(int64_t bytes, const TargetLimits& limits) {
  return bytes <= limits.l2_bytes / 2   ? std::max(kL2BytesPerCycle, limits.l3_rate)
         : bytes <= limits.l3_bytes / 2 ? limits.l3_rate
                                        : limits.memory_rate;
}

Knob prefetch_knob() { return {"prefetch", {0, 1024, 2048, 4096, 8192, 16384}}; }

int64_t pick_prefetch(int64_t weight_bytes, const TargetLimits& limits) {
  return weight_bytes > limits.l1_bytes ? limits.prefetch_bytes : 0;
}

void emit_prefetch(LoopBuilder& b, const Buf& weights, const Expr& at, int64_t elems, int64_t bytes) {
  constexpr int64_t kLine = 64 / 4;
  for (int64_t first = 0; bytes > 0 && first < elems; first += kLine) b.prefetch(weights, at + Expr(bytes / 4 + first));
}

}  // namespace kilter
