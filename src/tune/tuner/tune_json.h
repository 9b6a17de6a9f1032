// Tuning runs as JSON: events, one object each, and outcomes. doc/tuning.md explains every key.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "tune/tuner/tuner.h"

namespace kilter::tune {

/// {"value", "low", "high"}.
nlohmann::json to_json(const Ratio& ratio);
/// {"event": "phase" | "prepared" | "trial" | "gain" | "race", "seconds", "trials", ...}.
nlohmann::json to_json(const TuneEvent& event);
/// How far a run has come: {"event": "progress", ...}.
nlohmann::json to_json(const TuneProgress& progress);
/// What a run was asked to do: {"event": "start", "network", "threads", ...}.
nlohmann::json start_json(const TuneOptions& options);
nlohmann::json to_json(const GraphBest& best);
/// Without the trace.
nlohmann::json to_json(const TuneResult& result);
nlohmann::json to_json(const TuneTrace& trace);

}  // namespace kilter::tune
