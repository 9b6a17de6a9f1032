#include "tune/tuner/search/retries.h"

#include <algorithm>

namespace kilter::tune {
namespace {

/// The number of probes in a variant that contains a probe suspected this often.
size_t company_of(int suspected, size_t most) {
  constexpr size_t kFewer = 4;  // divisor for each suspicion
  for (int i = 0; i < suspected && most > 1; ++i) most = std::max<size_t>(most / kFewer, 1);
  return most;
}

}  // namespace

bool Retries::suspect(Probe probe, size_t company) {
  if (company <= 1) return false;
  ++probe.suspected;
  waiting_.push_back(std::move(probe));
  return true;
}

bool Retries::disturbed(Probe probe) {
  constexpr int kMost = 5;
  if (++probe.disturbed > kMost) return false;
  waiting_.push_back(std::move(probe));
  return true;
}

std::vector<Probe> Retries::take(size_t most) {
  std::vector<Probe> out;
  size_t room = most;
  for (auto it = waiting_.begin(); it != waiting_.end() && out.size() < room;) {
    const size_t company = company_of(it->suspected, most);
    const bool taken = std::ranges::any_of(out, [&](const Probe& p) { return p.node == it->node; });
    if (taken || company <= out.size()) {
      ++it;
      continue;
    }
    room = std::min(room, company);
    out.push_back(std::move(*it));
    it = waiting_.erase(it);
  }
  return out;
}

}  // namespace kilter::tune
