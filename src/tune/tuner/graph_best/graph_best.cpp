#include "tune/tuner/graph_best/graph_best.h"

#include <algorithm>
#include <cmath>

#include "compile/code_versions.h"
#include "measure/clock.h"
#include "tune/tuner/plans/weight_budget.h"
#include "tune/tuner/race/contest.h"

namespace kilter::tune {
namespace {

constexpr int kAttempts = 2;          ///< maximum number of races; layers that lose a race change before the next
constexpr double kFirst = 0.35;       ///< share of the time for a race that is not the last
constexpr double kHalfWidth = 0.002;  ///< half width of the ratio's interval that ends a race early

/// The problem of a network with alternatives, its solution, and the plan that the solution describes.
class Answering {
 public:
  /// `compiled`: the default plan.
  Answering(GraphBest& out, const Choices& history, const Compiled& compiled, const GraphTuneOptions& options)
      : out_(out),
        room_(weight_room(compiled)),
        default_bytes_(static_cast<double>(plan_memory(compiled, options.threads).bytes())) {
    history_ = indices(out.network, history);
    const double start = now_ms();
    const bool plain = std::any_of(out.network.layers.begin(), out.network.layers.end(), [](const Layer& l) {
      return std::any_of(l.alternatives.begin(), l.alternatives.end(),
                         [](const Alternative& a) { return a.choice.plain; });
    });
    solve_at_prices(plain ? &*out.transforms.model : nullptr, options);
    out.solve_ms = now_ms() - start;
    out.layers = problem_.nodes.size(), out.edges = problem_.edges.size();
    for (const auto& node : problem_.nodes) out.alternatives += node.size();
    take(out.answer.ms < problem_.cost_ms(history_) ? within_room(out.answer.choice) : history_);
  }

  void take(std::vector<size_t> chosen) {
    chosen_ = std::move(chosen);
    out_.choices = choices(out_.network, chosen_);
    out_.same_plan = chosen_ == history_;
    out_.differences = {};
    for (const size_t l : different()) {
      const auto& all = out_.network.layers[l].alternatives;
      const LayerChoice &mine = all[chosen_[l]].choice, &theirs = all[history_[l]].choice;
      out_.differences.schedules += mine.schedule == theirs.schedule ? 0 : 1;
      out_.differences.threads += mine.threads == theirs.threads ? 0 : 1;
      out_.differences.layouts += mine.plain == theirs.plain ? 0 : 1;
      out_.differences.fusions += mine.fuse == theirs.fuse ? 0 : 1;
    }
  }

  std::vector<size_t> different() const {
    std::vector<size_t> out;
    for (size_t l = 0; l < chosen_.size(); ++l) {
      if (chosen_[l] != history_[l]) out.push_back(l);
    }
    return out;
  }

  /// The cost of the additional memory of a layer's choice compared with history-best's, as a share of the time that
  /// these layers take under history-best.
  double toll(size_t l, const std::set<size_t>& layers) const {
    const auto& all = out_.network.layers[l].alternatives;
    double ms = 0;
    for (const size_t at : layers) ms += out_.network.layers[at].alternatives[history_[at]].ms;
    return ms > 0 ? byte_ms_ * static_cast<double>(all[chosen_[l]].bytes - all[history_[l]].bytes) / ms : 0;
  }

  /// Reverts the differences in these layers, or all differences if the rest cannot be combined.
  void give_way(const std::vector<size_t>& layers) {
    std::vector<size_t> chosen = chosen_;
    for (const size_t l : layers) chosen[l] = history_[l];
    take(possible(std::move(chosen)));
  }

