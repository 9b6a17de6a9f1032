// A layer plan as a file: what is chosen of each layer, to be kept, read, edited and compiled with.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "tune/tuner/plans/layer_choice.h"

namespace kilter::tune {

/// "# ..." with each line of `notes`, then "NODE = SCHEDULE threads=N layout=plain fuse=no|before|apart" with what is
/// given of it, a line each, in the order of the names.
std::string text(const Choices& choices, const std::string& notes);
/// Reads what text() writes; "#" starts a comment, blank lines are skipped. Throws bad_input with `where`, the line's
/// number, what was expected and found. `places`, where given, gets "net.plan line 3" of every layer.
Choices parse_choices(std::string_view text, const std::string& where,
                      std::map<std::string, std::string>* places = nullptr);
/// What a compiled network runs: the schedule of every layer, and what `options` ask of layers beside it.
Choices choices_in_use(const Plan& plan, const CompileOptions& options);

}  // namespace kilter::tune
