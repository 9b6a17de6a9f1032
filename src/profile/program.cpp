#include "profile/program.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "base/random.h"
#include "base/ticks.h"
#include "codegen/backend.h"
#include "exec/thread_pool.h"
#include "measure/clock.h"
#include "measure/device.h"
#include "ops/op.h"
#include "profile/pairs.h"
#include "schedule/kernel_versions.h"

namespace kilter::profile {
namespace {

double to_ms(int64_t ns) { return static_cast<double>(ns) * 1e-6; }

/// Returns "Conv+Relu+Add+...".
std::string ops_of(const OpenGraph& segment) {
  constexpr size_t kShown = 4;
  std::vector<std::string> names;
  for (const OpenNode& node : segment.nodes) {
    if (names.size() == kShown) {
      names.emplace_back("...");
      break;
    }
    names.emplace_back(node.op->name);
  }
  return fmt::format("{}", fmt::join(names, "+"));
}

/// The instructions of a program as rows: those of a region below the instruction that runs it.
class ProgramRows {
 public:
  explicit ProgramRows(const vm::Program& program) : program_(program) { add(0, 0); }

  std::vector<Row> rows;
  size_t row_of(const vm::Instr& instr) const { return places_.at(&instr); }
  size_t row_of_segment(int32_t segment) const { return segments_.at(segment); }

 private:
  void add(int32_t function, int depth) {
    for (const vm::Instr& instr : program_.functions[static_cast<size_t>(function)].code) {
      places_.emplace(&instr, rows.size());
      Row& row = rows.emplace_back();
      row.depth = depth;
      row.kind = instr.kind == vm::Instr::Kind::segment ? RowKind::segment
                 : instr.kind == vm::Instr::Kind::op    ? RowKind::op
                                                        : RowKind::control;
      if (instr.kind == vm::Instr::Kind::segment) {
        const OpenGraph& segment = program_.segments[static_cast<size_t>(instr.segment)];
        segments_.emplace(instr.segment, rows.size() - 1);
        row.name = fmt::format("segment {}", instr.segment);
        row.ops = ops_of(segment);
      } else {
        row.name = instr.node->label;
        row.ops = instr.node->op_name;
      }
      for (const int32_t inner : instr.functions) add(inner, depth + 1);
    }
  }

  const vm::Program& program_;
  std::unordered_map<const vm::Instr*, size_t> places_;
  std::unordered_map<int32_t, size_t> segments_;
};

/// The layers of the segments' plans. Layers of one segment that have the same name, in plans for different shapes, are
/// one row.
class LayerRows {
 public:
  explicit LayerRows(int threads) : threads_(threads) {}

  /// A step of a plan.
  struct Slot {
    size_t layer = 0;
    Row one;  ///< one execution
    Bound bound;
  };
  struct Layer {
    size_t segment = 0;  ///< row of the segment
    std::vector<size_t> slots;
  };
  struct PlanTrace {
    RunTrace trace;
    size_t first_slot = 0, steps = 0;
    std::string first_step;
  };
  std::vector<Slot> slots;
  std::vector<Layer> layers;  ///< in the order in which they first ran

  int threads() const { return threads_; }
  void set_peaks(const Peaks& peaks) { peaks_ = &peaks; }

  /// Returns the trace for runs of this plan; null if there are too many plans.
  PlanTrace* trace_of(const Plan& plan, size_t segment) {
    constexpr size_t kMostSlots = 50'000;
    const std::string& first_step = plan.steps.empty() ? plan.model : plan.steps.front().name;
    const auto known = traces_.find(&plan);
    // Another plan may have the address of one that was dropped.
    if (known != traces_.end() && known->second.steps == plan.steps.size() && known->second.first_step == first_step)
      return &known->second;
    if (slots.size() + plan.steps.size() > kMostSlots) return nullptr;
    const size_t capacity = std::max<size_t>(plan.steps.size(), 1);
    PlanTrace fresh{RunTrace(capacity, threads_), slots.size(), plan.steps.size(), first_step};
    add(plan, segment);
    return &(traces_.insert_or_assign(&plan, std::move(fresh)).first->second);
  }

