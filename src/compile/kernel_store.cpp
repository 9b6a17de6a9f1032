#include "compile/kernel_store.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace kilter {

bool KernelFamily::serves(const LoopNumbers& numbers) const {
  if (slots_.empty()) return numbers.values == first_ && numbers.scratch == scratch_;
  for (size_t i = 0; i < scratch_.size(); ++i) {
    if (numbers.scratch[i] > scratch_[i]) return false;
  }
  std::vector<std::optional<int64_t>> dims;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const int64_t value = numbers.values[i];
    if (slots_[i] < 0) {
      if (value != first_[i]) return false;
      continue;
    }
    const auto slot = static_cast<size_t>(slots_[i]);
    if (slot >= dims.size()) dims.resize(slot + 1);
    if (!dims[slot]) dims[slot] = value;
    if (*dims[slot] != value) return false;
  }
  return true;
}

bool KernelFamily::add(const LoopNumbers& numbers) {
  constexpr size_t kMostSlots = 48;
  if (first_.empty() && slots_.empty()) {
    first_ = numbers.values, scratch_ = numbers.scratch;
    return true;
  }
  // LoopNumbers keep a common slot if they had one before and are equal here too.
  std::map<std::tuple<int32_t, int64_t, int64_t>, int32_t> places;
  std::vector<int32_t> slots;
  for (size_t i = 0; i < first_.size(); ++i) {
    const int32_t before = slots_.empty() ? -1 : slots_[i];
    const int64_t value = numbers.values[i];
    if (before < 0 && value == first_[i]) {
      slots.push_back(-1);
      continue;
    }
    const auto next = static_cast<int32_t>(places.size());
    slots.push_back(places.try_emplace({before, before < 0 ? first_[i] : 0, value}, next).first->second);
  }
  if (places.size() > kMostSlots) return false;
  slots_ = std::move(slots);
  // Doubles scratch buffers, so that few of the shapes of a growing input need another kernel.
  for (size_t i = 0; i < scratch_.size(); ++i) {
    if (numbers.scratch[i] > scratch_[i]) scratch_[i] = std::max(2 * scratch_[i], numbers.scratch[i]);
  }
  kernel.reset();
  return true;
}

std::vector<int64_t> KernelFamily::dims(const LoopNumbers& numbers) const {
  std::vector<int64_t> out;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i] < 0) continue;
    const auto slot = static_cast<size_t>(slots_[i]);
    if (slot >= out.size()) out.resize(slot + 1);
    out[slot] = numbers.values[i];
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
