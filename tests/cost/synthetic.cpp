#include "synthetic.h"

#include <cmath>
#include <limits>

#include "base/random.h"

namespace kilter::tune {
namespace {

struct Schedule {
  double rows, vectors, unroll, depth, threads;
};

/// The logarithm of a schedule's time relative to a default schedule's.
double cost_of(const Schedule& s, double channels, double pixels) {
  const double registers = s.rows * s.vectors + s.vectors + 1;
  double cost = -0.3 * std::log2(std::min(registers, 32.0)) + 0.9 * std::max(0.0, registers / 32 - 1);
  const double panel_bytes = 64 * s.vectors * s.depth;
  cost += panel_bytes > 48e3 ? 0.4 : 0;
  cost += panel_bytes > 512e3 ? 0.7 : 0;
  cost += 0.1 * std::abs(std::log2(s.unroll) - 2);
  const double left_over = std::ceil(pixels / s.rows) * s.rows / pixels;
  cost += std::log(left_over);
  cost -= std::log(std::min(s.threads, std::max(1.0, channels / (16 * s.vectors))));
  return cost;
}

}  // namespace

TrainingSet synthetic_set(const SyntheticOptions& options, uint64_t seed) {
  const Random random(seed);
  uint64_t next = 0;
  const auto below = [&](int64_t n) { return static_cast<double>(random.integer(next++, 0, n - 1)); };
  TrainingSet set;
  set.rows.features = {"rows",      "vectors",          "log2_unroll",   "log2_depth", "threads",
                       "registers", "log2_panel_bytes", "log2_channels", "pixels",     "nothing"};
  for (size_t task = 0; task < options.tasks; ++task) {
    const double channels = std::exp2(5 + below(5));
    const double pixels = 49 * std::exp2(below(7));
    for (size_t i = 0; i < options.schedules; ++i) {
      const Schedule s{1 + below(16), 1 + below(4), std::exp2(below(5)), std::exp2(4 + below(10)), 1 + below(2)};
      const double values[] = {s.rows,
                               s.vectors,
                               std::log2(s.unroll),
                               std::log2(s.depth),
                               s.threads,
                               s.rows * s.vectors + s.vectors,
                               std::log2(64 * s.vectors * s.depth),
                               std::log2(channels),
                               pixels,
                               below(100)};
      for (const double v : values) {
        const bool unknown = random.uniform(next++) < options.unknown;
        set.rows.values.push_back(unknown ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(v));
      }
      const double noise = options.noise * static_cast<double>(random.normal(next++));
      const bool failed = random.uniform(next++) < options.failures;
      set.costs.push_back(failed ? std::numeric_limits<double>::infinity() : cost_of(s, channels, pixels) + noise);
      set.groups.push_back(static_cast<int64_t>(task));
    }
  }
  return set;
}

}  // namespace kilter::tune
