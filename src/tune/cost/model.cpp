#include "tune/cost/model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "tune/cost/tree_model.h"

namespace kilter::tune {
namespace {

/// How much a failure costs above the slowest row that ran, as the logarithm of the ratio of their times.
const double kFailureStep = std::log(1.5);

void check_length(size_t got, const TrainingSet& set, const char* what) {
  if (got == set.rows.rows()) return;
  fail(ErrorKind::bad_input, "training set: {} rows have {} {}; expected one for each row", set.rows.rows(), got, what);
}

void check_option(bool legal, const char* name, double got, const char* limits) {
  if (!legal) fail(ErrorKind::usage, "cost model: {} {}; legal values are {}", name, format_float(got), limits);
}

}  // namespace

TrainingSet TrainingSet::take(std::span<const size_t> which) const {
  TrainingSet out{rows.take(which), {}, {}, {}};
  for (const size_t i : which) {
    out.costs.push_back(costs[i]);
    out.groups.push_back(groups[i]);
    if (!weights.empty()) out.weights.push_back(weights[i]);
  }
  return out;
}

void check_training_set(const TrainingSet& set) {
  check_matrix(set.rows, "training set");
  check_length(set.costs.size(), set, "costs");
  check_length(set.groups.size(), set, "groups");
  if (!set.weights.empty()) check_length(set.weights.size(), set, "weights");
  for (size_t i = 0; i < set.size(); ++i) {
    if (!std::isnan(set.costs[i]) && set.costs[i] > -std::numeric_limits<double>::infinity()) continue;
    fail(ErrorKind::bad_input, "training set: row {}: cost {}; legal values are finite numbers, and inf for a failure",
         i, format_float(set.costs[i]));
  }
  double sum = set.weights.empty() ? static_cast<double>(set.size()) : 0;
  for (size_t i = 0; i < set.weights.size(); ++i) {
    if (!(set.weights[i] >= 0) || std::isinf(set.weights[i])) {
      fail(ErrorKind::bad_input, "training set: row {}: weight {}; legal values are finite numbers of 0 or more", i,
           format_float(set.weights[i]));
    }
    sum += set.weights[i];
  }
  if (!(sum > 0))
    fail(ErrorKind::bad_input, "training set: no row with a weight above 0; there is nothing to learn from");
}

std::vector<double> finite_costs(const TrainingSet& set) {
  std::map<int64_t, double> slowest;
  double overall = -std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < set.size(); ++i) {
    if (std::isinf(set.costs[i])) continue;
    const auto [at, is_new] = slowest.emplace(set.groups[i], set.costs[i]);
    if (!is_new) at->second = std::max(at->second, set.costs[i]);
    overall = std::max(overall, set.costs[i]);
  }
  if (std::isinf(overall)) overall = 0;
  std::vector<double> costs = set.costs;
  for (size_t i = 0; i < set.size(); ++i) {
    if (!std::isinf(costs[i])) continue;
    const auto at = slowest.find(set.groups[i]);
    costs[i] = (at == slowest.end() ? overall : at->second) + kFailureStep;
  }
  return costs;
}

std::vector<double> TrainableModel::predict(const Matrix& rows) const { return trees().predict(rows); }

void check_boost_options(const BoostOptions& options) {
  check_option(options.trees >= 1 && options.trees <= 10000, "trees", options.trees, "1..10000");
  check_option(options.depth >= 1 && options.depth <= 16, "depth", options.depth, "1..16");
  check_option(options.rate > 0 && options.rate <= 1, "rate", options.rate, "above 0, up to 1");
  check_option(options.min_child_weight >= 0 && std::isfinite(options.min_child_weight), "min_child_weight",
               options.min_child_weight, "0 or more");
  check_option(options.l2 >= 0 && std::isfinite(options.l2), "l2", options.l2, "0 or more");
  check_option(options.bins >= 2 && options.bins <= 65536, "bins", options.bins, "2..65536");
  check_option(options.threads >= 1 && options.threads <= 1024, "threads", options.threads, "1..1024");
}

}  // namespace kilter::tune
