// What a terminal is shown of a profile: the same figures, with names from the model made printable(). JSON, traces and
// pages are made of the original.
#pragma once

#include "profile/explain/explain.h"
#include "profile/profile.h"
#include "profile/versus.h"

namespace kilter::profile {

Profile shown(Profile profile);
Explanation shown(Explanation explanation);
Side shown(Side side);

}  // namespace kilter::profile
