// Tuning runs as JSON: one object for each event, and results. doc/tuning.md explains every key.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "tune/tuner/tuner.h"

namespace kilter::tune {

/// {"value", "low", "high"}.
nlohmann::json to_json(const Ratio& ratio);
/// {"event": "phase" | "prepared" | "trial" | "gain" | "race", "seconds", "trials", ...}.
nlohmann::json to_json(const TuneEvent& event);
/// The progress of a run: {"event": "progress", ...}.
nlohmann::json to_json(const TuneProgress& progress);
/// The settings of a run: {"event": "start", "network", "threads", ...}.
nlohmann::json start_json(const TuneOptions& options);
nlohmann::json to_json(const GraphBest& best);
/// Leaves out the trace.
nlohmann::json to_json(const TuneResult& result);
nlohmann::json to_json(const TuneTrace& trace);

}  // namespace kilter::tune
