#include "profile/program.h"

#include <fmt/ranges.h>

#include <algorithm>
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

/// What one run did. Times are in ticks.
struct Stamps {
  std::vector<int64_t> own, whole, count, iterations;  ///< by row
  int64_t choice = 0;                                  ///< of code, and memory, for all segments
  int64_t choices = 0;
  int64_t first = 0, last = 0, top = 0;  ///< first begin and last end of an instruction; sum of those of the network
};

/// Stamps the instructions of a run.
class Recorder : public vm::Observer {
 public:
  explicit Recorder(const ProgramRows& rows) : rows_(rows) {}

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
      own = done.code;
    }
    stamps.own[done.row] += own;
    stamps.whole[done.row] += whole;
    ++stamps.count[done.row];
    (open_.empty() ? stamps.top : open_.back().inside) += whole;
    stamps.last = at;
    constexpr size_t kMostEvents = 100'000;
    if (with_events_ && events.size() < kMostEvents) {
      events.push_back({done.row, 0, us(done.begin), us(at)});
    }
  }

  void iteration() override { ++stamps.iterations[open_.back().row]; }
  void enter_code() override { open_.back().entered = now(); }
  void leave_code() override { open_.back().code += std::max<int64_t>(now() - open_.back().entered, 1); }

  Stamps stamps;
  std::vector<Event> events;

 private:
  static int64_t now() { return static_cast<int64_t>(ticks()); }
  double us(int64_t at) const { return static_cast<double>(at - stamps.first) * us_per_tick_; }

  struct Open {
    size_t row = 0;
    int64_t begin = 0, inside = 0, code = 0, entered = 0;
  };
  const ProgramRows& rows_;
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
        recorder_(rows_),
        watch_({}, options.read_quiet) {}

  Profile run() {
    for (int i = 0; i < ProgramRunner::kRunsUntilCompiled; ++i) plain_pass();
    require(session_.runs_program(), "{}: is not run as a program", session_.name());
    profiled_pass(false);
    measure();
    finish_pairs();
    make_rows();
    describe_segments();
    make_timeline();
    out_.program = true;
    out_.conditions = program_conditions(session_);
    out_.threads = out_.conditions.threads;
    out_.conditions.taken = 2 * out_.passes, out_.conditions.kept = 2 * out_.kept;
    out_.conditions.disturbed = disturbed_.disturbed, out_.conditions.disturbed_by = disturbed_.why();
    out_.conditions.best_ms = best_ms_;
    for (Row& row : out_.rows) row.threads = row.kind == RowKind::segment ? out_.threads : 1;
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
      if (row.kind == RowKind::control)
        row.whole_ms = over_passes(passes_, [&](const Pass& p) { return ms(p.stamps.whole[r]); }).mean;
      place_[r] = out_.rows.size();
      out_.rows.push_back(std::move(row));
    }
    add_gap("segments: choice of code, memory", last.choices, [&](const Pass& p) { return ms(p.stamps.choice); });
    add_gap("between instructions", 1,
            [&](const Pass& p) { return ms(p.stamps.last - p.stamps.first - p.stamps.top); });
    add_gap("before and after the program", 1,
            [&](const Pass& p) { return p.total - ms(p.stamps.last - p.stamps.first); });
    for (const Row& row : out_.rows) {
      out_.sum_ms += row.time.mean;
      (row.kind == RowKind::gap ? out_.gaps_ms : out_.kernels_ms) += row.time.mean;
    }
    for (Row& row : out_.rows) row.percent = out_.sum_ms > 0 ? 100 * row.time.mean / out_.sum_ms : 0;
    out_.residual_ms = out_.total_ms - out_.sum_ms;
  }

  /// Writes for which shapes the segments are compiled.
  void describe_segments() {
    for (const ProgramRunner::FormState& form : session_.program().forms()) {
      const size_t place = place_[rows_.row_of_segment(form.segment)];
      if (place == kNowhere) continue;
      std::string& shapes = out_.rows[place].shapes;
      shapes += (shapes.empty() ? "" : "; ") + text(form);
    }
  }

  /// The timeline is that of another run, since keeping those of all would cost time.
  void make_timeline() {
    profiled_pass(true);
    for (Event& event : recorder_.events) {
      event.row = place_[event.row];
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
  Recorder recorder_;
  QuietWatch watch_;
  DisturbedCount disturbed_;
  std::vector<Pass> passes_;
  double ms_per_tick_ = ns_per_tick() * 1e-6;
  std::vector<size_t> place_;  ///< by row of `rows_`: its index in out_.rows
  double best_ms_ = 0;
  Profile out_;
};

}  // namespace

Profile collect_program(Session& session, const std::map<std::string, AnyValue>& inputs, const Options& options) {
  return ProgramCollector(session, inputs, options).run();
}

Conditions program_conditions(const Session& session) {
  const Session::Options& options = session.options();
  Conditions c = current_conditions();
  c.device = describe_device().fingerprint();
  c.threads = options.threads > 0 ? options.threads : default_threads();
  c.weights = "as one run after another leaves them";
  c.activations = "as the instructions before left them";
  c.target = options.compile.target.name;
  c.precision = name(options.compile.precision);
  c.codegen = KernelVersions(codegen_version()).all();
  if (const vm::FileProgram* program = session.file_program()) {
    c.target = program->file().target;
    c.precision = program->file().precision;
    if (const std::string& records = program->file().records; !records.empty()) c.records = records;
    c.codegen = program->codegen();
  }
  return c;
}

}  // namespace kilter::profile
