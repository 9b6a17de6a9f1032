// The time of a network, measured on this machine or on that of an agent, as `kilter bench` reports it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "measure/conditions.h"
#include "measure/evaluator.h"
#include "on_agent.h"

namespace kilter::tool {

struct Bench {
  std::string network, processor;
  int threads = 1;
  Evaluation evaluation;
  Conditions conditions;
  nlohmann::json more;     ///< fields of the report
  std::string place = {};  ///< a line about the other machine that ran it; empty if this one did
};

/// Returns the report's fields about a compiled network.
nlohmann::json compile_facts(const Compiled& compiled);
/// Completes conditions with what is known from the samples, and with the program's version.
Conditions conditions_of(Conditions conditions, const Evaluation& evaluation);
/// Returns the measurement that consists of runs on an agent's machine.
Bench bench_of(AgentNetwork& network, const std::vector<tune::Lap>& runs);
nlohmann::json report_of(const Bench& bench);

}  // namespace kilter::tool
