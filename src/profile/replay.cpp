#include "profile/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>

#include "base/align.h"
#include "base/error.h"
#include "exec/memory.h"
#include "measure/caches.h"
#include "measure/clock.h"
#include "measure/evaluator.h"

namespace kilter::profile {
namespace {

constexpr size_t kMostPredecessors = 3;
constexpr int64_t kMostCopiesBytes = int64_t{512} << 20;

bool overlap(const BufferRef& a, const BufferRef& b) {
  return a.space == b.space && (a.space == Space::arena ? a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes
                                                        : a.space != Space::constant && a.index == b.index);
}

bool share_memory(const Step& a, const Step& b) {
  for (const BufferRef& x : a.args) {
    for (const BufferRef& y : b.args) {
      if (overlap(x, y)) return true;
    }
  }
  return false;
}

/// Returns the first of the steps to run before `index`: the farthest of its last few predecessors that shares memory
/// with it.
size_t first_predecessor(const Plan& plan, size_t index) {
  size_t first = index;
  for (size_t back = 1; back <= std::min(kMostPredecessors, index); ++back) {
    if (share_memory(plan.steps[index - back], plan.steps[index])) first = index - back;
  }
  return first;
}

/// Reproduces the effect of a run of the network on the caches between two runs of the steps [first, last). Touches the
/// operands and the code of all other steps in the network's order and at its pace, and writes to the lines of results,
/// and to scratch memory if another step runs the same kernel. The caches then have the same contents as in the
/// network, including the effect of other programs on a shared cache. If more than twice the last-level cache is
/// touched, only the end of that sequence matters.
class Surroundings {
 public:
  Surroundings(Instance& instance, const Plan& plan, int threads, size_t first, size_t last) {
    const size_t count = plan.steps.size();
    RunTrace trace(1, threads);
    for (int lap = 0; lap < 2; ++lap) {
      others_.clear();
      for (size_t i = 0; i < count; ++i) {
        const size_t step = (last + i) % count;
        trace.enter();
        instance.replay(step, nullptr, &trace);
        if (i < count - (last - first)) add(instance, plan, step, last - 1, trace.region(0).wall);
      }
    }
    for (const Other& other : others_) bytes_ += other.bytes;
    const int64_t most = 2 * last_level_cache_bytes();
    size_t beyond = 0;
    for (; beyond < others_.size() && bytes_ > most; ++beyond) bytes_ -= others_[beyond].bytes;
    others_.erase(others_.begin(), others_.begin() + static_cast<std::ptrdiff_t>(beyond));
  }

  int64_t bytes() const { return bytes_; }
  void touch() {
    int64_t until = now_ns();
    for (const Other& other : others_) {
      for (const Part& part : other.parts) touch(part);
      until += other.ns;
      while (now_ns() < until) continue;
    }
  }

 private:
  struct Part {
    std::span<std::byte> bytes;
    bool written;
  };
  struct Other {
    std::vector<Part> parts;
    int64_t bytes = 0, ns = 0;
  };

  static bool writes(const Plan& plan, size_t step, const BufferRef& ref) {
    return ref.space == Space::arena && std::any_of(plan.arena.begin(), plan.arena.end(), [&](const ArenaSpan& span) {
             return span.first_step == static_cast<int64_t>(step) && span.offset == ref.offset;
           });
  }

  void add(const Instance& instance, const Plan& plan, size_t step, size_t timed, TickSpan wall) {
    Other other;
    other.ns = static_cast<int64_t>(ms_between(wall.begin, wall.end) * 1e6);
    const auto touched = [&](std::span<std::byte> bytes, bool written) {
      if (bytes.data() == nullptr || bytes.empty()) return;
      other.parts.push_back({bytes, written});
      other.bytes += static_cast<int64_t>(bytes.size());
    };
    const std::span<const std::byte> code = instance.code(step);
    touched({const_cast<std::byte*>(code.data()), code.size()}, false);
    for (const BufferRef& ref : plan.steps[step].args)
      touched({instance.address(ref), static_cast<size_t>(std::max<int64_t>(ref.bytes, 0))}, writes(plan, step, ref));
    if (plan.steps[step].kernel >= 0 && plan.steps[step].kernel == plan.steps[timed].kernel)
      touched(instance.scratch(), true);
    others_.push_back(std::move(other));
  }

  void touch(const Part& part) {
    uint64_t sum = 0;
    for (size_t i = 0; i < part.bytes.size(); i += 64) {
      volatile std::byte& at = part.bytes[i];
      sum += std::to_integer<uint64_t>(std::byte{at});
      if (part.written) at = std::byte{at};
    }
    seen_ = sum;
  }

  std::vector<Other> others_;
  int64_t bytes_ = 0;
  volatile uint64_t seen_ = 0;
};

/// Copies of one range of the packed constants.
class Copies {
 public:
  Copies(const Plan& plan, size_t first, size_t last, int64_t wanted) {
    int64_t low = plan.constants_bytes, high = 0;
    for (size_t s = first; s < last; ++s) {
      for (const BufferRef& ref : plan.steps[s].args) {
        if (ref.space != Space::constant || ref.bytes < 4096) continue;
        low = std::min(low, ref.offset);
        high = std::max(high, ref.offset + ref.bytes);
      }
    }
    if (low >= high) return;
    window_ = {low, high, nullptr};
    const int64_t bytes =
        round_up<int64_t>(high - low, 4096) + 4096 + 64;  // so that no two copies occupy the same cache sets
    count_ = std::clamp<int64_t>(ceil_div(wanted, bytes), 1, std::max<int64_t>(kMostCopiesBytes / bytes, 1));
    stride_ = bytes;
    memory_ = Block(count_ * bytes, "copies of packed weights");
    for (int64_t i = 0; i < count_; ++i)
      std::memcpy(memory_.data() + i * bytes, plan.constants + low, static_cast<size_t>(high - low));
  }

