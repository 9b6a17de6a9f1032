#include "record_plans.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/columns.h"
#include "base/text.h"
#include "terminal.h"
#include "tool.h"
#include "tune/tuner/plans/choices_file.h"
#include "tuning.h"

namespace kilter::tool {

using namespace kilter::tune;

namespace {

bool admits(const Filter& filter, const KeptPlan& plan) {
  if (!filter.problem.empty() || !filter.contains.empty() || !filter.source.empty() || filter.status) return false;
  if (!filter.network.empty() && filter.network != plan.network) return false;
  if (filter.threads && *filter.threads != plan.key.threads) return false;
  return plan.key.device.find(filter.device) != std::string::npos ||
         plan.key.target.find(filter.device) != std::string::npos;
}

nlohmann::json json_of(const KeptPlan& plan) {
  nlohmann::json out{{"network", plan.network},
                     {"target", plan.key.target},
                     {"device", plan.key.device},
                     {"threads", plan.key.threads},
                     {"codegen", plan.key.codegen},
                     {"settings", plan.key.settings},
                     {"date", plan.date},
                     {"layers", plan.choices.size()},
                     {"over_default", {plan.default_ratio.value, plan.default_ratio.low, plan.default_ratio.high}},
                     {"plan", text(plan.choices, "")}};
  if (plan.objective.weighs_memory()) out["objective"] = text(plan.objective), out["bytes_over_default"] = plan.bytes;
  return out;
}

/// The share of the default plan's memory that a plan needs, if it was tuned for memory.
std::string memory_text(const KeptPlan& plan) {
  if (!plan.objective.weighs_memory()) return {};
  return fmt::format(" for {} ({:.3f} of the default's memory)", text(plan.objective), plan.bytes);
}

}  // namespace

PlansBeside::PlansBeside(const std::string& records, const Filter& filter) : all_(read_plans(plans_file(records))) {
  for (const KeptPlan* plan : all_.latest()) {
    if (admits(filter, *plan)) chosen_.push_back(plan);
  }
  for (const std::string& line : all_.damaged) say_error("{}\n", printable(line));
}

std::string PlansBeside::add_to(const std::string& records) const {
  if (chosen_.empty()) return {};
  const int64_t added = merge_plans(plans_file(records), chosen_);
  const int64_t known = static_cast<int64_t>(chosen_.size()) - added;
  return fmt::format("{} accepted plan{} added, {} {} already there or superseded", added, added == 1 ? "" : "s", known,
                     known == 1 ? "was" : "were");
}

void print_plans(const std::string& records, const Filter& filter, const std::string& json) {
  constexpr size_t kHanging = 12;
  const PlansBeside beside(records, filter);
  nlohmann::json list = nlohmann::json::array();
  for (const KeptPlan* plan : beside.plans()) list.push_back(json_of(*plan));
  if (!json.empty()) write_json(json, list);
  if (json == "-") return;
  if (!list.empty())
    say("{}\n", styled(Style::bold, fmt::format("{:<10} {:>3} {:>6} {:<25} {:<14}  network", "date", "thr", "layers",
                                                "time / default", "target")));
  for (const KeptPlan* plan : beside.plans()) {
    const Ratio& r = plan->default_ratio;
    const std::string ratio = plan->choices.empty() ? "the default plan" : ratio_text(r);
    const std::string line =
        fmt::format("{:<10} {:>3} {:>6} {:<25} {:<14}  {}{}{}", plan->date.substr(0, 10), plan->key.threads,
                    plan->choices.size(), ratio, plan->key.target, printable(plan->network),
                    plan->key.settings.empty() ? "" : " with " + printable(plan->key.settings), memory_text(*plan));
    say("{}\n", hanging(line, kHanging, terminal_columns().value_or(0)));
  }
  say("{}: {} accepted plan{}\n", plans_file(records).string(), list.size(), list.size() == 1 ? "" : "s");
}

}  // namespace kilter::tool
