#include "tune/cost/boosted_trees.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace kilter::tune {
namespace {

using Bin = uint16_t;

/// Features as small integers. Bin b of a feature contains its values in [cuts[b - 1], cuts[b]); the last bin
/// contains unknown values.
struct Binned {
  std::vector<std::vector<float>> cuts;  ///< by feature, ascending
  std::vector<std::vector<Bin>> bins;    ///< by feature and row
  Bin missing(size_t feature) const { return static_cast<Bin>(cuts[feature].size() + 1); }
};

/// A value between two neighbouring ones, above the lower and at most the upper.
float between(float low, float high) {
  const auto middle = static_cast<float>((static_cast<double>(low) + high) / 2);
  return middle > low ? middle : high;
}

/// Returns at most bins - 1 places that divide the values. If there are more distinct values than bins, each part gets
/// about the same number of rows.
std::vector<float> cut_places(std::vector<float> values, int bins) {
  std::sort(values.begin(), values.end());
  std::vector<float> different = values;
  different.erase(std::unique(different.begin(), different.end()), different.end());
  std::vector<float> cuts;
  if (different.size() <= static_cast<size_t>(bins)) {
    for (size_t i = 1; i < different.size(); ++i) cuts.push_back(between(different[i - 1], different[i]));
    return cuts;
  }
  for (int b = 1; b < bins; ++b) {
    const float at = values[values.size() * static_cast<size_t>(b) / static_cast<size_t>(bins)];
    const auto found = std::lower_bound(different.begin(), different.end(), at);
    if (found == different.begin()) continue;
    const float cut = between(*(found - 1), *found);
    if (cuts.empty() || cut > cuts.back()) cuts.push_back(cut);
  }
  return cuts;
}

Binned bin_features(const Matrix& rows, int bins) {
  Binned out;
  for (size_t f = 0; f < rows.columns(); ++f) {
    std::vector<float> known;
    for (size_t i = 0; i < rows.rows(); ++i) {
      if (!std::isnan(rows.row(i)[f])) known.push_back(rows.row(i)[f]);
    }
    // One bin is reserved for unknown values, and the number of bins must fit a Bin.
    out.cuts.push_back(cut_places(std::move(known), std::min(bins, 65534)));
    const std::vector<float>& cuts = out.cuts.back();
    std::vector<Bin> column(rows.rows());
    for (size_t i = 0; i < rows.rows(); ++i) {
      const float value = rows.row(i)[f];
      column[i] = std::isnan(value)
                      ? out.missing(f)
                      : static_cast<Bin>(std::upper_bound(cuts.begin(), cuts.end(), value) - cuts.begin());
    }
    out.bins.push_back(std::move(column));
  }
  return out;
}

/// Sums over rows: remaining error (weighted) and weight.
struct Sum {
  double residual = 0;
  double weight = 0;
  Sum operator+(const Sum& o) const { return {residual + o.residual, weight + o.weight}; }
  Sum operator-(const Sum& o) const { return {residual - o.residual, weight - o.weight}; }
};

struct Split {
  double gain = 0;
  int32_t feature = -1;
  size_t cut = 0;
  bool missing_left = false;
};

class TreeGrower {
 public:
  TreeGrower(const Binned& binned, const std::vector<double>& residuals, const std::vector<double>& weights,
             const BoostOptions& options)
      : binned_(binned), residuals_(residuals), weights_(weights), options_(options) {
    size_t at = 0;
    for (size_t f = 0; f < binned.cuts.size(); ++f) {
      first_.push_back(at);
      at += binned.cuts[f].size() + 2;
    }
    first_.push_back(at);
  }

  /// Grows a tree, and sets each row's output in `answers`.
  Tree grow(std::vector<float>& answers) {
    rows_.resize(residuals_.size());
    std::iota(rows_.begin(), rows_.end(), 0U);
    tree_.clear();
    add(0, rows_.size(), histogram(0, rows_.size()), options_.depth, answers);
    return tree_;
  }

 private:
  using Histogram = std::vector<Sum>;  ///< bins of all features, one feature after another

  Histogram histogram(size_t begin, size_t end) const {
    Histogram sums(first_.back());
    for (size_t f = 0; f < binned_.cuts.size(); ++f) {
      if (binned_.cuts[f].empty() && f > 0) continue;  // nothing to split; the first feature is needed for the total
      Sum* const of = sums.data() + first_[f];
      const std::vector<Bin>& bins = binned_.bins[f];
      for (size_t i = begin; i < end; ++i) {
        const uint32_t row = rows_[i];
        of[bins[row]].residual += residuals_[row];
        of[bins[row]].weight += weights_[row];
      }
    }
    return sums;
  }

  Sum total(const Histogram& sums) const { return std::accumulate(sums.begin(), at(sums, 1), Sum{}); }
  Histogram::const_iterator at(const Histogram& sums, size_t feature) const {
    return sums.begin() + static_cast<long>(first_[feature]);
  }
  double score(const Sum& sum) const {
    const double weight = sum.weight + options_.l2;
    return weight > 0 ? sum.residual * sum.residual / weight : 0;
  }

