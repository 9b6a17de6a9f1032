// A variant as sent to the worker: the plan in the form of a compiled file, except for its constants, which are in the
// store.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "exec/plan.h"
#include "tune/run/constant_store.h"
#include "tune/run/value.h"

namespace kilter::tune {

/// A plan whose constants are in the store: each of its constant buffers is in one of `parts`.
struct PlacedPlan {
  Plan plan;
  std::vector<StorePart> parts;  ///< each needs one release() once the plan and all plans made from it are unused
};
/// Puts the plan's constants into the store. A variant may be derived from the result by replacing single steps, with
/// new constants from ConstantStore::add(); loading it does not read the other constants. A plan whose constants are in
/// the store is left as it is. Throws out_of_memory if there is no memory left.
PlacedPlan place_constants(const Plan& plan, ConstantStore& store);

struct Package {
  std::string bytes;             ///< input of unpack_variant()
  std::vector<StorePart> parts;  ///< parts of the store; each needs one release()
};

/// Packs a variant, placing its constants with place_constants(). Throws internal for a plan that breaks an invariant,
/// for values outside their buffers and for machine code of another architecture. Throws out_of_memory if there is no
/// memory left.
Package pack_variant(const Plan& plan, std::span<const StepValue> values, ConstantStore& store);

struct Unpacked {
  Plan plan;  ///< its code refers to the bytes, its constants to `constants`
  std::vector<StepValue> values;
  std::vector<StorePart> parts;
};
/// Makes a plan from another machine's package refer to constants in a store of this machine. `from`: the package's
/// parts; `to`: the parts of this store with the same bytes, in the same order.
void move_constants(Plan& plan, std::span<const StorePart> from, const ConstantStore& store,
                    std::span<const StorePart> to);

Unpacked unpack_variant(std::span<const std::byte> bytes, const std::byte* constants, int64_t constants_bytes);

}  // namespace kilter::tune
