#include "profile/explain/explain.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "measure/clock.h"
#include "profile/explain/explain_causes.h"
#include "profile/explain/explain_summary.h"
#include "profile/explain/explain_trials.h"
#include "profile/schedules.h"

namespace kilter::profile {
namespace {

constexpr int64_t kTrialBytes = int64_t{1} << 30;  ///< limit for the alternatives' packed constants at a time
constexpr size_t kTasksTried = 8;                  ///< maximum; those farthest above their bounds are tried
constexpr double kItems = 8;                       ///< items in Subject::batch
constexpr double kLongestForBatch = 60;            ///< ms; a slower network is not tried on a batch

/// Layers of one task that are tried with other schedules.
struct Tried {
  std::vector<const Row*> rows;
  std::vector<Ranked> rivals;       ///< of all templates, in the order of kilter::rivals()
  std::vector<double> measured_ms;  ///< by rival, summed over all rows; 0: not run
  std::vector<Gain> gains;          ///< by rival
};

/// An alternative that is compiled and run.
struct Trial {
  enum Kind : uint8_t { changes, schedules, whole, tuned, batch } kind = changes;
  Setting setting;
  size_t rival = 0;  ///< schedules: index into each task's rivals
  std::unique_ptr<Network> network;
  Gain gain;
  std::string records;    ///< tuned: Plan::records
  bool same = false;      ///< tuned: whether it is the plan that already runs
  double elsewhere = 0;   ///< changes: the share of the gain that is in unchanged steps
  std::set<size_t> gone;  ///< changes: steps that disappear
  bool done = false;
};

class Explainer {
 public:
  Explainer(const Subject& subject, const ExplainOptions& options) : subject_(subject), options_(options) {}

  Explanation run() {
    make_base();
    if (subject_.look_ahead) out_.profile.tuning = subject_.look_ahead(out_.profile);
    context_.emplace(subject_, base_->plan(), base_->compiled(), out_.profile);
    check_node();
    for (const Cause& cause : all_causes()) {
      for (Suspicion& s : cause.find(*context_)) suspicions_.emplace_back(&cause, std::move(s));
    }
    plan_trials();
    run_trials();
    out_.split = split_of(out_.profile, base_->plan());
    make_findings();
    make_layers();
    out_.summary = summary_of(out_, *context_);
    return std::move(out_);
  }

 private:
  void doing(const std::string& what) const {
    if (options_.progress) options_.progress(what);
  }

  std::shared_ptr<ThreadPool> pool(int threads) {
    auto& pool = pools_[threads];
    if (!pool) pool = std::make_shared<ThreadPool>(threads);
    return pool;
  }

  void make_base() {
    if (subject_.program) {
      base_ = std::make_unique<Network>(subject_, subject_.program, std::nullopt, pool(subject_.threads));
    } else {
      doing("compiling");
      CompileOptions options = subject_.compile;
      options.contents.alternatives = true;
      base_ = Network::compile(subject_, options, subject_.chooser.get(), pool(subject_.threads));
    }
    const double start = now_ms();
    base_->run();
    const double ms = now_ms() - start;
    Options how;
    how.seconds = options_.seconds;
    how.seed = options_.seed;
    how.read_quiet = options_.read_quiet;
    how.min_passes = std::clamp(static_cast<int>(options_.seconds * 1e3 / ms), 4, 12);
    how.progress = [&](double share) { doing(fmt::format("profiling, {:.0f} %", 100 * std::min(share, 1.0))); };
    out_.profile = collect(base_->instance(), base_->plan(), subject_.threads, base_->inputs(), base_->outputs(), how);
    out_.profile.model = subject_.model;
  }

  void check_node() const {
    if (options_.node.empty() || context_->layer(options_.node) != nullptr) return;
    std::set<std::string> names;
    for (const Row* row : context_->rows()) names.insert(row->name);
    if (names.contains(options_.node)) return;
    fail(ErrorKind::usage, "--node {}: no layer has this name; legal values are {}", options_.node,
         fmt::join(names, ", "));
  }

  // --- alternatives ---

