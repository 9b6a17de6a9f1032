// A variant as the worker gets it: the plan in the form of a compiled file, but for its constants, which lie in the
// store.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "exec/plan.h"
#include "tune/run/constant_store.h"
#include "tune/run/value.h"

namespace kilter::tune {

/// A plan whose constants are the store's memory: every buffer of theirs lies in one of `parts`.
struct PlacedPlan {
  Plan plan;
  std::vector<StorePart> parts;  ///< each to be released once, when the plan and all made from it are no longer used
};
/// Puts the plan's constants into the store. Who makes variants of it by changing single steps, with constants from
/// ConstantStore::add(), has plans that load without a look at the rest. A plan that is there already is taken as it
/// is. Throws bad_input when memory runs out.
PlacedPlan place_constants(const Plan& plan, ConstantStore& store);

struct Package {
  std::string bytes;             ///< what unpack_variant() reads
  std::vector<StorePart> parts;  ///< of the store, each to be released once
};

/// With place_constants(). Throws internal for a plan that breaks an invariant, for
/// values that lie outside of their buffers and for machine code of another architecture; bad_input when memory runs
/// out.
Package pack_variant(const Plan& plan, std::span<const StepValue> values, ConstantStore& store);

struct Unpacked {
  Plan plan;  ///< its code is the bytes' own, its constants are `constants`
  std::vector<StepValue> values;
  std::vector<StorePart> parts;
};
Unpacked unpack_variant(std::span<const std::byte> bytes, const std::byte* constants, int64_t constants_bytes);

}  // namespace kilter::tune
