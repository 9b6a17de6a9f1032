// A compiled network's defaults as text that is kept in the repository and reviewed, and the changes in it.
#pragma once

#include <string>

#include "compile/compile.h"

namespace kilter::replay {

/// One line per step: layer, operators, schedule, layouts and hash of the loop IR, separated by bars. The stages of a
/// layer are consecutive. `title` comes first.
std::string defaults_text(const std::string& title, const Compiled& compiled);

/// The differences between two such texts, layer by layer: changed fields with the old value above the new one, and
/// added and removed layers. "" if there are none; titles and comments do not count.
std::string difference(const std::string& old_text, const std::string& new_text);

}  // namespace kilter::replay
