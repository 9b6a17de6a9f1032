#include "schedule/templates/widen_operand.h"

#include "schedule/templates/rows.h"

namespace kilter {

Buf widened_operand(Emitter& e, ValueId value, bool write) {
  return e.temp(0, DType::i16, e.task().operand(value).phys.elems, write, "words");
}

void widen_first(const Task& task, ValueId value, const CpuLimits& limits, Lowered& lowered) {
  constexpr int64_t kPart = 8192, kUnroll = 4;
  const int64_t elems = task.operand(value).phys.elems;
  require(lowered.temp_bytes.empty(), "widen_first: the first temporary is in use");
  lowered.temp_bytes.push_back(elems * size_bytes(DType::i16));
  Emitter e(task, "widen");
  LoopBuilder& b = e.b;
  const Buf from = e.input(value), to = widened_operand(e, value, true);
  const int32_t lanes = 2 * lanes_of(limits);  // a register of words
  parallel_parts(b, "part", elems, kPart, [&](const Expr& first, int64_t count) {
    for_vectors(b, count, lanes, kUnroll, [&](const Expr& at, const Expr& mask, int64_t) {
      b.store(to, first + at, cast(DType::i16, b.load_raw(from, first + at, lanes, 1, mask)), mask);
    });
  });
  lowered.stages.push_back(e.finish(lowered));
  lowered.stages.back().packs = true;
}

double widening_cycles(const Task& task, ValueId value, const CpuLimits& limits) {
  constexpr double kBytes = 3;  // read and written for each element
  return kBytes * static_cast<double>(task.operand(value).phys.elems) / limits.l2_rate;
}

}  // namespace kilter
