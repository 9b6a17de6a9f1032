// The instruction set extensions of a target and the limits that follow from them. Used by this folder only.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "target/target.h"

namespace kilter {

/// Names as in known_cpu_features(), which are LLVM's.
using Features = std::set<std::string_view>;

/// Returns the extensions of a row that code generation uses and that tell processors apart.
Features features_of(const TargetRow& row);
/// Returns the names of the extensions that an attribute may add or remove.
std::vector<std::string> known_attributes(Arch arch);
/// Applies "+avx2" or "-fma" to `features`. Adding an extension adds those that it needs; removing one removes those
/// that need it. Returns false when the attribute is malformed or its extension unknown.
bool apply_attribute(Arch arch, std::string_view attribute, Features& features);
/// Sets vector width, registers, masks and conversions as the extensions determine them.
void set_limits(Arch arch, CpuLimits& limits, const Features& features);

/// Returns the names of rows that may describe a processor, best first. The last ones are the general rows.
std::vector<std::string_view> target_candidates(const CpuIdentity& cpu);

}  // namespace kilter
