#include "tune/tuner/undecided.h"

#include <fmt/format.h>

namespace kilter::tune {

std::string undecided_text(const TuneResult& r) {
  const bool stays = r.same_plan || r.kept, tried = r.trials > 0 || r.rejected;
  if (!stays || !tried || !r.unheld.empty() || !r.refused.empty()) return {};
  const Quietness found = quietness(r.conditions);
  const bool close = r.rejected && r.rejected->ratio.low < 1;
  if (found != Quietness::busy && !(found == Quietness::partly && close)) return {};
  return fmt::format(
      "the machine was too busy to decide whether another schedule is {} ({:.0f} % of the runs were disturbed)",
      r.objective.weighs_memory() ? "better by " + text(r.objective) : "faster", 100 * disturbed_share(r.conditions));
}

}  // namespace kilter::tune
