#include "profile/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "measure/clock.h"
#include "measure/evaluator.h"

namespace kilter::profile {
namespace {

constexpr size_t kMostPredecessors = 3;

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

/// First of the steps to run before `index`: the nearest ones that touch its operands.
size_t first_predecessor(const Plan& plan, size_t index) {
  size_t first = index;
  for (size_t back = 1; back <= std::min(kMostPredecessors, index); ++back) {
    if (share_memory(plan.steps[index - back], plan.steps[index])) first = index - back;
  }
  return first;
}

/// Copies of one stretch of the packed constants.
class Copies {
 public:
  Copies(const Plan& plan, size_t first, size_t last, const ReplayOptions& options) {
    int64_t low = plan.constants_bytes, high = 0;
    for (size_t s = first; s < last; ++s) {
      for (const BufferRef& ref : plan.steps[s].args) {
        if (ref.space != Space::constant || ref.bytes < 4096) continue;
        low = std::min(low, ref.offset);
        high = std::max(high, ref.offset + ref.bytes);
      }
    }
    if (options.weights != Weights::cold || low >= high) return;
    window_ = {low, high, nullptr};
    const int64_t bytes =
        (high - low + 4095) / 4096 * 4096 + 4096 + 64;  // no two copies at the same place in a cache's sets
    const int64_t wanted = footprint(plan).touched_bytes;
    count_ = std::clamp<int64_t>((wanted + bytes - 1) / bytes, 1, std::max<int64_t>(options.copies_bytes / bytes, 1));
    stride_ = bytes;
    memory_ = Tensor(DType::u8, {count_ * bytes});
    for (int64_t i = 0; i < count_; ++i)
      std::memcpy(memory_.raw() + i * bytes, plan.constants + low, static_cast<size_t>(high - low));
  }

  int64_t count() const { return count_; }
  int64_t bytes() const { return count_ * stride_; }
  const ConstantWindow* window(int64_t turn) {
    if (stride_ == 0) return nullptr;
    window_.base = memory_.raw() + turn % count_ * stride_;
    return &window_;
  }

 private:
  ConstantWindow window_;
  Tensor memory_;
  int64_t count_ = 1, stride_ = 0;
};

class Replayer {
 public:
  Replayer(Instance& instance, const Plan& plan, int threads, size_t index, const ReplayOptions& options)
      : instance_(instance),
        index_(index),
        first_(options.weights == Weights::cold ? first_predecessor(plan, index) : index),
        copies_(plan, first_, index + 1, options),
        trace_(1, threads),
        flush_(options.weights == Weights::flush ? cache_flusher() : std::function<void()>()) {}

  /// One run under the conditions; milliseconds from fork to join.
  double run() {
    const ConstantWindow* window = copies_.window(turn_++);
    for (size_t s = first_; s < index_; ++s) instance_.replay(s, window, nullptr);
    if (flush_) flush_();
    trace_.enter();
    instance_.replay(index_, window, &trace_);
    const TickSpan wall = trace_.region(0).wall;
    return ms_between(wall.begin, wall.end);
  }

  void describe(Replay& out) const {
    out.copies = copies_.count();
    if (flush_) {
      out.weights = out.activations = "caches flushed";
    } else if (copies_.bytes() > 0) {
      out.weights = fmt::format("cold: {} copies rotated over {:.1f} MB", copies_.count(),
                                static_cast<double>(copies_.bytes()) * 1e-6);
    } else {
      out.weights = "warm";
    }
    if (!flush_) {
      out.activations = first_ == index_ ? "warm" : fmt::format("as {} steps before left them", index_ - first_);
    }
  }

 private:
  Instance& instance_;
  size_t index_, first_;
  Copies copies_;
  RunTrace trace_;
  std::function<void()> flush_;
  int64_t turn_ = 0;
};

}  // namespace

std::string_view name(Weights weights) {
  constexpr std::string_view kNames[] = {"cold", "warm", "flush"};
  return kNames[static_cast<size_t>(weights)];
}

Weights parse_weights(std::string_view text) {
  for (Weights w : {Weights::cold, Weights::warm, Weights::flush}) {
    if (text == name(w)) return w;
  }
  fail(ErrorKind::usage, "--weights {}: legal are cold, warm, flush", text);
}

Replay replay(Instance& instance, const Plan& plan, int threads, size_t index, const ReplayOptions& options) {
  require(index < plan.steps.size(), "step {} of {} is asked for", index, plan.steps.size());
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
