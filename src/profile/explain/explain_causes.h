// The causes that `explain` knows. A cause is one function that looks at a profiled network and says where it sees
// itself, with evidence, a predicted gain, and the setting that would mend it. To add one: write the function, add its
// row to the table.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "profile/explain/explain.h"

namespace kilter::profile {

/// A profiled network as causes see it.
class Context {
 public:
  /// `compiled` is null for compiled files: nothing is known beyond the plan.
  Context(const Subject& subject, const Plan& plan, const Compiled* compiled, const Profile& profile);

  const Subject& subject;
  const Plan& plan;
  const Compiled* compiled;
  const Profile& profile;

  /// Rows of steps; gaps have none.
  const std::vector<const Row*>& rows() const { return rows_; }
  const Row* row(size_t step) const { return by_step_[step]; }
  const Step& step(const Row& row) const { return plan.steps[static_cast<size_t>(row.step)]; }
  const StepNotes& notes(size_t step) const;
  const std::vector<size_t>& users(size_t step) const { return users_[step]; }
  /// The layer of this name that is a kernel or a reference kernel (the last of several); null when there is none.
  const Row* layer(std::string_view name) const;
  /// The row of the task that a node is in; null when it is none's or nothing is known beyond the plan.
  const Row* layer_with(const std::string& node) const;
  /// Milliseconds that the model expects of a step, on the threads that it runs on at the measured peak.
  double model_ms(const Estimate& estimate, const Step& step) const;
  /// Threads that the step can use.
  int usable_threads(const Step& step) const;
  /// Whether so many milliseconds are worth a word: half a percent of the run.
  bool matters(double ms) const { return ms >= 0.005 * profile.end_to_end_ms; }
  Quietness quiet() const { return quietness(profile.conditions); }
  Setting setting() const { return {subject.compile, subject.threads}; }

 private:
  std::vector<const Row*> rows_, by_step_;
  std::vector<std::vector<size_t>> users_;
};

/// Whether a row changes a layout or copies, element-wise steps that it takes along included.
bool changes_layout(const Row& row);

/// "1.234 ms", below a tenth "12.3 us".
std::string ms_text(double ms);
/// "3.2 MB", below a tenth "12.3 KB".
std::string bytes_text(int64_t bytes);
/// "41 %".
std::string percent_text(double share);

struct Suspicion {
  /// What mends it, where that is no Setting.
  enum class Other : uint8_t { none, tuned_plan, batch };

  std::vector<int64_t> steps;  ///< concerned, the main one first; empty: the whole network
  std::string name;            ///< of the layer; empty: the whole network
  std::string evidence;
  double gain_ms = 0;       ///< predicted
  std::string advice = {};  ///< what mends it, in words; empty where nothing that exists does
  std::optional<Setting> mend = {};
  Other other = Other::none;
  std::string action = {};       ///< command that shows it, where it follows from neither `mend` nor `other`
  bool comes_first = false;      ///< all other figures are told with it in mind
  bool by_thread_times = false;  ///< rests on how long single threads were busy, which one other program moves
};

struct Cause {
  std::string_view name;
  std::string_view looks_at;
  std::vector<Suspicion> (*find)(const Context&);
};
std::span<const Cause> all_causes();

// One function a cause; explain_causes.cpp holds the table.
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
std::vector<Suspicion> find_overheads(const Context& context);

}  // namespace kilter::profile
