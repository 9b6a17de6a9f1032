#include "tune/search/cost_model.h"

namespace kilter::tune {

void EarlierTrials::add(std::span<const float> row, double log2_cost, uint32_t group) {
  rows.width = row.size();
  rows.append(row);
  log2_costs.push_back(log2_cost);
  groups.push_back(group);
}

void EarlierTrials::append(const EarlierTrials& more) {
  for (size_t i = 0; i < more.count(); ++i) add(more.rows.row(i), more.log2_costs[i], more.groups[i]);
}

EarlierTrials EarlierTrials::without(uint32_t group) const {
  EarlierTrials out;
  for (size_t i = 0; i < count(); ++i) {
    if (groups[i] != group) out.add(rows.row(i), log2_costs[i], groups[i]);
  }
  return out;
}

}  // namespace kilter::tune