  static bool equal(const Setting& a, const Setting& b) {
    const CompileOptions &x = a.compile, &y = b.compile;
    return a.threads == b.threads && x.accuracy == y.accuracy && x.precision == y.precision &&
           x.keep_float == y.keep_float && x.budget.memory == y.budget.memory && x.choices == y.choices &&
           x.debug == y.debug;
  }

  Trial* trial_of(const Setting& setting) {
    for (Trial& t : trials_) {
      if ((t.kind == Trial::changes || t.kind == Trial::whole) && equal(t.setting, setting)) return &t;
    }
    return nullptr;
  }

  Trial* trial_of(const Suspicion& s) {
    if (s.mend) return trial_of(*s.mend);
    if (s.other == Suspicion::Other::none) return nullptr;
    const Trial::Kind kind = s.other == Suspicion::Other::batch ? Trial::batch : Trial::tuned;
    const auto found = std::ranges::find(trials_, kind, &Trial::kind);
    return found == trials_.end() ? nullptr : &*found;
  }

  void plan_trial(Trial::Kind kind) {
    trials_.emplace_back();
    trials_.back().kind = kind;
    trials_.back().setting = context_->setting();
  }

  /// Plans the tuned plan and a batch first, then remedies for the whole network, then other remedies by predicted
  /// gain, then schedules of the slowest tasks.
  void plan_trials() {
    const auto asks = [&](Suspicion::Other other) {
      return std::ranges::any_of(suspicions_, [&](const auto& entry) { return entry.second.other == other; });
    };
    if (subject_.tuned && asks(Suspicion::Other::tuned_plan)) plan_trial(Trial::tuned);
    const bool short_enough = out_.profile.end_to_end_ms <= kLongestForBatch;
    if (subject_.batch && short_enough && asks(Suspicion::Other::batch)) plan_trial(Trial::batch);
    std::vector<const Suspicion*> mends;
    for (const auto& [cause, s] : suspicions_) {
      if (s.mend && (subject_.graph || s.mend->threads != subject_.threads)) mends.push_back(&s);
    }
    std::stable_sort(mends.begin(), mends.end(), [](const Suspicion* a, const Suspicion* b) {
      if (a->steps.empty() != b->steps.empty()) return a->steps.empty();
      return a->gain_ms > b->gain_ms;
    });
    for (const Suspicion* s : mends) {
      if (trials_.size() >= static_cast<size_t>(options_.most_trials)) break;
      if (trial_of(*s->mend) != nullptr) continue;
      trials_.emplace_back();
      trials_.back().kind = s->mend->threads != subject_.threads || s->changes_results ? Trial::whole : Trial::changes;
      trials_.back().setting = *s->mend;
    }
    if (subject_.graph) plan_schedules();
  }

  void plan_schedules() {
    choose_tasks();
    const size_t most = options_.node.empty() ? 2 : 5;
    for (size_t k = 0; k < most; ++k) {
      Trial trial;
      trial.kind = Trial::schedules;
      trial.setting = context_->setting();
      trial.rival = k;
      bool any = false;
      for (const Tried& t : tried_) {
        for (const Row* row : k < t.rivals.size() ? t.rows : std::vector<const Row*>{}) {
          trial.setting.compile.choices[row->name].schedule = t.rivals[k].schedule;
          any = true;
        }
      }
      if (any) trials_.push_back(std::move(trial));
    }
  }

  /// Chooses the tasks with the most time above their bounds for which a template ranks other schedules.
  void choose_tasks() {
    std::map<std::string, Tried> by_task;
    for (const Row* row : context_->rows()) {
      const StepNotes& notes = context_->notes(static_cast<size_t>(row->step));
      if (row->kind != RowKind::layer || notes.templates.empty() || context_->forced(*row)) continue;
      if (!options_.node.empty() && row->name != options_.node) continue;
      Tried& t = by_task[row->key + row->schedule];
      t.rows.push_back(row);
      if (t.rivals.empty()) t.rivals = rivals_of(*row);
    }
    for (auto& [key, t] : by_task) {
      if (!t.rivals.empty()) tried_.push_back(std::move(t));
    }
    const auto above = [](const Tried& t) {
      double ms = 0;
      for (const Row* row : t.rows) ms += row->time.mean - row->bound.ms;
      return ms;
    };
    std::stable_sort(tried_.begin(), tried_.end(), [&](const Tried& a, const Tried& b) { return above(a) > above(b); });
    if (tried_.size() > kTasksTried) tried_.resize(kTasksTried);
    for (Tried& t : tried_) {
      t.measured_ms.resize(t.rivals.size(), 0);
      t.gains.resize(t.rivals.size());
    }
  }