  /// Replaces `best` by the split with this left side if that split gains more.
  void consider(const Sum& left, const Sum& all, const Split& split, Split& best) const {
    const Sum right = all - left;
    const double least = std::max(options_.min_child_weight, 1e-9 * all.weight);
    if (left.weight < least || right.weight < least) return;
    // Differences of about 1e-16 of the parts are rounding errors, not gains.
    const double whole = score(all);
    const double parts = score(left) + score(right);
    const double gain = parts - whole;
    if (gain <= best.gain || gain <= 1e-9 * parts) return;
    best = split;
    best.gain = gain;
  }

  Split best_split(const Histogram& sums) const {
    const Sum all = total(sums);
    Split best;
    for (size_t f = 0; f < binned_.cuts.size(); ++f) {
      const auto bins = at(sums, f);
      const Sum missing = bins[binned_.missing(f)];
      Sum left;
      for (size_t cut = 0; cut < binned_.cuts[f].size(); ++cut) {
        left = left + bins[static_cast<long>(cut)];
        const auto feature = static_cast<int32_t>(f);
        consider(left, all, {0, feature, cut, false}, best);
        if (missing.weight > 0) consider(left + missing, all, {0, feature, cut, true}, best);
      }
    }
    return best;
  }

  void add_leaf(size_t begin, size_t end, const Sum& sum, std::vector<float>& answers) {
    const double weight = sum.weight + options_.l2;
    const auto value = static_cast<float>(weight > 0 ? options_.rate * sum.residual / weight : 0);
    for (size_t i = begin; i < end; ++i) answers[rows_[i]] = value;
    tree_.push_back({-1, false, value, -1});
  }

  void add(size_t begin, size_t end, const Histogram& sums, int depth, std::vector<float>& answers) {
    const Split split = depth > 0 ? best_split(sums) : Split{};
    if (split.feature < 0) return add_leaf(begin, end, total(sums), answers);
    const auto f = static_cast<size_t>(split.feature);
    const auto goes_left = [&](uint32_t row) {
      const Bin bin = binned_.bins[f][row];
      return bin == binned_.missing(f) ? split.missing_left : bin <= split.cut;
    };
    const auto from = rows_.begin() + static_cast<long>(begin);
    const auto middle = std::stable_partition(from, rows_.begin() + static_cast<long>(end), goes_left);
    const size_t cut = begin + static_cast<size_t>(middle - from);
    // Sums only the smaller side; the larger one is the difference.
    const bool left_is_smaller = cut - begin <= end - cut;
    Histogram smaller = left_is_smaller ? histogram(begin, cut) : histogram(cut, end);
    Histogram larger(sums.size());
    for (size_t i = 0; i < sums.size(); ++i) larger[i] = sums[i] - smaller[i];
    const size_t place = tree_.size();
    tree_.push_back({split.feature, split.missing_left, binned_.cuts[f][split.cut], -1});
    add(begin, cut, left_is_smaller ? smaller : larger, depth - 1, answers);
    tree_[place].right = static_cast<int32_t>(tree_.size());
    add(cut, end, left_is_smaller ? larger : smaller, depth - 1, answers);
  }

  const Binned& binned_;
  const std::vector<double>& residuals_;
  const std::vector<double>& weights_;
  const BoostOptions& options_;
  std::vector<size_t> first_;  ///< start of each feature's bins in a histogram
  std::vector<uint32_t> rows_;
  Tree tree_;
};

double weighted_mean(const std::vector<double>& values, const std::vector<double>& weights) {
  double sum = 0;
  double weight = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += values[i] * weights[i];
    weight += weights[i];
  }
  return sum / weight;
}

}  // namespace

void BoostedTrees::fit(const TrainingSet& set) {
  check_boost_options(options_);
  check_training_set(set);
  check_start(options_.start, Objective::cost);
  const std::vector<double> weights = set.weights.empty() ? std::vector<double>(set.size(), 1.0) : set.weights;
  std::vector<double> wanted = finite_costs(set);
  if (options_.start != nullptr) {
    const std::vector<double> known = options_.start->predict(set.rows);
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] -= known[i];
  }
  TreeModel::Parts parts{set.rows.features, Objective::cost, 0, {}, {}};
  parts.base = static_cast<float>(weighted_mean(wanted, weights));
  const Binned binned = bin_features(set.rows, options_.bins);
  std::vector<double> residuals(set.size());
  std::vector<float> answers(set.size());
  for (double& value : wanted) value -= parts.base;
  TreeGrower grower(binned, residuals, weights, options_);
  for (int i = 0; i < options_.trees; ++i) {
    for (size_t r = 0; r < residuals.size(); ++r) residuals[r] = wanted[r] * weights[r];
    parts.trees.push_back(grower.grow(answers));
    for (size_t r = 0; r < wanted.size(); ++r) wanted[r] -= answers[r];
    // Without a split, further trees would only repeat the leaf.
    if (parts.trees.back().size() == 1) break;
  }
  parts.notes = {{"trainer", "kilter"}, {"rows", std::to_string(set.size())}};
  TreeModel model(std::move(parts));
  model_ = options_.start == nullptr ? std::move(model) : join_models(*options_.start, model);
}

const TreeModel& BoostedTrees::trees() const {
  require(model_.has_value(), "a cost model was used before it was trained");
  return *model_;
}

}  // namespace kilter::tune
