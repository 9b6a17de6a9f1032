// Looking after a file of records: what may go, and what is wrong with it.
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
  /// Schedules of each problem, layouts, target, device, number of threads and code generator. With fewer than
  /// kEnoughTried (tune/tuner/plans/outlook.h) a tuned task no longer counts as tuned.
  size_t keep = 8;
  bool drop_failures = false;  ///< also all that are not ok; what was wrong or crashed can then be chosen again
  std::string before = {};     ///< only those measured before this date may go: see check_date(); empty: all
};

/// Throws usage, naming the option, for what is no "2026-03-01" or "2026-03-01T12:00:00Z" of the calendar; seconds and
/// minutes may be left out.
void check_date(std::string_view option, const std::string& date);

struct PrunePlan {
  std::set<std::string> ids;  ///< that go
  size_t measured = 0;        ///< of them, ok
  size_t failed = 0;          ///< of them, others
  size_t kept = 0;
};
/// Keeps all measurements of the best `keep` schedules by ranked() and of the best of each template, and all failures
/// unless told otherwise, and what `may_go` does not admit. All of a file: what bars a schedule and what competes with
/// it is looked for in all.
PrunePlan plan_prune(std::span<const Record> records, const PruneOptions& options, const Filter& may_go = {});

struct Verification {
  size_t sound = 0;                     ///< records without a fault
  std::vector<std::string> file;        ///< faults of the file
  std::vector<std::string> damaged;     ///< rows or lines that cannot be read
  std::vector<std::string> unreadable;  ///< of a newer version, or records whose problem or schedule does not parse
  bool passed() const { return file.empty() && damaged.empty() && unreadable.empty(); }
};
/// The file's own structure; that every row or line is a record whose id belongs to its content; that every problem
/// and every schedule of Kilter's parses and its template is known. `progress` gets how many are done, and of how many.
Verification verify(Store& store, const std::function<void(size_t, size_t)>& progress = {});

}  // namespace kilter::tune