  std::vector<Ranked> rivals_of(const Row& row) const {
    const StepNotes& notes = context_->notes(static_cast<size_t>(row.step));
    return notes.templates.empty() ? std::vector<Ranked>{} : rivals(notes.templates, parse_schedule(row.schedule));
  }

  /// Runs the trials in batches that fit in memory, each against the present network.
  void run_trials() {
    size_t next = 0;
    while (next < trials_.size()) {
      std::vector<Trial*> batch;
      int64_t bytes = 0;
      for (; next < trials_.size() && (batch.empty() || bytes < kTrialBytes); ++next) {
        Trial& t = trials_[next];
        doing(fmt::format("compiling alternative {} of {}", next + 1, trials_.size()));
        if (!make_network(t)) continue;
        bytes += t.network->plan().constants_bytes;
        batch.push_back(&t);
      }
      race_batch(batch);
      for (Trial* t : batch) t->network.reset();
    }
  }

  bool make_network(Trial& t) {
    try {
      if (subject_.program) {
        t.network = std::make_unique<Network>(subject_, subject_.program, std::nullopt, pool(t.setting.threads));
      } else if (t.kind == Trial::tuned) {
        t.network =
            Network::compile(subject_, subject_.compile, subject_.tuned->chooser().get(), pool(t.setting.threads));
        t.records = t.network->plan().records;
        const Changed changed =
            changed_steps(base_->plan(), base_->compiled()->notes, t.network->plan(), t.network->compiled()->notes);
        t.same = changed.before.empty() && changed.after.empty();
      } else if (t.kind == Trial::batch) {
        t.network =
            Network::compile(*subject_.batch, t.setting.compile, subject_.chooser.get(), pool(t.setting.threads));
      } else {
        t.network = Network::compile(subject_, t.setting.compile, subject_.chooser.get(), pool(t.setting.threads));
      }
    } catch (const Error&) {
      return false;  // an alternative that does not compile is dropped
    }
    return true;
  }

  void race_batch(const std::vector<Trial*>& batch) {
    if (batch.empty()) return;
    std::vector<Network*> networks{base_.get()};
    for (Trial* t : batch) networks.push_back(t->network.get());
    RaceOptions how;
    how.seed = options_.seed;
    how.seconds = options_.trial_seconds * static_cast<double>(batch.size()) / static_cast<double>(trials_.size());
    how.progress = [&](double share) {
      doing(fmt::format("running {} alternative{}, {:.0f} %", batch.size(), batch.size() == 1 ? "" : "s", 100 * share));
    };
    how.max_seconds = 3 * how.seconds;
    how.sharp = [&](const std::vector<const Laps*>& laps) {
      for (size_t i = 0; i < batch.size(); ++i) {
        if (batch[i]->kind == Trial::schedules) continue;
        judge(*batch[i], *laps[0], *laps[i + 1]);
        const Gain& g = batch[i]->gain;
        if (g.high - g.low > std::max(0.2 * g.share, 0.01)) return false;
      }
      return true;
    };
    const std::vector<Laps> laps = race(networks, how);
    for (size_t i = 0; i < batch.size(); ++i) judge(*batch[i], laps[0], laps[i + 1]);
  }

  static std::set<size_t> named(const Plan& plan, const std::vector<const Row*>& rows) {
    std::set<size_t> steps;
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      const auto is = [&](const Row* row) { return row->name == plan.steps[s].name; };
      if (plan.steps[s].kind == StepKind::kernel && std::any_of(rows.begin(), rows.end(), is)) steps.insert(s);
    }
    return steps;
  }

