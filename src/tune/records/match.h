// Which record serves a task, and how far it is from it: in thread count, device, epilogue, shape. Every distance has
// an expected loss, and is told in words.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "tune/records/over_default.h"
#include "tune/records/problem_words.h"
#include "tune/records/record.h"

namespace kilter::tune {

/// In what a record may differ from a query, nearest first.
enum class Distance : uint8_t {
  exact,     ///< in nothing
  codegen,   ///< version of the code generator
  layouts,   ///< layouts at the task's borders
  threads,   ///< number of threads
  family,    ///< another machine of the same family: see same_family()
  epilogue,  ///< what follows the anchor
  shape,     ///< extents, near in log space
};

/// The expected loss against a record without the difference: estimates, which stand here and in
/// base/other_threads.h alone.
struct DistanceRow {
  Distance distance;
  std::string_view name;
  std::string_view meaning;
  double loss_percent;
  double loss_per_doubling = 0;  ///< percent more for each doubling or halving of an extent
};
std::span<const DistanceRow> all_distances();
std::string_view name(Distance distance);

/// Extents further apart than this (sum of |log2|) are not near.
constexpr double kMostDoublings = 2;

/// What is to be compiled.
struct Query {
  std::string problem;
  std::string layouts;  ///< empty: any
  std::string target;   ///< Target::name
  std::string device;   ///< Device::fingerprint(); empty: any
  int threads = 1;      ///< 0: any
  std::string codegen;  ///< empty: any
  /// The default schedule of the very task: ratios of its records are over this one. Empty: as they were measured.
  std::string fallback = {};
};

struct Match {
  Record record;
  /// Time over the default's; nothing where the record has none, or was measured against another default and nothing
  /// relates the two. Of another problem it is over that problem's default.
  std::optional<Ratio> ratio;
  bool by_other_default = false;        ///< `ratio` is made of two: see OverDefault
  Distance distance = Distance::exact;  ///< the largest of them
  std::vector<Distance> differences;    ///< all, nearest first; empty: exact
  double loss_percent = 0;              ///< of all together
  std::string words;                    ///< one line: "tuned at 1 thread, used at 2; expected loss about 8 %"
};

/// Whether schedules of one machine serve the other: the same widest vectors and the same sizes of L1 and L2 in their
/// fingerprints. Brand, clock, L3 and number of CPUs may differ.
bool same_family(std::string_view fingerprint_a, std::string_view fingerprint_b);

/// Schedules that were ever wrong or crashed, by problem and target. Layouts and threads do not excuse them.
class Barred {
 public:
  explicit Barred(std::span<const Record> records);
  bool holds(const std::string& problem, const std::string& target, const std::string& schedule) const;

 private:
  std::set<std::tuple<std::string, std::string, std::string>> all_;
};

/// Bars the schedule of `named` for its problem and target: in `records`, what measured it counts as a failure for this
/// reason. What failed by itself stays as it is.
void bar(std::vector<Record>& records, const Record& named, const std::string& reason);

/// One record for each schedule: of several measurements of a schedule under equal conditions the middle one, the
/// worse of two, so that a lucky one does not win. Only `ok`, none that is barred. The best first: ratios below 1
/// before all that have none, those with the lower upper end of their interval first; else the shorter time. Equal
/// ones: the newer. All are of one problem and one machine.
std::vector<const Record*> ranked(std::span<const Record* const> records, const Barred& barred,
                                  const OverDefault& over = {});

/// The best record of each (problem, target, device, threads), in order of first appearance: history-best.
std::vector<Record> history_best(std::span<const Record> records);

/// Records with the indexes for queries.
class Matcher {
 public:
  explicit Matcher(std::vector<Record> records);

  /// Whether a record answers; it has all but Match::words.
  using Takes = std::function<bool(const Match&)>;

  /// Nearest first, `most` at most, of those that `takes` (empty: all). Records of another target or machine family and
  /// of other systems never answer. Of one schedule the nearest is asked alone, unless its ratio over the default of
  /// now is not known. A schedule may still not fit the shape: who takes one lowers it first.
  std::vector<Match> matches(const Query& query, size_t most = 8, const Takes& takes = {}) const;
  /// The first of them.
  std::optional<Match> best(const Query& query, const Takes& takes = {}) const;

  /// Whether the schedule was ever wrong, crashed or was barred at this problem.
  bool barred(const std::string& problem, const std::string& target, const std::string& schedule) const {
    return barred_.holds(problem, target, schedule);
  }
  /// How many records of other systems have a schedule of Kilter's for the problem's anchor. They never answer: nothing
  /// says how they compare with the default schedule, or how fast they are here.
  int64_t imported(const std::string& problem) const;
  std::span<const Record> records() const { return records_; }

 private:
  struct Group {
    std::vector<Distance> differences;
    std::vector<const Record*> records;
  };
  /// What a group's records have in common: expected loss, problem, device, threads.
  using GroupKey = std::tuple<double, std::string, std::string, int>;

  std::vector<Distance> differences(const Record& record, const Query& query, double doublings) const;
  std::map<GroupKey, Group> groups(const Query& query) const;

  std::vector<Record> records_;
  std::vector<ProblemShape> shapes_;                    ///< by record
  std::map<std::string, std::vector<size_t>> by_form_;  ///< those that may answer, by the form of their problem
  std::map<std::string, int64_t> imported_;             ///< by anchor
  Barred barred_;
};

/// "2 imported records of these problems are not used: ..."; empty for none.
std::string imported_text(int64_t imported);

}  // namespace kilter::tune
