#include "fleet/answer_check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/columns.h"
#include "base/error.h"
#include "base/text.h"

namespace kilter::fleet {

using tune::Fault;
using tune::Lap;
using tune::Laps;
using tune::Loaded;
using tune::VariantId;

namespace {

[[noreturn]] void refuse(ErrorKind kind, const std::string& agent, const std::string& why) {
  fail(kind,
       "agent {0}: {1}. Its answer is not used: install the same version of Kilter there, or take the agent out of the "
       "fleet (`kilter fleet drain {2}`) and check its machine",
       printable(agent), why, shell_word(printable(agent)));
}

/// Checks an answer, item by item.
class Check {
 public:
  Check(const Answered& given, const StepNames& steps)
      : given_(given), steps_(steps), most_ms_(1.1 * given.elapsed_ms + 1) {}

  void loaded(const Loaded& one, VariantId id) const {
    if (one.id && *one.id != id) refuse("it loaded variant {}; expected {}", *one.id, id);
    if (!one.id && one.faults.empty()) refuse("it did not load variant {}, but found no fault in it", id);
    for (const Fault& f : one.faults) fault(f, {&id, 1});
    if (!one.step_ms.empty()) times(one.step_ms, id, "times of steps");
  }

  void laps(const Laps& all, std::span<const VariantId> ids) const {
    if (!std::ranges::equal(all.ids, ids) || all.laps.size() != ids.size() || all.cut.size() != ids.size())
      refuse("it measured {} variants, with {} lists of runs; expected the {} of the job", all.ids.size(),
             all.laps.size(), ids.size());
    int64_t runs = 0;
    for (const auto& lane : all.laps) runs += std::ssize(lane);
    if (all.rounds < 0 || all.rounds > runs)
      refuse("it measured in {} rounds, with {} runs in all; expected at most as many rounds as runs", all.rounds,
             runs);
    time(all.wall_ms, "a measurement");
    for (size_t i = 0; i < ids.size(); ++i) {
      for (const Lap& one : all.laps[i]) lap(one, ids[i], all.rounds);
    }
    for (const Fault& f : all.faults) fault(f, ids);
  }

  void fault(const Fault& f, std::span<const VariantId> ids) const {
    if (std::ranges::find(ids, f.variant) == ids.end())
      refuse("it found a fault in variant {}, which is not in the job", f.variant);
    const std::vector<std::string>& names = steps_.at(f.variant);
    if (f.step < -1 || f.step >= std::ssize(names))
      refuse("it found a fault in step {} of variant {}; expected one of {} steps", f.step, f.variant, names.size());
    const std::string layer = f.step < 0 ? "" : names[static_cast<size_t>(f.step)];
    if (f.layer != layer)
      refuse("it found a fault in step {} of variant {}, in layer '{}'; expected '{}'", f.step, f.variant,
             without_middle(f.layer, 80), layer);
  }

  template <class... Values>
  [[noreturn]] void refuse(fmt::format_string<Values...> words, Values&&... values) const {
    fleet::refuse(ErrorKind::bad_input, given_.agent, fmt::format(words, std::forward<Values>(values)...));
  }

 private:
  void lap(const Lap& one, VariantId id, int64_t rounds) const {
    if (one.round < 0 || one.round >= rounds)
      refuse("a run of variant {} was in round {}; expected 0 to {}", id, one.round, rounds - 1);
    time(one.total_ms, fmt::format("a run of variant {}", id));
    if (one.total_ms == 0) refuse("a run of variant {} took no time", id);
    times(one.step_ms, id, "times of steps");
    times(one.gap_ms, id, "times between steps");
    numbers(one.width, id, "widths", HUGE_VAL);
    const Disturbance& d = one.disturbance;
    for (const double value : {d.wall_ms, d.steal_ms, d.wait_ms, d.drift}) {
      if (!std::isfinite(value)) refuse("a disturbance of a run of variant {} is {}; expected a number", id, value);
    }
  }