 private:
  void add(const Plan& plan, size_t segment) {
    const std::vector<std::string> stages = stages_of(plan);
    const Footprint run = footprint(plan);
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      Slot slot{0, row_of(plan, s, stages[s]), {}};
      if (peaks_ != nullptr) slot.bound = bound_of(plan.steps[s], run, *peaks_, threads_);
      const auto [at, fresh] = index_.try_emplace({segment, slot.one.label()}, layers.size());
      if (fresh) layers.push_back({segment, {}});
      slot.layer = at->second;
      layers[slot.layer].slots.push_back(slots.size());
      slots.push_back(std::move(slot));
    }
  }

  int threads_;
  const Peaks* peaks_ = nullptr;
  std::map<std::pair<size_t, std::string>, size_t> index_;
  std::map<const Plan*, PlanTrace> traces_;
};

/// What one run did. Times are in ticks.
struct Stamps {
  std::vector<int64_t> own, whole, count, iterations;  ///< by row
  struct Layer {
    int64_t count = 0, wall = 0, barrier = 0;
    std::vector<int64_t> busy;  ///< by thread
  };
  std::vector<Layer> layers;  ///< by slot; shorter if the last slots did not run
  int64_t choice = 0;         ///< for choosing code and allocating memory, for all segments
  int64_t choices = 0;
  int64_t first = 0, last = 0, top = 0;  ///< first begin and last end of an instruction; sum of those of the network
};

/// Stamps the instructions of a run.
class Recorder : public vm::Observer {
 public:
  Recorder(const ProgramRows& rows, LayerRows& layers) : rows_(rows), layers_(layers) {}

  void reset(bool with_events) {
    const size_t count = rows_.rows.size();
    stamps = {};
    for (auto* values : {&stamps.own, &stamps.whole, &stamps.count, &stamps.iterations}) values->assign(count, 0);
    open_.clear();
    events.clear();
    with_events_ = with_events;
  }

  void begin(const vm::Instr& instr) override {
    const int64_t at = now();
    if (stamps.first == 0) stamps.first = at;
    open_.push_back({.row = rows_.row_of(instr), .begin = at});
  }

  void end() override {
    const Open done = open_.back();
    open_.pop_back();
    const int64_t at = now(), whole = at - done.begin;
    int64_t own = whole - done.inside;
    if (done.code > 0) {
      stamps.choice += own - done.code;
      ++stamps.choices;
      own = done.code - done.layers;
    }
    stamps.own[done.row] += own;
    stamps.whole[done.row] += whole;
    ++stamps.count[done.row];
    (open_.empty() ? stamps.top : open_.back().inside) += whole;
    stamps.last = at;
    add_event(done.row, 0, {static_cast<uint64_t>(done.begin), static_cast<uint64_t>(at)});
  }

  void iteration() override { ++stamps.iterations[open_.back().row]; }
  RunTrace* enter_code(const Plan& plan) override {
    entered_ = layers_.trace_of(plan, open_.back().row);
    open_.back().entered = now();
    return entered_ != nullptr ? &entered_->trace : nullptr;
  }
  void leave_code() override {
    open_.back().code += std::max<int64_t>(now() - open_.back().entered, 1);
    if (entered_ != nullptr) read(*entered_);
  }

  /// Rows of events from here on are layers.
  static constexpr size_t kLayer = size_t{1} << 40;

  Stamps stamps;
  std::vector<Event> events;

 private:
  static int64_t now() { return static_cast<int64_t>(ticks()); }

  /// Adds the layers of a plan that has just run.
  void read(const LayerRows::PlanTrace& plan) {
    const RunTrace& trace = plan.trace;
    if (stamps.layers.size() < plan.first_slot + plan.steps) stamps.layers.resize(plan.first_slot + plan.steps);
    for (size_t r = 0; r < trace.size(); ++r) {
      const size_t slot = plan.first_slot + trace.region(r).step;
      Stamps::Layer& layer = stamps.layers[slot];
      const TickSpan wall = trace.region(r).wall;
      const auto length = static_cast<int64_t>(wall.end - wall.begin);
      ++layer.count;
      layer.wall += length;
      open_.back().layers += length;
      layer.busy.resize(static_cast<size_t>(trace.threads()));
      uint64_t first = wall.end, last = wall.begin;
      for (int w = 0; w < trace.threads(); ++w) {
        const TickSpan span = trace.worker(r, w);
        if (span.begin == 0) continue;
        first = std::min(first, span.begin), last = std::max(last, span.end);
        layer.busy[static_cast<size_t>(w)] += static_cast<int64_t>(span.end - span.begin);
        add_event(kLayer + layers_.slots[slot].layer, w, span);
      }
      if (last > first)
        layer.barrier += length - std::min(static_cast<int64_t>(last - first), length);
      else if (!layer.busy.empty())  // workers do not stamp it: it ran on the caller's thread
        layer.busy.front() += length;
    }
  }

