#include "tune/run/tap.h"

#include "base/error.h"
#include "exec/plan_check.h"

namespace kilter::tune {

BufferRef occupied(BufferRef start, const ValueLayout& layout) {
  const ElementRange range = range_of(layout);
  const int64_t size = size_bytes(layout.type);
  start.offset += range.begin * size;
  start.bytes = (range.end - range.begin) * size;
  return start;
}

int64_t written_space_bytes(const Plan& plan, const BufferRef& ref) {
  if (ref.space == Space::arena) return plan.arena_bytes;
  if (ref.space != Space::output || ref.index < 0 || ref.index >= std::ssize(plan.outputs)) return 0;
  const PlanTensor& t = plan.outputs[static_cast<size_t>(ref.index)];
  return *tensor_bytes(t.type, t.shape);
}

int64_t check_taps(const Plan& plan, std::span<const Tap> taps, int64_t most) {
  int64_t total = 0;
  for (const Tap& tap : taps) {
    require(tap.step < plan.steps.size(), "'{}': the values after step {} are requested; it has {} steps", plan.model,
            tap.step, plan.steps.size());
    const BufferRef& b = tap.buffer;
    const int64_t room = written_space_bytes(plan, b);
    require(b.offset >= 0 && b.bytes >= 0 && b.offset <= room && b.bytes <= room - b.offset,
            "'{}': {} bytes at byte {} of the arena or an output are requested, which has {}", plan.model, b.bytes,
            b.offset, room);
    if (b.bytes > most - total) {
      fail(ErrorKind::unsupported,
           "'{}': values of more than {} bytes are requested from one run, but there is no room for more; request "
           "fewer, or use smaller inputs",
           plan.model, most);
    }
    total += b.bytes;
  }
  return total;
}

}  // namespace kilter::tune
