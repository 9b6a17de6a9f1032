// Runs the network to measure the alternatives of alternatives.h.

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/align.h"
#include "base/random.h"
#include "measure/clock.h"
#include "measure/stats.h"
#include "ops/op.h"
#include "schedule/templates/templates.h"
#include "tune/tuner/graph_best/alternatives.h"
#include "tune/tuner/graph_best/thread_costs.h"
#include "tune/tuner/race/lap_times.h"

namespace kilter::tune {
namespace {

constexpr size_t kBatch = 4;         ///< variants that are run in turns with the default
constexpr int kThreadVariants = 6;   ///< each assigns a random number of threads to every short layer
constexpr double kShortMs = 0.15;    ///< layers up to this time may be better off with fewer threads
constexpr int64_t kMostRounds = 24;  ///< of a batch

/// The total time of some layers in one round, in a variant and by default.
struct Pair {
  double mine = 0, base = 0;
};

/// A variant of the network in which many layers run alternatives on trial.
struct Sweep {
  Choices choices;
  std::map<size_t, size_t> active;  ///< by layer: the alternative on trial
  std::map<size_t, int32_t> modes;  ///< by layer: threads on trial; 0: all
};

std::vector<std::vector<size_t>> layer_steps(const LayerNetwork& network, const Compiled& compiled) {
  std::vector<std::vector<size_t>> out(network.layers.size());
  for (size_t s = 0; s < compiled.plan.steps.size(); ++s) {
    const Step& step = compiled.plan.steps[s];
    const int64_t layer = step.kind == StepKind::kernel ? network.layer_of(step.name) : -1;
    if (layer >= 0) out[static_cast<size_t>(layer)].push_back(s);
  }
  return out;
}

/// By layer.
using Times = std::vector<LayerTime>;

/// Times by round; empty for a round without a run.
std::vector<Times> round_times(const LayerNetwork& network, const Compiled& compiled, const Laps& laps, size_t which) {
  std::vector<Times> out(static_cast<size_t>(laps.rounds));
  const auto layers = layer_steps(network, compiled);
  for (const Lap& lap : laps.laps[which]) {
    Times& times = out[static_cast<size_t>(lap.round)];
    if (!times.empty()) continue;
    for (const auto& steps : layers) times.push_back(layer_time(laps.laps[which], lap.round, steps));
  }
  return out;
}

/// Rounds during which other processes took CPUs away. Such rounds favour fewer threads, since layers with fewer
/// threads do not wait for others.
std::vector<bool> crowded_rounds(const Laps& laps, size_t which) {
  std::vector<bool> out(static_cast<size_t>(laps.rounds));
  for (const size_t v : {size_t{0}, which}) {
    for (const Lap& lap : laps.laps[v]) {
      const Disturbance& d = lap.disturbance;
      if (d.waited || d.stolen || d.switched) out[static_cast<size_t>(lap.round)] = true;
    }
  }
  return out;
}

/// For each layer whose fusion is on trial: the layers whose kernels changed with it, because they absorbed some of its
/// nodes or passed some to it.
std::map<size_t, std::set<size_t>> partners(const LayerNetwork& network, const Sweep& sweep, const Compiled& compiled) {
  std::map<size_t, std::set<size_t>> out;
  const auto add = [&](int64_t l, int64_t other) {
    const auto active = l < 0 ? sweep.active.end() : sweep.active.find(static_cast<size_t>(l));
    if (active == sweep.active.end()) return;
    const LayerChoice& choice = network.layers[active->first].alternatives[active->second].choice;
    if (choice.fuse != Fusion::usual) out[active->first].insert(static_cast<size_t>(other));
  };
  for (size_t s = 0; s < compiled.plan.steps.size(); ++s) {
    const int64_t owner = network.layer_of(compiled.plan.steps[s].name);
    for (const std::string& node : compiled.notes[s].nodes) {
      const int64_t of = network.layer_of(node);
      if (of < 0 || owner < 0 || of == owner) continue;
      add(of, owner), add(owner, of);
    }
  }
  return out;
}

class Sweeper {
 public:
  Sweeper(NetworkBench& bench, LayerNetwork& network, const AlternativeOptions& options)
      : bench_(bench), network_(network), options_(options) {}