 private:
  /// Solves the problem. If memory has a weight, the price of a byte is first that at history-best, then that at the
  /// last solution, until the solution stays the same. The logarithm of the score is concave in time and bytes, so no
  /// solution has a worse score than the previous one.
  void solve_at_prices(const TransformModel* transforms, const GraphTuneOptions& options) {
    constexpr int kMostPrices = 5;
    const ChoiceProblem times = choice_problem(out_.network, transforms, options.threads, history_);
    std::vector<size_t> at = history_;
    for (int n = 0; n < kMostPrices; ++n) {
      byte_ms_ = options.objective.price(times.cost_ms(at), bytes_of(at));
      problem_ = choice_problem(out_.network, transforms, options.threads, history_, byte_ms_);
      out_.answer = solve(problem_, options.solver);
      if (!options.objective.weighs_memory() || out_.answer.choice == at || !std::isfinite(out_.answer.ms)) break;
      at = out_.answer.choice;
    }
    out_.history_ms = times.cost_ms(history_);
    out_.graph_ms = options.objective.weighs_memory() ? times.cost_ms(out_.answer.choice) : out_.answer.ms;
  }

  double bytes_of(const std::vector<size_t>& choice) const {
    double bytes = default_bytes_;
    for (size_t l = 0; l < choice.size(); ++l)
      bytes += static_cast<double>(out_.network.layers[l].alternatives[choice[l]].bytes);
    return std::max(1.0, bytes);
  }

  std::vector<size_t> possible(std::vector<size_t> chosen) const {
    return std::isfinite(problem_.cost_ms(chosen)) ? std::move(chosen) : history_;
  }

  /// Reverts differences from history-best that together exceed the room, smallest gain per byte first.
  std::vector<size_t> within_room(std::vector<size_t> chosen) const {
    for (;;) {
      int64_t room = room_;
      std::vector<WeightClaim> claims;
      for (size_t l = 0; l < chosen.size(); ++l) {
        const auto& all = out_.network.layers[l].alternatives;
        const int64_t before = all[history_[l]].weight_bytes;
        room -= before;
        claims.push_back(
            {l, all[chosen[l]].weight_bytes - before, problem_.nodes[l][history_[l]] - problem_.nodes[l][chosen[l]]});
      }
      const auto l = first_to_go(claims, room);
      if (!l) return possible(std::move(chosen));
      chosen[*l] = history_[*l];
    }
  }

  GraphBest& out_;
  int64_t room_;          ///< bytes that packed weights may occupy beyond the default's
  double default_bytes_;  ///< of the default plan
  double byte_ms_ = 0;    ///< TuneObjective::price()
  ChoiceProblem problem_;
  std::vector<size_t> history_, chosen_;
};

/// Whether an earlier plan can still be compiled and loaded here.
bool runs(NetworkBench& bench, const Choices& plan) {
  try {
    const Loaded loaded = bench.load(*bench.build(plan));
    if (loaded.id) bench.runner().drop(*loaded.id);
    return loaded.id && loaded.faults.empty();
  } catch (const Error&) {
    return false;
  }
}

/// Races graph-best's plan against history-best, the default plan and the plan in use.
class GraphRace {
 public:
  GraphRace(NetworkBench& bench, GraphBest& out, Answering& answering, const Choices& history,
            const GraphTuneOptions& options)
      : bench_(bench), out_(out), answering_(answering), history_(history), options_(options) {}

  void run() {
    const double start = now_ms();
    end_ = RaceEnd(std::min(start + options_.race_seconds * 1e3, options_.end_ms), options_.interrupted, options_.beat);
    const Choices& accepted = options_.accepted;
    if (!out_.same_plan && !accepted.empty() && accepted != history_ && runs(bench_, accepted)) accepted_ = &accepted;
    for (int attempt = 1; attempt <= kAttempts && !out_.same_plan; ++attempt) {
      const double left = end_.left_seconds();
      const bool last = attempt == kAttempts || left <= 0;
      const std::vector<size_t> lost = hold(std::max(1.0, left * (last ? 1 : kFirst)), !last);
      if (lost.empty() || (last && held_)) break;
      answering_.give_way(lost);
      out_.rounds = 0;
      if (out_.same_plan) out_.accepted_ratio.reset();  // it belongs to a plan that has been dropped
    }
    out_.won = out_.clearly_better();
    out_.race_ms = now_ms() - start;
  }

