#include "tune/tuner/search/search_run.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <iterator>

#include "compile/code_versions.h"
#include "measure/clock.h"
#include "tune/records/problem_words.h"
#include "tune/tuner/left.h"
#include "tune/tuner/plan_memory.h"
#include "tune/tuner/race/lap_times.h"
#include "tune/tuner/search/cost_rows.h"

namespace kilter::tune {
namespace {

constexpr double kShowEveryMs = 200;

Conditions trial_conditions(const TuneOptions& options, const CompileOptions& compile, const Plan& plan,
                            const std::vector<int>& measuring) {
  const std::optional<RunnerMachine>& there = options.runner.machine;
  Conditions c = there ? there->conditions : current_conditions();
  c.device = options.device;
  c.threads = options.threads;
  c.weights = "as one run after another leaves them";
  c.activations = "as the predecessor left them";
  c.target = compile.target.name;
  c.codegen = plan.codegen;
  c.program = options.program;
  if (!there) c.pinning = cpu_list_text(measuring);
  return c;
}

/// Returns the records made under these conditions, with the code of `versions`, in the order of their dates.
std::vector<Record> records_here(std::span<const Record> records, const Conditions& here,
                                 const KernelVersions& versions) {
  std::vector<Record> out;
  for (const Record& r : records) {
    if (r.mapped() && r.conditions.target == here.target && r.conditions.device == here.device &&
        r.conditions.threads == here.threads && r.conditions.codegen == code_version(r, versions))
      out.push_back(r);
  }
  // Merged files are in no particular order.
  std::ranges::stable_sort(out, {}, [](const Record& r) { return std::string_view(r.conditions.date); });
  return out;
}

bool is_of(const Record& r, const NetworkTask& task) { return r.problem == task.problem && r.layouts == task.layouts; }

std::vector<Record> of_other_tasks(std::vector<Record> records, const std::vector<NetworkTask>& tasks) {
  std::erase_if(records, [&](const Record& r) {
    return std::ranges::any_of(tasks, [&](const NetworkTask& task) { return r.problem == task.problem; });
  });
  return records;
}

}  // namespace

std::optional<Status> lasting_status(FaultKind kind) {
  switch (kind) {
    case FaultKind::crash:
      return Status::crash;
    case FaultKind::timeout:
      return Status::timeout;
    case FaultKind::wrong:
      return Status::wrong;
    case FaultKind::memory:
      break;
  }
  return std::nullopt;
}

SearchRun::SearchRun(NetworkBench& bench, const TuneOptions& options, const CompileOptions& compile,
                     const Choices& recorded, TuneLog& log)
    : bench_(bench),
      options_(options),
      log_(log),
      versions_(code_versions(compile.target)),
      conditions_(trial_conditions(options, compile, bench.fallback().compiled.plan, bench.cpus().measuring)) {
  TaskOptions how{options.search,    compile.target.limits, compile.accuracy,
                  compile.forbidden, options.threads,       options.pretrained};
  std::vector<NetworkTask> tasks = bench.tasks();
  std::vector<std::string> problems;
  for (const NetworkTask& task : tasks) problems.push_back(task.problem);
  require_kinds(options.ops, problems);
  std::erase_if(tasks, [&](const NetworkTask& task) { return !has_kind(task.problem, options.ops); });
  const std::vector<Record> here = records_here(options.known, conditions_, versions_);
  if (options.search.searcher.starts_with("xgb")) {
    lessons_ = lessons_of(of_other_tasks(here, tasks), static_cast<uint32_t>(tasks.size()));
    how.lessons = &lessons_;
  }
  for (NetworkTask& task : tasks) {
    std::vector<Record> known;
    std::ranges::copy_if(here, std::back_inserter(known), [&](const Record& r) { return is_of(r, task); });
    const auto other = recorded.find(task.nodes.front());
    TaskState& state = tasks_.emplace_back(std::move(task), how, known, static_cast<uint32_t>(tasks_.size()));
    if (other != recorded.end() && other->second.schedule && state.advise(*other->second.schedule)) ++earlier_.advised;
  }
  earlier_.all = static_cast<int64_t>(options.known.size()), earlier_.here = static_cast<int64_t>(here.size());
  measure_default();
  if (options.objective.weighs_memory()) weigh_memory();
  for (const TaskState& task : tasks_) {
    const Candidate* best = task.winner(noise_);
    best_.push_back(best != nullptr ? best->schedule.text() : task.task().fallback.text());
  }
  log_.point(0, predicted_ms(), remaining());
}

void SearchRun::measure_default() {
  MeasureOptions how;
  how.rounds = 20;  // only their middle half counts: the first runs of a process are slow
  how.max_ms = 2000;
  const VariantId id = bench_.fallback_id();
  const Laps laps = bench_.runner().measure({&id, 1}, how);
  if (!laps.faults.empty()) fail_default(laps.faults);
  default_ms_ = default_run_ms(laps);
  for (const auto& [node, steps] : bench_.fallback().steps) {
    node_ms_[node] = usual_ms(laps.laps[0], steps);
    usual_.is_usual(node, node_ms_[node]);
  }
  for (const TaskState& task : tasks_) {
    double ms = 0;
    for (const std::string& node : task.task().nodes) ms += node_ms_[node];
    share_.push_back(ms / default_ms_);
  }
  constexpr int kTimes = 3;
  for (int time = 0; !note_bounds() && options_.better_bound && time < kTimes; ++time) options_.better_bound();
  rounds_ = options_.trial.repeat > 0 ? options_.trial.repeat : automatic_rounds(default_ms_);
}

void SearchRun::weigh_memory() {
  const auto memory =
      std::make_shared<LayerMemory>(bench_.fallback().compiled, bench_.options().target.limits, options_.threads);
  default_bytes_ = plan_memory(bench_.fallback().compiled, options_.threads).bytes();
  const double price = options_.objective.price(1, static_cast<double>(std::max<int64_t>(1, default_bytes_)));
  constexpr double kLeastShare = 1e-6;  // of a task that takes no time
  for (size_t t = 0; t < tasks_.size(); ++t) {
    const auto bytes = [memory, &task = tasks_[t].task()](const Schedule& s) { return memory->more(task.nodes, s); };
    tasks_[t].weigh(bytes, price / std::max(share_[t], kLeastShare));
  }
}

bool SearchRun::note_bounds() {
  constexpr double kOver = 1.1;  // above clock inaccuracy
  network_bound_ms_ = bound_of(bench_.fallback());
  bound_ms_.clear();
  bool possible = true;
  for (const TaskState& task : tasks_) {
    const std::string& node = task.task().nodes.front();
    bound_ms_.push_back(bound_of(bench_.fallback(), node));
    possible = possible && bound_ms_.back() <= kOver * node_ms_[node];
  }
  return possible;
}

/// Batches that are built one after another while others are measured. Planning and learning are done by the caller.
/// The builder reads only the tasks' spaces, which never change.
class SearchRun::Ahead {
 public:
  explicit Ahead(SearchRun& run) : run_(run) {}
  ~Ahead() { run_.cancelled_ = true; }  // futures of std::async wait in their destructors
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  /// Plans batches until `count` are under way or there is nothing left to plan.
  void fill(size_t count) {
    while (under_way_.size() < count) {
      auto batch = std::make_shared<Batch>(run_.plan());
      if (batch->empty()) return;
      auto before = under_way_.empty() ? std::shared_future<void>() : under_way_.back().done;
      auto build = [this, batch, before]() mutable {
        if (before.valid()) before.wait();
        before = {};  // otherwise each batch would keep all its predecessors
        set_affinity(run_.bench_.cpus().building);
        run_.build(*batch, [this] { return run_.cancelled_.load(); });
      };
      under_way_.push_back({batch, std::async(std::launch::async, std::move(build)).share()});
    }
  }
  /// Waits until all batches are built.
  void settle() {
    for (const Building& one : under_way_) one.done.wait();
  }
  /// Returns the oldest batch, or an empty one if none is under way. Rethrows an error from building the batch.
  Batch take() {
    if (under_way_.empty()) return {};
    const Building oldest = std::move(under_way_.front());
    under_way_.pop_front();
    oldest.done.get();
    return std::move(*oldest.batch);
  }

