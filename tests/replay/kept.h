// The default schedules of a compiled network as text that is kept in the repository and reviewed, and changes to it.
#pragma once

#include <string>

#include "compile/compile.h"

namespace kilter::replay {

/// Returns `title`, then one line per step: layer, operators, schedule, layouts and hash of the loop IR, separated by
/// bars. The stages of a layer are consecutive lines.
std::string defaults_text(const std::string& title, const Compiled& compiled);

/// Returns the differences between two such texts, layer by layer: changed fields with the old value above the new one,
/// and added and removed layers. "" if there are none; titles and comments do not count.
std::string difference(const std::string& old_text, const std::string& new_text);

}  // namespace kilter::replay