 private:
  /// Runs the plans interleaved. Returns the layers that must change their choice.
  std::vector<size_t> hold(double seconds, bool strict) {
    held_ = false;
    std::vector<Choices> plans{out_.choices};
    if (!history_.empty()) plans.push_back(history_);
    if (accepted_ != nullptr && *accepted_ != out_.choices) plans.push_back(*accepted_);
    Contest contest;
    try {
      contest = hold_contest(bench_, plans, seconds, kHalfWidth, &end_);
    } catch (const Error&) {
      return unfused();  // an element-wise node went to a layer whose schedule cannot absorb it
    }
    held_ = contest.faults.empty();
    const std::vector<size_t> lost = held_ ? losers(contest, strict) : faulty(contest);
    if (held_) note(contest, plans);
    release(bench_, contest);
    return lost;
  }

  size_t history_at() const { return history_.empty() ? 0 : 2; }
  const Series& history(const Contest& c) const { return c.series[history_at()]; }

  void note(const Contest& c, const std::vector<Choices>& plans) {
    out_.ratio = ratio_of(history(c), c.series[1]);
    const size_t others = history_.empty() ? 1 : 2;  // plans that precede the accepted one in `plans`
    out_.accepted_ratio.reset();
    if (plans.size() > others) out_.accepted_ratio = ratio_of(c.series.back(), c.series[1]);
    const auto bytes_over = [&](size_t base) {
      return bytes_ratio(memory_of(c, base, bench_.threads()), memory_of(c, 1, bench_.threads()));
    };
    out_.bytes = bytes_over(history_at()), out_.default_bytes = bytes_over(0);
    out_.accepted_bytes = bytes_over(c.variants.size() - 1);
    out_.default_ratio = ratio_of(c.series[0], c.series[1]);
    out_.history_ratio = history_.empty() ? Ratio{1, 1, 1} : ratio_of(c.series[0], history(c));
    out_.ms = bootstrap_mean(c.series[1].total), out_.default_ms = bootstrap_mean(c.series[0].total);
    out_.rounds = c.rounds;
    out_.raced.clear();
    for (const auto& [node, base] : c.series[0].layer) {
      const auto mine = c.series[1].layer.find(node);
      if (mine != c.series[1].layer.end()) out_.raced[node] = paired_ratio(base, mine->second);
    }
  }

  /// Steps of a plan that belong to these layers.
  std::vector<std::string> steps_of(const Variant& variant, const std::set<size_t>& layers) const {
    std::vector<std::string> out;
    for (const auto& [name, steps] : variant.steps) {
      const int64_t l = out_.network.layer_of(name);
      if (l >= 0 && layers.contains(static_cast<size_t>(l))) out.push_back(name);
    }
    return out;
  }

  /// Layers that take longer than under history-best (clearly longer if not `strict`), each measured together with the
  /// layers that it feeds or leaves nodes to.
  std::vector<size_t> losers(const Contest& c, bool strict) const {
    std::vector<size_t> out;
    const Variant& before = *c.variants[history_at()];
    for (const size_t l : answering_.different()) {
      std::set<size_t> around{l};
      for (const Flow& flow : out_.network.flows) {
        if (flow.from == l) around.insert(flow.to);
      }
      for (const ChoiceEdge& edge : out_.network.together) {
        if (edge.from == l) around.insert(edge.to);
      }
      const Ratio r = layers_ratio(history(c), steps_of(before, around), c.series[1], steps_of(*c.variants[1], around));
      const double toll = answering_.toll(l, around);
      if ((strict ? r.value : r.low) + toll > 1) out.push_back(l);
    }
    return out;
  }

