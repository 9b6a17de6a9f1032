#include "base/nearest.h"

#include <algorithm>
#include <vector>

namespace kilter {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before.swap(last), last.swap(now);
  }
  return last[b.size()];
}

std::string_view nearest(std::string_view word, std::span<const std::string> legal) {
  constexpr size_t kShortestStart = 3;  // fewer letters begin too many words
  std::string_view best;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : legal) {
    const bool continues = word.size() >= kShortestStart && candidate.starts_with(word);
    const size_t distance = continues ? 1 : edit_distance(word, candidate);
    if (distance >= least || distance >= candidate.size()) continue;
    least = distance, best = candidate;
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> legal) {
  const std::string_view best = nearest(word, legal);
  return best.empty() ? ";" : "; did you mean '" + std::string(best) + "'?";
}

}  // namespace kilter
