#include "compile/shared_constants.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/hash.h"
#include "compile/stages/constant_pool.h"
#include "exec/memory.h"

namespace kilter {

struct SharedConstants::Segment {
  Block memory;
  int64_t bytes = 0;
};

namespace {

using Part = std::pair<int64_t, int64_t>;  ///< offset and bytes of a constant that a step reads

uint64_t hash_of(const std::byte* at, int64_t bytes) { return hash_bytes({at, static_cast<size_t>(bytes)}); }

uintptr_t address(const std::byte* at) { return reinterpret_cast<uintptr_t>(at); }

}  // namespace

struct ConstantsHome {
  struct Piece {
    Part part;  ///< its place when the plan was compiled
    const std::byte* at = nullptr;
  };
  std::vector<Piece> pieces;    ///< each once
  int64_t constants_bytes = 0;  ///< when the plan was compiled
  std::set<std::shared_ptr<SharedConstants::Segment>> segments;
};

int64_t SharedConstants::bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t all = 0;
  for (const auto& weak : segments_) {
    if (const auto segment = weak.lock()) all += segment->bytes;
  }
  return all;
}

void SharedConstants::forget_expired() {
  {
    const std::lock_guard lock(mutex_);
    if (std::erase_if(segments_, [](const auto& segment) { return segment.expired(); }) == 0) return;
  }
  std::erase_if(by_origin_, [](const auto& entry) { return entry.second.segment.expired(); });
  for (auto& [bytes, places] : by_bytes_) {
    std::erase_if(places, [](const Place& place) { return place.segment.expired(); });
  }
}

SharedConstants::Found SharedConstants::find(const std::optional<ConstantOrigin>& origin) const {
  if (!origin) return {};
  const auto known = by_origin_.find(*origin);
  return known == by_origin_.end() ? Found{} : Found{known->second.segment.lock(), known->second.at};
}

SharedConstants::Found SharedConstants::find(const std::byte* bytes, int64_t size) {
  const auto known = by_bytes_.find(size);
  if (known == by_bytes_.end()) return {};
  const uint64_t hash = hash_of(bytes, size);
  for (Place& place : known->second) {
    auto segment = place.segment.lock();
    if (segment == nullptr) continue;
    if (!place.hash) place.hash = hash_of(place.at, size);
    if (*place.hash == hash && std::memcmp(place.at, bytes, static_cast<size_t>(size)) == 0)
      return {std::move(segment), place.at};
  }
  return {};
}

namespace {

/// Gives the constants of a plan the offsets that they have if the plan shares none: one after the other.
std::vector<ConstantsHome::Piece> pieces_of(const std::vector<const std::byte*>& at,
                                            const std::vector<NewConstant>& wanted, int64_t& bytes) {
  std::vector<ConstantsHome::Piece> pieces;
  std::set<const std::byte*> seen;
  for (size_t i = 0; i < at.size(); ++i) {
    if (!seen.insert(at[i]).second) continue;
    pieces.push_back({{bytes, wanted[i].bytes}, at[i]});
    bytes += stored_bytes(wanted[i].bytes);
  }
  return pieces;
}

/// Points the plan and its steps at the constants.
void refer(Plan& plan, const std::vector<const std::byte*>& at, std::vector<NewConstant>& wanted) {
  uintptr_t low = UINTPTR_MAX, high = 0;
  for (size_t i = 0; i < at.size(); ++i) {
    low = std::min(low, address(at[i]));
    high = std::max(high, address(at[i]) + static_cast<uintptr_t>(wanted[i].bytes));
  }
  plan.constants = reinterpret_cast<const std::byte*>(low);
  plan.constants_bytes = static_cast<int64_t>(high - low);
  std::set<const std::byte*> known;
  for (size_t i = 0; i < at.size(); ++i) {
    if (!wanted[i].recipe || !known.insert(at[i]).second) continue;
    RecipeOfConstant& recipe = plan.recipes.emplace_back(std::move(*wanted[i].recipe));
    recipe.offset = static_cast<int64_t>(address(at[i]) - low);
    recipe.bytes = wanted[i].bytes;
  }
  for (Step& step : plan.steps) {
    for (BufferRef& ref : step.args) {
      if (ref.space != Space::constant) continue;
      const auto constant = static_cast<size_t>(ref.index);
      ref = {Space::constant, static_cast<int64_t>(address(at[constant]) - low), 0, wanted[constant].bytes};
    }
  }
}

}  // namespace