  void time(double ms, const std::string& what) const {
    if (ms >= 0 && ms <= most_ms_) return;
    refuse("{} took {:g} ms; expected at most {:.0f} ms, the time since the job was submitted", what, ms,
           given_.elapsed_ms);
  }

  void times(const std::vector<double>& all, VariantId id, const char* what) const { numbers(all, id, what, most_ms_); }

  /// One number for each step.
  void numbers(const std::vector<double>& all, VariantId id, const char* what, double most) const {
    const size_t expected = steps_.at(id).size();
    if (all.size() != expected) refuse("a run of variant {} has {} {}; expected {}", id, all.size(), what, expected);
    for (const double value : all) {
      if (!(value >= 0 && value <= most && std::isfinite(value)))
        refuse("one of the {} of a run of variant {} is {:g}; expected 0 to {:g}", what, id, value, most);
    }
  }

  const Answered& given_;
  const StepNames& steps_;
  double most_ms_;  ///< with a margin for differences between clocks
};

}  // namespace

TrialAnswer read_answer(const std::string& agent, std::string_view bytes) {
  try {
    return unpack_answer(bytes);
  } catch (const Error& e) {
    refuse(e.kind(), agent, fmt::format("its answer of {} bytes cannot be read: {}", bytes.size(), e.message()));
  }
}

void check_loaded(const Answered& given, std::span<const VariantId> ids, const StepNames& steps) {
  const Check check(given, steps);
  const std::vector<Loaded>& all = given.answer.loaded;
  if (all.size() != ids.size()) check.refuse("it loaded {} variants; expected {}", all.size(), ids.size());
  for (size_t i = 0; i < ids.size(); ++i) check.loaded(all[i], ids[i]);
}

void check_laps(const Answered& given, std::span<const VariantId> ids, const StepNames& steps) {
  Check(given, steps).laps(given.answer.laps, ids);
}

void check_traced(const Answered& given, VariantId id, std::span<const tune::Tap> taps, const StepNames& steps) {
  const Check check(given, steps);
  const tune::Traced& traced = given.answer.traced;
  if (traced.fault) return check.fault(*traced.fault, {&id, 1});
  if (traced.values.size() != taps.size())
    check.refuse("it returned {} values; expected {}", traced.values.size(), taps.size());
  for (size_t i = 0; i < taps.size(); ++i) {
    if (std::ssize(traced.values[i]) != taps[i].buffer.bytes)
      check.refuse("it returned {} bytes of the value that step {} leaves; expected {}", traced.values[i].size(),
                   taps[i].step, taps[i].buffer.bytes);
  }
}

void check_peaks(const Answered& given, int threads) {
  const StepNames none;
  const Check check(given, none);
  const Peaks& peaks = given.answer.peaks;
  constexpr double kMost = 1e7;
  for (const int64_t bytes : {peaks.l2_bytes, peaks.l3_bytes}) {
    if (bytes < 0 || bytes > int64_t{1} << 40) check.refuse("it has a cache of {} bytes", bytes);
  }
  const auto some = [&](const char* what, const std::vector<double>& rates, double least) {
    const bool sound = std::ranges::all_of(rates, [&](double rate) { return rate >= least && rate <= kMost; });
    if (!sound || rates.empty() || std::ssize(rates) > threads)
      check.refuse("it measured {} of {}; expected 1 to {} numbers from {:g} to {:g}", what, fmt::join(rates, ", "),
                   threads, least, kMost);
  };
  constexpr double kLeast = 1e-3;
  some("GFLOP/s", peaks.gflops, kLeast);
  some("GB/s of L2", peaks.l2_gbps, kLeast), some("GB/s of L3", peaks.l3_gbps, kLeast);
  some("GB/s of the memory", peaks.dram_gbps, kLeast);
  some("GFLOP/s of bf16", peaks.bf16_gflops, 0), some("GOP/s of bytes", peaks.byte_gops, 0);
  some("us of a parallel region", peaks.region_us, 0);
}

}  // namespace kilter::fleet
