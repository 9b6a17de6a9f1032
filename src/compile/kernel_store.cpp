#include "compile/kernel_store.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace kilter {

namespace {

/// a - b, which wraps around: a number may have any bit pattern.
int64_t minus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

}  // namespace

bool KernelFamily::serves(const LoopNumbers& numbers) const {
  if (places_.empty()) return numbers.values == first_ && numbers.scratch == scratch_;
  for (size_t i = 0; i < scratch_.size(); ++i) {
    if (numbers.scratch[i] > scratch_[i]) return false;
  }
  std::vector<std::optional<int64_t>> dims;
  for (size_t i = 0; i < places_.size(); ++i) {
    const int64_t value = numbers.values[i];
    if (places_[i].slot < 0) {
      if (value != first_[i]) return false;
      continue;
    }
    const auto slot = static_cast<size_t>(places_[i].slot);
    if (slot >= dims.size()) dims.resize(slot + 1);
    const int64_t dim = minus(value, places_[i].plus);
    if (!dims[slot]) dims[slot] = dim;
    if (*dims[slot] != dim) return false;
  }
  return true;
}

bool KernelFamily::add(const LoopNumbers& numbers) {
  constexpr size_t kMostSlots = 48;
  if (first_.empty() && places_.empty()) {
    first_ = numbers.values, scratch_ = numbers.scratch;
    return true;
  }
  // Numbers keep a common slot if they had one before and if the difference from the first function is the same here.
  // In the first function, a slot has the value of its first number. Numbers that change little get a common slot only
  // if they are equal, since the same small change is often a coincidence.
  constexpr int64_t kSmall = 16;
  std::map<std::tuple<int32_t, int64_t, int64_t>, size_t> slots;  // by previous slot, change and value
  std::vector<size_t> firsts;                                     // by slot: its first number
  std::vector<NumberPlace> places;
  for (size_t i = 0; i < first_.size(); ++i) {
    const int32_t before = places_.empty() ? -1 : places_[i].slot;
    const int64_t change = minus(numbers.values[i], first_[i]);
    if (before < 0 && change == 0) {
      places.emplace_back();
      continue;
    }
    const bool alone = before < 0 && change > -kSmall && change < kSmall;
    const auto [slot, fresh] = slots.try_emplace({before, change, alone ? first_[i] : 0}, firsts.size());
    if (fresh) firsts.push_back(i);
    places.push_back({static_cast<int32_t>(slot->second), minus(first_[i], first_[firsts[slot->second]])});
  }
  if (firsts.size() > kMostSlots) return false;
  places_ = std::move(places);
  // Doubles scratch buffers, so that few shapes of a growing input need a new kernel.
  for (size_t i = 0; i < scratch_.size(); ++i) {
    if (numbers.scratch[i] > scratch_[i]) scratch_[i] = std::max(2 * scratch_[i], numbers.scratch[i]);
  }
  kernel.reset();
  return true;
}

std::vector<int64_t> KernelFamily::dims(const LoopNumbers& numbers) const {
  std::vector<int64_t> out;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].slot < 0) continue;
    const auto slot = static_cast<size_t>(places_[i].slot);
    if (slot >= out.size()) out.resize(slot + 1);
    out[slot] = minus(numbers.values[i], places_[i].plus);
  }
  return out;
}

const CompiledKernel* KernelStore::find(const Fingerprint& code) {
  const auto it = kernels_.find(code);
  if (it == kernels_.end()) return nullptr;
  it->second.used = build_;
  return &it->second.kernel;
}

KernelFamily& KernelStore::family(const std::string& layer, const Fingerprint& structure) {
  KernelFamily& family = families_[{layer, structure}];
  family.used = build_;
  return family;
}

void KernelStore::build_ended() {
  ++build_;
  if (size() <= most_) return;
  const auto outdated = [&](int64_t used) { return used + keep_ < build_; };
  std::erase_if(kernels_, [&](const auto& entry) { return outdated(entry.second.used); });
  std::erase_if(families_, [&](const auto& entry) { return outdated(entry.second.used); });
}

}  // namespace kilter
