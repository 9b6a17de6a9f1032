// Maintenance of record files: pruning and verification.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tune/records/store.h"

namespace kilter::tune {

struct PruneOptions {
  /// Schedules kept for each combination of problem, layouts, target, device, number of threads and code generator. If
  /// fewer than kEnoughTried (tune/tuner/plans/outlook.h) are kept, a tuned task no longer counts as tuned.
  size_t keep = 8;
  /// Whether to drop all records that are not ok; schedules that were wrong or crashed can then be chosen again.
  bool drop_failures = false;
  std::string before = {};  ///< only records measured before this date may go (check_date()); empty: all
};

/// Throws usage, naming the option, if `date` is not a valid date like "2026-03-01" or "2026-03-01T12:00:00Z". Seconds
/// and minutes may be left out.
void check_date(std::string_view option, const std::string& date);

struct PrunePlan {
  std::set<std::string> ids;  ///< records to remove
  size_t measured = 0;        ///< those that are ok
  size_t failed = 0;          ///< the others
  size_t kept = 0;
};
/// Decides which records to remove. Keeps all measurements of the best `keep` schedules by ranked() and of the best of
/// each template, all failures unless options.drop_failures is set, and all records that `may_go` does not select.
/// `records` must be all records of a file, since any of them may bar a schedule or compete with it.
PrunePlan plan_prune(std::span<const Record> records, const PruneOptions& options, const Filter& may_go = {});

struct Verification {
  size_t sound = 0;                     ///< records without a fault
  std::vector<std::string> file;        ///< faults of the file itself
  std::vector<std::string> damaged;     ///< rows or lines that cannot be read
  std::vector<std::string> unreadable;  ///< records of a newer version, or whose problem or schedule does not parse
  bool passed() const { return file.empty() && damaged.empty() && unreadable.empty(); }
};
/// Checks the file's own structure, that every row or line is a record whose id matches its content, and that every
/// problem and every Kilter schedule can be parsed and names a known template. `progress` receives the number done and
/// the total.
Verification verify(Store& store, const std::function<void(size_t, size_t)>& progress = {});

}  // namespace kilter::tune
