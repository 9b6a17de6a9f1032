// A tuning run as one HTML file that loads nothing from anywhere.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace kilter::profile {

/// The page for what `kilter tune --json` writes: the outcome with "model", "settings" and "trace". Texts may hold
/// anything; they appear as text, never as markup. Figures that are not finite appear as a dash. Throws bad_input when
/// `run` is not an object with a model, tasks, phases, settings and a trace.
std::string html_tuning_report(const nlohmann::json& run);

}  // namespace kilter::profile
