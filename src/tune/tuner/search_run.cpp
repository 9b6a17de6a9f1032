#include "tune/tuner/search_run.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <iterator>

#include "measure/clock.h"
#include "tune/records/problem_words.h"
#include "tune/tuner/cost_rows.h"
#include "tune/tuner/lap_times.h"

namespace kilter::tune {
namespace {

constexpr size_t kVariants = 3;     ///< of a batch, which share the runs of the default beside them
constexpr size_t kMostProbes = 24;  ///< new schedules in one variant: about a quarter of a second of compiling
constexpr double kShowEveryMs = 200;

Conditions trial_conditions(const TuneOptions& options, const CompileOptions& compile, const Plan& plan,
                            const std::vector<int>& measuring) {
  Conditions c = current_conditions();
  c.device = options.device;
  c.threads = options.threads;
  c.weights = "as one run after another leaves them";
  c.activations = "as the predecessor left them";
  c.target = compile.target.name;
  c.codegen = plan.codegen;
  c.program = options.program;
  c.pinning = cpu_list_text(measuring);
  return c;
}

/// Those that were made under these conditions.
std::vector<Record> records_here(std::span<const Record> records, const Conditions& here) {
  std::vector<Record> out;
  for (const Record& r : records) {
    if (r.mapped() && r.conditions.target == here.target && r.conditions.device == here.device &&
        r.conditions.threads == here.threads && r.conditions.codegen == here.codegen)
      out.push_back(r);
  }
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

SearchRun::SearchRun(NetworkBench& bench, const TuneOptions& options, const CompileOptions& compile, TuneLog& log)
    : bench_(bench),
      options_(options),
      log_(log),
      conditions_(trial_conditions(options, compile, bench.fallback().compiled.plan, bench.cpus().measuring)) {
  TaskOptions how{options.search,    compile.target.limits, compile.accuracy,
                  compile.forbidden, options.threads,       options.pretrained};
  std::vector<NetworkTask> tasks = bench.tasks();
  std::vector<std::string> problems;
  for (const NetworkTask& task : tasks) problems.push_back(task.problem);
  require_kinds(options.ops, problems);
  std::erase_if(tasks, [&](const NetworkTask& task) { return !has_kind(task.problem, options.ops); });
  const std::vector<Record> here = records_here(options.known, conditions_);
  if (options.search.searcher.starts_with("xgb")) {
    lessons_ = lessons_of(of_other_tasks(here, tasks), static_cast<uint32_t>(tasks.size()));
    how.lessons = &lessons_;
  }
  for (NetworkTask& task : tasks) {
    std::vector<Record> known;
    std::ranges::copy_if(here, std::back_inserter(known), [&](const Record& r) { return is_of(r, task); });
    tasks_.emplace_back(std::move(task), how, known, static_cast<uint32_t>(tasks_.size()));
  }
  measure_default();
  for (const TaskState& task : tasks_) {
    const Candidate* best = task.winner(noise_);
    best_.push_back(best != nullptr ? best->schedule.text() : task.task().fallback.text());
  }
  log_.point(0, predicted_ms(), remaining());
}

void SearchRun::measure_default() {
  MeasureOptions how;
  how.rounds = 20;  // the middle half of them: the first runs of a process are slow
  how.max_ms = 2000;
  const VariantId id = bench_.fallback_id();
  const Laps laps = bench_.runner().measure({&id, 1}, how);
  default_ms_ = default_run_ms(laps);
  for (const auto& [node, steps] : bench_.fallback().steps) node_ms_[node] = usual_ms(laps.laps[0], steps);
  for (const TaskState& task : tasks_) {
    double ms = 0;
    for (const std::string& node : task.task().nodes) ms += node_ms_[node];
    share_.push_back(ms / default_ms_);
    bound_ms_.push_back(bound_of(bench_.fallback(), task.task().nodes.front()));
  }
  rounds_ = options_.trial.repeat > 0 ? options_.trial.repeat : automatic_rounds(default_ms_);
}

/// Batches that are built one after another beside the measurement. Planning and learning stay with the caller; what
/// the builder reads of the tasks, their spaces, never changes.
class SearchRun::Ahead {
 public:
  explicit Ahead(SearchRun& run) : run_(run) {}
  ~Ahead() { run_.cancelled_ = true; }  // futures of std::async wait in their destructors
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  /// Plans until `count` batches are under way, or there is nothing to plan.
  void fill(size_t count) {
    while (under_way_.size() < count) {
      auto batch = std::make_shared<Batch>(run_.plan());
      if (batch->empty()) return;
      auto before = under_way_.empty() ? std::shared_future<void>() : under_way_.back().done;
      auto build = [this, batch, before]() mutable {
        if (before.valid()) before.wait();
        before = {};  // each would keep all that came before it
        set_affinity(run_.bench_.cpus().building);
        run_.build(*batch);
      };
      under_way_.push_back({batch, std::async(std::launch::async, std::move(build)).share()});
    }
  }
  /// The oldest; empty when none is under way. Throws what building it threw.
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
  const bool beside = bench_.cpus().apart;
  cancelled_ = false;
  const auto make = [this] {
    Batch batch = plan();
    build(batch);
    return batch;
  };
  Ahead ahead(*this);
  Batch now = make();
  while (!now.empty() && !over(deadline_ms)) {
    // Where building takes longer than measuring, a second batch keeps the builder busy to the end of the measurement.
    if (beside) ahead.fill(compile_ms_ > check_ms_ + measure_ms_ ? 2 : 1);
    measure(now);
    finish();
    show("searching");
    now = ahead.take();
    if (now.empty()) now = make();  // what was just learned may have opened something
  }
  if (stopped_.empty()) stopped_ = "every schedule that is worth a trial is known";
}

bool SearchRun::over(double deadline_ms) {
  const auto stop = [&](std::string why) {
    stopped_ = std::move(why);
    return true;
  };
  if (options_.interrupted && options_.interrupted()) return stop("interrupted");
  if (now_ms() >= deadline_ms) return stop("the time is up");
  if (options_.trials > 0 && trials_ >= options_.trials) return stop(fmt::format("{} trials are done", trials_));
  if (options_.early_stopping > 0 && batches_ > 0) {
    int64_t all = 0;
    for (const TaskState& task : tasks_) all += task.dry();
    if (all >= options_.early_stopping) return stop(fmt::format("no gain in {} trials", all));
  }
  if (options_.until < 1 && batches_ > 2 && remaining() <= 1 - options_.until)
    return stop(fmt::format("no more than {:.1f} % is expected to be left", 100 * remaining()));
  return false;
}

std::vector<size_t> SearchRun::by_need(bool explore) const {
  std::vector<std::pair<double, size_t>> need;
  for (size_t t = 0; t < tasks_.size(); ++t) {
    const TaskState& task = tasks_[t];
    if (explore && task.explored()) continue;
    const double size = static_cast<double>(std::max<size_t>(task.pruned().points.size(), 1));
    const double left = std::max(0.05, 1 - static_cast<double>(task.tried()) / size);
    need.emplace_back(-share_[t] * left / (1 + 0.02 * static_cast<double>(task.dry())), t);
  }
  std::sort(need.begin(), need.end());
  std::vector<size_t> order;
  for (const auto& [score, t] : need) order.push_back(t);
  return order;
}

std::vector<Probe> SearchRun::draw(bool explore, size_t most) {
  std::vector<Probe> probes;
  for (const size_t t : by_need(explore)) {
    if (probes.size() >= most) break;
    TaskState& task = tasks_[t];
    const std::vector<std::string>& nodes = task.task().nodes;
    const size_t room = std::min(nodes.size(), most - probes.size());
    const std::vector<Schedule> schedules = explore ? task.explore(room) : task.contenders(room, noise_);
    for (size_t i = 0; i < schedules.size(); ++i) {
      // Another layer each time, so that no candidate is judged by one layer's neighbours alone.
      const std::string& node = nodes[(i + static_cast<size_t>(planned_)) % nodes.size()];
      probes.push_back({t, node, schedules[i]});
    }
  }
  return probes;
}

SearchRun::Batch SearchRun::plan() {
  Batch batch;
  ++planned_;
  for (size_t v = 0; v < kVariants; ++v) {
    Trialled one;
    while (!again_.empty() && one.probes.size() < kMostProbes / 4) {
      one.probes.push_back(again_.front());
      again_.pop_front();
    }
    if (one.probes.empty()) {
      const bool explore = (planned_ + static_cast<int64_t>(v)) % 3 != 0;
      one.probes = draw(explore, kMostProbes);
      if (one.probes.empty()) one.probes = draw(!explore, kMostProbes);
    }
    if (!one.probes.empty()) batch.variants.push_back(std::move(one));
  }
  return batch;
}

void SearchRun::build(Batch& batch) {
  const double start = now_ms();
  for (Trialled& one : batch.variants) {
    if (cancelled_) return;
    build_one(one);
  }
  batch.ms = now_ms() - start;
}

void SearchRun::build_one(Trialled& one) {
  Choices choices;
  for (const Probe& p : one.probes) choices[p.node] = p.schedule;
  try {
    one.variant = bench_.build(choices);
  } catch (const Error&) {
    // Some schedule is refused: leave out those that their template does not lower alone.
    for (const Probe& p : one.probes) {
      const Space& space = tasks_[p.task].space();
      const auto point = space.find(p.schedule);
      if (!point || std::holds_alternative<Rejected>(space.lower(*point))) choices.erase(p.node);
    }
    one.variant = bench_.build(choices);
  }
}

void SearchRun::measure(Batch& batch) {
  const double start = now_ms();
  ++batches_;
  std::vector<size_t> loaded;
  const std::vector<VariantId> ids = load(batch, loaded);
  check_ms_ += now_ms() - start;
  compile_ms_ += batch.ms;
  if (ids.size() < 2) return;
  const double before = now_ms();
  MeasureOptions how;
  how.rounds = rounds_;
  how.slice_ms = options_.trial.min_repeat_ms;
  how.runs = options_.trial.number;
  how.cut_off = 4;
  how.seed = static_cast<uint64_t>(batches_);
  const Laps laps = bench_.runner().measure(ids, how);
  for (size_t i = 0; i < loaded.size(); ++i) note_laps(laps, i + 1, batch.variants[loaded[i]]);
  for (size_t i = 0; i < loaded.size(); ++i) {
    std::vector<Fault> mine;
    for (const Fault& f : laps.faults) {
      if (f.variant == ids[i + 1]) mine.push_back(f);
    }
    note_faults(batch.variants[loaded[i]], mine, true);
  }
  for (size_t i = 1; i < ids.size(); ++i) bench_.runner().drop(ids[i]);
  measure_ms_ += now_ms() - before;
}

std::vector<VariantId> SearchRun::load(Batch& batch, std::vector<size_t>& loaded) {
  std::vector<VariantId> ids{bench_.fallback_id()};
  for (size_t v = 0; v < batch.variants.size(); ++v) {
    Trialled& one = batch.variants[v];
    const Loaded got = bench_.load(*one.variant);
    note_faults(one, got.faults, got.id.has_value());
    if (!got.id) continue;
    ids.push_back(*got.id);
    loaded.push_back(v);
  }
  return ids;
}

void SearchRun::note_faults(const Trialled& one, const std::vector<Fault>& faults, bool measured) {
  std::set<std::string> guilty;
  for (const Fault& fault : faults) {
    for (const Probe& p : one.probes) {
      if (p.node != fault.layer || !guilty.insert(p.node).second) continue;
      const std::optional<Status> lasting = lasting_status(fault.kind);
      note_failure(p, lasting.value_or(Status::crash), fault.words);
      if (!lasting) continue;
      Record r = record(p, {}, {});
      r.status = *lasting, r.error = fault.words, r.versus.reset();
      fresh_.push_back(std::move(r));
    }
  }
  if (measured) return;
  for (const Probe& p : one.probes) {
    if (guilty.empty()) {
      tasks_[p.task].put_back(p.schedule);
    } else if (!guilty.contains(p.node)) {
      again_.push_back(p);
    }
  }
}

void SearchRun::note_laps(const Laps& laps, size_t which, const Trialled& one) {
  for (const Probe& p : one.probes) {
    if (!one.variant->choices.contains(p.node)) {
      note_failure(p, Status::rejected, "the template refuses to lower it");
      continue;
    }
    const Candidate* known = tasks_[p.task].find(p.schedule);
    if (known != nullptr && known->status != Status::ok) continue;
    LogRatios ratios;
    std::vector<double> samples;
    bool ran = false;
    for (int64_t round = 0; round < laps.rounds; ++round) {
      const LayerTime mine = layer_time(laps.laps[which], round, one.variant->steps.at(p.node));
      const LayerTime base = layer_time(laps.laps[0], round, bench_.fallback().steps.at(p.node));
      ran = ran || (mine.ms > 0 && base.ms > 0);
      if (!mine.alone || !base.alone) continue;
      ratios.add(mine.ms / base.ms);
      samples.push_back(mine.ms);
      tasks_[p.task].sample(p.schedule, mine.ms / base.ms);
    }
    if (samples.empty()) {
      ran ? again_.push_back(p) : tasks_[p.task].put_back(p.schedule);  // ran: the core was shared in all of its rounds
      continue;
    }
    ++trials_;
    tasks_[p.task].note_bound(p.schedule, bound_of(*one.variant, p.node));
    fresh_.push_back(record(p, samples, ratios.ratio(noise_)));
    const LogRatios& all = tasks_[p.task].find(p.schedule)->ratios;
    log_.tell(trials_, TrialEvent{p.task, p.node, p.schedule.text(), Status::ok, "", ratios.ratio(noise_),
                                  all.ratio(noise_), ratios.size(), all.size()});
  }
}

void SearchRun::note_failure(const Probe& probe, Status status, const std::string& error) {
  tasks_[probe.task].fail(probe.schedule, status, error);
  ++failures_;
  log_.tell(trials_, TrialEvent{probe.task, probe.node, probe.schedule.text(), status, error, {}, {}, 0, 0});
}

void SearchRun::finish() {
  std::vector<double> spreads;
  for (TaskState& task : tasks_) {
    task.learn();
    for (const auto& [text, c] : task.candidates()) spreads.push_back(c.ratios.spread());
  }
  noise_ = typical_noise(std::move(spreads), noise_);
  if (options_.keep && !fresh_.empty()) options_.keep(fresh_);
  fresh_.clear();
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
    log_.tell(trials_,
              GainEvent{t, best_[t], best != nullptr ? best->ratios.ratio(noise_) : Ratio{1, 1, 1}, predicted});
  }
}

Record SearchRun::record(const Probe& probe, std::span<const double> samples_ms, const Ratio& ratio) const {
  const NetworkTask& task = tasks_[probe.task].task();
  Record r;
  r.problem = task.problem, r.layouts = task.layouts;
  r.schedule = probe.schedule.text();
  r.samples_ms.assign(samples_ms.begin(), samples_ms.end());
  r.versus = Versus{ratio, task.fallback.text()};
  r.conditions = conditions_;
  r.conditions.date = iso_date();
  r.conditions.taken = r.conditions.kept = static_cast<int64_t>(samples_ms.size());
  r.network = options_.network, r.node = probe.node;
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

double SearchRun::remaining() const {
  double gain = 0;
  for (size_t t = 0; t < tasks_.size(); ++t) {
    const TaskState& task = tasks_[t];
    const double size = static_cast<double>(std::max<size_t>(task.pruned().points.size(), 1));
    const double unseen = task.explored() ? 0 : std::max(0.0, 1 - static_cast<double>(task.tried()) / size);
    // What the best of the tried gains over the second best is about what the best of the rest may gain over it.
    const Beliefs beliefs = task.beliefs(noise_);
    double best = 1, second = 1;
    for (const auto& [text, c] : task.candidates()) {
      if (c.status != Status::ok || c.ratios.empty()) continue;
      const double cost = beliefs.cost(c.ratios);
      if (cost < best)
        second = best, best = cost;
      else
        second = std::min(second, cost);
    }
    constexpr double kUnknown = 0.005;  // of what is not tried, at most, where the best two are equal
    const double step = task.tried() < 3 ? 0.1 : std::max(second - best, std::min(noise_ / 4, kUnknown));
    gain += share_[t] * unseen * step;
  }
  return gain * default_ms_ / predicted_ms();
}

double SearchRun::bound_of(const Variant& variant, const std::string& node) const {
  return options_.bound ? options_.bound(variant.compiled.plan, variant.steps.at(node)) : 0;
}

TaskProgress SearchRun::task_progress(size_t task) const {
  const TaskState& state = tasks_[task];
  const NetworkTask& of = state.task();
  const std::string& node = of.nodes.front();
  TaskProgress p;
  p.problem = of.problem, p.layers = static_cast<int64_t>(of.nodes.size()), p.share = share_[task];
  for (const size_t s : bench_.fallback().steps.at(node))
    p.flops += bench_.fallback().compiled.plan.steps[s].effective_flops;
  p.default_ms = node_ms_.at(node), p.current = state.current();
  p.tried = state.tried(), p.size = static_cast<int64_t>(state.pruned().points.size());
  p.schedule = of.fallback.text(), p.bound_ms = bound_ms_[task];
  if (const Candidate* best = state.winner(noise_)) {
    p.best = best->ratios.cost(), p.schedule = best->schedule.text();
    if (best->bound_ms > 0) p.bound_ms = best->bound_ms;
  }
  return p;
}

TuneProgress SearchRun::progress(const std::string& phase) const {
  TuneProgress p;
  p.phase = phase;
  p.seconds = log_.seconds(), p.budget_seconds = options_.seconds;
  p.trials = trials_, p.faults = failures_, p.restarts = bench_.runner().restarts();
  p.default_ms = default_ms_, p.predicted_ms = predicted_ms(), p.remaining = remaining();
  for (size_t t = 0; t < tasks_.size(); ++t) p.tasks.push_back(task_progress(t));
  return p;
}

void SearchRun::show(const std::string& phase) {
  if (!options_.progress || now_ms() - shown_ms_ < kShowEveryMs) return;
  shown_ms_ = now_ms();
  options_.progress(progress(phase));
}

}  // namespace kilter::tune