  Measured run() {
    std::vector<Sweep> sweeps = schedule_sweeps();
    add_fusion(sweeps);
    add_pairs(sweeps);
    add_layouts(sweeps);
    add_threads(sweeps);
    const size_t batches = ceil_div(sweeps.size(), kBatch);
    for (size_t at = 0; at < sweeps.size() && !stop() && (at == 0 || now_ms() < options_.end_ms); at += kBatch) {
      const std::span<const Sweep> some(sweeps.data() + at, std::min(kBatch, sweeps.size() - at));
      measure(some, options_.seconds / static_cast<double>(batches));
    }
    if (sweeps.empty()) measure({}, options_.seconds / 4);
    settle();
    threads_.expand(network_);
    for (const auto& [at, others] : partners_) {
      for (const size_t other : others) forbid_schedules(at, other);
    }
    const double crowded = thread_rounds_ > 0 ? static_cast<double>(crowded_) / static_cast<double>(thread_rounds_) : 0;
    return {static_cast<int64_t>(sweeps.size()), crowded};
  }

 private:
  bool stop() const { return options_.interrupted && options_.interrupted(); }
  double base(size_t l) const { return network_.layers[l].alternatives.front().ms; }

  std::vector<Sweep> schedule_sweeps() const {
    std::vector<Sweep> out;
    for (size_t l = 0; l < network_.layers.size(); ++l) {
      const auto& all = network_.layers[l].alternatives;
      for (size_t a = 1; a < all.size(); ++a) {
        if (out.size() < a) out.emplace_back();
        out[a - 1].choices[network_.layers[l].node] = all[a].choice;
        out[a - 1].active[l] = a;
      }
    }
    return out;
  }

  /// Puts an alternative of a layer on trial in a variant.
  void put(Sweep& sweep, size_t l, const LayerChoice& choice) {
    Layer& layer = network_.layers[l];
    sweep.active[l] = layer.alternatives.size();
    layer.alternatives.push_back({choice, base(l), INFINITY, "not measured"});
    sweep.choices[layer.node] = choice;
    if (!choice.plain) return;
    for (const std::string& node : layer.nodes) sweep.choices[node].plain = true;
  }

  /// Adds alternatives that run a layer's element-wise nodes separately. A node with two computed operands may instead
  /// be absorbed by a different layer; layers with such nodes get a second variant, in which other layers absorb what
  /// they can.
  void add_fusion(std::vector<Sweep>& sweeps) {
    Sweep alone, open;
    const Graph& graph = bench_.fallback().compiled.tasks->graph;
    std::set<std::string> sums;
    for (const NodeId id : graph.order()) {
      const Node& node = graph.node(id);
      const auto made = std::count_if(node.inputs.begin(), node.inputs.end(),
                                      [&](ValueId in) { return in != kNone && graph.value(in).producer != kNone; });
      if (made > 1) sums.insert(node.name);
    }
    for (size_t l = 0; l < network_.layers.size(); ++l) {
      const Layer& layer = network_.layers[l];
      if (!layer.task() || layer.nodes.size() < 2) continue;
      const bool sum = std::any_of(layer.nodes.begin(), layer.nodes.end(),
                                   [&](const std::string& n) { return n != layer.node && sums.contains(n); });
      put(sum ? open : alone, l, with(Fusion::none));
    }
    for (Sweep* sweep : {&open, &alone}) {
      if (!sweep->active.empty()) sweeps.push_back(std::move(*sweep));
    }
  }

