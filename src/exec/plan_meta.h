// The meta section of a compiled file: every field of a plan but the bytes of code and constants.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "exec/plan.h"

namespace kilter {

std::string write_plan_meta(const Plan& plan);
/// Throws bad_input when a field is cut off, of an unknown kind, or text follows the last; values are left to
/// check_plan().
Plan read_plan_meta(std::span<const std::byte> bytes, std::string_view where);

}  // namespace kilter
