// The causes that `explain` knows. A cause is a function that inspects a profiled network and reports where the cause
// occurs, with evidence, a predicted gain, and the setting that would remedy it. To add one, write the function and add
// its row to the table.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "profile/explain/explain.h"

namespace kilter::profile {

/// A profiled network with the information that causes need.
class Context {
 public:
  /// `compiled` is null for compiled files; then nothing is known beyond the plan.
  Context(const Subject& subject, const Plan& plan, const Compiled* compiled, const Profile& profile);

  const Subject& subject;
  const Plan& plan;
  const Compiled* compiled;
  const Profile& profile;

  /// Returns the rows of steps. Gaps are not included.
  const std::vector<const Row*>& rows() const { return rows_; }
  const Row* row(size_t step) const { return by_step_[step]; }
  const Step& step(const Row& row) const { return plan.steps[static_cast<size_t>(row.step)]; }
  const StepNotes& notes(size_t step) const;
  const std::vector<size_t>& users(size_t step) const { return users_[step]; }
  /// Returns the layer of this name that is a kernel or a reference kernel (the last of several), or null if there is
  /// none.
  const Row* layer(std::string_view name) const;
  /// Returns the row of the task that contains a node, or null if no task does or nothing is known beyond the plan.
  const Row* layer_with(const std::string& node) const;
  /// Returns the milliseconds that the model predicts for a step, on the threads it runs on at the measured peak.
  double model_ms(const Estimate& estimate, const Step& step) const;
  /// Whether a schedule is forced on the row's layer.
  bool forced(const Row& row) const { return forced_schedule(subject.compile.choices, row.name) != nullptr; }
  /// Returns the number of threads that the step can use.
  int usable_threads(const Step& step) const;
  /// Whether this many milliseconds are worth mentioning: at least half a percent of the run.
  bool matters(double ms) const { return ms >= 0.005 * profile.end_to_end_ms; }
  Quietness quiet() const { return quietness(profile.conditions); }
  Setting setting() const { return {subject.compile, subject.threads}; }

 private:
  std::vector<const Row*> rows_, by_step_;
  std::vector<std::vector<size_t>> users_;
};

/// Whether a row changes a layout or copies, including the element-wise steps fused into it.
bool changes_layout(const Row& row);

/// Formats e.g. "1.234 ms", or "12.3 us" below a tenth of a millisecond.
std::string ms_text(double ms);
/// Formats e.g. "3.2 MB", or "12.3 KB" below a tenth of a megabyte.
std::string bytes_text(int64_t bytes);
/// Formats a share, e.g. "41 %".
std::string percent_text(double share);

struct Suspicion {
  /// A remedy that is not a Setting.
  enum class Other : uint8_t { none, tuned_plan, batch };

  std::vector<int64_t> steps;  ///< steps concerned, the main one first; empty: the whole network
  std::string name;            ///< of the layer; empty: the whole network
  std::string evidence;
  double gain_ms = 0;       ///< predicted
  std::string advice = {};  ///< the remedy in words; empty if nothing available helps
  std::optional<Setting> mend = {};
  Other other = Other::none;
  std::string action = {};       ///< command that shows the gain, unless it follows from `mend` or `other`
  bool comes_first = false;      ///< the reader must know this before all other figures
  bool changes_results = false;  ///< the remedy changes the network's results by more than the order of its sums
  bool by_thread_times = false;  ///< based on the busy times of single threads, which one other program can change
};

struct Cause {
  std::string_view name;
  std::string_view looks_at;
  std::vector<Suspicion> (*find)(const Context&);
};
std::span<const Cause> all_causes();

// One function per cause; explain_causes.cpp contains the table.
std::vector<Suspicion> find_busy_machine(const Context& context);
std::vector<Suspicion> find_unused_plans(const Context& context);
std::vector<Suspicion> find_untuned_layers(const Context& context);
std::vector<Suspicion> find_reference_kernels(const Context& context);
std::vector<Suspicion> find_unfused_neighbours(const Context& context);
std::vector<Suspicion> find_layout_changes(const Context& context);
std::vector<Suspicion> find_passes_held_back(const Context& context);
std::vector<Suspicion> find_idle_threads(const Context& context);
std::vector<Suspicion> find_poor_tiles(const Context& context);
std::vector<Suspicion> find_slower_templates(const Context& context);
std::vector<Suspicion> find_tails(const Context& context);
std::vector<Suspicion> find_first_layers(const Context& context);
std::vector<Suspicion> find_streamed_weights(const Context& context);
std::vector<Suspicion> find_far_activations(const Context& context);
std::vector<Suspicion> find_faster_precisions(const Context& context);
std::vector<Suspicion> find_unquantised(const Context& context);
std::vector<Suspicion> find_overheads(const Context& context);

}  // namespace kilter::profile
