#include "compile/shared_constants.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/align.h"
#include "base/hash.h"
#include "exec/memory.h"

namespace kilter {
namespace {

constexpr int64_t kLine = 64;

using Part = std::pair<int64_t, int64_t>;  ///< offset and bytes of a constant that a step reads

std::vector<Part> parts_of(const Plan& plan) {
  std::set<Part> parts;
  for (const Step& step : plan.steps) {
    for (const BufferRef& ref : step.args) {
      if (ref.space == Space::constant) parts.emplace(ref.offset, ref.bytes);
    }
  }
  return {parts.begin(), parts.end()};
}

/// Changes the offset of each constant in the plan's steps to its new one.
void refer(Plan& plan, const std::map<Part, int64_t>& offsets) {
  for (Step& step : plan.steps) {
    for (BufferRef& ref : step.args) {
      if (ref.space == Space::constant) ref.offset = offsets.at({ref.offset, ref.bytes});
    }
  }
}

/// Returns the bytes to reserve for a constant: kernels may read whole vectors up to the end of its last cache line.
int64_t room(int64_t bytes) { return std::max(round_up(bytes, kLine), kLine); }

std::pair<uint64_t, int64_t> key_of(const std::byte* at, int64_t bytes) {
  return {hash_bytes({at, static_cast<size_t>(bytes)}), bytes};
}

}  // namespace

/// Memory that contains packed constants of one plan.
struct SharedConstants::Segment {
  std::shared_ptr<void> owner;  ///< set for a plan that shares nothing with earlier plans
  Block own;                    ///< set for other plans: the constants that earlier plans do not have
  int64_t bytes = 0;
};

/// The Plan::owner of a plan that shares constants with earlier plans.
struct SharedConstants::Home {
  struct Piece {
    Part part;  ///< its place when the plan was compiled
    const std::byte* at = nullptr;
  };
  std::vector<Piece> pieces;
  int64_t constants_bytes = 0;  ///< when the plan was compiled
  std::vector<std::byte> code;
  std::set<std::shared_ptr<Segment>> segments;
};

int64_t SharedConstants::bytes() const {
  int64_t all = 0;
  for (const auto& weak : segments_) {
    if (const auto segment = weak.lock()) all += segment->bytes;
  }
  return all;
}

void SharedConstants::forget_expired() {
  std::erase_if(places_, [](const auto& entry) { return entry.second.segment.expired(); });
  std::erase_if(segments_, [](const auto& segment) { return segment.expired(); });
}

void SharedConstants::read_first() {
  const auto parts = std::exchange(first_, {});
  if (segments_.empty() || segments_.front().expired()) return;
  for (const auto& [at, bytes] : parts) places_[key_of(at, bytes)] = {segments_.front(), at};
}

SharedConstants::Found SharedConstants::find(const Key& key, const std::byte* bytes) const {
  const auto it = places_.find(key);
  if (it == places_.end()) return {};
  auto segment = it->second.segment.lock();
  if (segment == nullptr || std::memcmp(it->second.at, bytes, static_cast<size_t>(key.second)) != 0) return {};
  return {std::move(segment), it->second.at};
}

/// Turns the plan's constants into a segment without moving them.
std::shared_ptr<SharedConstants::Segment> SharedConstants::adopt(Plan& plan) {
  auto segment = std::make_shared<Segment>();
  segment->owner = std::move(plan.owner);
  segment->bytes = plan.constants_bytes;
  segments_.push_back(segment);
  plan.owner = segment;
  return segment;
}

std::shared_ptr<const SharedConstants::Home> SharedConstants::add(Plan& plan) {
  const std::vector<Part> parts = parts_of(plan);
  if (plan.constants == nullptr || parts.empty()) return nullptr;
  if (segments_.empty()) {
    adopt(plan);
    for (const auto& [offset, bytes] : parts) first_.emplace_back(plan.constants + offset, bytes);
    return nullptr;
  }
  read_first();
  forget_expired();
  auto home = std::make_shared<Home>();
  std::vector<Key> keys;
  int64_t missing = 0;
  for (const Part& part : parts) {
    const std::byte* at = plan.constants + part.first;
    keys.push_back(key_of(at, part.second));
    Found found = find(keys.back(), at);
    if (found.segment == nullptr) missing += room(part.second);
    if (found.segment != nullptr) home->segments.insert(std::move(found.segment));
    home->pieces.push_back({part, found.at});
  }
  if (home->segments.empty()) {
    const auto segment = adopt(plan);
    for (size_t i = 0; i < parts.size(); ++i) places_[keys[i]] = {segment, plan.constants + parts[i].first};
    return nullptr;
  }
  auto fresh = std::make_shared<Segment>();
  fresh->own = Block(missing, "the packed weights of '" + plan.model + "'");
  fresh->bytes = missing;
  std::byte* next = fresh->own.data();
  for (size_t i = 0; i < parts.size(); ++i) {
    Home::Piece& piece = home->pieces[i];
    if (piece.at != nullptr) continue;
    std::memcpy(next, plan.constants + piece.part.first, static_cast<size_t>(piece.part.second));
    piece.at = next;
    places_[keys[i]] = {fresh, next};
    next += room(piece.part.second);
  }
  if (missing > 0) segments_.push_back(fresh);
  home->segments.insert(std::move(fresh));
  return move(plan, std::move(home));
}

/// Points the plan at the pieces and frees its own memory.
std::shared_ptr<const SharedConstants::Home> SharedConstants::move(Plan& plan, std::shared_ptr<Home> home) {
  const auto address = [](const std::byte* at) { return reinterpret_cast<uintptr_t>(at); };
  uintptr_t low = UINTPTR_MAX, high = 0;
  for (const Home::Piece& piece : home->pieces) {
    low = std::min(low, address(piece.at));
    high = std::max(high, address(piece.at) + static_cast<uintptr_t>(piece.part.second));
  }
  std::map<Part, int64_t> offsets;
  for (const Home::Piece& piece : home->pieces) offsets[piece.part] = static_cast<int64_t>(address(piece.at) - low);
  refer(plan, offsets);
  home->constants_bytes = plan.constants_bytes;
  home->code.assign(plan.code, plan.code + plan.code_bytes);
  plan.code = home->code.data();
  plan.constants = reinterpret_cast<const std::byte*>(low);
  plan.constants_bytes = static_cast<int64_t>(high - low);
  plan.owner = home;
  return home;
}

int64_t constants_bytes(const SharedConstants::Home& home) { return home.constants_bytes; }

Plan with_own_constants(const Plan& plan, const SharedConstants::Home& home) {
  Plan own = plan;
  auto block =
      std::make_shared<Block>(std::max<int64_t>(home.constants_bytes, 1), "the packed weights of '" + plan.model + "'");
  std::map<Part, int64_t> offsets;
  for (const auto& piece : home.pieces) {
    const auto [offset, bytes] = piece.part;
    std::memcpy(block->data() + offset, piece.at, static_cast<size_t>(bytes));
    offsets[{piece.at - plan.constants, bytes}] = offset;
  }
  refer(own, offsets);
  own.constants = block->data();
  own.constants_bytes = home.constants_bytes;
  own.owner = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(plan.owner, std::move(block));
  return own;
}

}  // namespace kilter
