#include "tune/space/prune.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"

namespace kilter::tune {
namespace {

/// Cycles of the cheapest point; 0 in an empty space.
double least_cycles(const Space& space) {
  double least = 0;
  for (const LegalPoint& l : space.legal()) {
    if (least == 0 || l.estimate.cycles < least) least = l.estimate.cycles;
  }
  return least;
}

bool always_kept(const Space& space, const Point& point) {
  return point == space.default_point() || point == space.best_of(point.part);
}

}  // namespace

std::string Pruned::text() const {
  std::string out = fmt::format("{} points", raw);
  for (size_t i = 0; i < ruled_out.size(); ++i)
    out += fmt::format("{} {} by {}", i == 0 ? "; ruled out:" : ",", ruled_out[i].count, ruled_out[i].limit);
  return out + fmt::format("; {} left", points.size());
}

Pruned prune(const Space& space, const SpacePruning& options) {
  if (!(options.beyond >= 1))
    fail(ErrorKind::usage, "prune: expected 1 or more times the best estimate, got {}", format_float(options.beyond));
  Pruned out;
  out.raw = space.raw_size();
  for (const auto& [limit, count] : space.illegal()) out.ruled_out.push_back({limit, count});
  const double least = least_cycles(space);
  struct Kept {
    double cycles;
    Point point;
  };
  std::vector<Kept> kept;
  uint64_t slow = 0;
  for (const LegalPoint& l : space.legal()) {
    const double cycles = l.estimate.cycles;
    if (cycles > options.beyond * least && !always_kept(space, l.point)) {
      ++slow;
    } else {
      kept.push_back({cycles, l.point});
    }
  }
  std::stable_sort(kept.begin(), kept.end(), [](const Kept& a, const Kept& b) { return a.cycles < b.cycles; });
  for (const Kept& k : kept) out.points.push_back(k.point);
  if (slow > 0) out.ruled_out.push_back({format_float(options.beyond) + " times the best estimate", slow});
  std::stable_sort(out.ruled_out.begin(), out.ruled_out.end(),
                   [](const RuledOut& a, const RuledOut& b) { return a.count > b.count; });
  return out;
}

}  // namespace kilter::tune
