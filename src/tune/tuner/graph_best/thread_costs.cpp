#include "tune/tuner/graph_best/thread_costs.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "measure/stats.h"

namespace kilter::tune {
namespace {

constexpr double kNoise = 0.03;    ///< minimum relative noise of one layer's time in one round
constexpr double kHopeless = 1.5;  ///< limit relative to the time on all threads: no saving elsewhere outweighs more
/// Weight, in samples, of a row's mean when cells with few samples are shrunk towards it.
constexpr double kShrink = 4;
constexpr size_t kLeastSamples = 6;  ///< for a number of threads

std::vector<double> row(const std::map<std::pair<int32_t, int32_t>, std::vector<double>>& cells, int32_t own) {
  std::vector<double> out;
  for (const auto& [at, extra] : cells) {
    if (at.second == own) out.insert(out.end(), extra.begin(), extra.end());
  }
  return out;
}

}  // namespace

double mean_error(const std::vector<double>& extra, double base_ms) {
  const double spread = extra.size() < 3 ? 0 : std_dev(extra);
  return std::max(spread, kNoise * base_ms) / std::sqrt(static_cast<double>(std::max<size_t>(extra.size(), 1)));
}

void ThreadCosts::expand(LayerNetwork& network) const {
  for (const auto& [l, cells] : layers_) expand(network.layers[l], cells);
  for (const auto& [l, cells] : layers_) {
    const size_t from = feeder(network, l);
    if (layers_.contains(from)) join(network, from, l, cells);
  }
}

void ThreadCosts::expand(Layer& layer, const Cells& cells) const {
  const std::vector<Alternative> known = layer.alternatives;
  const double base = known.front().ms;
  std::set<int32_t> modes;
  for (const auto& [at, extra] : cells) modes.insert(at.second);
  for (const int32_t mode : modes) {
    const std::vector<double> all = row(cells, mode);
    if (all.size() < kLeastSamples) continue;
    const double extra = mean_of_middle_half(all), error = mean_error(all, base);
    if (mode == 0 || base + extra > kHopeless * base) continue;
    for (const Alternative& a : known) {
      if (a.choice.changes_passes() || !std::isfinite(a.ms)) continue;
      Alternative one = a;
      one.choice.threads = mode;
      one.ms = std::max(0.0, a.ms + extra), one.error_ms = std::hypot(a.error_ms, error);
      one.basis = "measured here";
      layer.alternatives.push_back(std::move(one));
    }
  }
}

void ThreadCosts::join(LayerNetwork& network, size_t from, size_t to, const Cells& cells) const {
  const auto cell = [&](int32_t before, int32_t own) {
    const auto it = cells.find({before, own});
    if (it == cells.end() || (before == 0 && own == 0)) return 0.0;
    // The reference for a layer on all threads is its time after a layer on all threads.
    const double middle = own == 0 ? 0 : mean_of_middle_half(row(cells, own));
    const auto count = static_cast<double>(it->second.size());
    return (mean_of_middle_half(it->second) - middle) * count / (count + kShrink);
  };
  ChoiceEdge edge{from, to, {}};
  for (const Alternative& a : network.layers[from].alternatives) {
    for (const Alternative& b : network.layers[to].alternatives)
      edge.ms.push_back(cell(a.choice.threads, b.choice.threads));
  }
  network.together.push_back(std::move(edge));
}

}  // namespace kilter::tune
