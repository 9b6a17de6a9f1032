#include "schedule/templates/pick_lanes.h"

#include <algorithm>

namespace kilter {

Expr pick_lanes(std::span<const Expr> vectors, std::span<const LaneOf> lanes) {
  const auto count = static_cast<int32_t>(lanes.size());
  Expr value;
  if (std::ranges::any_of(lanes, [](const LaneOf& l) { return l.vector < 0; }))
    value = imm(vectors[0].elem(), 0, count);
  for (size_t v = 0; v < vectors.size(); ++v) {
    std::vector<int32_t> picks;
    bool gives = false;
    for (int32_t k = 0; k < count; ++k) {
      const LaneOf& from = lanes[static_cast<size_t>(k)];
      const bool here = from.vector == static_cast<int32_t>(v);
      picks.push_back(here ? count + from.lane : k);
      gives = gives || here;
    }
    if (gives) value = shuffle(value.defined() ? value : vectors[v], vectors[v], std::move(picks));
  }
  return value;
}

}  // namespace kilter
