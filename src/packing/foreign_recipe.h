// Recipes from a file or another machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "packing/recipe.h"

namespace kilter {

/// Limits that keep a forged recipe from filling the memory. `source_bytes`: of all sources from which constants are
/// packed.
constexpr int64_t kMostGrowth = 64, kAlwaysAllowed = int64_t{4} << 20;
constexpr int64_t most_packed_bytes(int64_t source_bytes) { return kMostGrowth * source_bytes + kAlwaysAllowed; }

/// Returns what is wrong with a recipe for a constant of `bytes` bytes from a dense source of `source_bytes` bytes,
/// both with elements of the type; nullopt: nothing.
std::optional<std::string> fault_of(const Recipe& recipe, DType type, int64_t source_bytes, int64_t bytes);

}  // namespace kilter
