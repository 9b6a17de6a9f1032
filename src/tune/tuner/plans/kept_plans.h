// What was accepted for networks, kept beside the records: compiling takes it from there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/stats.h"
#include "tune/tuner/plans/layer_choice.h"

namespace kilter::tune {

/// For what a plan was chosen: it is used for exactly this and nothing near it.
struct PlanKey {
  uint64_t graph = 0;  ///< graph_key()
  std::string target, device, codegen;
  int threads = 1;
  std::string settings = {};  ///< plan_settings()

  bool operator==(const PlanKey&) const = default;
};
/// Hash of the names, operators and attributes of a graph's nodes and of the types of its values, before the passes.
uint64_t graph_key(const Graph& graph);
/// The options that change what is compiled and are not defaults, as the command line has them, but sources of
/// schedules; `layers`: also those of single layers.
std::string plan_settings(const CompileOptions& options, bool layers);

struct KeptPlan {
  PlanKey key;
  std::string network, date;
  Choices choices;      ///< empty: nothing was faster than the default plan
  Ratio ratio;          ///< over history-best at that time, paired
  Ratio default_ratio;  ///< over the default plan
};

/// What a file of plans holds.
struct KeptPlans {
  std::vector<KeptPlan> plans;       ///< in the order in which they were added
  std::vector<std::string> damaged;  ///< a line of words for each line that was skipped, with its number

  /// The latest for exactly this; null without one.
  const KeptPlan* find(const PlanKey& key) const;
  /// The latest of each key, in the order in which keys came up.
  std::vector<const KeptPlan*> latest() const;
};

/// "FILE.plans.jsonl" beside a file of records.
std::filesystem::path plans_file(const std::string& records);
/// What to add where `latest` is the plan of before; null without one. Nothing: the file stays as it is.
using DecidePlan = std::function<std::optional<KeptPlan>(const KeptPlan* latest)>;
/// Asks with the latest plan of the key and adds the answer, behind whatever a stopped writer left. Others that would
/// add one wait until this is done. Throws io when the file cannot be written.
void keep_plan(const std::filesystem::path& file, const PlanKey& key, const DecidePlan& decide);
/// Keeps what `more` has for a key that `file` has nothing for, or something of an earlier moment; how many. Throws io
/// when the file cannot be written.
int64_t merge_plans(const std::filesystem::path& file, std::span<const KeptPlan* const> more);
/// Nothing where there is no file. Never throws for damaged lines.
KeptPlans read_plans(const std::filesystem::path& file);

}  // namespace kilter::tune
