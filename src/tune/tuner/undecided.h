// Whether a tuning run ended without a new plan because other programs used the machine.
#pragma once

#include <string>

#include "tune/tuner/tuner.h"

namespace kilter::tune {

/// Returns "the machine was too busy to decide whether another schedule is faster (73 % of the runs were disturbed)" if
/// nothing new was accepted and the disturbances may be the reason: most runs were disturbed, or more than a quarter
/// were and the plan that was found may be faster than the default. Otherwise returns an empty string, also if the
/// result has a different reason (refused, unheld, nothing tried).
std::string undecided_text(const TuneResult& result);

}  // namespace kilter::tune
