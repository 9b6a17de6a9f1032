// Alternatives of a network, compiled and run interleaved with it, so that gains are measured rather than guessed.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "profile/explain/explain.h"

namespace kilter::profile {

/// A plan with memory to run it on a thread pool, using the subject's tensors.
class Network {
 public:
  /// `compiled` is empty if the program comes from a file.
  Network(const Subject& subject, std::shared_ptr<const Program> program, std::optional<Compiled> compiled,
          const std::shared_ptr<ThreadPool>& pool);
  /// Compiles the subject's graph under `options`.
  static std::unique_ptr<Network> compile(const Subject& subject, const CompileOptions& options, const Chooser* chooser,
                                          const std::shared_ptr<ThreadPool>& pool);

  const Plan& plan() const { return program_->plan(); }
  const Compiled* compiled() const { return compiled_ ? &*compiled_ : nullptr; }
  Instance& instance() { return *instance_; }
  std::span<const std::byte* const> inputs() const { return from_; }
  std::span<std::byte* const> outputs() const { return to_; }
  int threads() const { return threads_; }
  void run(RunTrace* trace = nullptr) { instance_->run(from_, to_, nullptr, trace); }

 private:
  std::shared_ptr<const Program> program_;
  std::optional<Compiled> compiled_;
  std::unique_ptr<Instance> instance_;
  std::vector<Tensor> outputs_;
  std::vector<const std::byte*> from_;
  std::vector<std::byte*> to_;
  int threads_;
};

/// Times of the steps of one network, [run][step] in milliseconds. A step's time includes the gap before it.
using Laps = std::vector<std::vector<double>>;

struct RaceOptions {
  double seconds = 4;
  double max_seconds = 12;  ///< if `sharp` never returns true
  int min_rounds = 5;
  /// Called after `seconds`: returns whether the laps so far are sufficient. If empty, they always are.
  std::function<bool(const std::vector<const Laps*>&)> sharp;
  uint64_t seed = 1;
  std::function<void(double share_done)> progress;
};
/// Runs the networks interleaved, in random order, until the time is up and the result is sharp. An uncounted run
/// before each turn gives all networks the same state of the machine and the caches. Returns the laps of each network.
std::vector<Laps> race(const std::vector<Network*>& networks, const RaceOptions& options);

/// The steps whose time a change may have affected: steps that the other plan does not have, and steps that read their
/// results. Two steps are the same if they have the same kernel, work items and threads.
struct Changed {
  std::set<size_t> before, after;
  std::set<size_t> gone;  ///< those of `before` for which no step of this name and kind is left
};
Changed changed_steps(const Plan& before, const std::vector<StepNotes>& before_notes, const Plan& after,
                      const std::vector<StepNotes>& after_notes);

/// The steps to compare between two networks.
struct GainOf {
  std::set<size_t> before, after;                    ///< steps whose time the change may have affected
  std::set<size_t> left_out_before, left_out_after;  ///< steps that other changes affected at the same time
  double after_counts = 1;  ///< weight of the second network's time, e.g. one eighth for a batch of 8
};
struct Gains {
  Gain changed, all;
};
/// Returns what the second network saves on the steps that a change may have affected (`changed`), and on all steps
/// except those left out (`all`), as shares of the first network's whole time. The estimate for each step is the lower
/// quartile of its laps, which is affected by load in the same proportion on both sides. Both intervals come from a
/// bootstrap of the network's whole time over laps, so that differences in unchanged steps count as uncertainty.
Gains gains_between(const Laps& first, const Laps& second, const GainOf& of, uint64_t seed);
/// Chooses which gain to report. The gain on the affected steps is more precise, but misses unchanged steps that run
/// faster or slower because their operands are at other places in memory. The gain on all steps is therefore reported
/// if its interval excludes the former by more than 1 % of the network's time, the difference that a different
/// placement in memory can cause by itself.
Gain told_gain(const Gain& moved, const Gain& all);
/// Returns all steps of a network.
std::set<size_t> every_step(const Laps& laps);
/// Returns the lower quartiles of the laps, summed over these steps.
double typical_ms(const Laps& laps, const std::set<size_t>& steps);

}  // namespace kilter::profile
