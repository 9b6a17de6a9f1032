// Accepted plans, which lie beside the records that they came from, in the commands that keep records.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tune/records/store.h"
#include "tune/tuner/plans/kept_plans.h"

namespace kilter::tool {

/// The latest plan of each network, target, device, number of threads and settings beside a file of records, as the
/// filter admits them: by network, device, target and threads. One that asks for a problem, a source or a status is
/// about single records, and admits no plan. Damaged lines are told on standard error.
class PlansBeside {
 public:
  PlansBeside(const std::filesystem::path& records, const tune::Filter& filter = {});

  const std::vector<const tune::KeptPlan*>& plans() const { return chosen_; }
  const std::vector<std::string>& damaged() const { return all_.damaged; }
  /// Adds to those beside another file what is new there; "2 accepted plans added, 1 was there or a later one",
  /// nothing where there is none. Throws io where they cannot be written.
  std::string add_to(const std::filesystem::path& records) const;

 private:
  tune::KeptPlans all_;
  std::vector<const tune::KeptPlan*> chosen_;
};

/// `kilter records plans`: a line for each, and what JSON has of them.
void print_plans(const std::filesystem::path& records, const tune::Filter& filter, const std::string& json);

}  // namespace kilter::tool
