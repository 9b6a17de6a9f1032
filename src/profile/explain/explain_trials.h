// Alternatives of a network, compiled and run against it in turns, so that gains are measured and not guessed.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "profile/explain/explain.h"

namespace kilter::profile {

/// A plan with memory to run it on a pool, on the subject's tensors.
class Network {
 public:
  /// `compiled` is empty when the program comes from a file.
  Network(const Subject& subject, std::shared_ptr<const Program> program, std::optional<Compiled> compiled,
          const std::shared_ptr<ThreadPool>& pool);
  /// Compiles the subject's graph under `options`.
  static std::unique_ptr<Network> compile(const Subject& subject, const CompileOptions& options,
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

/// Times of the steps of one network: [run][step] in milliseconds, a step with the gap before it.
using Laps = std::vector<std::vector<double>>;

struct RaceOptions {
  double seconds = 4;
  double max_seconds = 12;  ///< where `sharp` is never true
  int min_rounds = 5;
  /// Asked after `seconds` whether the laps so far answer the question; empty: they do.
  std::function<bool(const std::vector<const Laps*>&)> sharp;
  uint64_t seed = 1;
  std::function<void(double share_done)> progress;
};
/// Runs the networks in turns in random order until the time is over and the answer sharp, each turn after a run that
/// does not count, so that all find the machine and the caches in the same state. Answers the laps of each network.
std::vector<Laps> race(const std::vector<Network*>& networks, const RaceOptions& options);

/// Steps whose time a change may have moved: those that the other plan does not have, and those that read what they
/// made. Steps are the same when their kernel, their work items and their threads are.
struct Changed {
  std::set<size_t> before, after;
  std::set<size_t> gone;  ///< of `before`: no step of this name and kind is left
};
Changed changed_steps(const Plan& before, const std::vector<StepNotes>& before_notes, const Plan& after,
                      const std::vector<StepNotes>& after_notes);

/// What is held against each other of two networks.
struct GainOf {
  std::set<size_t> before, after;                    ///< steps whose time a change may have moved
  std::set<size_t> left_out_before, left_out_after;  ///< steps that other changes moved at the same time
  double after_counts = 1;  ///< of the second network's time, such as an eighth for a batch of 8
};
struct Gains {
  Gain changed, all;
};
/// What the second network saves on the steps that a change may have moved (`changed`), and on all steps but those left
/// out (`all`), as shares of all of the first one's time. The estimate of each step is the lower quartile of its laps,
/// which is the same share of both under load. Both intervals are those of the network's time, by the bootstrap over
/// laps: what the steps that stay the same differ by is part of what is not known.
Gains gains_between(const Laps& first, const Laps& second, const GainOf& of, uint64_t seed);
/// Of the gain on the steps that a change may have moved, and the gain on all steps, the one to tell: the former is
/// sharper, but blind to steps that stay the same and run faster or slower because their operands lie elsewhere. So the
/// latter where its interval rules the former out by more than 1 % of the network, which is what another place in
/// memory alone can bring.
Gain told_gain(const Gain& moved, const Gain& all);
/// All steps of a network.
std::set<size_t> every_step(const Laps& laps);
/// Lower quartile of the laps, summed over these steps.
double typical_ms(const Laps& laps, const std::set<size_t>& steps);

}  // namespace kilter::profile
