#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "exec/trace.h"
#include "measure/clock.h"
#include "measure/device.h"
#include "measure/quiet.h"
#include "measure/stats.h"
#include "profile/count.h"
#include "profile/edges.h"
#include "profile/pairs.h"
#include "profile/profile.h"

namespace kilter::profile {
namespace {

/// The figures kept from one profiled pass. Times are in milliseconds.
struct Pass : PairTimes {
  double before = 0, between = 0, after = 0;  ///< gaps
  std::vector<double> wall, gap;              ///< by region
  std::vector<TickSpan> walls;                ///< by region, for the timeline
  std::vector<TickSpan> workers;              ///< region * threads + worker
  uint64_t begin = 0;
};

RowKind kind_of(const Step& step) {
  switch (step.kind) {
    case StepKind::reference:
      return RowKind::reference;
    case StepKind::halo:
      return RowKind::halo;
    case StepKind::copy:
      return RowKind::copy;
    case StepKind::kernel:
      break;
  }
  if (step.role == StepRole::pack) return RowKind::pack;
  return step.role == StepRole::relayout ? RowKind::relayout : RowKind::layer;
}

class Collector {
 public:
  Collector(Instance& instance, const Plan& plan, int threads, std::span<const std::byte* const> inputs,
            std::span<std::byte* const> outputs, const Options& options)
      : instance_(instance),
        plan_(plan),
        inputs_(inputs),
        outputs_(outputs),
        options_(options),
        trace_(std::max<size_t>(plan.steps.size(), 1), threads),
        ms_per_tick_(ns_per_tick() * 1e-6),
        stages_(stages_of(plan)),
        watch_({}, options.read_quiet) {
    out_.threads = threads;
  }

  Profile run() {
    for (int i = 0; i < 3; ++i) {
      plain_pass();
      profiled_pass(nullptr);
    }
    if (options_.peaks) out_.peaks = measure_peaks(out_.threads);
    instance_.run(inputs_, outputs_);
    measure();
    keep_middle();
    make_rows();
    const auto measure_again = [&] { return measure_peaks(out_.threads); };
    set_bounds(out_, plan_, options_.peaks ? std::function<Peaks()>(measure_again) : nullptr);
    add_totals();
    if (options_.count) count();
    make_timeline();
    describe_memory();
    describe_conditions();
    return std::move(out_);
  }

 private:
  double plain_pass() {
    const int64_t start = now_ns();
    instance_.run(inputs_, outputs_);
    return static_cast<double>(now_ns() - start) * 1e-6;
  }

  double profiled_pass(const StepObserver* observer) {
    const int64_t start = now_ns();
    instance_.run(inputs_, outputs_, observer, &trace_);
    return static_cast<double>(now_ns() - start) * 1e-6;
  }

  /// Measures pairs of a profiled and a plain pass, in random order within each pair.
  void measure() {
    const Random random(options_.seed, "profile");
    const int64_t start = now_ns();
    const auto span = static_cast<int64_t>(options_.seconds * 1e9);
    const Attendance before = instance_.attendance();
    for (int64_t pass = 0; pass < options_.max_passes; ++pass) {
      const int64_t spent = now_ns() - start;
      if (spent >= span && pass >= options_.min_passes) break;
      if (options_.progress)
        options_.progress(static_cast<double>(spent) / static_cast<double>(std::max<int64_t>(span, 1)));
      watch_.start();
      const int64_t pair = now_ns();
      const bool plain_first = (random.bits(static_cast<uint64_t>(pass)) & 1U) != 0;
      double plain = plain_first ? plain_pass() : 0;
      const StepObserver* observer = options_.observer ? options_.observer(pass) : nullptr;
      const double total = profiled_pass(observer);
      passes_.push_back(read_trace(total));
      if (!plain_first) plain = plain_pass();
      passes_.back().plain = plain;
      disturbed_.add(watch_.stop(static_cast<double>(now_ns() - pair) * 1e-6), 2);
    }
    took_part_ = instance_.attendance().since(before).took_part();
  }

  double ms(const TickSpan& span) const { return static_cast<double>(span.end - span.begin) * ms_per_tick_; }

