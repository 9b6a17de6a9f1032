// Schedules for a network from tuning records and from choices made for single layers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compile/choices.h"
#include "compile/chooser.h"
#include "compile/compile.h"
#include "tune/records/match.h"
#include "tune/tuner/plans/kept_plans.h"

namespace kilter::tune {

struct ApplyOptions {
  std::string file;    ///< name of the place of records, for the summary
  std::string device;  ///< fingerprint
  int threads = 1;
  std::string now = {};   ///< ISO 8601, for the age of records; empty: the current time
  std::string tune = {};  ///< command that tunes the tasks without a record, for the summary; may be empty
  bool shipped = false;   ///< summary and words will be in a file for others: without the command and days
};

/// Whether a schedule is not forbidden and its template can lower the task with it under the requested accuracy.
bool lowers(const Task& task, const Schedule& schedule, const CompileOptions& compile);

/// For every task of a plan that was compiled with CompileContents::tasks, finds the best matching record whose
/// schedule is not forbidden, can be lowered by its template, and was certainly faster than today's default (see
/// OverDefault). The summary states how many tasks have a record, at which distances and with what expected loss, how
/// many were tuned and keep the default, and how many were not tuned, with the command that would tune them. A layer's
/// words name its record and state how it was matched, when and where it was measured, and its ratio over the default
/// there.
Recorded apply_records(const Compiled& plan, const CompileOptions& compile, const Matcher& matcher,
                       const ApplyOptions& options);

/// Returns the schedules that apply_records() finds for a graph in these records, as choices to force.
Choices history_best_choices(const Graph& graph, const CompileOptions& compile, std::span<const Record> records,
                             const ApplyOptions& options);

/// Describes a task to be compiled as a query for records.
Query query_of(const std::string& problem, const std::string& layouts, const std::string& fallback,
               const CompileOptions& compile, const ApplyOptions& options);
/// Returns the words for a layer that runs `schedule`, regardless of what chose it. They describe the nearest record of
/// that schedule for exactly this problem; empty if there is none.
std::optional<std::string> words_of(const Matcher& matcher, const Query& query, const std::string& schedule,
                                    const ApplyOptions& options);

/// Removes the schedules for which `goes` returns true, and layers that then have no other choice.
Choices without_schedules(Choices choices,
                          const std::function<bool(const std::string& node, const Schedule& schedule)>& goes);
/// Removes the schedules that are forbidden, and fusion that only a forbidden template could run.
Choices allowed(Choices choices, const std::vector<Forbidden>& forbidden);
/// Returns `choices`, which are those of `kept` without the forbidden ones. Summary and words state when the plan was
/// accepted, and its ratio over the default plan.
Recorded recorded_plan(const KeptPlan& kept, const Choices& choices, const ApplyOptions& options);

/// Returns `choices` with a record as the origin of each, described by the words `from`.
Choices from_record(Choices choices, const std::string& from);

/// "0.941 (0.930 to 0.952) of the default's time"
std::string ratio_text(const Ratio& r);

}  // namespace kilter::tune
