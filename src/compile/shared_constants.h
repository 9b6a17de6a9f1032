// Packed constants that the plans of one session share: each distinct one is packed once and in memory once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "exec/plan.h"

namespace kilter {

/// Identifies the bytes of a packed constant without looking at them.
struct ConstantOrigin {
  /// Address of a tensor whose bytes exist, unchanged, as long as the SharedConstants: it belongs to the model or to
  /// the ConstantMemo that all compilations with these SharedConstants use.
  const std::byte* memory = nullptr;
  std::string form;  ///< the tensor's type, and how it is packed
  auto operator<=>(const ConstantOrigin&) const = default;
};

/// A constant of a plan under construction.
struct NewConstant {
  /// Absent: only comparing the bytes shows whether another plan has the constant.
  std::optional<ConstantOrigin> origin;
  int64_t bytes = 0;
  std::function<void(std::byte*)> fill;  ///< packs the constant into zeroed memory
  /// How `fill` computes it, for Plan::recipes; its offset and bytes are not used.
  std::optional<RecipeOfConstant> recipe = {};
};

/// The place of a plan's constants in memory, now and when it was compiled. Keeps them in memory.
struct ConstantsHome;

/// Used by one thread at a time. Constants live as long as any plan that uses them, even after this object is
/// destroyed.
class SharedConstants {
 public:
  struct Placed {
    std::shared_ptr<const ConstantsHome> home;
    bool shared = false;  ///< whether constants of earlier plans are among the plan's own
  };
  /// Points the plan at its constants and packs those that no earlier plan has. Arguments of its steps in
  /// Space::constant have the index of their constant in `wanted`, and get its offset. If the plan shares constants,
  /// its steps refer to memory of several plans: Plan::constants is the lowest of their addresses, and the bytes
  /// between its constants do not belong to the plan. Fills Plan::recipes. `told` is called before each constant is
  /// packed.
  Placed place(Plan& plan, std::vector<NewConstant> wanted, const std::function<void(size_t)>& told);
  /// Bytes of all constants that plans still use. Any thread may call it.
  int64_t bytes() const;

  struct Segment;  ///< memory that contains packed constants of one plan

 private:
  struct Place {
    std::weak_ptr<Segment> segment;
    const std::byte* at = nullptr;
    std::optional<uint64_t> hash = {};  ///< of the bytes, once it was needed
  };
  struct Found {
    std::shared_ptr<Segment> segment;  ///< null: no plan has the constant
    const std::byte* at = nullptr;
  };
  Found find(const std::optional<ConstantOrigin>& origin) const;
  Found find(const std::byte* bytes, int64_t size);
  void forget_expired();

  std::map<ConstantOrigin, Place> by_origin_;
  std::map<int64_t, std::vector<Place>> by_bytes_;  ///< by size
  mutable std::mutex mutex_;                        ///< of segments_
  std::vector<std::weak_ptr<Segment>> segments_;
};

/// Bytes of the plan's constants when it was compiled.
int64_t constants_bytes(const ConstantsHome& home);
/// A copy of the plan whose constants are in its own memory, at the places that they had when it was compiled.
/// save_plan() needs this.
Plan with_own_constants(const Plan& plan, const ConstantsHome& home);

}  // namespace kilter
