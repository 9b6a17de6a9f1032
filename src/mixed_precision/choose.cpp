#include "mixed_precision/choose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "measure/compare.h"

namespace kilter::mixed {
namespace {

/// The samples on which errors of single layers are measured; those of whole networks are measured on all.
constexpr size_t kLayerSamples = 4;
/// Compilations to find a gear's mix.
constexpr int kTries = 8;

/// Errors of the layers that are not kept, as layers_to_keep() adds them.
double together(std::span<const LayerCost> layers, const std::set<std::string>& kept, double scale) {
  double squares = 0;
  for (const LayerCost& l : layers) {
    if (!kept.contains(l.layer)) squares += l.error * l.error;
  }
  return scale * std::sqrt(squares);
}

/// A mix that has been compiled.
struct Tried {
  Mix mix;
  std::unique_ptr<Session> session;
};

class Search {
 public:
  explicit Search(const Request& request) : request_(request) {}

  Result run() {
    doing("compiling in f32");
    tried_.push_back({{}, open({})});
    for (const Sample& sample : request_.samples) exact_.push_back(wide().run(sample));
    result_.samples = request_.samples.size();
    result_.target = wide().options().compile.target.name;
    for (const Precision precision : kPrecisions) {
      if (precision != Precision::declared) try_gear(precision);
    }
    check_any_gear();
    check_any_within();
    time_all();
    for (Tried& tried : tried_) result_.mixes.push_back(std::move(tried.mix));
    return std::move(result_);
  }

 private:
  Session& wide() { return *tried_.front().session; }
  void doing(const std::string& what) const {
    if (request_.progress) request_.progress(what);
  }

  std::unique_ptr<Session> open(const Mix& mix) {
    Session::Options options = request_.session;
    options.compile.precision = mix.precision, options.compile.keep_float = mix.keep_float;
    ++result_.compilations;
    return Session::open(request_.model, options);
  }

  /// Compiles a mix and measures its error on all samples.
  Tried compiled(Mix mix) {
    Tried made{std::move(mix), nullptr};
    made.session = open(made.mix);
    for (size_t i = 0; i < request_.samples.size(); ++i) {
      doing(fmt::format("{} with {} of {} layers in f32: sample {} of {}", name(made.mix.precision), made.mix.kept,
                        made.mix.layers, i + 1, request_.samples.size()));
      made.mix.error = std::max(made.mix.error, error(made.session->run(request_.samples[i]), exact_[i]));
    }
    made.mix.within = made.mix.error <= request_.tolerance;
    return made;
  }

  void try_gear(Precision precision) {
    Gear gear;
    gear.precision = precision;
    Mix whole;
    whole.precision = precision;
    try {
      tried_.push_back(compiled(std::move(whole)));
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::usage) throw;
      gear.refused = e.message();
      result_.gears.push_back(std::move(gear));
      return;
    }
    Tried& all = tried_.back();
    const std::span<const Sample> samples(request_.samples.data(), std::min(kLayerSamples, request_.samples.size()));
    gear.layers = layer_costs(wide(), *all.session, samples,
                              [&](const std::string& what) { doing(fmt::format("{}: {}", name(precision), what)); });
    all.mix.layers = static_cast<size_t>(std::ranges::count_if(gear.layers, may_stay));
    if (!all.mix.within) find_mix(gear);
    result_.gears.push_back(std::move(gear));
  }

  static bool may_stay(const LayerCost& l) { return !l.nodes.empty() && l.error > 0; }

  /// Keeps the `count` layers with the largest errors: a mix that is tried if the tolerance would need all layers in
  /// f32.
  static std::set<std::string> worst(const Gear& gear, int64_t count) {
    std::vector<const LayerCost*> order;
    for (const LayerCost& l : gear.layers) {
      if (may_stay(l)) order.push_back(&l);
    }
    std::ranges::stable_sort(order, std::greater(), [](const LayerCost* l) { return l->error; });
    std::set<std::string> kept;
    for (int64_t i = 0; i < count; ++i) kept.insert(order[static_cast<size_t>(i)]->layer);
    return kept;
  }

  /// Whether any value is stored in a narrow type. Operands and results of kept layers are f32, so none may be left.
  bool is_mixed(const Tried& tried) const {
    const Compiled& compiled = tried.session->prepare_for(request_.samples.front()).compiled;
    return std::ranges::any_of(compiled.values, [](const PlacedValue& v) { return v.type.layout.stored.has_value(); });
  }

  Mix mix_of(const Gear& gear, const std::set<std::string>& kept) const {
    Mix mix;
    mix.precision = gear.precision, mix.kept = kept.size();
    mix.layers = static_cast<size_t>(std::ranges::count_if(gear.layers, may_stay));
    for (const LayerCost& l : gear.layers) {
      if (kept.contains(l.layer)) mix.keep_float.insert(l.nodes.begin(), l.nodes.end());
    }
    return mix;
  }

