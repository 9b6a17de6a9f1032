// Chooses from tuning results: the plan accepted for exactly this network, or otherwise single records.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tune/tuner/plans/apply.h"
#include "tune/tuner/plans/kept_plans.h"

namespace kilter::tune {

/// The way in which schedules are chosen from a file of records and the plans next to it.
enum class Choose : uint8_t {
  accepted,      ///< the plan that tuning accepted for exactly this network; history_best if there is none
  history_best,  ///< the best record of each task
  graph_best,    ///< like `accepted`, but if there is no plan, the graph tuner's solution from the records
};
/// Parses "accepted", "history-best" or "graph-best". Throws usage for any other text.
Choose parse_choose(std::string_view text);

struct TunedSource {
  ApplyOptions apply;
  Choose choose = Choose::accepted;
  std::shared_ptr<const Matcher> records;
  std::shared_ptr<const KeptPlans> plans;
  /// Receives a line for a plan that exists but cannot be used, or only for some layers. May be empty.
  std::function<void(const std::string&)> notice = {};
};

/// Returns the plan that was accepted last for exactly this graph under these options, or null. The options must name
/// no source of schedules. Only the device and the threads of `apply` are used.
const KeptPlan* accepted_plan(const KeptPlans& plans, const Graph& graph, const CompileOptions& compile,
                              const ApplyOptions& apply);

/// Consults `source` for every graph. Choices already made in the options stay.
class TunedChooser : public Chooser {
 public:
  explicit TunedChooser(TunedSource source) : source_(std::move(source)) {}
  std::vector<Offer> offers(const Graph& graph, const CompileOptions& options) const override;

 private:
  TunedSource source_;
};

}  // namespace kilter::tune