  void add_event(size_t row, int thread, const TickSpan& span) {
    constexpr size_t kMostEvents = 100'000;
    if (with_events_ && events.size() < kMostEvents)
      events.push_back({row, thread, us(static_cast<int64_t>(span.begin)), us(static_cast<int64_t>(span.end))});
  }

  double us(int64_t at) const { return static_cast<double>(at - stamps.first) * us_per_tick_; }

  struct Open {
    size_t row = 0;
    int64_t begin = 0, inside = 0, code = 0, entered = 0;
    int64_t layers = 0;  ///< the part of `code` in layers
  };
  const ProgramRows& rows_;
  LayerRows& layers_;
  LayerRows::PlanTrace* entered_ = nullptr;
  std::vector<Open> open_;
  bool with_events_ = false;
  double us_per_tick_ = ns_per_tick() * 1e-3;
};

struct Pass : PairTimes {
  Stamps stamps;
};

class ProgramCollector {
 public:
  ProgramCollector(Session& session, const std::map<std::string, AnyValue>& inputs, const Options& options)
      : session_(session),
        inputs_(inputs),
        options_(options),
        rows_(session.program().program()),
        layers_(session.options().threads > 0 ? session.options().threads : default_threads()),
        recorder_(rows_, layers_),
        watch_({}, options.read_quiet) {}

  Profile run() {
    for (int i = 0; i < ProgramRunner::kRunsUntilCompiled; ++i) plain_pass();
    require(session_.runs_program(), "{}: is not run as a program", session_.name());
    if (options_.peaks) {
      out_.peaks = measure_peaks(layers_.threads());
      layers_.set_peaks(out_.peaks);
    }
    profiled_pass(false);
    measure();
    finish_pairs();
    make_rows();
    describe_segments();
    make_timeline();
    out_.program = true;
    out_.conditions = program_conditions(session_);
    out_.threads = out_.conditions.threads;
    out_.conditions.took_part = took_part_;
    out_.conditions.taken = 2 * out_.passes, out_.conditions.kept = 2 * out_.kept;
    out_.conditions.disturbed = disturbed_.disturbed, out_.conditions.disturbed_by = disturbed_.why();
    out_.conditions.best_ms = best_ms_;
    for (Row& row : out_.rows) {
      if (!is_layer(row)) row.threads = row.kind == RowKind::segment ? out_.threads : 1;
    }
    return std::move(out_);
  }

 private:
  double ms(int64_t ticks) const { return static_cast<double>(ticks) * ms_per_tick_; }

  double plain_pass() {
    const int64_t start = now_ns();
    session_.run_values(inputs_);
    return to_ms(now_ns() - start);
  }

  Pass profiled_pass(bool with_events) {
    recorder_.reset(with_events);
    session_.program().observe(&recorder_);
    const int64_t start = now_ns();
    try {
      session_.run_values(inputs_);
    } catch (...) {
      session_.program().observe(nullptr);
      throw;
    }
    const int64_t end = now_ns();
    session_.program().observe(nullptr);
    Pass pass;
    pass.total = to_ms(end - start);
    pass.stamps = recorder_.stamps;
    pass.sum = pass.total;
    return pass;
  }

  /// Measures pairs of a profiled and a plain pass, in random order within each pair.
  void measure() {
    const Random random(options_.seed, "profile");
    const int64_t start = now_ns();
    const double span = options_.seconds * 1e3;
    const Attendance attended = session_.attendance();
    for (int64_t pass = 0; pass < options_.max_passes; ++pass) {
      const double spent = to_ms(now_ns() - start);
      if (spent >= span && pass >= options_.min_passes) break;
      if (options_.progress) options_.progress(spent / std::max(span, 1e-3));
      watch_.start();
      const int64_t pair = now_ns();
      const bool plain_first = (random.bits(static_cast<uint64_t>(pass)) & 1U) != 0;
      const double before = plain_first ? plain_pass() : 0;
      passes_.push_back(profiled_pass(false));
      passes_.back().plain = plain_first ? before : plain_pass();
      disturbed_.add(watch_.stop(to_ms(now_ns() - pair)), 2);
    }
    took_part_ = session_.attendance().since(attended).took_part();
  }

