// A trainable model for tests of searchers: it predicts the mean cost of the four nearest rows.
#pragma once

#include <algorithm>
#include <set>

#include "tune/search/cost_model.h"

namespace kilter::tune {

class Nearest : public TrainablePointModel {
 public:
  size_t groups_seen = 0;  ///< number of groups in the first call of fit()

  void fit(const FeatureRows& rows, std::span<const double> log2_costs, std::span<const uint32_t> groups) override {
    if (groups_seen == 0) groups_seen = std::set<uint32_t>(groups.begin(), groups.end()).size();
    rows_ = rows;
    costs_.assign(log2_costs.begin(), log2_costs.end());
  }

  std::vector<double> predict(const FeatureRows& rows) const override {
    std::vector<double> out;
    for (size_t i = 0; i < rows.count(); ++i) out.push_back(one(rows.row(i)));
    return out;
  }

 private:
  double one(std::span<const float> row) const {
    std::vector<std::pair<float, double>> near;
    for (size_t i = 0; i < rows_.count(); ++i) {
      float distance = 0;
      const std::span<const float> other = rows_.row(i);
      for (size_t c = 0; c < row.size(); ++c) distance += (row[c] - other[c]) * (row[c] - other[c]);
      near.emplace_back(distance, costs_[i]);
    }
    const size_t k = std::min<size_t>(near.size(), 4);
    std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(k), near.end());
    double sum = 0;
    for (size_t i = 0; i < k; ++i) sum += near[i].second;
    return k == 0 ? 0 : sum / static_cast<double>(k);
  }

  FeatureRows rows_;
  std::vector<double> costs_;
};

}  // namespace kilter::tune