  /// Finds the layers to keep in f32. How the errors of layers add up shows only when the whole network runs, so each
  /// attempt corrects the scale of their sum for the next one. The scale stays between the largest one that gave too
  /// large an error and the smallest one that did not. The layers that f32 slows down least may be so many that no
  /// narrow value is left; the layers with the largest errors, which are fewest, are then kept instead. If the
  /// tolerance would need all layers in f32, or still no narrow value is left, tries half of all layers, then half of
  /// these, and so on.
  void find_mix(Gear& gear) {
    const int64_t all = std::ranges::count_if(gear.layers, may_stay);
    int64_t most = (all + 1) / 2;
    double scale = 1, too_small = 0, enough = INFINITY;
    std::optional<Tried> best;
    std::set<std::set<std::string>> seen;
    KeepFirst first = KeepFirst::cheapest;
    bool halve = false;
    for (int i = 0; i < kTries && too_small < enough; ++i) {
      std::set<std::string> kept = layers_to_keep(gear.layers, scale, request_.tolerance, first);
      if (halve || std::ssize(kept) == all) {
        kept = worst(gear, most);
        most = std::min(most, std::max<int64_t>(most / 2, 1));
      }
      const Mix planned = mix_of(gear, kept);
      if (!seen.insert(kept).second) {
        if (std::isfinite(enough)) break;
        scale *= kLeastStep;
        continue;
      }
      Tried made = compiled(planned);
      if (!is_mixed(made)) {
        halve = first == KeepFirst::worst;
        first = KeepFirst::worst;
        continue;
      }
      halve = false;
      const double expected = together(gear.layers, kept, scale), reached = made.mix.error;
      gear.attempts.push_back({planned.kept, expected, reached});
      if (made.mix.within) {
        enough = scale;
        if (!best || lost_ms(gear, kept) < lost_ms(gear, gear.kept)) {
          best = std::move(made);
          gear.kept = kept;
        }
        if (reached > kNear * request_.tolerance) break;
        scale *= std::clamp(reached / expected, 1 / kMostStep, 1.0);
      } else {
        too_small = scale;
        scale *= std::clamp(reached / expected, kLeastStep, kMostStep);
      }
      if (too_small > 0 && std::isfinite(enough)) scale = std::sqrt(too_small * enough);
    }
    if (best) tried_.push_back(std::move(*best));
  }

  /// The time that layers cost in f32.
  static double lost_ms(const Gear& gear, const std::set<std::string>& kept) {
    double lost = 0;
    for (const LayerCost& l : gear.layers) {
      if (kept.contains(l.layer)) lost += l.wide_ms - l.narrow_ms;
    }
    return lost;
  }

  void check_any_gear() const {
    const bool any = std::ranges::any_of(result_.gears, [](const Gear& g) { return g.refused.empty(); });
    if (!any) fail(ErrorKind::usage, "{}", result_.gears.front().refused);
  }

  void check_any_within() const {
    const bool any = std::ranges::any_of(
        tried_, [](const Tried& t) { return t.mix.precision != Precision::declared && t.mix.within; });
    if (any) return;
    double best = INFINITY;
    for (const Tried& t : tried_) {
      if (t.mix.precision != Precision::declared) best = std::min(best, t.mix.error);
    }
    for (const Gear& gear : result_.gears) {
      for (const Attempt& attempt : gear.attempts) best = std::min(best, attempt.error);
    }
    fail(ErrorKind::usage,
         "--tolerance {:g}: no mix of f32 with bf16 or fp16 stays within it on these samples; the best reached is "
         "{:.2g}. "
         "Give a larger tolerance, or leave the network in f32 (--precision declared)",
         request_.tolerance, best);
  }

  /// Measures all mixes interleaved on the first sample, and chooses the fastest one within the tolerance.
  void time_all() {
    doing("comparing the times");
    std::vector<Candidate> candidates;
    for (const Tried& t : tried_) {
      candidates.push_back({std::string(name(t.mix.precision)),
                            [&, session = t.session.get()] { session->run(request_.samples.front()); }});
    }
    CompareOptions how;
    how.max_seconds = request_.seconds, how.stop_when_different = false;
    const Comparison compared = compare(candidates, how);
    result_.rounds = compared.kept, result_.disturbed = compared.disturbed;
    for (size_t i = 0; i < tried_.size(); ++i) {
      Mix& mix = tried_[i].mix;
      mix.ms = compared.time_ms(i).value;
      if (i > 0) mix.ratio = compared.ratio(0, i);
      const bool faster = mix.ratio.high < 1 && mix.ratio.value < tried_[result_.chosen].mix.ratio.value;
      if (mix.within && faster) result_.chosen = i;
    }
  }

  static constexpr double kNear = 0.7;       ///< a mix that reaches this share of the tolerance is not improved
  static constexpr double kLeastStep = 1.1;  ///< least correction after an attempt beyond the tolerance
  static constexpr double kMostStep = 4;     ///< most correction after any attempt

  const Request& request_;
  Result result_;
  std::vector<Tried> tried_;                ///< as Result::mixes
  std::vector<std::vector<Tensor>> exact_;  ///< by sample: the outputs in the declared precision
};

}  // namespace

std::set<std::string> layers_to_keep(std::span<const LayerCost> layers, double scale, double tolerance,
                                     KeepFirst first) {
  constexpr double kMargin = 0.9;
  double total = 0;
  for (const LayerCost& l : layers) total += l.narrow_ms;
  const double least = 1e-4 * total;  // a layer that f32 does not slow down costs at least its conversions
  const auto worth = [&](const LayerCost* l) {
    if (first == KeepFirst::worst) return l->error;
    return l->error * l->error / std::max(l->wide_ms - l->narrow_ms, least > 0 ? least : 1);
  };
  std::vector<const LayerCost*> order;
  for (const LayerCost& l : layers) {
    if (!l.nodes.empty() && l.error > 0) order.push_back(&l);
  }
  std::ranges::stable_sort(order, std::greater(), worth);
  std::set<std::string> kept;
  const double target = kMargin * tolerance;
  size_t taken = 0;
  for (; taken < order.size() && !(together(layers, kept, scale) <= target); ++taken) kept.insert(order[taken]->layer);
  for (size_t i = taken; i-- > 0;) {  // drops those that later ones made unnecessary, the least worthwhile first
    kept.erase(order[i]->layer);
    if (!(together(layers, kept, scale) <= target)) kept.insert(order[i]->layer);
  }
  return kept;
}

Result choose_precision(const Request& request) { return Search(request).run(); }

}  // namespace kilter::mixed
