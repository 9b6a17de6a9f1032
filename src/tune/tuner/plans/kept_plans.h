// Plans accepted for networks, kept in a file next to the records. Compiling reads them from there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compile/choices.h"
#include "compile/compile.h"
#include "measure/stats.h"
#include "tune/tuner/objective.h"

namespace kilter::tune {

/// The case for which a plan was chosen. The plan is used only in exactly this case.
struct PlanKey {
  uint64_t graph = 0;  ///< graph_key()
  std::string target, device;
  std::string codegen;  ///< KernelVersions::all(): layers without a choice run their defaults
  int threads = 1;
  std::string settings = {};  ///< plan_settings()

  bool operator==(const PlanKey&) const = default;
};
/// Hash of a graph before the passes: names, operators and attributes of its nodes, and types of its values.
uint64_t graph_key(const Graph& graph);
/// The non-default options that change the compiled code, as written on the command line, except sources of schedules.
/// `layers`: includes options for single layers.
std::string plan_settings(const CompileOptions& options, bool layers);

struct KeptPlan {
  PlanKey key;
  std::string network, date;
  Choices choices;               ///< empty: nothing was faster than the default plan
  Ratio ratio;                   ///< over history-best at the time of acceptance, paired
  Ratio default_ratio;           ///< over the default plan
  TuneObjective objective = {};  ///< what the plan was accepted for
  double bytes = 1;              ///< over those of the default plan; 1 if they had no weight
};

/// The contents of a file of plans.
struct KeptPlans {
  std::vector<KeptPlan> plans;       ///< in the order of the file
  std::vector<std::string> damaged;  ///< one message for each skipped line, with its number

  /// Returns the latest plan for exactly this key, or null.
  const KeptPlan* find(const PlanKey& key) const;
  /// Returns the latest plan of each key, in the order in which the keys first appear.
  std::vector<const KeptPlan*> latest() const;
};

/// Returns "FILE.plans.jsonl" for the records file FILE. The plans of a server's records are kept on this machine:
/// beside().
std::filesystem::path plans_file(const std::string& records);
/// Decides what to add. `latest`: the key's latest plan, or null. An empty result leaves the file as it is.
using DecidePlan = std::function<std::optional<KeptPlan>(const KeptPlan* latest)>;
/// Calls `decide` with the key's latest plan and appends the result, after any remains of an interrupted writer. Other
/// writers wait until this is done. Throws io if the file cannot be written.
void keep_plan(const std::filesystem::path& file, const PlanKey& key, const DecidePlan& decide);
/// Appends the plans in `more` whose key has no plan in `file`, or only an older one. Returns how many were added.
/// Throws io if the file cannot be written.
int64_t merge_plans(const std::filesystem::path& file, std::span<const KeptPlan* const> more);
/// Returns an empty set if the file does not exist. Skips damaged lines instead of throwing.
KeptPlans read_plans(const std::filesystem::path& file);

}  // namespace kilter::tune