  void judge(Trial& t, const Laps& base, const Laps& other) {
    t.done = true;
    const Plan &before = base_->plan(), &after = t.network->plan();
    if (t.kind == Trial::whole || t.kind == Trial::batch) {
      GainOf all{every_step(base), every_step(other), {}, {}, t.kind == Trial::batch ? 1 / kItems : 1};
      t.gain = gains_between(base, other, all, options_.seed).all;
    } else if (t.kind == Trial::schedules) {
      judge_schedules(t, base, other);
    } else {
      const Changed changed = changed_steps(before, base_->compiled()->notes, after, t.network->compiled()->notes);
      const Gains gains = gains_between(base, other, {changed.before, changed.after, {}, {}}, options_.seed);
      t.gain = told_gain(gains.changed, gains.all);
      t.elsewhere = t.gain.share - gains.changed.share;
      t.gone = changed.gone;
    }
  }

  void judge_schedules(const Trial& t, const Laps& base, const Laps& other) {
    const Plan &before = base_->plan(), &after = t.network->plan();
    std::set<size_t> tried_before, tried_after;
    for (const Tried& task : tried_) {
      tried_before.merge(named(before, task.rows));
      tried_after.merge(named(after, task.rows));
    }
    for (Tried& task : tried_) {
      if (t.rival >= task.rivals.size()) continue;
      GainOf of{named(before, task.rows), named(after, task.rows), tried_before, tried_after};
      for (size_t s : of.before) of.left_out_before.erase(s);
      for (size_t s : of.after) of.left_out_after.erase(s);
      task.gains[t.rival] = gains_between(base, other, of, options_.seed).changed;
      // Scales the measured ratio to the times of the profile, which was measured at a different time.
      double profiled = 0;
      for (const Row* row : task.rows) profiled += row->time.mean;
      task.measured_ms[t.rival] = profiled * typical_ms(other, of.after) / typical_ms(base, of.before);
    }
  }

  // --- findings ---

  void make_findings() {
    for (const auto& [cause, s] : suspicions_) {
      Finding f;
      f.steps = s.steps, f.name = name_of(s);
      f.cause = cause->name, f.evidence = s.evidence;
      f.gain_ms = s.gain_ms, f.gain_percent = 100 * s.gain_ms / out_.profile.end_to_end_ms;
      f.advice = s.advice, f.action = action_of(s);
      f.kind = s.comes_first       ? Finding::Kind::first
               : f.action.empty()  ? Finding::Kind::fact
               : s.changes_results ? Finding::Kind::trade
                                   : Finding::Kind::action;
      const Trial* t = trial_of(s);
      if (t != nullptr && t->same) continue;  // the records change nothing
      if (t != nullptr && t->done) add_trial(f, *t);
      if (!s.mend && f.cause == "poor register tile" && answered_by_trial(f)) continue;
      if (withholds(f, s)) continue;
      out_.findings.push_back(std::move(f));
    }
    add_better_schedules();
    tell_withheld();
    std::ranges::stable_sort(out_.findings, [](const Finding& a, const Finding& b) {
      return a.kind != b.kind ? a.kind < b.kind : a.gain_ms > b.gain_ms;
    });
  }

  std::string name_of(const Suspicion& s) const {
    if (s.name.empty()) return "(network)";
    const Row* row = s.steps.empty() ? nullptr : context_->row(static_cast<size_t>(s.steps.front()));
    return row != nullptr && row->name == s.name ? row->label() : s.name;
  }

  std::string action_of(const Suspicion& s) const {
    const Setting now = context_->setting();
    if (s.mend) return compare_command(subject_, now, *s.mend);
    if (s.other == Suspicion::Other::batch) return compare_inputs_command(subject_, now, subject_.batch_input);
    if (s.other == Suspicion::Other::tuned_plan) return subject_.tuned->action;
    return s.action;
  }

