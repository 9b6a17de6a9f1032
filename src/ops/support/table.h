// The rows that CMake collects from this folder, unsorted.
#pragma once

#include <span>

#include "ops/op.h"

namespace kilter {
std::span<const OpDef* const> op_rows();
}  // namespace kilter