  Pass read_trace(double total) {
    require(trace_.lost() == 0, "{} regions of a run did not fit into its trace", trace_.lost());
    const int threads = trace_.threads();
    if (regions_.empty()) {
      for (size_t r = 0; r < trace_.size(); ++r) regions_.push_back(trace_.region(r).step);
    }
    require(regions_.size() == trace_.size(), "a run had {} regions, the previous one {}", trace_.size(),
            regions_.size());
    Pass pass;
    pass.total = total;
    pass.begin = trace_.run().begin;
    uint64_t last = trace_.run().begin;
    for (size_t r = 0; r < trace_.size(); ++r) {
      const TickSpan wall = trace_.region(r).wall;
      pass.walls.push_back(wall);
      pass.wall.push_back(ms(wall));
      pass.gap.push_back(ms({last, wall.begin}));
      (r == 0 ? pass.before : pass.between) += pass.gap.back();
      last = wall.end;
      bool stamped = false;
      for (int w = 0; w < threads; ++w) stamped |= trace_.worker(r, w).begin != 0;
      for (int w = 0; w < threads; ++w) {
        // A step that workers do not stamp runs on the caller's thread from fork to join.
        pass.workers.push_back(stamped ? trace_.worker(r, w) : (w == 0 ? wall : TickSpan{}));
      }
    }
    pass.after = ms({last, trace_.run().end});
    pass.sum = ms({trace_.run().begin, trace_.run().end});
    return pass;
  }

  /// Sorts the pairs by the time of both passes together, and keeps the middle half.
  void keep_middle() {
    out_.passes = static_cast<int64_t>(passes_.size());
    out_.sum_over_end_to_end = sum_over_plain(passes_, options_.seed);
    std::vector<double> plain;
    for (const Pass& p : passes_) plain.push_back(p.plain);
    best_ms_ = quantile(plain, 0);
    profile::keep_middle(passes_);
    out_.kept = static_cast<int64_t>(passes_.size());
    out_.end_to_end = over_passes([](const Pass& p) { return p.plain; });
    out_.end_to_end.low = quantile(plain, 0.1), out_.end_to_end.high = quantile(plain, 0.9);
  }

  template <class Get>
  Time over_passes(Get get) const {
    return profile::over_passes(passes_, get);
  }

  void make_rows() {
    std::map<size_t, std::vector<size_t>> by_step;
    std::vector<size_t> order;
    for (size_t r = 0; r < regions_.size(); ++r) {
      if (by_step[regions_[r]].empty()) order.push_back(regions_[r]);
      by_step[regions_[r]].push_back(r);
    }
    row_of_region_.resize(regions_.size());
    for (size_t s : order) {
      for (size_t r : by_step[s]) row_of_region_[r] = out_.rows.size();
      out_.rows.push_back(make_row(s, by_step[s]));
    }
    add_reads();
    add_gap("before the first layer", 1, [](const Pass& p) { return p.before; });
    add_gap("between layers", std::max<int64_t>(static_cast<int64_t>(regions_.size()) - 1, 0),
            [](const Pass& p) { return p.between; });
    add_gap("after the last layer", 1, [](const Pass& p) { return p.after; });
  }

  void add_reads() {
    const std::vector<StepReads> reads = reads_of(plan_);
    std::vector<std::optional<size_t>> row_of_step(plan_.steps.size());
    for (size_t r = 0; r < out_.rows.size(); ++r) row_of_step[static_cast<size_t>(out_.rows[r].step)] = r;
    for (Row& row : out_.rows) {
      const StepReads& of = reads[static_cast<size_t>(row.step)];
      for (const size_t step : of.steps) {
        if (row_of_step[step]) row.reads.push_back(*row_of_step[step]);
      }
      row.reads_inputs = of.inputs;
    }
  }

  template <class Get>
  void add_gap(const char* what, int64_t count, Get get) {
    Row row;
    row.kind = RowKind::gap;
    row.name = what;
    row.count = count;
    row.time = over_passes(get);
    out_.rows.push_back(std::move(row));
  }

  Row make_row(size_t s, const std::vector<size_t>& regions) const {
    Row row = row_of(plan_, s, stages_[s]);
    row.count = static_cast<int64_t>(regions.size());
    for (int64_t* amount : {&row.effective_flops, &row.flops, &row.bytes, &row.weight_bytes}) *amount *= row.count;
    row.time = over_passes([&](const Pass& p) { return sum(p.wall, regions); });
    row.gap_ms = over_passes([&](const Pass& p) { return sum(p.gap, regions); }).mean;
    row.barrier_ms = over_passes([&](const Pass& p) { return barrier(p, regions); }).mean;
    for (int w = 0; w < out_.threads; ++w)
      row.busy_ms.push_back(over_passes([&](const Pass& p) { return busy_ms(p, regions, w); }).mean);
    set_threads(row);
    return row;
  }