  /// Adds the result of the race. If the remedy showed no gain, the finding becomes a fact without an action.
  void add_trial(Finding& f, const Trial& t) const {
    measured(f, t.gain);
    if (t.kind == Trial::tuned) f.evidence += "; run here: " + t.records;
    f.evidence += gone_text(t.gone) + elsewhere_text(t.elsewhere);
    if (t.gain.low > 0) return;
    f.kind = Finding::Kind::fact;
    f.evidence += fmt::format("; {} was run without a significant gain", f.advice);
    f.advice.clear(), f.action.clear();
  }

  /// Whether a finding is withheld because the machine was too busy. Gains that were measured are not withheld: their
  /// race is interleaved, so disturbances affected both sides.
  bool withholds(const Finding& f, const Suspicion& s) {
    const bool sure = f.measured && f.interval.low > 0;
    const bool out = !s.comes_first && !sure &&
                     (context_->quiet() == Quietness::busy ||
                      (s.by_thread_times && !undisturbed_figure(context_->profile.conditions)));
    withheld_ += out ? 1 : 0;
    return out;
  }

  void tell_withheld() {
    if (withheld_ == 0) return;
    out_.withheld =
        fmt::format("{} finding{} withheld: {} on times that other programs disturbed ({:.0f} % of the runs)",
                    withheld_, withheld_ == 1 ? " is" : "s are", withheld_ == 1 ? "it rests" : "they rest",
                    100 * disturbed_share(out_.profile.conditions));
  }

  std::string gone_text(const std::set<size_t>& gone) const {
    if (gone.empty()) return {};
    std::vector<const Row*> rows;
    for (size_t s : gone) rows.push_back(context_->row(s));
    std::sort(rows.begin(), rows.end(), [](const Row* a, const Row* b) { return a->time.mean > b->time.mean; });
    std::vector<std::string> parts;
    for (const Row* row : rows) {
      if (parts.size() == 4) break;
      parts.push_back(fmt::format("{} '{}' {}", row->ops, row->label(), ms_text(row->time.mean)));
    }
    if (rows.size() > parts.size()) parts.push_back(fmt::format("{} more", rows.size() - parts.size()));
    return fmt::format("; {} step{} would disappear: {}", rows.size(), rows.size() == 1 ? "" : "s",
                       fmt::join(parts, ", "));
  }

  static std::string elsewhere_text(double share) {
    if (share == 0) return {};
    return fmt::format("; {:.1f} % of the run {} in unchanged steps because their operands move to other addresses",
                       100 * std::abs(share), share > 0 ? "would be saved" : "would be added");
  }

  /// Whether other schedules of the layer were run and one is faster; that is a separate finding. If none is faster,
  /// adds that to the evidence.
  bool answered_by_trial(Finding& f) const {
    for (const Tried& t : tried_) {
      const auto is = [&](const Row* row) { return row->step == f.steps.front(); };
      if (std::none_of(t.rows.begin(), t.rows.end(), is)) continue;
      if (best_rival(t) < t.rivals.size()) return true;
      const auto run = std::count_if(t.measured_ms.begin(), t.measured_ms.end(), [](double ms) { return ms > 0; });
      if (run > 0)
        f.evidence +=
            fmt::format("; of the schedules that the model ranks next, {} ran in the network and none is faster", run);
    }
    return false;
  }

  void measured(Finding& f, const Gain& gain) const {
    f.measured = true;
    f.interval = gain;
    f.gain_percent = 100 * gain.share;
    f.gain_ms = gain.share * out_.profile.end_to_end_ms;
  }

  /// Adds the runners-up that are faster in the network than the chosen schedule.
  void add_better_schedules() {
    for (const Tried& t : tried_) {
      if (const size_t best = best_rival(t); best < t.rivals.size()) out_.findings.push_back(better_schedule(t, best));
    }
  }

  /// Returns the rival with the largest certain gain, or the number of rivals if there is none.
  static size_t best_rival(const Tried& t) {
    size_t best = t.rivals.size();
    for (size_t k = 0; k < t.rivals.size(); ++k) {
      if (t.measured_ms[k] == 0 || t.gains[k].low <= 0 || t.gains[k].share < 0.003) continue;
      if (best == t.rivals.size() || t.gains[k].share > t.gains[best].share) best = k;
    }
    return best;
  }

