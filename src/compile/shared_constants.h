// Packed constants that the plans of one session have in common: each distinct one lies in memory once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "exec/plan.h"

namespace kilter {

/// Used by one thread at a time. Constants live as long as a plan that has them, also beyond this object.
class SharedConstants {
 public:
  /// Where a plan's constants are and where they lay when it was compiled.
  struct Home;

  /// Constants that an earlier plan has too (same bytes) are taken from it, and the plan's own copies are given up. Its
  /// steps then refer to memory of several plans: Plan::constants is the lowest address of them, and what lies between
  /// its constants is not the plan's. Answers null for a plan that shares nothing and stays as it is.
  std::shared_ptr<const Home> add(Plan& plan);
  /// Of all constants that plans still have.
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
  /// Constants of the first plan, which are looked at when there is a second.
  std::vector<std::pair<const std::byte*, int64_t>> first_;
};

/// Bytes of the plan's constants as it was compiled.
int64_t constants_bytes(const SharedConstants::Home& home);
/// The plan with its constants where they lay when it was compiled, in memory of its own, as save_plan() wants it.
Plan with_own_constants(const Plan& plan, const SharedConstants::Home& home);

}  // namespace kilter