  static double sum(const std::vector<double>& values, const std::vector<size_t>& regions) {
    double total = 0;
    for (size_t r : regions) total += values[r];
    return total;
  }

  const TickSpan& worker(const Pass& pass, size_t region, int w) const {
    return pass.workers[region * static_cast<size_t>(out_.threads) + static_cast<size_t>(w)];
  }

  double busy_ms(const Pass& pass, const std::vector<size_t>& regions, int w) const {
    double total = 0;
    for (size_t r : regions) total += ms(worker(pass, r, w));
    return total;
  }

  /// Returns the time from fork to the first begin, plus the time from the last end to join.
  double barrier(const Pass& pass, const std::vector<size_t>& regions) const {
    double total = 0;
    for (size_t r : regions) {
      uint64_t first = pass.walls[r].end, last = pass.walls[r].begin;
      for (int w = 0; w < out_.threads; ++w) {
        const TickSpan& span = worker(pass, r, w);
        if (span.begin == 0) continue;
        first = std::min(first, span.begin);
        last = std::max(last, span.end);
      }
      if (last > first) total += pass.wall[r] - std::min(ms({first, last}), pass.wall[r]);
    }
    return total;
  }

  void add_totals() {
    out_.total = over_passes([](const Pass& p) { return p.total; });
    out_.total_ms = out_.total.mean;
    out_.end_to_end_ms = out_.end_to_end.mean;
    for (const Row& row : out_.rows) {
      out_.sum_ms += row.time.mean;
      if (row.kind == RowKind::gap) {
        out_.gaps_ms += row.time.mean;
      } else {
        out_.barriers_ms += row.barrier_ms;
        out_.kernels_ms += row.time.mean - row.barrier_ms;
      }
    }
    for (Row& row : out_.rows) row.percent = out_.sum_ms > 0 ? 100 * row.time.mean / out_.sum_ms : 0;
    out_.residual_ms = out_.total_ms - out_.sum_ms;
    out_.overhead_percent = 100 * (out_.total_ms / out_.end_to_end_ms - 1);
  }

  void count() {
    constexpr int kPasses = 20;
    const StepCounters counted = count_steps(instance_, plan_, inputs_, outputs_, kPasses);
    out_.no_counters = counted.why_not;
    if (counted.steps.empty()) return;
    const double highest_ghz = highest_clock_ghz();
    for (Row& row : out_.rows) {
      if (row.step < 0) continue;
      row.counters =
          check_counters(counted.steps[static_cast<size_t>(row.step)], row.time.mean, highest_ghz, row.threads);
    }
  }

  void make_timeline() {
    const auto typical = std::min_element(passes_.begin(), passes_.end(), [&](const Pass& a, const Pass& b) {
      return std::abs(a.total - out_.total_ms) < std::abs(b.total - out_.total_ms);
    });
    const auto us = [&](uint64_t at) { return static_cast<double>(at - typical->begin) * ms_per_tick_ * 1e3; };
    for (size_t r = 0; r < regions_.size(); ++r) {
      for (int w = 0; w < out_.threads; ++w) {
        const TickSpan& span = worker(*typical, r, w);
        if (span.begin != 0) out_.timeline.push_back({row_of_region_[r], w, us(span.begin), us(span.end)});
      }
    }
  }

  void describe_memory() {
    out_.arena = plan_.arena;
    out_.arena_bytes = plan_.arena_bytes;
    out_.constants_bytes = plan_.constants_bytes;
    out_.scratch_bytes = plan_.scratch_bytes * out_.threads;
    out_.code_bytes = plan_.code_bytes;
  }

  void describe_conditions() {
    out_.conditions = conditions_of(plan_, out_.threads);
    out_.conditions.took_part = took_part_;
    out_.conditions.taken = 2 * out_.passes;
    out_.conditions.kept = 2 * out_.kept;
    out_.conditions.disturbed = disturbed_.disturbed, out_.conditions.disturbed_by = disturbed_.why();
    out_.conditions.best_ms = best_ms_;
  }

