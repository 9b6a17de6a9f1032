// The meta section of a compiled file: every field of a plan except the bytes of code and constants.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "exec/plan.h"

namespace kilter {

std::string write_plan_meta(const Plan& plan);
/// Throws bad_input when a field is cut off or of an unknown kind, or when bytes follow the last field. check_plan()
/// checks the values.
Plan read_plan_meta(std::span<const std::byte> bytes, std::string_view where);

}  // namespace kilter
