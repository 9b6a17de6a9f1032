// Kilter's own searcher. It first tries a draft: the analytic best of each template, then the default with one knob
// changed. After that, batch by batch, it proposes the points with the largest expected improvement under a regression
// of log2(cost), which starts from the analytic estimate and learns its errors. A share of the trials is drawn
// uniformly, to find good points that neither the estimate nor the regression predicts.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "tune/search/gaussian.h"
#include "tune/search/walk.h"

namespace kilter::tune {
namespace {

constexpr size_t kMostObservations = 1024;  ///< further ones would slow each batch down for little gain
constexpr double kStrangers = 0.25;         ///< share of the pool drawn from points that the prior rates poorly

/// Columns of Featurizer that distinguish points of one task.
std::vector<size_t> own_columns() {
  std::vector<size_t> out;
  for (size_t c = 0; c < all_features().size(); ++c) {
    const std::string& name = all_features()[c].name;
    for (const std::string_view group : {"template.", "knob.", "tile.", "model.over", "model.tail", "panel."}) {
      if (name.starts_with(group)) out.push_back(c);
    }
  }
  return out;
}

/// Expected gain over `best` for a point with this belief; both in log2 of cost.
double expected_improvement(const Gaussian::Belief& b, double best) {
  if (b.deviation < 1e-9) return std::max(best - b.mean, 0.0);
  const double z = (best - b.mean) / b.deviation;
  const double below = std::erfc(-z / std::numbers::sqrt2) / 2;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  return b.deviation * (z * below + density);
}

class ModelSearch : public Walk {
 public:
  ModelSearch(const SearchOptions& options, SearchSpace space)
      : Walk(options, std::move(space)), draws_(static_cast<uint64_t>(options.seed), "model search") {
    make_prior();
  }

 protected:
  std::vector<size_t> choose(size_t most) override {
    if (!has_pool() || until_refresh_ == 0) make_pool();
    if (learned_since_ >= options().batch) relearn();
    std::vector<size_t> out;
    const size_t wanted = std::min(most, static_cast<size_t>(options().batch));
    while (out.size() < wanted && has_pool() && until_refresh_ > 0) {
      const size_t slot = next_slot();
      gone_[slot] = true;
      --left_;
      --until_refresh_;
      out.push_back(pool_[slot]);
      ++proposed_;
      if (gaussian_->observations() < kMostObservations && !gaussian_->added(slot)) gaussian_->add(slot);
    }
    return out;
  }

  void learned(size_t point) override {
    ++learned_since_;
    if (const auto slot = slot_of(point)) {
      if (!gone_[*slot]) gone_[*slot] = true, --left_;
      tell(*slot);
    }
  }

 private:
  /// Sets the log2 of each point's expected cost, up to an offset: the analytic estimate, or its mean with a pretrained
  /// model if there is one. The trials decide which of the two is right (tilt_). On its own, a model trained on few
  /// other tasks ranks worse than the estimate (measured).
  void make_prior() {
    double least = 0;
    for (const LegalPoint& l : space().legal()) {
      if (least == 0 || l.estimate.cycles < least) least = l.estimate.cycles;
    }
    for (size_t i = 0; i < count(); ++i) {
      const LegalPoint& l = space().legal()[*space().index_of(at(i))];
      prior_.push_back(least > 0 ? std::log2(l.estimate.cycles / least) : 0);
    }
    if (search().pretrained != nullptr) {
      const Featurizer features(space(), search().threads);
      const std::vector<double> learned = search().pretrained->predict(features.rows(search().points));
      require(learned.size() == count(), "a cost model returned costs for {} of {} rows", learned.size(), count());
      for (size_t i = 0; i < count(); ++i) {
        const double half = ((std::isfinite(learned[i]) ? learned[i] : 0) - prior_[i]) / 2;
        prior_[i] += half;
        tilt_.push_back(half);
      }
    }
    anchor(prior_);
    anchor(tilt_);
  }

  /// Sets the offset so that the default costs 1.
  void anchor(std::vector<double>& expected) const {
    if (expected.empty()) return;
    const auto standard = space().default_point();
    if (const auto i = standard ? find(*standard) : std::nullopt) {
      const double offset = expected[*i];
      for (double& p : expected) p -= offset;
    }
  }

  bool has_pool() const { return left_ > 0; }

  /// Fills the pool with the best free points by the prior, some of the rest, and the known points.
  void fill_pool() {
    std::vector<size_t> free, learnt;
    for (size_t i = 0; i < count(); ++i) {
      if (is_free(i)) free.push_back(i);
      if (known(i)) learnt.push_back(i);
    }
    std::stable_sort(free.begin(), free.end(), [&](size_t a, size_t b) { return prior_[a] < prior_[b]; });
    const size_t all = std::min(free.size(), static_cast<size_t>(options().pool));
    const size_t best = all < free.size() ? all - static_cast<size_t>(kStrangers * static_cast<double>(all)) : all;
    for (size_t i = best; i < all; ++i) std::swap(free[i], free[i + draws_.below(free.size() - i)]);
    free.resize(all);
    std::stable_sort(learnt.begin(), learnt.end(), [&](size_t a, size_t b) { return cost(a) < cost(b); });
    if (learnt.size() > kMostObservations / 2) learnt.resize(kMostObservations / 2);
    pool_ = free;
    pool_.insert(pool_.end(), learnt.begin(), learnt.end());
    left_ = free.size();
    until_refresh_ = free.size() < free_count() ? std::max<size_t>(left_ / 8, 16) : left_;
  }