  Finding better_schedule(const Tried& t, size_t best) const {
    Finding f;
    Setting setting = context_->setting();
    double now = 0;
    for (const Row* row : t.rows) {
      f.steps.push_back(row->step);
      now += row->time.mean;
      setting.compile.choices[row->name].schedule = t.rivals[best].schedule;
    }
    f.name = t.rows.front()->name;
    const bool same_template = parse_schedule(t.rows.front()->schedule).name == t.rivals[best].schedule.name;
    f.cause = same_template ? "poor register tile" : "slower template";
    f.evidence = fmt::format("'{}' takes {} and '{}' takes {} in the network{}", t.rows.front()->schedule, ms_text(now),
                             t.rivals[best].schedule.text(), ms_text(t.measured_ms[best]),
                             t.rows.size() == 1 ? "" : fmt::format(" ({} layers of one task)", t.rows.size()));
    f.advice = "--schedule, as below";
    f.action = compare_command(subject_, context_->setting(), setting);
    f.kind = Finding::Kind::action;
    measured(f, t.gains[best]);
    return f;
  }

  void make_layers() {
    for (const Row* row : context_->rows()) {
      LayerView view;
      view.row = static_cast<size_t>(row - out_.profile.rows.data());
      const auto step = static_cast<size_t>(row->step);
      const StepNotes& notes = context_->notes(step);
      if (notes.estimate) view.predicted_ms = context_->model_ms(*notes.estimate, context_->plan.steps[step]);
      view.approximates = approximation_of(row->schedule);
      for (const Ranked& r : rivals_of(*row)) {
        view.runners_up.push_back({r.schedule.text(), context_->model_ms(r.estimate, context_->plan.steps[step]), 0});
      }
      for (const Tried& t : tried_) {
        if (std::find(t.rows.begin(), t.rows.end(), row) == t.rows.end()) continue;
        for (size_t k = 0; k < std::min(t.rivals.size(), view.runners_up.size()); ++k)
          view.runners_up[k].measured_ms = t.measured_ms[k] / static_cast<double>(t.rows.size());
      }
      if (base_->compiled() != nullptr) view.rejected = base_->compiled()->rejected[step];
      std::erase_if(view.rejected, [](const auto& r) { return r.second.other_kind; });
      for (const Finding& f : out_.findings) {
        if (std::find(f.steps.begin(), f.steps.end(), row->step) != f.steps.end())
          view.causes.emplace_back(f.cause, f.evidence);
      }
      if (view.causes.empty()) view.causes.emplace_back(verdict(*row, *context_));
      out_.layers.push_back(std::move(view));
    }
  }

  const Subject& subject_;
  const ExplainOptions& options_;
  std::map<int, std::shared_ptr<ThreadPool>> pools_;
  std::unique_ptr<Network> base_;
  Explanation out_;
  std::optional<Context> context_;
  std::vector<std::pair<const Cause*, Suspicion>> suspicions_;
  std::vector<Trial> trials_;
  std::vector<Tried> tried_;
  int64_t withheld_ = 0;
};

}  // namespace

Explanation explain(const Subject& subject, const ExplainOptions& options) { return Explainer(subject, options).run(); }

std::vector<Part> split_of(const Profile& profile, const Plan& plan) {
  std::vector<Part> parts{{"contractions"},      {"other operators"}, {"layout changes"},
                          {"reference kernels"}, {"barriers"},        {"gaps"}};
  for (const Row& row : profile.rows) {
    const double own = row.time.mean - row.barrier_ms;
    size_t part = 5;
    if (row.kind == RowKind::layer)
      part = plan.steps[static_cast<size_t>(row.step)].role == StepRole::contraction ? 0 : 1;
    if (row.kind == RowKind::reference) part = 3;
    if (row.kind == RowKind::pack || row.kind == RowKind::halo || changes_layout(row)) part = 2;
    parts[part].ms += own;
    parts[4].ms += row.barrier_ms;
  }
  for (Part& p : parts) p.percent = profile.sum_ms > 0 ? 100 * p.ms / profile.sum_ms : 0;
  return parts;
}

}  // namespace kilter::profile
