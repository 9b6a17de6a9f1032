// A profile as one self-contained HTML file.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace kilter::profile {

/// Returns the page for a profile in the form of profile::to_json(). If the profile has "explain", the page shows it:
///   {"summary": [text], "split": [{"what", "ms", "percent"}],
///    "findings": [{"step", "steps": [step], "name", "cause", "evidence": text or [text], "gain_ms", "gain_percent",
///                  "gain_percent_interval": [low, high], "how": "measured" or "predicted", "advice", "action"}],
///    "layers": [{"row", "causes": [{"cause", "evidence"}], "rejected": [{"template", "check", "limit", "got"}],
///                "runners_up": [{"schedule", "predicted_ms", "measured_ms"}], "approximates": text}],
///    "against": {"a": {"what", "ms", "conditions"}, "b": the same for the other runtime, "ratio": {"value", "low",
///                "high"}, "layers": [{"name", "a_ms", "b_ms"}]}}.
/// If the profile has "tuning": {"lines": [text], "action": command}, a section shows it. Texts may contain anything,
/// even bytes that are not UTF-8; they appear as text, never as markup. Figures that are not finite appear as a dash.
/// Throws bad_input if `profile` is not an object with a model, rows and a timeline.
std::string html_report(const nlohmann::json& profile);

}  // namespace kilter::profile
