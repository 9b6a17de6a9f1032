// What was tuned as options of compiling: the plan that was accepted for exactly this network, else single records.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tune/tuner/plans/apply.h"
#include "tune/tuner/plans/kept_plans.h"

namespace kilter::tune {

/// How layers' schedules come out of what a file of records, and of plans beside it, knows.
enum class Choose : uint8_t {
  accepted,      ///< the plan that tuning accepted for exactly this network; where there is none, history_best
  history_best,  ///< the best record of each task
  graph_best,    ///< as `accepted`; where there is no plan, the graph tuner's answer from the records
};
/// "accepted", "history-best", "graph-best". Throws usage for another text.
Choose parse_choose(std::string_view text);

struct TunedSource {
  ApplyOptions apply;
  Choose choose = Choose::accepted;
  std::shared_ptr<const Matcher> records;
  std::shared_ptr<const KeptPlans> plans;
  /// Gets a line for a plan that is there and cannot be used, or not in all layers; may be empty.
  std::function<void(const std::string&)> notice = {};
};

/// The plan that was accepted last for exactly this graph under these options, which name no source of schedules; null
/// without one. Of `apply` the device and the threads count.
const KeptPlan* accepted_plan(const KeptPlans& plans, const Graph& graph, const CompileOptions& compile,
                              const ApplyOptions& apply);

/// Makes `options` ask `source` for every graph that is compiled with them. What they force already stays.
void use_tuned(CompileOptions& options, TunedSource source);

}  // namespace kilter::tune
