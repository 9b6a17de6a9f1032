// Checks an agent's answer before a tuner uses it: whether its sizes, numbers and times are possible for a runner. The
// reference kernels check whether values are correct. An agent may be broken, or may not be Kilter's agent at all.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/agent/trial_job.h"
#include "tune/run/runner.h"

namespace kilter::fleet {

/// An agent's answer, with what is needed to check it.
struct Answered {
  TrialAnswer answer;
  std::string agent;      ///< the agent that gave the answer
  double elapsed_ms = 0;  ///< from the job's submission to its end, by the clock of this machine
};

/// The names of the steps of each variant.
using StepNames = std::map<tune::VariantId, std::vector<std::string>>;

/// Decodes an answer. Throws bad_input, or unsupported for another protocol, with the agent's name.
TrialAnswer read_answer(const std::string& agent, std::string_view bytes);

// These throw bad_input for an answer that no runner would give, with the agent's name, what was expected, and what to
// do.

/// Checks the answer to a job that loads variants.
void check_loaded(const Answered& given, std::span<const tune::VariantId> ids, const StepNames& steps);
/// Checks the answer to a job that measures variants.
void check_laps(const Answered& given, std::span<const tune::VariantId> ids, const StepNames& steps);
/// Checks the answer to a job that traces a variant.
void check_traced(const Answered& given, tune::VariantId id, std::span<const tune::Tap> taps, const StepNames& steps);
/// Checks the answer to a job that measures peaks.
void check_peaks(const Answered& given, int threads);

}  // namespace kilter::fleet