  /// Creates a new pool, and a regression over it.
  void make_pool() {
    fill_pool();
    slots_.assign(count(), kNoSlot);
    for (size_t slot = 0; slot < pool_.size(); ++slot) slots_[pool_[slot]] = slot;
    gone_.assign(pool_.size(), false);
    near_default_.clear();
    for (const size_t i : pool_) near_default_.push_back(near_default(at(i)));
    const Featurizer features(space(), search().threads);
    const std::vector<size_t> columns = own_columns();
    std::vector<float> x;
    std::vector<double> prior, tilt;
    for (const size_t i : pool_) {
      const std::vector<float> row = features.row(at(i));
      for (const size_t c : columns) x.push_back(row[c]);
      prior.push_back(prior_[i]);
      if (!tilt_.empty()) tilt.push_back(tilt_[i]);
    }
    gaussian_.emplace(columns.size(), x, std::move(prior), std::move(tilt));
    for (size_t slot = 0; slot < pool_.size(); ++slot) {
      if (is_free(pool_[slot])) continue;
      gone_[slot] = true;
      tell(slot);
    }
    relearn();
  }

  std::optional<size_t> slot_of(size_t point) const {
    if (!gaussian_ || slots_[point] == kNoSlot) return std::nullopt;
    return slots_[point];
  }

  /// Passes a cost to the regression. A failure counts as if it took twice as long as the slowest trial.
  void tell(size_t slot) {
    if (!gaussian_->added(slot)) {
      if (gaussian_->observations() >= kMostObservations) return;
      gaussian_->add(slot);
    }
    const double c = cost(pool_[slot]);
    const bool ran = std::isfinite(c);
    if (ran) worst_ = std::max(worst_, std::log2(c));
    gaussian_->observe(slot, ran ? std::log2(c) : worst_ + 1, ran ? samples(pool_[slot]) : 1);
  }

  void relearn() {
    gaussian_->fit_shape();
    learned_since_ = 0;
  }

  /// log2 of the cost to beat: the lowest believed cost of the points that ran. A first sample that is too low by
  /// chance lowers it until further samples correct it.
  double incumbent() const {
    std::optional<double> least;
    for (size_t slot = 0; slot < pool_.size(); ++slot) {
      if (!known(pool_[slot]) || !std::isfinite(cost(pool_[slot])) || !gaussian_->added(slot)) continue;
      const double mean = gaussian_->belief(slot).mean;
      least = least ? std::min(*least, mean) : mean;
    }
    return least.value_or(0);
  }

  size_t next_slot() {
    if (proposed_ < options().draft) {
      if (const auto slot = next_template()) return *slot;
      const auto near = [&](size_t slot) { return near_default_[slot]; };
      if (const auto slot = most_wanted(near)) return *slot;
    } else if (draws_.share() < options().exploration) {
      return any_slot();
    }
    return *most_wanted([](size_t) { return true; });
  }

  /// Returns the free slot accepted by `allowed` with the largest expected improvement.
  template <class F>
  std::optional<size_t> most_wanted(const F& allowed) const {
    const double best = incumbent();
    std::optional<size_t> chosen;
    double most = -1;
    for (size_t slot = 0; slot < pool_.size(); ++slot) {
      if (gone_[slot] || !allowed(slot)) continue;
      const double gain = expected_improvement(gaussian_->belief(slot), best);
      if (gain > most) chosen = slot, most = gain;
    }
    return chosen;
  }

  /// Whether a point is the default with one knob changed. Such points are good candidates because the default reflects
  /// knowledge that the analytic estimate lacks; the estimate ignores some knobs.
  bool near_default(const Point& point) const {
    const auto standard = space().default_point();
    if (!standard || standard->part != point.part) return false;
    int different = 0;
    for (size_t k = 0; k < kMostKnobs; ++k) different += point.at[k] == standard->at[k] ? 0 : 1;
    return different == 1;
  }

  /// Returns the best point, by its own model, of a template that has no trial yet. Templates are compared by trials,
  /// not by their models.
  std::optional<size_t> next_template() {
    for (size_t part = 0; part < space().parts().size(); ++part) {
      const auto best = space().best_of(part);
      const auto i = best ? find(*best) : std::nullopt;
      const auto slot = i ? slot_of(*i) : std::nullopt;
      if (slot && !gone_[*slot]) return slot;
    }
    return std::nullopt;
  }

  size_t any_slot() {
    size_t skip = draws_.below(left_);
    for (size_t slot = 0; slot < pool_.size(); ++slot) {
      if (!gone_[slot] && skip-- == 0) return slot;
    }
    return 0;
  }

  static constexpr size_t kNoSlot = static_cast<size_t>(-1);

  Draws draws_;
  std::vector<double> prior_;  ///< by point
  /// By point: the pretrained model's prediction minus the prior; empty without such a model.
  std::vector<double> tilt_;
  std::optional<Gaussian> gaussian_;  ///< over the pool
  std::vector<size_t> pool_;          ///< by slot: point
  std::vector<size_t> slots_;         ///< by point: slot
  std::vector<bool> gone_;            ///< by slot: no longer free
  std::vector<bool> near_default_;    ///< by slot
  size_t left_ = 0;                   ///< number of slots that are not gone
  size_t until_refresh_ = 0;          ///< proposals left for this pool
  double worst_ = 0;                  ///< log2 of the pool's slowest trial, at least the default's
  int64_t learned_since_ = 0, proposed_ = 0;
};

}  // namespace

std::unique_ptr<Searcher> make_model(const SearchOptions& options, SearchSpace space) {
  return std::make_unique<ModelSearch>(options, std::move(space));
}

}  // namespace kilter::tune
