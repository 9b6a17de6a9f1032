// The gain that tuning has brought for a network and the gain that more tuning may bring, according to the records.
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

/// A layer of a network in its present form.
struct OutlookLayer {
  std::string node, problem, layouts, schedule;
  ScheduleSource from = ScheduleSource::fallback;
  double ms = 0;  ///< time in one run
};

/// The conditions of an outlook.
struct OutlookFor {
  Query here;                          ///< target, device, threads
  std::string network = {};            ///< Record::network of the network's own records
  double minutes = 5;                  ///< additional tuning time
  const KeptPlan* accepted = nullptr;  ///< the plan accepted for exactly this network; may be null
  bool accepted_in_use = false;        ///< the layers run `accepted`
};

/// Layers about which the records say the same.
struct OutlookPart {
  int64_t layers = 0;
  double ms = 0;
  double gain_ms = 0;  ///< expected
};

struct Outlook {
  double total_ms = 0;      ///< time of the network
  int64_t records = 0;      ///< of this target, device and number of threads
  int64_t tuned_tasks = 0;  ///< tasks tuned in these records
  OutlookPart chosen;       ///< run under a schedule from a record, a layer plan or an option
  /// Layers that run the default although a record of the task was faster, with the gain measured there. If a plan was
  /// accepted and is not in use: the layers that differ in it, with the gain measured in its race.
  OutlookPart available;
  OutlookPart lost;           ///< a record was faster, but is not part of the accepted plan
  OutlookPart settled;        ///< tuned, and the default won
  OutlookPart expected;       ///< not tuned; gain is the average of tuned tasks of the same kind
  OutlookPart unknown;        ///< not tuned, and no task of their kind was tuned
  int64_t like = 0;           ///< number of tuned tasks that `expected` is based on
  OutlookPart further;        ///< schedules are left to try; gain expected from `minutes` more
  OutlookPart prior;          ///< the part of `further` that is based only on mean_regret()
  double minutes = 5;         ///< OutlookFor::minutes
  TrialRate rate;             ///< the trial rate assumed for these minutes
  std::string accepted = {};  ///< date of the accepted plan if it is not in use, otherwise empty
};

/// Estimates the outlook. A kind is an anchor without its extents (ProblemShape::form). A task counts as tuned if the
/// records contain kEnoughTried of its schedules, or one schedule if schedules have at most one knob, since there are
/// then hardly any others.
Outlook outlook(std::span<const OutlookLayer> layers, double total_ms, std::span<const Record> records,
                const OutlookFor& what);

/// Returns the outlook as lines of text. `file`: name of the records file.
std::vector<std::string> text(const Outlook& outlook, const std::string& file);
/// Returns the outlook as one line of text.
std::string summary(const Outlook& outlook);

}  // namespace kilter::tune
