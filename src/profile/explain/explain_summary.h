// What `explain` says of a network in a few lines, and of a layer in a word.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "profile/explain/explain_causes.h"

namespace kilter::profile {

/// Of a layer that no cause was found for: a word, and its evidence.
std::pair<std::string, std::string> verdict(const Row& row, const Context& context);

/// Whether the machine was busy, what the network takes, what it could take, and what to do first. The findings are
/// made already.
std::vector<std::string> summary_of(const Explanation& explanation, const Context& context);

}  // namespace kilter::profile