 private:
  struct Building {
    std::shared_ptr<Batch> batch;
    std::shared_future<void> done;
  };
  SearchRun& run_;
  std::deque<Building> under_way_;
};

void SearchRun::run(double deadline_ms) {
  begin_ms_ = now_ms(), deadline_ms_ = deadline_ms;
  building_ = BuildingTurns(bench_.cpus().apart);
  cancelled_ = false;
  try {
    search();
  } catch (const Error& e) {  // no worker can be started, or building ran out of space; the results so far remain valid
    stopped_ = e.message();
    finish();
  }
}

void SearchRun::search() {
  const auto make = [this] {
    Batch batch = plan();
    build(batch, [this] { return (options_.interrupted && options_.interrupted()) || now_ms() >= deadline_ms_; });
    return batch;
  };
  Ahead ahead(*this);
  Batch now = make();
  while (!now.empty() && !over()) {
    if (!building_.beside()) ahead.settle();
    // If building takes longer than measuring, a second batch keeps the builder busy until the measurement ends.
    if (building_.beside()) ahead.fill(building_is_slower() ? 2 : 1);
    measure(now);
    finish();
    show("searching");
    now = ahead.take();
    if (now.empty()) now = make();  // the latest results may have opened new options
  }
  if (!stopped_.empty() || over()) return;
  const bool all = std::ranges::all_of(tasks_, [](const TaskState& t) { return t.tried() >= t.size(); });
  stopped_ = all ? "every schedule that is worth a trial is known" : "the searchers have nothing more to propose";
}

bool SearchRun::over() {
  const auto stop = [&](std::string why) {
    stopped_ = std::move(why);
    return true;
  };
  if (options_.interrupted && options_.interrupted()) return stop("interrupted");
  if (options_.trials > 0 && done() >= options_.trials) return stop(fmt::format("{} trials are done", done()));
  if (now_ms() >= deadline_ms_) return stop("the time is up");
  if (const int64_t dry = done() - last_gain_; options_.early_stopping > 0 && dry >= options_.early_stopping)
    return stop(fmt::format("no gain in {} trials", dry));
  if (options_.until < 1 && batches_ > 2 && remaining() <= 1 - options_.until)
    return stop(fmt::format("no more than {:.1f} % is expected to be left", 100 * remaining()));
  return false;
}

void SearchRun::finish() {
  std::vector<double> spreads;
  for (TaskState& task : tasks_) {
    if (task.learn(noise_)) last_gain_ = done();
    for (const auto& [text, c] : task.candidates()) spreads.push_back(c.ratios.spread());
  }
  noise_ = typical_noise(std::move(spreads), noise_);
  if (options_.keep && !fresh_.empty()) options_.keep(fresh_);
  fresh_.clear();
  for (auto& [trials, event] : untold_) log_.tell(trials, std::move(event));
  untold_.clear();
  note_gains();
}

void SearchRun::note_gains() {
  const double predicted = predicted_ms();
  log_.point(trials_, predicted, remaining());
  for (size_t t = 0; t < tasks_.size(); ++t) {
    const Candidate* best = tasks_[t].winner(noise_);
    std::string text = best != nullptr ? best->schedule.text() : tasks_[t].task().fallback.text();
    if (text == best_[t]) continue;
    best_[t] = std::move(text);
    log_.tell(trials_, GainEvent{tasks_[t].task().number, best_[t],
                                 best != nullptr ? best->ratios.ratio(noise_) : Ratio{1, 1, 1}, predicted,
                                 speed(t, best != nullptr ? best->ratios.cost() : 1, bound_ms(t, best_[t]))});
  }
}

Record SearchRun::blank_record(const Probe& probe) const {
  const NetworkTask& task = tasks_[probe.task].task();
  Record r;
  r.problem = task.problem, r.layouts = task.layouts;
  r.schedule = probe.schedule.text();
  r.conditions = conditions_;
  r.conditions.codegen = code_version(r, versions_);
  r.conditions.date = iso_date();
  r.network = options_.network, r.node = probe.node;
  return r;
}

Record SearchRun::record(const Probe& probe, std::span<const double> samples_ms, const Ratio& ratio) const {
  Record r = blank_record(probe);
  r.samples_ms.assign(samples_ms.begin(), samples_ms.end());
  r.versus = Versus{ratio, tasks_[probe.task].task().fallback.text()};
  r.conditions.codegen = code_version(r, versions_);
  r.conditions.taken = r.conditions.kept = static_cast<int64_t>(samples_ms.size());
  return r;
}

Record SearchRun::record(size_t task, const Schedule& schedule, std::span<const double> samples_ms,
                         const Ratio& ratio) const {
  return record(Probe{task, tasks_[task].task().nodes.front(), schedule}, samples_ms, ratio);
}

double SearchRun::predicted_ms() const {
  double share = 1;
  for (size_t t = 0; t < tasks_.size(); ++t) share -= share_[t] * (1 - tasks_[t].believed_cost(noise_));
  return default_ms_ * share;
}

int64_t SearchRun::predicted_bytes() const {
  int64_t bytes = default_bytes_;
  for (const TaskState& task : tasks_) {
    const Candidate* best = task.winner(noise_);
    if (best != nullptr) bytes += best->bytes;
  }
  return bytes;
}

double SearchRun::remaining() const {
  double gain = 0;
  for (size_t t = 0; t < tasks_.size(); ++t) gain += share_[t] * tasks_[t].left(noise_);
  return gain * default_ms_ / predicted_ms();
}

double SearchRun::as_long_again() const {
  double gain = 0;
  for (size_t t = 0; t < tasks_.size(); ++t) {
    const TaskState& task = tasks_[t];
    const auto tried = static_cast<double>(task.tried()), now = tried - static_cast<double>(task.tried_before());
    gain += share_[t] * gain_of_more(task.left(noise_), tried, now, static_cast<double>(task.size()));
  }
  return gain * default_ms_ / predicted_ms();
}

double SearchRun::bound_of(const Variant& variant, const std::string& node) const {
  const auto steps = variant.steps.find(node);
  return options_.bound && steps != variant.steps.end() ? options_.bound(variant.compiled.plan, steps->second) : 0;
}

double SearchRun::bound_of(const Variant& variant) const {
  double sum = 0;
  for (const auto& [node, steps] : variant.steps) sum += bound_of(variant, node);
  return sum;
}

double SearchRun::bound_ms(size_t task, const std::string& schedule) const {
  const TaskState& state = tasks_[task];
  if (schedule == state.task().fallback.text()) return bound_ms_[task];
  const auto known = state.candidates().find(schedule);
  return known == state.candidates().end() ? 0 : known->second.bound_ms;
}

int64_t SearchRun::flops(const std::string& node) const {
  int64_t sum = 0;
  for (const size_t s : bench_.fallback().steps.at(node))
    sum += bench_.fallback().compiled.plan.steps[s].effective_flops;
  return sum;
}

int64_t SearchRun::network_flops() const {
  int64_t sum = 0;
  for (const Step& step : bench_.fallback().compiled.plan.steps) sum += step.effective_flops;
  return sum;
}

Speed SearchRun::speed(size_t task, double cost, double bound_ms) const {
  const std::string& node = tasks_[task].task().nodes.front();
  const double ms = node_ms_.at(node) * cost;
  if (ms <= 0) return {};
  return {static_cast<double>(flops(node)) / ms * 1e-6, bound_ms / ms};
}

TaskProgress SearchRun::task_progress(size_t task) const {
  const TaskState& state = tasks_[task];
  const NetworkTask& of = state.task();
  const std::string& node = of.nodes.front();
  TaskProgress p;
  p.number = of.number, p.problem = of.problem, p.node = node, p.layers = static_cast<int64_t>(of.nodes.size()),
  p.share = share_[task];
  p.flops = flops(node);
  p.default_ms = node_ms_.at(node), p.current = state.current();
  p.tried = state.tried(), p.size = state.size();
  p.schedule = of.fallback.text(), p.bound_ms = bound_ms_[task];
  if (const Candidate* best = state.winner(noise_)) {
    p.best = best->ratios.cost(), p.schedule = best->schedule.text(), p.more_bytes = best->bytes;
    if (best->bound_ms > 0) p.bound_ms = best->bound_ms;
  }
  return p;
}

Conditions SearchRun::conditions_of_runs() const {
  Conditions c = conditions_;
  const DisturbedCount& runs = bench_.runner().disturbed();
  c.taken = c.kept = runs.taken, c.disturbed = runs.disturbed, c.disturbed_by = runs.why();
  c.best_ms = bench_.runner().best_ms();
  return c;
}

TuneProgress SearchRun::progress(const std::string& phase) const {
  TuneProgress p;
  p.phase = phase;
  p.seconds = log_.seconds(), p.budget_seconds = options_.seconds;
  p.trials = trials_, p.most_trials = options_.trials, p.faults = failures_, p.restarts = bench_.runner().restarts();
  p.default_ms = default_ms_, p.predicted_ms = predicted_ms(), p.remaining = remaining();
  p.default_bytes = default_bytes_, p.predicted_bytes = predicted_bytes();
  p.flops = network_flops(), p.bound_ms = network_bound_ms_;
  p.runs = conditions_of_runs();
  for (size_t t = 0; t < tasks_.size(); ++t) {
    p.tasks.push_back(task_progress(t));
    p.bound_ms += static_cast<double>(p.tasks[t].layers) * (p.tasks[t].bound_ms - bound_ms_[t]);
  }
  return p;
}

void SearchRun::show(const std::string& phase, const std::function<void(TuneProgress&)>& with) {
  if (!options_.progress || (phase == shown_phase_ && now_ms() - shown_ms_ < kShowEveryMs)) return;
  shown_ms_ = now_ms(), shown_phase_ = phase;
  TuneProgress now = progress(phase);
  if (with) with(now);
  options_.progress(now);
}

}  // namespace kilter::tune
