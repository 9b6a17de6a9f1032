#include "tune/search/simulate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "measure/stats.h"
#include "tune/space/prune.h"

namespace kilter::tune {
namespace {

constexpr size_t kNoRow = std::numeric_limits<size_t>::max();
constexpr double kExact = std::numeric_limits<double>::infinity();

/// The results of noisy trials for the points of a table, and the point that the rules of TaskState would choose.
class Standings {
 public:
  Standings(const PlayOptions& how, int64_t seed)
      : how_(&how), random_(static_cast<uint64_t>(seed), "noise of trials") {}

  /// Simulates one trial of a point.
  Trial measure(const Point& point, double truth) {
    if (!std::isfinite(truth)) return {point, truth};
    Entry& e = entries_[point];
    e.truth = truth;
    for (size_t i = 0; i < how_->samples; ++i)
      e.sum += std::log(truth) + how_->noise * static_cast<double>(random_.normal(drawn_++));
    e.samples += static_cast<double>(how_->samples);
    return {point, e.cost(), e.samples};
  }

  /// Returns up to `most` points that may be the best, in the order of the lower ends of their intervals.
  std::vector<Point> contenders(size_t most) const {
    double limit = 1, least = INFINITY;
    for (const auto& [point, e] : entries_) {
      if (e.cost() < least) least = e.cost(), limit = std::min(1.0, e.end(how_->noise));
    }
    std::vector<std::pair<const Entry*, Point>> open;
    for (const auto& [point, e] : entries_) {
      if (e.samples < kMostSamples && e.end(-how_->noise) <= limit) open.emplace_back(&e, point);
    }
    if (open.size() == 1 && limit < 1) return {};
    std::ranges::stable_sort(open, {}, [this](const auto& o) { return o.first->end(-how_->noise); });
    std::vector<Point> out;
    for (size_t i = 0; i < std::min(most, open.size()); ++i) out.push_back(open[i].second);
    return out;
  }

  /// Returns the true cost of the point whose interval has the lowest upper end, if that is below 1, the default's
  /// cost.
  double chosen() const {
    double least = 1, cost = 1;
    for (const auto& [point, e] : entries_) {
      if (e.end(how_->noise) < least) least = e.end(how_->noise), cost = e.truth;
    }
    return cost;
  }

 private:
  static constexpr double kMostSamples = 40;

  struct Entry {
    double sum = 0, samples = 0, truth = 0;  ///< `sum`: of logarithms
    double cost() const { return std::exp(sum / samples); }
    /// Returns the upper end of the interval of two standard errors; for -noise, the lower end.
    double end(double noise) const { return std::exp(sum / samples + 2 * noise / std::sqrt(samples)); }
  };

