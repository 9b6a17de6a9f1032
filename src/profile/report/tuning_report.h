// A tuning run as one self-contained HTML file.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace kilter::profile {

/// Returns the page for the output of `kilter tune --json`: the outcome with "model", "settings" and "trace". Texts may
/// contain anything; they appear as text, never as markup. Figures that are not finite appear as a dash. Throws
/// bad_input if `run` is not an object with a model, tasks, phases, settings and a trace.
std::string html_tuning_report(const nlohmann::json& run);

}  // namespace kilter::profile
