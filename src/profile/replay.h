// Measures a single task under the conditions that it has in the network.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "exec/executor.h"
#include "measure/stats.h"
#include "profile/profile.h"

namespace kilter::profile {

enum class Weights : uint8_t {
  cold,   ///< weights come from the level where the network finds them; activations as the preceding steps leave them
  warm,   ///< the same operands in every run
  flush,  ///< all caches flushed before each run
};
/// Parses "cold", "warm" or "flush". Throws usage naming the legal words.
Weights parse_weights(std::string_view text);
std::string_view name(Weights weights);

struct ReplayOptions {
  Weights weights = Weights::cold;
  size_t steps = 1;           ///< number of adjacent steps that are timed together
  int64_t touched_bytes = 0;  ///< by a run of the network, if the plan is only part of it; 0: by a run of the plan
  int64_t number = 1;         ///< runs per measurement; a measurement is their mean
  int64_t repeat = 40;        ///< number of measurements
  double min_repeat_ms = 0;   ///< `number` grows until a measurement takes this long
  double max_seconds = 20;    ///< no measurement starts after this time, but there are at least three
};

struct Replay {
  Samples samples;  ///< milliseconds of one run, fork to join, one value per measurement
  int64_t number = 1;
  int64_t copies = 1;   ///< number of copies of the weights that took turns
  std::string weights;  ///< "cold: 12 copies rotated over 48.1 MB", "warm", ...
  std::string
      activations;  ///< "as the 2 steps before it left them, after 30.1 MB of the network's other memory", "warm", ...
  /// Kilter's estimate: the mean of the middle half.
  double ms() const { return samples.middle_mean(); }
};

/// Runs only the steps of the instance's plan that start at `index`. For cold weights, the packed weights rotate over
/// copies that together are as large as the memory that a run touches, so that they come from the same level of memory
/// as in the network. Before each timed run, the operands of all other steps are touched in the network's order and at
/// its pace, so that the caches are in the state in which a run leaves them, and then the steps since the producer of
/// the inputs (at most three) run untimed. Works on the buffers of the last run: call Instance::run() before using it,
/// and again before using results. Reads `weights`, `steps` and `touched_bytes` of the options.
class Replayer {
 public:
  Replayer(Instance& instance, const Plan& plan, int threads, size_t index, const ReplayOptions& options);
  ~Replayer();
  Replayer(Replayer&&) noexcept;

  /// Runs the steps once under the chosen conditions. Returns the milliseconds from fork to join; for several steps,
  /// from the first fork to the last join.
  double run();
  using Operands = std::vector<std::span<const std::byte>>;
  /// Does everything that run() does before its timed part. Returns the places where the steps then find their
  /// operands, each once.
  Operands prepare();
  /// Fills in the conditions: copies, weights and activations.
  void describe(Replay& out) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Measures with a Replayer.
Replay replay(Instance& instance, const Plan& plan, int threads, size_t index, const ReplayOptions& options);

}  // namespace kilter::profile
