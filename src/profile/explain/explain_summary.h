// A few lines that summarise a network for `explain`, and a one-word verdict on a layer.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "profile/explain/explain_causes.h"

namespace kilter::profile {

/// Returns a word for a layer without a cause, and its evidence.
std::pair<std::string, std::string> verdict(const Row& row, const Context& context);

/// Returns lines on how quiet the machine was, the network's time, its bound, earlier tuning, and what to do first.
/// Call this once the findings are complete.
std::vector<std::string> summary_of(const Explanation& explanation, const Context& context);

}  // namespace kilter::profile