  void finish_pairs() {
    out_.passes = static_cast<int64_t>(passes_.size());
    out_.sum_over_end_to_end = sum_over_plain(passes_, options_.seed);
    std::vector<double> plain;
    for (const Pass& p : passes_) plain.push_back(p.plain);
    best_ms_ = quantile(plain, 0);
    keep_middle(passes_);
    out_.kept = static_cast<int64_t>(passes_.size());
    out_.total = over_passes(passes_, [](const Pass& p) { return p.total; });
    out_.end_to_end = over_passes(passes_, [](const Pass& p) { return p.plain; });
    out_.end_to_end.low = quantile(plain, 0.1), out_.end_to_end.high = quantile(plain, 0.9);
    out_.total_ms = out_.total.mean, out_.end_to_end_ms = out_.end_to_end.mean;
    out_.overhead_percent = 100 * (out_.total_ms / out_.end_to_end_ms - 1);
  }

  void make_rows() {
    const Stamps& last = passes_.back().stamps;
    place_.assign(rows_.rows.size(), kNowhere);
    for (size_t r = 0; r < rows_.rows.size(); ++r) {
      if (last.count[r] == 0) continue;  // of a branch that was not taken
      Row row = rows_.rows[r];
      row.step = static_cast<int64_t>(r);
      row.count = last.count[r], row.iterations = last.iterations[r];
      row.time = over_passes(passes_, [&](const Pass& p) { return ms(p.stamps.own[r]); });
      if (row.kind != RowKind::op)
        row.whole_ms = over_passes(passes_, [&](const Pass& p) { return ms(p.stamps.whole[r]); }).mean;
      place_[r] = out_.rows.size();
      const int depth = row.depth + 1;
      out_.rows.push_back(std::move(row));
      add_layers(r, depth);
    }
    add_gap("segments: choosing plans, allocating memory", last.choices,
            [&](const Pass& p) { return ms(p.stamps.choice); });
    add_gap("between instructions", 1,
            [&](const Pass& p) { return ms(p.stamps.last - p.stamps.first - p.stamps.top); });
    add_gap("before and after the program", 1,
            [&](const Pass& p) { return p.total - ms(p.stamps.last - p.stamps.first); });
    for (size_t r = 0; r < out_.rows.size(); ++r) {
      const Row& row = out_.rows[r];
      // The time that a segment takes apart from its layers is between them.
      const bool has_layers = row.kind == RowKind::segment && r + 1 < out_.rows.size() && is_layer(out_.rows[r + 1]);
      out_.sum_ms += row.time.mean;
      out_.barriers_ms += row.barrier_ms;
      (row.kind == RowKind::gap || has_layers ? out_.gaps_ms : out_.kernels_ms) += row.time.mean - row.barrier_ms;
    }
    for (Row& row : out_.rows) row.percent = out_.sum_ms > 0 ? 100 * row.time.mean / out_.sum_ms : 0;
    out_.residual_ms = out_.total_ms - out_.sum_ms;
  }

  static bool is_layer(const Row& row) { return !row.busy_ms.empty(); }

  /// Adds the layers of a segment that ran.
  void add_layers(size_t segment, int depth) {
    layer_place_.resize(layers_.layers.size(), kNowhere);
    for (size_t l = 0; l < layers_.layers.size(); ++l) {
      const LayerRows::Layer& layer = layers_.layers[l];
      const auto& last = passes_.back().stamps.layers;
      const auto ran = [&](size_t slot) { return slot < last.size() && last[slot].count > 0; };
      if (layer.segment != segment || std::ranges::none_of(layer.slots, ran)) continue;
      layer_place_[l] = out_.rows.size();
      out_.rows.push_back(layer_row(layer, depth));
    }
  }

