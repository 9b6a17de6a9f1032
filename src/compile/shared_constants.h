// Packed constants that the plans of one session share: each distinct one is in memory once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "exec/plan.h"

namespace kilter {

/// Used by one thread at a time. Constants live as long as any plan that uses them, even after this object is
/// destroyed.
class SharedConstants {
 public:
  /// The place of a plan's constants in memory, now and when it was compiled.
  struct Home;

  /// Makes the new plan use the constants of earlier plans that have the same bytes, and frees its own copies. The
  /// plan's steps then refer to memory of several plans: Plan::constants is the lowest of their addresses, and the
  /// bytes between its constants do not belong to the plan. Returns null, and leaves the plan unchanged, if it shares
  /// nothing.
  std::shared_ptr<const Home> add(Plan& plan);
  /// Bytes of all constants that plans still use.
  int64_t bytes() const;

 private:
  struct Segment;
  using Key = std::pair<uint64_t, int64_t>;  ///< hash, bytes
  struct Place {
    std::weak_ptr<Segment> segment;
    const std::byte* at = nullptr;
  };
  struct Found {
    std::shared_ptr<Segment> segment;  ///< null: no plan has these bytes
    const std::byte* at = nullptr;
  };
  Found find(const Key& key, const std::byte* bytes) const;
  void forget_expired();
  void read_first();
  std::shared_ptr<Segment> adopt(Plan& plan);
  static std::shared_ptr<const Home> move(Plan& plan, std::shared_ptr<Home> home);

  std::map<Key, Place> places_;
  std::vector<std::weak_ptr<Segment>> segments_;
  /// Constants of the first plan, which are hashed only once there is a second plan.
  std::vector<std::pair<const std::byte*, int64_t>> first_;
};

/// Bytes of the plan's constants when it was compiled.
int64_t constants_bytes(const SharedConstants::Home& home);
/// A copy of the plan whose constants are in its own memory, at the places that they had when it was compiled.
/// save_plan() needs this.
Plan with_own_constants(const Plan& plan, const SharedConstants::Home& home);

}  // namespace kilter
