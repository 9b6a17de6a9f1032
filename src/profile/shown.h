// A profile prepared for a terminal: the same figures, with names from the model made printable(). JSON, traces and
// pages use the original.
#pragma once

#include "profile/explain/explain.h"
#include "profile/profile.h"
#include "profile/versus.h"

namespace kilter::profile {

Profile shown(Profile profile);
Explanation shown(Explanation explanation);
Side shown(Side side);

}  // namespace kilter::profile