  const PlayOptions* how_;
  Random random_;
  uint64_t drawn_ = 0;
  std::map<Point, Entry> entries_;
};

}  // namespace

double Curve::best_after(double at_seconds) const {
  const auto end = std::upper_bound(seconds.begin(), seconds.end(), at_seconds);
  return end == seconds.begin() ? 1 : best[static_cast<size_t>(end - seconds.begin()) - 1];
}

double Curve::best_after_trials(size_t trials) const {
  return trials == 0 || best.empty() ? 1 : best[std::min(trials, best.size()) - 1];
}

Game::Game(const Space& space, const CostTable& table, const std::string& where) : space_(&space), table_(&table) {
  row_of_.assign(space.legal().size(), kNoRow);
  optimum_ = 1;
  for (size_t r = 0; r < table.rows.size(); ++r) {
    const auto point = space.find(table.rows[r].schedule);
    if (!point) {
      fail(ErrorKind::bad_input,
           "{}: '{}' is not in the space of '{}' on {}; the table was measured for other templates: measure it again "
           "with `kilter searchers --measure`",
           where, table.rows[r].schedule.text(), table.problem, table.target);
    }
    size_t& row = row_of_[*space.index_of(*point)];
    if (row != kNoRow)
      fail(ErrorKind::bad_input, "{}: '{}' appears twice; remove one", where, table.rows[r].schedule.text());
    row = r;
    optimum_ = std::min(optimum_, table.rows[r].cost);
  }
  const auto row_of = [&](const Point& p) { return row_of_[*space.index_of(p)]; };
  if (!space.default_point() || row_of(*space.default_point()) == kNoRow) {
    fail(ErrorKind::bad_input,
         "{}: expected the default schedule '{}' among its rows; measure it again with `kilter searchers --measure`",
         where, space.default_point() ? space.schedule(*space.default_point()).text() : "none");
  }
  default_cost_ = table.rows[row_of(*space.default_point())].cost;
  for (const Point& p : prune(space, {std::numeric_limits<double>::infinity()}).points) {
    if (row_of(p) != kNoRow) points_.push_back(p);
  }
}

Curve Game::play(const SearchOptions& options, const PlayOptions& how) const {
  SearchSpace search;
  search.space = space_;
  search.points = points_;
  search.threads = table_->threads;
  search.known = {{*space_->default_point(), 1, kExact}};
  search.trained = how.trained;
  search.pretrained = how.pretrained;
  search.earlier = how.earlier;
  Curve out;
  Standings standings(how, options.seed);
  double best = 1, spent_ms = 0;
  const auto timed = [&](const auto& work) {
    const double start = how.clock ? how.clock() : 0;
    work();
    const double ms = how.clock ? how.clock() - start : 0;
    out.thinking_ms += ms, spent_ms += ms;
  };
  std::unique_ptr<Searcher> searcher;
  timed([&] { searcher = make_searcher(options, std::move(search)); });
  while (out.best.size() < how.most_trials && spent_ms < how.most_seconds * 1e3) {
    const size_t left = how.most_trials - out.best.size();
    std::vector<Point> now;
    timed([&] { now = searcher->propose(std::min(how.batch, left)); });
    if (how.noise > 0) {
      const std::vector<Point> again = standings.contenders(std::min(how.batch / 2, left - now.size()));
      now.insert(now.end(), again.begin(), again.end());
    }
    if (now.empty()) break;
    std::vector<Trial> trials;
    for (const Point& p : now) {
      const CostRow& row = table_->rows[row_of_[*space_->index_of(p)]];
      trials.push_back(how.noise > 0 ? standings.measure(p, row.cost) : Trial{p, row.cost});
      spent_ms += row.ms;
      best = how.noise > 0 ? standings.chosen() : std::min(best, row.cost);
      out.best.push_back(best);
      out.seconds.push_back(spent_ms * 1e-3);
    }
    timed([&] { searcher->learn(trials); });
    if (how.stop_at_optimum && how.noise == 0 && best <= optimum_) break;
  }
  return out;
}

EarlierTrials Game::lessons(uint32_t group, size_t most) const {
  EarlierTrials out;
  const Featurizer features(*space_, table_->threads);
  const size_t count = std::min(most, points_.size());
  for (size_t i = 0; i < count; ++i) {
    const Point& p = points_[i * points_.size() / count];
    const double cost = table_->rows[row_of_[*space_->index_of(p)]].cost;
    if (std::isfinite(cost)) out.add(features.row(p), std::log2(cost), group);
  }
  return out;
}

Lead lead_of(const std::vector<std::vector<double>>& differences) {
  Lead out;
  double variance = 0;
  const auto tasks = static_cast<double>(differences.size());
  for (const std::vector<double>& of_task : differences) {
    require(of_task.size() >= 2, "a lead needs at least 2 seeds of each task, got {}", of_task.size());
    const double middle = mean(of_task), deviation = std_dev(of_task);
    out.mean += middle / tasks;
    variance += deviation * deviation / static_cast<double>(of_task.size());
    out.less += middle < 0 ? 1 : 0, out.more += middle > 0 ? 1 : 0;
  }
  out.half = 1.96 * std::sqrt(variance) / tasks;
  return out;
}

Spread spread_of(std::vector<double> values) {
  require(!values.empty(), "a spread needs at least one value");
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto low = static_cast<size_t>(place);
    const size_t high = std::min(low + 1, values.size() - 1);
    return values[low] + (place - static_cast<double>(low)) * (values[high] - values[low]);
  };
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {sum / static_cast<double>(values.size()), at(0.25), at(0.5), at(0.75)};
}

}  // namespace kilter::tune