SharedConstants::Placed SharedConstants::place(Plan& plan, std::vector<NewConstant> wanted,
                                               const std::function<void(size_t)>& told) {
  forget_expired();
  auto home = std::make_shared<ConstantsHome>();
  std::vector<const std::byte*> at(wanted.size());
  int64_t missing = 0, largest = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    Found found = find(wanted[i].origin);
    if (found.segment != nullptr) {
      at[i] = found.at;
      home->segments.insert(std::move(found.segment));
    } else {
      missing += stored_bytes(wanted[i].bytes);
      largest = std::max(largest, wanted[i].bytes);
    }
  }
  ConstantPool pool(missing + largest);
  std::vector<int64_t> packed(wanted.size(), -1);  // offset in the pool
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (at[i] != nullptr) continue;
    told(i);
    const int64_t before = pool.bytes();
    const int64_t offset = pool.add(wanted[i].bytes, wanted[i].fill);
    wanted[i].fill = nullptr;
    Found found = offset == before ? find(pool.data() + offset, wanted[i].bytes) : Found{};
    if (found.segment == nullptr) {
      packed[i] = offset;
      continue;
    }
    pool.drop_last(offset);
    at[i] = found.at;
    if (wanted[i].origin) by_origin_[*wanted[i].origin] = {found.segment, found.at};
    home->segments.insert(std::move(found.segment));
  }
  const bool shared = !home->segments.empty();
  if (pool.bytes() > 0) {
    const auto segment = std::make_shared<Segment>();
    segment->bytes = pool.bytes();
    segment->memory = pool.finish();
    const std::lock_guard lock(mutex_);
    segments_.push_back(segment);
    std::set<int64_t> listed;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (packed[i] < 0) continue;
      at[i] = segment->memory.data() + packed[i];
      if (listed.insert(packed[i]).second) by_bytes_[wanted[i].bytes].push_back({segment, at[i]});
      if (wanted[i].origin) by_origin_[*wanted[i].origin] = {segment, at[i]};
    }
    home->segments.insert(segment);
  }
  home->pieces = pieces_of(at, wanted, home->constants_bytes);
  if (!wanted.empty()) refer(plan, at, wanted);
  if (!shared) plan.constants_bytes = home->constants_bytes;
  return {std::move(home), shared};
}

int64_t constants_bytes(const ConstantsHome& home) { return home.constants_bytes; }

Plan with_own_constants(const Plan& plan, const ConstantsHome& home) {
  Plan own = plan;
  auto block =
      std::make_shared<Block>(std::max<int64_t>(home.constants_bytes, 1), "the packed weights of '" + plan.model + "'");
  std::map<const std::byte*, int64_t> offsets;
  for (const auto& piece : home.pieces) {
    const auto [offset, bytes] = piece.part;
    std::memcpy(block->data() + offset, piece.at, static_cast<size_t>(bytes));
    offsets[piece.at] = offset;
  }
  for (Step& step : own.steps) {
    for (BufferRef& ref : step.args) {
      if (ref.space == Space::constant) ref.offset = offsets.at(plan.constants + ref.offset);
    }
  }
  for (RecipeOfConstant& recipe : own.recipes) recipe.offset = offsets.at(plan.constants + recipe.offset);
  own.constants = block->data();
  own.constants_bytes = home.constants_bytes;
  own.owner = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(plan.owner, std::move(block));
  return own;
}

}  // namespace kilter