  /// Fuses depthwise convolutions with the convolutions before them, or separates them, contrary to the default.
  void add_pairs(std::vector<Sweep>& sweeps) {
    const CompileOptions& options = bench_.options();
    const Compiled& compiled = bench_.fallback().compiled;
    Sweep together, apart;
    for (const Unfused& u : compiled.unfused) {
      const int64_t l = network_.layer_of(u.node), before = network_.layer_of(u.group);
      if (u.why != Unfused::cycles || l < 0 || before < 0 || !depthwise(u.node)) continue;
      put(together, static_cast<size_t>(l), with(Fusion::before));
    }
    for (size_t l = 0; l < network_.layers.size(); ++l) {
      const Layer& layer = network_.layers[l];
      if (!layer.task() || parse_schedule(layer.schedule).name != conv2d_then_depthwise.name) continue;
      const LayerChoice& own = choice_for(options.choices, layer.node);
      if (own.fuse == Fusion::before || own.forced()) continue;
      put(apart, l, with(Fusion::apart));
    }
    for (Sweep* sweep : {&together, &apart}) {
      if (!sweep->active.empty()) sweeps.push_back(std::move(*sweep));
    }
  }

  bool depthwise(const std::string& node) const {
    const Graph& graph = bench_.fallback().compiled.tasks->graph;
    return std::ranges::any_of(graph.order(), [&](NodeId id) {
      const Node& n = graph.node(id);
      return n.name == node && n.op->family == Family::conv && n.int_attr("group", 1) > 1;
    });
  }

  static LayerChoice with(Fusion fusion) {
    LayerChoice choice;
    choice.fuse = fusion;
    return choice;
  }

  /// Puts plain images on trial in one variant, for all layers that templates can run on them.
  void add_layouts(std::vector<Sweep>& sweeps) {
    LayerChoice choice;
    choice.plain = true;
    const std::set<size_t> layers = plain_layers();
    if (layers.empty()) return;
    sweeps.emplace_back();
    for (const size_t l : layers) put(sweeps.back(), l, choice);
  }

  /// Finds the layers that templates run if all of them are plain. Each iteration drops those that would run reference
  /// kernels.
  std::set<size_t> plain_layers() const {
    std::set<size_t> open;
    for (size_t l = 0; l < network_.layers.size(); ++l) {
      if (network_.layers[l].may_be_plain) open.insert(l);
    }
    for (bool changed = true; changed && !open.empty();) {
      Choices all;
      for (const size_t l : open) {
        for (const std::string& node : network_.layers[l].nodes) all[node].plain = true;
      }
      changed = false;
      for (const std::string& node : bench_.reference_nodes(all)) {
        const int64_t l = network_.layer_of(node);
        changed = (l >= 0 && open.erase(static_cast<size_t>(l)) > 0) || changed;
      }
    }
    return open;
  }

  std::vector<int32_t> modes() const {
    std::vector<int32_t> out{0};
    if (options_.threads > 1) out.push_back(1);
    if (options_.threads > 3) out.push_back(options_.threads / 2);
    return out;
  }

  void add_threads(std::vector<Sweep>& sweeps) const {
    const std::vector<int32_t> all = modes();
    if (all.size() == 1) return;
    const Random random(7);
    for (int v = 0; v < kThreadVariants; ++v) {
      Sweep sweep;
      for (size_t l = 0; l < network_.layers.size(); ++l) {
        const Layer& layer = network_.layers[l];
        if (!layer.task() || layer.relayout || base(l) > kShortMs) continue;
        const int32_t mode = all[random.bits(network_.layers.size() * static_cast<size_t>(v) + l) % all.size()];
        sweep.modes[l] = mode;
        if (mode > 0) sweep.choices[layer.node].threads = mode;
      }
      if (!sweep.choices.empty()) sweeps.push_back(std::move(sweep));
    }
  }

