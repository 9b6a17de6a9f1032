// Searchers over a learned cost model that the caller passes in (`xgb`, `xgb-rank`). After each batch, the model is
// trained on all trials of this task and on those of other tasks, and simulated annealing over its predictions finds
// the next batch.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "tune/search/walk.h"

namespace kilter::tune {
namespace {

class Annealing : public Walk {
 public:
  Annealing(const SearchOptions& options, SearchSpace space)
      : Walk(options, std::move(space)),
        draws_(static_cast<uint64_t>(options.seed), "annealing search"),
        featurizer_(this->space(), search().threads),
        rows_(count()),
        predicted_(count()) {
    if (search().trained == nullptr) {
      fail(ErrorKind::usage,
           "--searcher {}: no XGBoost library was found (PyPI's xgboost-cpu contains it); install it or use --searcher "
           "model",
           options.searcher);
    }
    if (options.features == "knob") {
      for (size_t f = 0; f < all_features().size(); ++f) {
        if (all_features()[f].derived) hidden_.push_back(f);
      }
    }
    for (const Trial& t : search().known) {
      if (const auto i = find(t.point)) measured_.push_back(*i);
    }
  }

 protected:
  std::vector<size_t> choose(size_t most) override {
    if (next_ == queue_.size()) plan();
    std::vector<size_t> out;
    while (next_ < queue_.size() && out.size() < most) {
      const size_t i = queue_[next_++];
      if (is_free(i)) out.push_back(i);
    }
    if (out.empty()) out.push_back(draw_free(draws_));
    return out;
  }

  void learned(size_t point) override {
    if (std::find(measured_.begin(), measured_.end(), point) == measured_.end()) measured_.push_back(point);
  }

 private:
  const std::vector<float>& row(size_t point) {
    if (rows_[point].empty()) {
      rows_[point] = featurizer_.row(at(point));
      hide(rows_[point]);
    }
    return rows_[point];
  }

  /// Zeroes columns that are constant over all rows, from which a model cannot learn.
  void hide(std::span<float> row) const {
    for (const size_t f : hidden_) row[f] = 0;
  }

  void add_unique(size_t point) {
    if (is_free(point) && std::find(queue_.begin(), queue_.end(), point) == queue_.end()) queue_.push_back(point);
  }

  void plan() {
    queue_.clear(), next_ = 0;
    const EarlierTrials others =
        search().earlier != nullptr ? search().earlier->without(search().own_group) : EarlierTrials{};
    const auto first = static_cast<size_t>(options().first_random);
    const size_t wanted = std::min(static_cast<size_t>(options().batch), free_count());
    if (measured_.size() >= first || others.count() > 0) {
      fit(others);
      anneal();
      const auto explored = static_cast<size_t>(std::floor(static_cast<double>(wanted) * (1 - options().exploration)));
      for (size_t i = 0; i < visited_.size() && queue_.size() < explored; ++i) add_unique(visited_[i]);
    }
    for (size_t t = 0; t < 20 * wanted && queue_.size() < wanted; ++t) add_unique(draw_free(draws_));
  }

  void fit(EarlierTrials taught) {
    for (size_t i = 0; i < taught.count(); ++i)
      hide(std::span(taught.rows.values).subspan(i * taught.rows.width, taught.rows.width));
    const uint32_t own = taught.count() == 0 ? 0 : *std::ranges::max_element(taught.groups) + 1;
    // A failure counts as if it took twice as long as the slowest trial.
    double slowest = 0;
    for (const size_t i : measured_) slowest = std::isfinite(cost(i)) ? std::max(slowest, std::log2(cost(i))) : slowest;
    for (const size_t i : measured_) taught.add(row(i), std::isfinite(cost(i)) ? std::log2(cost(i)) : slowest + 1, own);
    search().trained->fit(taught.rows, taught.log2_costs, taught.groups);
    std::fill(predicted_.begin(), predicted_.end(), kUnknown);
  }

  /// Fills in predicted_ for these points.
  void predict(const std::vector<size_t>& points) {
    std::vector<size_t> fresh;
    FeatureRows rows{featurizer_.width(), {}};
    for (const size_t i : points) {
      if (predicted_[i] != kUnknown) continue;
      predicted_[i] = 0;
      fresh.push_back(i);
      rows.append(row(i));
    }
    if (fresh.empty()) return;
    const std::vector<double> answers = search().trained->predict(rows);
    require(answers.size() == fresh.size(), "a cost model returned costs for {} of {} rows", answers.size(),
            fresh.size());
    for (size_t k = 0; k < fresh.size(); ++k) {
      predicted_[fresh[k]] = std::isfinite(answers[k]) ? answers[k] : kWorst;
      if (is_free(fresh[k])) visited_.push_back(fresh[k]);
    }
  }

  /// Redraws one knob, or occasionally returns a random point. Returns the same point if no legal one is found.
  size_t move(size_t from) {
    constexpr double kJump = 0.05;
    if (draws_.share() < kJump) return draws_.below(count());
    const std::vector<Knob>& knobs = space().parts()[at(from).part].knobs;
    for (int t = 0; t < 8 && !knobs.empty(); ++t) {
      Point next = at(from);
      const size_t k = draws_.below(knobs.size());
      next.at[k] = static_cast<uint16_t>(draws_.below(knobs[k].values.size()));
      if (const auto i = find(next); i && *i != from) return *i;
    }
    return from;
  }

  void start_walkers() {
    walkers_.resize(static_cast<size_t>(options().walkers), 0);
    std::vector<size_t> best = measured_;
    std::stable_sort(best.begin(), best.end(), [&](size_t a, size_t b) { return cost(a) < cost(b); });
    for (size_t w = 0; w < walkers_.size(); ++w)
      walkers_[w] = w < walkers_.size() / 4 && w < best.size() ? best[w] : draws_.below(count());
  }

  /// Fills visited_ with the free points that the walks have reached, best prediction first.
  void anneal() {
    visited_.clear();
    start_walkers();
    predict(walkers_);
    double temperature = options().temperature;
    std::vector<size_t> next(walkers_.size());
    for (int64_t s = 0; s < options().steps; ++s, temperature *= options().cooling) {
      for (size_t w = 0; w < walkers_.size(); ++w) next[w] = move(walkers_[w]);
      predict(next);
      for (size_t w = 0; w < walkers_.size(); ++w) {
        const double worse = predicted_[next[w]] - predicted_[walkers_[w]];
        const double chance = draws_.share();
        if (worse <= 0 || (temperature > 0 && chance < std::exp(-worse / temperature))) walkers_[w] = next[w];
      }
    }
    std::stable_sort(visited_.begin(), visited_.end(),
                     [&](size_t a, size_t b) { return predicted_[a] < predicted_[b]; });
  }

  static constexpr double kUnknown = -std::numeric_limits<double>::infinity();
  static constexpr double kWorst = 1e30;  ///< replaces predictions that are not numbers

  Draws draws_;
  Featurizer featurizer_;
  std::vector<size_t> hidden_;            ///< columns hidden from the model
  std::vector<std::vector<float>> rows_;  ///< by point, computed when needed
  std::vector<double> predicted_;         ///< by point, from the latest training
  std::vector<size_t> measured_, walkers_, visited_, queue_;
  size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Searcher> make_annealing(const SearchOptions& options, SearchSpace space) {
  return std::make_unique<Annealing>(options, std::move(space));
}

}  // namespace kilter::tune
