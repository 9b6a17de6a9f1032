// What the graph tuner chose for networks, kept beside the records: compiling takes it from there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "measure/stats.h"
#include "tune/tuner/layer_choice.h"

namespace kilter::tune {

/// For what a plan was chosen: it is used for exactly this and nothing near it.
struct PlanKey {
  uint64_t graph = 0;  ///< graph_key()
  std::string target, device, codegen;
  int threads = 1;

  bool operator==(const PlanKey&) const = default;
};
/// Hash of the names and operators of a graph's nodes and of the types of its values, before the passes.
uint64_t graph_key(const Graph& graph);

struct KeptPlan {
  PlanKey key;
  std::string network, date;
  Choices choices;
  Ratio ratio;          ///< over history-best at that time, paired
  Ratio default_ratio;  ///< over the default plan
};

/// "FILE.plans.jsonl" beside a file of records.
std::filesystem::path plans_file(const std::string& records);
/// Adds one line. Throws io when it cannot be written.
void keep_plan(const std::filesystem::path& file, const KeptPlan& plan);
/// The latest one; nothing without the file or such a plan. Throws bad_input with the file and the number of a line
/// that is none; a last line without its end, as a writer leaves that was killed, is passed over.
std::optional<KeptPlan> find_plan(const std::filesystem::path& file, const PlanKey& key);

}  // namespace kilter::tune
