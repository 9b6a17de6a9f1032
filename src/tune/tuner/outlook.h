// What tuning has brought to a network and what more of it may bring, as far as records tell.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/schedule_source.h"
#include "tune/records/match.h"

namespace kilter::tune {

/// A layer of a network as it runs now.
struct OutlookLayer {
  std::string problem, layouts, schedule;
  ScheduleSource from = ScheduleSource::fallback;
  double ms = 0;  ///< in one run
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
  OutlookPart available;    ///< run under the default, and a record of the task was faster: gain as measured there
  OutlookPart settled;      ///< tuned, and the default won
  OutlookPart expected;     ///< not tuned; gain as tuned tasks of the same kind had it on average
  OutlookPart unknown;      ///< not tuned, and no task of their kind was
  int64_t like = 0;         ///< tuned tasks that `expected` rests on
  OutlookPart further;      ///< of these the tuned ones with schedules left to try; gain by expected_left()
};

/// Kinds are anchors without their extents (ProblemShape::form). A task counts as tuned with kEnoughTried schedules in
/// the records, or one where schedules have one knob at most, so that there are hardly any. `query`: target, device,
/// threads.
Outlook outlook(std::span<const OutlookLayer> layers, double total_ms, std::span<const Record> records,
                const Query& query);

/// With so many the mean regret of the default searcher is two and a half percent (doc/search.md); some spaces have 12
/// points.
constexpr int64_t kEnoughTried = 8;

/// Share of a layer's time that is expected to be left after so many schedules of its task: the default searcher's mean
/// regret on the measured tables (doc/search.md).
double expected_left(int64_t tried);

/// Lines for a reader. `file`: of the records.
std::vector<std::string> text(const Outlook& outlook, const std::string& file);

}  // namespace kilter::tune
