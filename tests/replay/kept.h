// Defaults of a compiled network as a text that is kept in the repository and reviewed, and what changed in it.
#pragma once

#include <string>

#include "compile/compile.h"

namespace kilter::replay {

/// One line a step: layer, operators, schedule, layouts, hash of the loop IR, between bars; stages of one layer follow
/// each other. `title` stands above.
std::string defaults_text(const std::string& title, const Compiled& compiled);

/// What differs between two such texts, layer by layer: the fields that changed, old above new; layers that came and
/// went. "" when nothing does; titles and comments count for nothing.
std::string difference(const std::string& old_text, const std::string& new_text);

}  // namespace kilter::replay
