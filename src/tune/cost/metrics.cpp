#include "tune/cost/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace kilter::tune {
namespace {

struct Group {
  std::vector<double> predicted, costs;
};

/// Ranks from 0; equal values get the mean of their ranks.
std::vector<double> ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> out(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double rank = static_cast<double>(begin + end - 1) / 2;
    for (size_t i = begin; i < end; ++i) out[order[i]] = rank;
    begin = end;
  }
  return out;
}

bool all_equal(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [&](double v) { return v == values[0]; });
}

double pairwise(const Group& g) {
  double right = 0;
  double pairs = 0;
  for (size_t i = 0; i < g.costs.size(); ++i) {
    for (size_t j = i + 1; j < g.costs.size(); ++j) {
      if (g.costs[i] == g.costs[j]) continue;
      pairs += 1;
      if (g.predicted[i] == g.predicted[j]) {
        right += 0.5;
      } else if ((g.predicted[i] < g.predicted[j]) == (g.costs[i] < g.costs[j])) {
        right += 1;
      }
    }
  }
  return right / pairs;
}

struct FirstPick {
  double regret = 0;
  bool failed = false;
};

/// Evaluates the row predicted best. At least one row of the group must have run.
FirstPick first_pick(const Group& g) {
  const auto before = [&](size_t a, size_t b) {
    if (g.predicted[a] != g.predicted[b]) return g.predicted[a] < g.predicted[b];
    return g.costs[a] > g.costs[b];
  };
  size_t first = 0;
  size_t first_run = g.costs.size();
  for (size_t i = 0; i < g.costs.size(); ++i) {
    if (before(i, first)) first = i;
    if (!std::isinf(g.costs[i]) && (first_run == g.costs.size() || before(i, first_run))) first_run = i;
  }
  const double best = *std::min_element(g.costs.begin(), g.costs.end());
  return {std::expm1(g.costs[first_run] - best), std::isinf(g.costs[first])};
}

}  // namespace

double rank_correlation(std::span<const double> a, std::span<const double> b) {
  require(a.size() == b.size() && !a.empty(), "a rank correlation of {} and {} values", a.size(), b.size());
  if (all_equal(a) || all_equal(b)) return 0;
  const std::vector<double> x = ranks(a);
  const std::vector<double> y = ranks(b);
  const double mean = static_cast<double>(a.size() - 1) / 2;
  double xy = 0;
  double xx = 0;
  double yy = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xy / std::sqrt(xx * yy);
}

Metrics judge(std::span<const double> predicted, std::span<const double> costs, std::span<const int64_t> groups) {
  require(predicted.size() == costs.size() && groups.size() == costs.size(), "{} predictions, {} costs, {} groups",
          predicted.size(), costs.size(), groups.size());
  std::map<int64_t, Group> all;
  for (size_t i = 0; i < costs.size(); ++i) {
    require(!std::isnan(predicted[i]) && !std::isnan(costs[i]), "row {}: a prediction or cost is NaN", i);
    Group& g = all[groups[i]];
    g.predicted.push_back(predicted[i]);
    g.costs.push_back(costs[i]);
  }
  Metrics m;
  m.rows = costs.size();
  m.groups = all.size();
  for (const auto& [id, g] : all) {
    // Skips groups whose costs are all equal; in the others, at least one row ran.
    if (all_equal(g.costs)) continue;
    ++m.judged;
    m.pairwise += pairwise(g);
    m.spearman += rank_correlation(g.predicted, g.costs);
    const FirstPick pick = first_pick(g);
    m.top1_regret += pick.regret;
    m.failed_first += pick.failed ? 1 : 0;
  }
  const auto n = static_cast<double>(m.judged);
  for (double* sum : {&m.pairwise, &m.spearman, &m.top1_regret, &m.failed_first}) {
    *sum = m.judged == 0 ? std::numeric_limits<double>::quiet_NaN() : *sum / n;
  }
  return m;
}

}  // namespace kilter::tune