  void measure(std::span<const Sweep> sweeps, double seconds) {
    std::vector<VariantId> ids{bench_.fallback_id()};
    std::vector<std::shared_ptr<const Variant>> variants;
    std::vector<const Sweep*> loaded;
    for (const Sweep& sweep : sweeps) {
      if (options_.beat) options_.beat();
      auto variant = bench_.build(sweep.choices);
      const Loaded got = bench_.load(*variant);
      note_faults(sweep, got.faults);
      if (!got.id) continue;
      ids.push_back(*got.id);
      variants.push_back(std::move(variant));
      loaded.push_back(&sweep);
    }
    MeasureOptions how;
    how.rounds = kMostRounds, how.max_ms = std::min(seconds * 1e3, std::max(0.0, options_.end_ms - now_ms()));
    how.slice_ms = 2;
    const Laps laps = bench_.runner().measure(ids, how);
    const auto basis = round_times(network_, bench_.fallback().compiled, laps, 0);
    for (const Times& round : basis) {
      if (!round.empty()) base_rounds_.push_back(round);
    }
    for (size_t v = 0; v < variants.size(); ++v) {
      const auto times = round_times(network_, variants[v]->compiled, laps, v + 1);
      note(*loaded[v], *variants[v], basis, times);
      note_threads(*loaded[v], basis, times, crowded_rounds(laps, v + 1));
      bench_.runner().drop(ids[v + 1]);
    }
  }

  /// Drops a schedule that is wrong or crashes.
  void note_faults(const Sweep& sweep, const std::vector<Fault>& faults) {
    for (const Fault& fault : faults) {
      const int64_t l = network_.layer_of(fault.layer);
      const auto active = l < 0 ? sweep.active.end() : sweep.active.find(static_cast<size_t>(l));
      if (active != sweep.active.end()) failed_.insert(*active);
    }
  }

  void note(const Sweep& sweep, const Variant& variant, const std::vector<Times>& basis,
            const std::vector<Times>& times) {
    const auto together = partners(network_, sweep, variant.compiled);
    for (size_t r = 0; r < times.size(); ++r) {
      if (times[r].empty() || basis[r].empty()) continue;
      for (const auto& [l, a] : sweep.active) {
        std::set<size_t> layers{l};
        if (const auto with = together.find(l); with != together.end())
          layers.insert(with->second.begin(), with->second.end());
        if (const auto pair = pair_of(layers, times[r], basis[r])) pairs_[{l, a}].push_back(*pair);
      }
    }
    for (const auto& [l, others] : together) partners_[{l, sweep.active.at(l)}] = others;
  }

  /// Returns the total times of the layers; empty if one of them did not have the core to itself.
  static std::optional<Pair> pair_of(const std::set<size_t>& layers, const Times& mine, const Times& base) {
    Pair pair;
    for (const size_t l : layers) {
      if (!mine[l].alone || !base[l].alone) return std::nullopt;
      pair.mine += mine[l].ms, pair.base += base[l].ms;
    }
    return pair;
  }

  void note_threads(const Sweep& sweep, const std::vector<Times>& basis, const std::vector<Times>& times,
                    const std::vector<bool>& crowded) {
    for (size_t r = 0; r < times.size() && !sweep.modes.empty(); ++r) {
      ++thread_rounds_;
      crowded_ += crowded[r] ? 1 : 0;
      if (times[r].empty() || basis[r].empty() || crowded[r]) continue;
      for (const auto& [l, mode] : sweep.modes) {
        const auto from = sweep.modes.find(feeder(network_, l));
        const int32_t before = from == sweep.modes.end() ? 0 : from->second;
        if (const auto pair = pair_of({l}, times[r], basis[r])) by_threads_.push_back({l, before, mode, *pair});
      }
    }
  }

  /// The layer's time in nearly undisturbed rounds.
  double quiet_ms(size_t l) const {
    std::vector<double> ms;
    for (const Times& round : base_rounds_) ms.push_back(round[l].ms);
    return ms.empty() ? base(l) : quantile(ms, 0.25);
  }

  /// Milliseconds in excess of the default, from the ratio of a pair and the layers' undisturbed time `quiet`.
  static double extra_ms(const Pair& pair, double quiet) {
    return pair.base > 0 ? quiet * (pair.mine / pair.base - 1) : pair.mine;
  }

