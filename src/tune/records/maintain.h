// Looking after a file of records: what may go, and what is wrong with it.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tune/records/store.h"

namespace kilter::tune {

struct PruneOptions {
  size_t keep = 5;             ///< schedules of each problem, target, device and number of threads
  bool drop_failures = false;  ///< also all that are not ok; what was wrong or crashed can then be chosen again
  std::string before = {};     ///< of Kilter's records, only those measured before this date (ISO 8601) may go
};

struct PrunePlan {
  std::set<std::string> ids;  ///< that go
  size_t measured = 0;        ///< of them, ok
  size_t failed = 0;          ///< of them, others
  size_t kept = 0;
};
/// Keeps all measurements of the best `keep` schedules by ranked(), and all failures unless told otherwise.
PrunePlan plan_prune(std::span<const Record> records, const PruneOptions& options);

struct Verification {
  size_t sound = 0;                     ///< records without a fault
  std::vector<std::string> file;        ///< faults of the file
  std::vector<std::string> damaged;     ///< rows or lines that cannot be read
  std::vector<std::string> unreadable;  ///< records whose problem or schedule does not parse
  bool passed() const { return file.empty() && damaged.empty() && unreadable.empty(); }
};
/// The file's own structure; that every row or line is a record whose id belongs to its content; that every problem
/// and every schedule of Kilter's parses and its template is known. `progress` gets how many are done, and of how many.
Verification verify(Store& store, const std::function<void(size_t, size_t)>& progress = {});

}  // namespace kilter::tune
