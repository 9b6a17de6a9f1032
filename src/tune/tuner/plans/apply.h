// Schedules for a network from tuning records and from what was chosen of each layer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "tune/records/match.h"
#include "tune/tuner/plans/kept_plans.h"
#include "tune/tuner/plans/layer_choice.h"

namespace kilter::tune {

struct ApplyOptions {
  std::string file;    ///< of the records, for the summary
  std::string device;  ///< fingerprint
  int threads = 1;
  std::string now = {};   ///< ISO 8601, for the age of records; empty: the current moment
  std::string tune = {};  ///< command that tunes what has no record, for the summary; may be empty
};

/// Whether a schedule's template takes the task with it, under the accuracy that is asked for and what is forbidden.
bool lowers(const Task& task, const Schedule& schedule, const CompileOptions& compile);

/// For every task the best record that matches, is not forbidden, that its template can lower, and that was faster than
/// today's default where it has a ratio over that (see OverDefault). The summary says how many tasks have one, at which
/// distances and what loss is expected, how many were tuned and keep the default, and how many were not, with the
/// command that would tune them. The words of a layer name its record, and say how it was matched, when and where it
/// was measured, and its ratio over the default there.
Recorded apply_records(const PassedGraph& passed, const CompileOptions& compile, const Matcher& matcher,
                       const ApplyOptions& options);

/// The schedules that apply_records() gives a graph from these records, as choices.
Choices history_best_choices(const Graph& graph, const CompileOptions& compile, std::span<const Record> records,
                             const ApplyOptions& options);

/// What is to be compiled, as a query for records.
Query query_of(const std::string& problem, const std::string& layouts, const std::string& fallback,
               const CompileOptions& compile, const ApplyOptions& options);
/// The words of a layer that runs `schedule`, whatever chose it: of the nearest record of that schedule for the very
/// problem. Nothing where there is none: what chose it did not look at others.
std::optional<std::string> words_of(const Matcher& matcher, const Query& query, const std::string& schedule,
                                    const ApplyOptions& options);

/// Without the schedules of the layers of which `goes` holds, and without layers of which nothing is left.
Choices without_schedules(Choices choices,
                          const std::function<bool(const std::string& node, const Schedule& schedule)>& goes);
/// Without the schedules that are forbidden, and without fusion that only a forbidden template could run.
Choices allowed(Choices choices, const std::vector<Forbidden>& forbidden);
/// The schedules of `choices`, which are those of `kept` but for forbidden ones. Summary and words say when the plan
/// was accepted, and by which ratio.
Recorded recorded_plan(const KeptPlan& kept, const Choices& choices, const ApplyOptions& options);

/// The schedules of `choices`, with `from` as the words of each layer. What else they hold goes into the options
/// before the passes (add_settings()).
Recorded recorded_choices(const Choices& choices, const std::string& from);

/// "0.941 (0.930 to 0.952) of the default's time"
std::string ratio_text(const Ratio& r);

}  // namespace kilter::tune