  int64_t count() const { return count_; }
  int64_t bytes() const { return count_ * stride_; }
  const ConstantWindow* window(int64_t turn) {
    if (stride_ == 0) return nullptr;
    window_.base = memory_.data() + turn % count_ * stride_;
    return &window_;
  }

 private:
  ConstantWindow window_;
  Block memory_;
  int64_t count_ = 1, stride_ = 0;
};

}  // namespace

struct Replayer::Impl {
  Impl(Instance& of, const Plan& of_plan, int threads, size_t at, const ReplayOptions& options)
      : instance(of),
        plan(of_plan),
        index(at),
        last(at + options.steps),
        first(options.weights == Weights::cold ? first_predecessor(plan, at) : at),
        trace(options.steps, threads),
        flush(options.weights == Weights::flush ? cache_flusher() : std::function<void()>()) {
    if (options.weights != Weights::cold) return;
    surroundings.emplace(instance, plan, threads, first, last);
    copies.emplace(plan, first, last, std::max(options.touched_bytes, footprint(plan).touched_bytes));
  }

  /// Does everything that precedes the timed part. Returns the weights of this turn.
  const ConstantWindow* prepare() {
    const ConstantWindow* window = copies ? copies->window(turn++) : nullptr;
    if (surroundings) surroundings->touch();
    for (size_t s = first; s < index; ++s) instance.replay(s, window, nullptr);
    if (flush) flush();
    return window;
  }

  /// Returns the places of the steps' operands in a turn.
  Operands operands(const ConstantWindow* window) const {
    Operands all;
    for (size_t s = index; s < last; ++s) {
      for (const BufferRef& ref : plan.steps[s].args) {
        const bool copied = window != nullptr && ref.space == Space::constant && ref.offset >= window->begin &&
                            ref.offset + ref.bytes <= window->end;
        const std::byte* at = copied ? window->base + (ref.offset - window->begin) : instance.address(ref);
        const bool listed = std::ranges::any_of(all, [&](const auto& other) { return other.data() == at; });
        if (at != nullptr && ref.bytes > 0 && !listed) all.push_back({at, static_cast<size_t>(ref.bytes)});
      }
    }
    return all;
  }

  Instance& instance;
  const Plan& plan;
  size_t index, last, first;
  std::optional<Surroundings> surroundings;
  std::optional<Copies> copies;
  int64_t turn = 0;
  RunTrace trace;
  std::function<void()> flush;
};

Replayer::Replayer(Instance& instance, const Plan& plan, int threads, size_t index, const ReplayOptions& options) {
  require(index + options.steps <= plan.steps.size(), "steps {} to {} were requested; the plan has {}", index,
          index + options.steps, plan.steps.size());
  impl_ = std::make_unique<Impl>(instance, plan, threads, index, options);
}
Replayer::~Replayer() = default;
Replayer::Replayer(Replayer&&) noexcept = default;

double Replayer::run() {
  Impl& r = *impl_;
  const ConstantWindow* window = r.prepare();
  r.trace.enter();
  for (size_t s = r.index; s < r.last; ++s) r.instance.replay(s, window, &r.trace);
  return ms_between(r.trace.region(0).wall.begin, r.trace.region(r.last - r.index - 1).wall.end);
}

Replayer::Operands Replayer::prepare() { return impl_->operands(impl_->prepare()); }

void Replayer::describe(Replay& out) const {
  const Impl& r = *impl_;
  if (!r.surroundings) {
    out.weights = out.activations = r.flush ? "caches flushed" : "warm";
    return;
  }
  out.copies = r.copies->count();
  out.weights = fmt::format("cold: {} copies rotated over {:.1f} MB", r.copies->count(),
                            static_cast<double>(r.copies->bytes()) * 1e-6);
  out.activations = fmt::format("as the {} steps before it left them, after {:.1f} MB of the network's other memory",
                                r.index - r.first, static_cast<double>(r.surroundings->bytes()) * 1e-6);
}

std::string_view name(Weights weights) {
  constexpr std::string_view kNames[] = {"cold", "warm", "flush"};
  return kNames[static_cast<size_t>(weights)];
}

Weights parse_weights(std::string_view text) {
  for (Weights w : {Weights::cold, Weights::warm, Weights::flush}) {
    if (text == name(w)) return w;
  }
  fail(ErrorKind::usage, "--weights {}: legal values are cold, warm, flush", text);
}

Replay replay(Instance& instance, const Plan& plan, int threads, size_t index, const ReplayOptions& options) {
  if (options.number < 1 || options.repeat < 1 || options.min_repeat_ms < 0) {
    fail(ErrorKind::usage, "--number {} --repeat {} --min-repeat-ms {}: expected at least 1, 1 and 0", options.number,
         options.repeat, options.min_repeat_ms);
  }
  Replayer replayer(instance, plan, threads, index, options);
  Replay out;
  out.number = options.number;
  double once = replayer.run();
  for (int i = 0; i < 2; ++i) once = std::min(once, replayer.run());
  if (once > 0) out.number = std::max(out.number, static_cast<int64_t>(std::ceil(options.min_repeat_ms / once)));
  const int64_t end = now_ns() + static_cast<int64_t>(options.max_seconds * 1e9);
  for (int64_t m = 0; m < options.repeat && (m < 3 || now_ns() < end); ++m) {
    double ms = 0;
    for (int64_t i = 0; i < out.number; ++i) ms += replayer.run();
    out.samples.ms.push_back(ms / static_cast<double>(out.number));
  }
  replayer.describe(out);
  return out;
}

}  // namespace kilter::profile
