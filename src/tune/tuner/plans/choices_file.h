// A layer plan as a file: the choices made for each layer, to be stored, read, edited and used in a compilation.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "compile/choices.h"
#include "compile/compile.h"

namespace kilter::tune {

/// The settings of a layer plan.
struct LayerPlan {
  Choices choices;
  std::optional<Precision> precision;  ///< nullopt: the plan does not set it
  std::set<std::string> keep_float;    ///< CompileOptions::keep_float
};

/// Returns "# ..." for each line of `notes`, then lines "--precision bf16" and "--keep-float NODE" if the plan sets a
/// precision, then a line "NODE = SCHEDULE threads=N layout=plain fuse=no|before|apart" for each layer, with only the
/// choices that were made, in the order of the names.
std::string text(const LayerPlan& plan, const std::string& notes);
/// Reads what text() writes. "#" starts a comment, and blank lines are skipped. Throws bad_input with `where`, the line
/// number, and what was expected and found. The origin of each choice is its place, as in "net.plan line 3".
LayerPlan parse_layer_plan(std::string_view text, const std::string& where);

/// The same for a plan that only contains choices.
std::string text(const Choices& choices, const std::string& notes);
Choices parse_choices(std::string_view text, const std::string& where);
/// Returns the choices that a compiled network runs: the schedule of every layer, and the other choices that were made.
Choices choices_in_use(const Compiled& compiled);

}  // namespace kilter::tune
