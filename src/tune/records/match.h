// Finds the record that fits a task best, and its distance from the task: a difference in thread count, device,
// epilogue or shape, for example. Every distance has an expected loss and a text.
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

/// The ways in which a record may differ from a query, nearest first.
enum class Distance : uint8_t {
  exact,     ///< no difference
  codegen,   ///< version of the code: the code generator, the schedule's template, or the default's
  layouts,   ///< layouts of the task's inputs and outputs
  threads,   ///< number of threads
  family,    ///< a different machine of the same family (same_family())
  epilogue,  ///< the nodes after the anchor
  shape,     ///< extents, close in log space
};

/// The expected loss compared with a record without the difference. This is an estimate, like those in
/// base/other_threads.h.
struct DistanceRow {
  Distance distance;
  std::string_view name;
  std::string_view meaning;
  double loss_percent;
  double loss_per_doubling = 0;  ///< additional percent for each doubling or halving of an extent
};
std::span<const DistanceRow> all_distances();
std::string_view name(Distance distance);

/// The largest distance between extents (sum of |log2|) that counts as near.
constexpr double kMostDoublings = 2;

/// Describes the code to be compiled.
struct Query {
  std::string problem;
  std::string layouts;           ///< empty: any
  std::string target;            ///< Target::name
  std::string device;            ///< Device::fingerprint(); empty: any
  int threads = 1;               ///< 0: any
  KernelVersions versions = {};  ///< of the code generator; empty: any
  /// The default schedule of exactly this task. Ratios are converted so that they are relative to it; if it is empty,
  /// the ratios stay as measured.
  std::string fallback = {};
};

struct Match {
  Record record;
  /// The schedule's time divided by the default's. Empty if the record has no ratio, or if it was measured against a
  /// different default and no record relates the two. For a record of a different problem, the divisor is the time of
  /// that problem's default.
  std::optional<Ratio> ratio;
  bool by_other_default = false;        ///< `ratio` is converted from a different default: see OverDefault
  Distance distance = Distance::exact;  ///< the largest of `differences`
  std::vector<Distance> differences;    ///< all differences, nearest first; empty: exact
  double loss_percent = 0;              ///< for all differences together
  std::string words;                    ///< one line: "tuned at 1 thread, used at 2; expected loss about 8 %"
};

/// Whether schedules tuned on one machine can be used on the other: their fingerprints have the same widest vectors and
/// the same sizes of L1 and L2. Brand, clock, L3 and number of CPUs may differ.
bool same_family(std::string_view fingerprint_a, std::string_view fingerprint_b);

/// Schedules that were ever wrong or crashed, by problem and target, regardless of layouts and threads.
class Barred {
 public:
  explicit Barred(std::span<const Record> records);
  bool holds(const std::string& problem, const std::string& target, const std::string& schedule) const;

 private:
  std::set<std::tuple<std::string, std::string, std::string>> all_;
};

/// Bars the schedule of `named` for its problem and target: its successful measurements in `records` become failures
/// with this reason. Existing failures keep theirs.
void bar(std::vector<Record>& records, const Record& named, const std::string& reason);

/// Returns one record for each schedule, best first. All records must be of one problem and one machine. Leaves out
/// records that are not `ok` and barred schedules. Of several measurements of a schedule under equal conditions, the
/// median counts (of two, the worse), so that none wins by chance. Records with a ratio below 1 come first, ordered by
/// the upper end of the interval, then the others by time. On a tie, the newer record comes first.
std::vector<const Record*> ranked(std::span<const Record* const> records, const Barred& barred,
                                  const OverDefault& over = {});

/// Returns the best record of each (problem, target, device, threads), in order of first appearance: history-best.
std::vector<Record> history_best(std::span<const Record> records);

/// Records with indexes for queries.
class Matcher {
 public:
  explicit Matcher(std::vector<Record> records);

  /// Decides whether a record may be returned. The match is complete except for Match::words.
  using Takes = std::function<bool(const Match&)>;

  /// Returns up to `most` matches that `takes` accepts (empty: all), nearest first. Records for a different target, or
  /// from a different machine family or system, never match. For each schedule, only the nearest record is offered; if
  /// its ratio over today's default is unknown, farther ones are offered, too. A schedule may still not fit the shape,
  /// so lower it before using it.
  std::vector<Match> matches(const Query& query, size_t most = 8, const Takes& takes = {}) const;
  /// Returns the first match.
  std::optional<Match> best(const Query& query, const Takes& takes = {}) const;

  /// Whether the schedule was ever wrong, crashed or barred for this problem.
  bool barred(const std::string& problem, const std::string& target, const std::string& schedule) const {
    return barred_.holds(problem, target, schedule);
  }
  /// Number of records from other systems that have a Kilter schedule for the problem's anchor. They never match, since
  /// they are not relative to the default schedule and not from this machine.
  int64_t imported(const std::string& problem) const;
  std::span<const Record> records() const { return records_; }

 private:
  struct Group {
    std::vector<Distance> differences;
    std::vector<const Record*> records;
  };
  /// The common properties of a group's records: expected loss, problem, device, threads.
  using GroupKey = std::tuple<double, std::string, std::string, int>;

  std::vector<Distance> differences(const Record& record, const Query& query, double doublings) const;
  std::map<GroupKey, Group> groups(const Query& query) const;

  std::vector<Record> records_;
  std::vector<ProblemShape> shapes_;                    ///< by record
  std::map<std::string, std::vector<size_t>> by_form_;  ///< records that may match, by the form of their problem
  std::map<std::string, int64_t> imported_;             ///< by anchor
  Barred barred_;
};

/// "2 imported records for these problems are not used: ..."; empty for none.
std::string imported_text(int64_t imported);

}  // namespace kilter::tune
