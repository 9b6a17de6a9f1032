// What tuning has brought to a network and what more of it may bring, as far as records tell.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/schedule_source.h"
#include "tune/records/match.h"
#include "tune/tuner/plans/kept_plans.h"
#include "tune/tuner/trial_rate.h"

namespace kilter::tune {

/// A layer of a network as it runs now.
struct OutlookLayer {
  std::string node, problem, layouts, schedule;
  ScheduleSource from = ScheduleSource::fallback;
  double ms = 0;  ///< in one run
};

/// What the outlook is for.
struct OutlookFor {
  Query here;                          ///< target, device, threads
  std::string network = {};            ///< Record::network of its own records
  double minutes = 5;                  ///< of more tuning
  const KeptPlan* accepted = nullptr;  ///< the plan accepted for exactly this; may be null
  bool accepted_in_use = false;        ///< the layers run it
};

/// Layers that records say the same of.
struct OutlookPart {
  int64_t layers = 0;
  double ms = 0;
  double gain_ms = 0;  ///< expected
};

struct Outlook {
  double total_ms = 0;      ///< of the network
  int64_t records = 0;      ///< of this target, device and number of threads
  int64_t tuned_tasks = 0;  ///< of the records
  OutlookPart chosen;       ///< run under a record's, a layer plan's or a given schedule
  /// Run under the default, and a record of the task was faster: gain as measured there. Where a plan was accepted and
  /// is not in use, the layers that differ in it: gain as its own race had it.
  OutlookPart available;
  OutlookPart lost;           ///< faster alone, and not in the plan that was accepted
  OutlookPart settled;        ///< tuned, and the default won
  OutlookPart expected;       ///< not tuned; gain as tuned tasks of the same kind had it on average
  OutlookPart unknown;        ///< not tuned, and no task of their kind was
  int64_t like = 0;           ///< tuned tasks that `expected` rests on
  OutlookPart further;        ///< with schedules left to try: gain of `minutes` more
  OutlookPart prior;          ///< the part of `further` that rests on mean_regret() alone
  double minutes = 5;         ///< as asked for
  TrialRate rate;             ///< of these minutes
  std::string accepted = {};  ///< date of the accepted plan that is not in use; empty: none
};

/// Kinds are anchors without their extents (ProblemShape::form). A task counts as tuned with kEnoughTried schedules in
/// the records, or one where schedules have one knob at most, so that there are hardly any.
Outlook outlook(std::span<const OutlookLayer> layers, double total_ms, std::span<const Record> records,
                const OutlookFor& what);

/// Lines for a reader. `file`: of the records.
std::vector<std::string> text(const Outlook& outlook, const std::string& file);
/// The same in one line.
std::string summary(const Outlook& outlook);

}  // namespace kilter::tune
