// The instruction set extensions of a target, and what they make of its limits. Used by this folder only.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "target/target.h"

namespace kilter {

/// By LLVM's names, as in known_cpu_features().
using Features = std::set<std::string_view>;

/// The extensions of a row that code generation uses and that tell processors apart.
Features features_of(const TargetRow& row);
/// The names that an attribute may carry.
std::vector<std::string> known_attributes(Arch arch);
/// Changes `features` as "+avx2" or "-fma" says, with all that needs or is needed by it; false when the attribute is
/// malformed or its extension unknown.
bool apply_attribute(Arch arch, std::string_view attribute, Features& features);
/// Vector width, registers, masks and conversions as the extensions give them.
void set_limits(Arch arch, TargetLimits& limits, const Features& features);

/// Names of rows that this machine may be, best first. The last ones are the general rows.
std::vector<std::string_view> native_candidates();

}  // namespace kilter
