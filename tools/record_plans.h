// The accepted plans stored next to a file of tuning records, as the `kilter records` commands handle them.
#pragma once

#include <string>
#include <vector>

#include "tune/records/store.h"
#include "tune/tuner/plans/kept_plans.h"

namespace kilter::tool {

/// The latest plan of each network, target, device, number of threads and settings next to a file of records. The
/// filter applies by network, device, target and threads; a filter on a problem, source or status selects single
/// records and therefore admits no plan. Reports damaged lines on standard error.
class PlansBeside {
 public:
  PlansBeside(const std::string& records, const tune::Filter& filter = {});

  const std::vector<const tune::KeptPlan*>& plans() const { return chosen_; }
  const std::vector<std::string>& damaged() const { return all_.damaged; }
  /// Adds these plans, as far as they are new, to the plans next to another file. Returns e.g. "2 accepted plans added,
  /// 1 was already there or superseded", or an empty string if there are no plans. Throws io if they cannot be written.
  std::string add_to(const std::string& records) const;

 private:
  tune::KeptPlans all_;
  std::vector<const tune::KeptPlan*> chosen_;
};

/// Prints one line per plan for `kilter records plans`, and writes the JSON that `json` asks for.
void print_plans(const std::string& records, const tune::Filter& filter, const std::string& json);

}  // namespace kilter::tool