  Row layer_row(const LayerRows::Layer& layer, int depth) const {
    const auto ticks_of = [&](auto get) {
      return over_passes(passes_, [&](const Pass& p) {
        int64_t sum = 0;
        for (const size_t slot : layer.slots) {
          if (slot < p.stamps.layers.size()) sum += get(p.stamps.layers[slot]);
        }
        return ms(sum);
      });
    };
    const auto& last = passes_.back().stamps.layers;
    Row row;
    for (const size_t s : layer.slots) {
      if (s >= last.size() || last[s].count == 0) continue;
      const LayerRows::Slot& slot = layers_.slots[s];
      if (row.count == 0) row = slot.one, row.count = 0, row.bound = slot.bound, row.bound.ms = 0, clear_amounts(row);
      for (auto field : {&Row::problem, &Row::schedule, &Row::shapes, &Row::layouts, &Row::record, &Row::key}) {
        if (row.*field != slot.one.*field) row.*field = "several";
      }
      const int64_t count = last[s].count;
      row.count += count;
      row.flops += slot.one.flops * count, row.effective_flops += slot.one.effective_flops * count;
      row.bytes += slot.one.bytes * count, row.weight_bytes += slot.one.weight_bytes * count;
      row.bound.ms += slot.bound.ms * static_cast<double>(count);
    }
    row.step = -1, row.depth = depth;
    row.time = ticks_of([](const Stamps::Layer& l) { return l.wall; });
    row.barrier_ms = ticks_of([](const Stamps::Layer& l) { return l.barrier; }).mean;
    for (size_t w = 0; w < static_cast<size_t>(layers_.threads()); ++w) {
      const auto busy = [&](const Stamps::Layer& l) { return w < l.busy.size() ? l.busy[w] : int64_t{0}; };
      row.busy_ms.push_back(ticks_of(busy).mean);
    }
    set_threads(row);
    return row;
  }

  static void clear_amounts(Row& row) { row.flops = row.effective_flops = row.bytes = row.weight_bytes = 0; }

  /// Describes the shapes for which the segments are compiled.
  void describe_segments() {
    for (const ProgramRunner::FormState& form : session_.program().forms()) {
      const size_t place = place_[rows_.row_of_segment(form.segment)];
      if (place == kNowhere) continue;
      std::string& shapes = out_.rows[place].shapes;
      shapes += (shapes.empty() ? "" : "; ") + text(form);
    }
  }

  /// The timeline is that of a separate run, since keeping the timelines of all runs would cost time.
  void make_timeline() {
    profiled_pass(true);
    for (Event& event : recorder_.events) {
      event.row = event.row < Recorder::kLayer ? place_[event.row] : layer_place_[event.row - Recorder::kLayer];
      if (event.row != kNowhere) out_.timeline.push_back(event);
    }
  }

  template <class Get>
  void add_gap(const char* what, int64_t count, Get get) {
    Row& row = out_.rows.emplace_back();
    row.kind = RowKind::gap;
    row.name = what;
    row.count = count;
    row.time = over_passes(passes_, get);
  }

  static constexpr size_t kNowhere = static_cast<size_t>(-1);

  Session& session_;
  const std::map<std::string, AnyValue>& inputs_;
  const Options& options_;
  ProgramRows rows_;
  LayerRows layers_;
  Recorder recorder_;
  QuietWatch watch_;
  DisturbedCount disturbed_;
  std::vector<Pass> passes_;
  double ms_per_tick_ = ns_per_tick() * 1e-6;
  std::vector<size_t> place_;        ///< by row of `rows_`: its index in out_.rows
  std::vector<size_t> layer_place_;  ///< by layer: the same
  double best_ms_ = 0;
  std::vector<double> took_part_;
  Profile out_;
};

}  // namespace

Profile collect_program(Session& session, const std::map<std::string, AnyValue>& inputs, const Options& options) {
  return ProgramCollector(session, inputs, options).run();
}

Conditions program_conditions(Session& session) {
  const Session::Options& options = session.options();
  Conditions c = current_conditions();
  c.device = describe_device().fingerprint();
  c.threads = options.threads > 0 ? options.threads : default_threads();
  c.weights = "as one run after another leaves them";
  c.activations = "as the instructions before left them";
  c.target = options.compile.target.name;
  c.precision = name(options.compile.precision);
  c.codegen = KernelVersions(codegen_version()).all();
  const vm::FileProgram* file = session.file_program();
  if (file != nullptr) {
    c.target = file->file().target;
    c.precision = file->file().precision;
    c.codegen = file->codegen();
  }
  if (const std::string records = file != nullptr ? file->file().records : session.program().records();
      !records.empty())
    c.records = records;
  return c;
}

}  // namespace kilter::profile