  /// Turns the measurements into costs.
  void settle() {
    std::vector<double> quiet;
    for (size_t l = 0; l < network_.layers.size(); ++l) quiet.push_back(quiet_ms(l));
    for (size_t l = 0; l < network_.layers.size(); ++l) {
      Layer& layer = network_.layers[l];
      const double before = base(l);
      for (size_t a = 0; a < layer.alternatives.size(); ++a) settle(layer.alternatives[a], {l, a}, before, quiet);
    }
    for (const Threaded& t : by_threads_) threads_.note(t.layer, t.before, t.own, extra_ms(t.pair, quiet[t.layer]));
  }

  void settle(Alternative& one, std::pair<size_t, size_t> at, double before, const std::vector<double>& quiet) const {
    const double now = quiet[at.first];
    const auto pairs = pairs_.find(at);
    if (at.second == 0) {
      one.ms = now, one.basis = base_rounds_.empty() ? one.basis : "measured here";
    } else if (failed_.contains(at) || (pairs == pairs_.end() && !one.choice.schedule)) {
      one.ms = INFINITY, one.error_ms = 0;
      one.basis = failed_.contains(at) ? "failed" : "not measured";
    } else {
      const double scale = before > 0 ? now / before : 1;
      one.ms *= scale, one.error_ms *= scale;
      if (pairs != pairs_.end()) combine(one, at, pairs->second, quiet);
    }
  }

  /// Combines the measurements here with the records, each weighted by its certainty.
  void combine(Alternative& one, std::pair<size_t, size_t> at, const std::vector<Pair>& pairs,
               const std::vector<double>& quiet) const {
    const double own = quiet[at.first];
    double group = own;
    if (const auto with = partners_.find(at); with != partners_.end()) {
      for (const size_t other : with->second) group += quiet[other];
    }
    std::vector<double> extra;
    for (const Pair& pair : pairs) extra.push_back(extra_ms(pair, group));
    const double error = mean_error(extra, group);
    const double mine = 1 / std::max(error * error, 1e-18);
    const bool told = one.basis == "records";
    const double theirs = told ? 1 / std::max(one.error_ms * one.error_ms, 1e-18) : 0;
    const double over = (mean_of_middle_half(extra) * mine + (one.ms - own) * theirs) / (mine + theirs);
    one.ms = std::max(0.0, own + over), one.error_ms = 1 / std::sqrt(mine + theirs);
    one.basis = told ? "records and measured here" : "measured here";
  }

  /// If a layer absorbs nodes of another layer, or loses some to it, it becomes a different task. Choices for the old
  /// task then do not apply, except the number of threads if it is still a task.
  void forbid_schedules(std::pair<size_t, size_t> at, size_t other) {
    ChoiceEdge edge{at.first, other, {}};
    const bool goes = network_.layers[at.first].alternatives[at.second].choice.fuse == Fusion::before;
    for (size_t a = 0; a < network_.layers[at.first].alternatives.size(); ++a) {
      for (const Alternative& theirs : network_.layers[other].alternatives) {
        const LayerChoice& c = theirs.choice;
        const bool barred = c.schedule || c.changes_passes() || (goes && c.threads > 0);
        edge.ms.push_back(a == at.second && barred ? INFINITY : 0);
      }
    }
    network_.together.push_back(std::move(edge));
  }

  NetworkBench& bench_;
  LayerNetwork& network_;
  const AlternativeOptions& options_;
  std::vector<Times> base_rounds_;                                ///< by round
  std::map<std::pair<size_t, size_t>, std::vector<Pair>> pairs_;  ///< by layer and alternative
  /// By layer and alternative: the layers whose kernels change with it.
  std::map<std::pair<size_t, size_t>, std::set<size_t>> partners_;
  std::set<std::pair<size_t, size_t>> failed_;
  struct Threaded {
    size_t layer;
    int32_t before, own;
    Pair pair;
  };
  std::vector<Threaded> by_threads_;
  ThreadCosts threads_;
  int64_t thread_rounds_ = 0, crowded_ = 0;
};

}  // namespace

Measured measure_alternatives(NetworkBench& bench, LayerNetwork& network, const AlternativeOptions& options) {
  return Sweeper(bench, network, options).run();
}

}  // namespace kilter::tune