  std::vector<size_t> faulty(const Contest& c) const {
    std::vector<size_t> out;
    for (const Fault& fault : c.faults) {
      const int64_t l = out_.network.layer_of(fault.layer);
      if (l >= 0) out.push_back(static_cast<size_t>(l));
    }
    return out.empty() ? answering_.different() : out;
  }

  /// Layers that leave nodes to others or absorb some of theirs; all layers that differ if there are none.
  std::vector<size_t> unfused() const {
    std::vector<size_t> out;
    for (const size_t l : answering_.different()) {
      const auto choice = out_.choices.find(out_.network.layers[l].node);
      if (choice != out_.choices.end() && choice->second.fuse != Fusion::usual) out.push_back(l);
    }
    return out.empty() ? answering_.different() : out;
  }

  NetworkBench& bench_;
  GraphBest& out_;
  Answering& answering_;
  const Choices& history_;
  const GraphTuneOptions& options_;
  RaceEnd end_{0, {}};
  const Choices* accepted_ = nullptr;  ///< runs in the races
  bool held_ = false;                  ///< the last race ran to its end
};

RecordedCosts recorded(std::span<const Record> records, const CompileOptions& compile,
                       const GraphTuneOptions& options) {
  return {records, {compile.target.name, options.device, code_versions(compile.target), options.threads}};
}

}  // namespace

bool GraphBest::clearly_better() const {
  if (same_plan || rounds == 0) return false;
  const auto better = [&](const Ratio& time, double memory) { return objective.score(time, memory).high <= 1; };
  return better(ratio, bytes) && better(default_ratio, default_bytes) &&
         (!accepted_ratio || better(*accepted_ratio, accepted_bytes));
}

GraphBest graph_best(NetworkBench& bench, std::span<const Record> records, const Choices& history,
                     const GraphTuneOptions& options) {
  const double start = now_ms();
  const Compiled& compiled = bench.fallback().compiled;
  std::optional<LayerMemory> memory;
  if (options.objective.weighs_memory()) memory.emplace(compiled, bench.options().target.limits, options.threads);
  RunnerOptions runner = options.runner;
  runner.threads = options.threads;
  GraphBest out;
  out.objective = options.objective;
  if (bench.options().target.limits.preferred_block() > 1)
    out.transforms = known_transforms(bench.options(), runner, options.device, options.records, options.measure_anew);
  out.network = layer_network(compiled, bench.options());
  add_schedules(out.network, compiled, bench.options(), recorded(records, bench.options(), options), history,
                options.schedules, memory ? &*memory : nullptr);
  constexpr double kMeasuring = 0.6;  // measuring's share of the remaining time if that is short; includes compiling
  const double left = options.end_ms - now_ms();
  AlternativeOptions how{options.threads,     options.schedules, options.measure_seconds, now_ms() + kMeasuring * left,
                         options.interrupted, options.beat};
  out.measured = measure_alternatives(bench, out.network, how);
  out.prepare_ms = now_ms() - start;
  Answering answering(out, history, compiled, options);
  GraphRace(bench, out, answering, history, options).run();
  if (out.won) out.check = options.check(bench, out.choices);
  out.won = out.won && out.check.wrong.empty();
  const bool history_next = options.keeps_history && !history.empty() && !out.won && out.history_is_faster();
  if (history_next) out.history_check = options.check(bench, history);
  return out;
}

GraphBest graph_best_of_records(const Compiled& compiled, const CompileOptions& compile,
                                std::span<const Record> records, const Choices& history,
                                const GraphTuneOptions& options) {
  const double start = now_ms();
  GraphBest out;
  out.network = layer_network(compiled, compile);
  add_schedules(out.network, compiled, compile, recorded(records, compile, options), history, options.schedules);
  out.prepare_ms = now_ms() - start;
  const Answering answering(out, history, compiled, options);
  return out;
}

}  // namespace kilter::tune
