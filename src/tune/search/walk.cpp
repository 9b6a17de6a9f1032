#include "tune/search/walk.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace kilter::tune {
namespace {

constexpr double kGain = 0.01;  ///< the gain that counts as progress for early stopping
constexpr double kFailure = std::numeric_limits<double>::infinity();

}  // namespace

Walk::Walk(const SearchOptions& options, SearchSpace space) : options_(options), search_(std::move(space)) {
  require(search_.space != nullptr, "a searcher needs a space");
  const size_t points = search_.points.size();
  for (size_t i = 0; i < points; ++i) {
    require(this->space().contains(search_.points[i]), "point {} of the search is not in the space", i);
    const bool fresh = index_.emplace(this->space().ordinal(search_.points[i]), i).second;
    require(fresh, "point '{}' appears twice in the search", this->space().schedule(search_.points[i]).text());
  }
  free_.resize(points);
  std::iota(free_.begin(), free_.end(), size_t{0});
  place_ = free_;
  costs_.assign(points, 0);
  samples_.assign(points, 1);
  for (const Trial& t : search_.known) keep(t, t.cost > 0 ? t.cost : kFailure);
  best_ = least_cost();
}

std::optional<size_t> Walk::find(const Point& point) const {
  if (!space().contains(point)) return std::nullopt;
  const auto it = index_.find(space().ordinal(point));
  return it == index_.end() ? std::nullopt : std::optional(it->second);
}

void Walk::take(size_t point) {
  if (!is_free(point)) return;
  const size_t hole = place_[point], last = free_.back();
  free_[hole] = last;
  place_[last] = hole;
  free_.pop_back();
  place_[point] = std::numeric_limits<size_t>::max();
}

std::vector<Point> Walk::propose(size_t most) {
  std::vector<Point> out;
  const bool stopped = options_.early_stopping > 0 && since_gain_ >= options_.early_stopping;
  if (stopped || most == 0 || free_.empty()) return out;
  for (const size_t i : choose(std::min(most, free_.size()))) {
    require(is_free(i), "{} proposed a point twice", options_.searcher);
    take(i);
    out.push_back(at(i));
  }
  require(!out.empty() && out.size() <= most, "{} proposed {} points; expected 1 to {}", options_.searcher, out.size(),
          most);
  return out;
}

double Walk::keep(const Trial& trial, double cost) {
  const auto i = find(trial.point);
  if (i) {
    take(*i);
    samples_[*i] = std::max(trial.samples, 1.0);
  }
  return std::exchange(i ? costs_[*i] : elsewhere_[trial.point], cost);
}

double Walk::least_cost() const {
  double least = kFailure;
  for (const double c : costs_) least = c > 0 ? std::min(least, c) : least;
  for (const auto& [point, c] : elsewhere_) least = std::min(least, c);
  return std::isfinite(least) ? least : 0;
}

/// A trial that corrects a known cost is not a gain. If it raises the best cost, the lowest cost now known becomes the
/// one to beat.
void Walk::note_progress(double before, double cost) {
  ++since_gain_;
  if (before == 0 && std::isfinite(cost) && (best_ == 0 || cost < best_ * (1 - kGain))) since_gain_ = 0;
  if (before == best_ && cost > before)
    best_ = least_cost();
  else if (std::isfinite(cost) && (best_ == 0 || cost < best_))
    best_ = cost;
}

void Walk::learn(std::span<const Trial> measured) {
  for (const Trial& t : measured) {
    const double cost = t.cost > 0 ? t.cost : kFailure;  // also if it is NaN
    note_progress(keep(t, cost), cost);
    if (const auto i = find(t.point)) learned(*i);
  }
}

std::unique_ptr<Searcher> make_searcher(const SearchOptions& options, SearchSpace space) {
  const std::string& name = options.searcher;
  if (name == "random") return make_random(options, std::move(space));
  if (name == "grid") return make_grid(options, std::move(space));
  if (name == "exhaustive") return make_exhaustive(options, std::move(space));
  if (name == "ga") return make_genetic(options, std::move(space));
  if (name == "model") return make_model(options, std::move(space));
  if (name == "xgb" || name == "xgb-rank") return make_annealing(options, std::move(space));
  static_cast<void>(parse_search_options(name));  // throws, listing the legal names
  require(false, "searcher '{}' is in the table but cannot be created", name);
  return nullptr;
}

}  // namespace kilter::tune