  Instance& instance_;
  const Plan& plan_;
  std::span<const std::byte* const> inputs_;
  std::span<std::byte* const> outputs_;
  const Options& options_;
  RunTrace trace_;
  double ms_per_tick_;
  std::vector<std::string> stages_;
  QuietWatch watch_;
  DisturbedCount disturbed_;  ///< passes, profiled and plain
  std::vector<Pass> passes_;
  double best_ms_ = 0;  ///< of the shortest plain pass
  std::vector<double> took_part_;
  std::vector<size_t> regions_;  ///< step of each region, in the order of the first pass
  std::vector<size_t> row_of_region_;
  Profile out_;
};

}  // namespace

Row row_of(const Plan& plan, size_t s, const std::string& stage) {
  const Step& step = plan.steps[s];
  Row row;
  row.kind = kind_of(step), row.role = step.role;
  row.step = static_cast<int64_t>(s);
  row.name = step.name, row.stage = stage, row.ops = step.ops, row.problem = step.problem;
  row.schedule = step.schedule, row.shapes = step.shapes, row.layouts = step.layouts, row.record = step.record;
  if (step.key != 0) row.key = fmt::format("{:016x}", step.key);
  row.count = 1;
  row.effective_flops = step.effective_flops, row.flops = step.flops, row.bytes = step.bytes;
  row.weight_bytes = weight_bytes(step);
  return row;
}

void set_threads(Row& row) {
  double all = 0, busiest = 0;
  row.threads = 0;
  for (const double busy : row.busy_ms) {
    row.threads += busy != 0 ? 1 : 0;
    all += busy, busiest = std::max(busiest, busy);
  }
  row.threads = std::max(row.threads, 1);
  row.balance = busiest > 0 ? all / row.threads / busiest : 1;
}

Agreement agreement(const Ratio& ratio) {
  if (ratio.high < 1 - kSumLimit || ratio.low > 1 + kSumLimit) return Agreement::differ;
  return ratio.high - ratio.low > 2 * kSumLimit ? Agreement::unknown : Agreement::agree;
}

std::vector<std::string> stages_of(const Plan& plan) {
  std::vector<std::string> stages(plan.steps.size());
  std::map<std::pair<std::string, std::string>, int> all, numbered;
  std::set<std::string> later;  // names of the steps seen so far; the loop goes backwards, so these steps run later
  for (size_t s = plan.steps.size(); s-- > 0;) {
    const Step& step = plan.steps[s];
    const bool packs = step.role == StepRole::pack, last = !packs && later.insert(step.name).second;
    if (packs) stages[s] = "pack";
    if (stages[s].empty() && !last) stages[s] = step.schedule.starts_with("conv2d_winograd ") ? "transform" : "stage";
    ++all[{step.name, stages[s]}];
  }
  for (size_t s = 0; s < stages.size(); ++s) {
    const std::pair key(plan.steps[s].name, stages[s]);
    if (all[key] > 1) stages[s] += fmt::format(" {}", ++numbered[key]);
  }
  return stages;
}

std::vector<std::string> labels_of(const Plan& plan) {
  std::vector<std::string> labels = stages_of(plan);
  for (size_t s = 0; s < labels.size(); ++s) {
    const std::string& name = plan.steps[s].name;
    labels[s] = labels[s].empty() ? name : fmt::format("{} ({})", name, labels[s]);
  }
  return labels;
}

std::string_view name(Agreement agreement) {
  constexpr std::string_view kNames[] = {"agree", "unknown", "differ"};
  return kNames[static_cast<size_t>(agreement)];
}

Conditions conditions_of(const Plan& plan, int threads) {
  const Device device = describe_device();
  Conditions machine = current_conditions();
  machine.device = device.fingerprint();
  return conditions_of(plan, threads, device.caches, std::move(machine));
}

Conditions conditions_of(const Plan& plan, int threads, const CacheSizes& caches, Conditions machine) {
  const int64_t touched = footprint(plan).touched_bytes;
  Conditions c = std::move(machine);
  c.threads = threads;
  c.weights = "as one run after another leaves them";
  if (caches.l2_bytes > 0)
    c.weights_from = touched > caches.l3_bytes ? "DRAM" : (touched > caches.l2_bytes * threads ? "L3" : "L2");
  c.activations = "as the layers before left them";
  c.target = plan.target;
  c.precision = plan.precision;
  c.codegen = plan.codegen;
  if (!plan.records.empty()) c.records = plan.records;
  return c;
}

Profile collect(Instance& instance, const Plan& plan, int threads, std::span<const std::byte* const> inputs,
                std::span<std::byte* const> outputs, const Options& options) {
  return Collector(instance, plan, threads, inputs, outputs, options).run();
}

}  // namespace kilter::profile
