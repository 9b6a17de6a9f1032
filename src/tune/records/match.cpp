#include "tune/records/match.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/other_threads.h"
#include "base/text.h"

namespace kilter::tune {
namespace {

// Estimates, to be replaced by measured figures. Their order matters more than their size: a nearer distance must lose
// less than a farther one.
constexpr std::array kRows = {
    DistanceRow{Distance::exact, "exact", "the same problem, layouts, target, device, threads and code", 0},
    DistanceRow{Distance::codegen, "codegen", "another version of the code generator or of a template's kernels", 1},
    DistanceRow{Distance::layouts, "layouts", "other layouts of the task's inputs or outputs", 2},
    DistanceRow{Distance::threads, "threads", "another number of threads", kOtherThreadsLoss},
    DistanceRow{Distance::family, "family", "another machine with the same vectors, L1 and L2", 5},
    DistanceRow{Distance::epilogue, "epilogue", "another epilogue: the lines differ only after the \"+\"", 6},
    DistanceRow{Distance::shape, "shape", "a similar shape: the same windows and types, extents close in log space", 8,
                10},
};

/// The part of a fingerprint that identifies a family: everything from the widest vectors to L2.
std::string family_of(std::string_view fingerprint) {
  const std::vector<std::string_view> parts = split(fingerprint, ',');
  std::string family;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    const std::string_view next = trim(parts[i + 1]);
    if (next.starts_with("L1 ")) family = std::string(trim(parts[i])) + ", " + std::string(next);
    if (next.starts_with("L2 ") && !family.empty()) family += ", " + std::string(next);
  }
  return family;
}

/// A record with its time relative to the default's.
struct Judged {
  const Record* record;
  std::optional<Ratio> ratio;
};

/// Sort key among candidates of one set of conditions: paired ratios below 1 first, then times.
std::pair<int, double> key(const Judged& j) {
  // Uses the upper end of the interval. If there are few samples, it is high, so that a candidate does not win by
  // chance.
  if (j.ratio && j.ratio->value < 1) return {0, j.ratio->high};
  if (!j.record->samples_ms.empty()) return {1, j.record->ms()};
  return {2, j.ratio ? j.ratio->value : 0};
}

/// Strict weak ordering, better first.
bool better(const Judged& a, const Judged& b) {
  const auto ka = key(a), kb = key(b);
  if (ka != kb) return ka < kb;
  if (a.record->conditions.date != b.record->conditions.date)
    return a.record->conditions.date > b.record->conditions.date;
  return a.record->schedule < b.record->schedule;
}

/// Returns, of several measurements of the same schedule, the one that counts.
Judged counting(std::vector<Judged> same) {
  // Paired measurements are preferred to all others.
  const bool paired = std::any_of(same.begin(), same.end(), [](const Judged& j) { return j.ratio.has_value(); });
  if (paired) std::erase_if(same, [](const Judged& j) { return !j.ratio; });
  // A measurement with far more samples than the others, such as one from a race of whole networks, is the only one
  // that counts.
  const auto size = [](const Judged& j) { return j.record->samples_ms.size(); };
  const Judged most =
      *std::max_element(same.begin(), same.end(), [&](const Judged& a, const Judged& b) { return size(a) < size(b); });
  const bool race = std::all_of(same.begin(), same.end(),
                                [&](const Judged& j) { return j.record == most.record || 2 * size(j) <= size(most); });
  if (race) return most;
  std::sort(same.begin(), same.end(), better);
  return same[same.size() / 2];
}

std::string difference_text(Distance distance, const Record& r, const Query& q) {
  const auto known = [](const std::string& text) { return text.empty() ? std::string("none") : text; };
  switch (distance) {
    case Distance::exact:
      break;
    case Distance::codegen:
      return fmt::format("measured with {}, used with {}", known(r.conditions.codegen), code_version(r, q.versions));
    case Distance::epilogue:
      return fmt::format("tuned with the epilogue {}, used with {}", known(std::string(epilogue_of(r.problem))),
                         known(std::string(epilogue_of(q.problem))));
    case Distance::layouts:
      return fmt::format("tuned for layouts {}, used for {}", known(r.layouts), q.layouts);
    case Distance::family:
      return fmt::format("tuned on {}, used on {}", known(r.conditions.device), q.device);
    case Distance::threads:
      return fmt::format("tuned at {}, used at {}", threads_text(r.conditions.threads), q.threads);
    case Distance::shape:
      return fmt::format("tuned for {}", anchor_of(r.problem));
  }
  return "exact";
}

double loss_of(const std::vector<Distance>& differences, double doublings) {
  double kept = 1;
  for (const Distance d : differences) {
    const DistanceRow& row = kRows.at(static_cast<size_t>(d));
    kept *= 1 - std::min(row.loss_percent + row.loss_per_doubling * doublings, 99.0) / 100;
  }
  return 100 * (1 - kept);
}

std::string words_of(const Match& match, const Query& query) {
  if (match.differences.empty()) return "exact: tuned under the same conditions";
  std::vector<std::string> parts;
  for (const Distance d : match.differences) parts.push_back(difference_text(d, match.record, query));
  return fmt::format("{}; {}", fmt::join(parts, "; "), expected_loss_text(match.loss_percent));
}

}  // namespace

std::span<const DistanceRow> all_distances() { return kRows; }

std::string_view name(Distance distance) { return kRows.at(static_cast<size_t>(distance)).name; }

bool same_family(std::string_view a, std::string_view b) {
  const std::string family = family_of(a);
  return a == b || (!family.empty() && family == family_of(b));
}

Barred::Barred(std::span<const Record> records) {
  for (const Record& r : records) {
    if (r.status == Status::wrong || r.status == Status::crash)
      all_.emplace(r.problem, r.conditions.target, r.schedule);
  }
}

bool Barred::holds(const std::string& problem, const std::string& target, const std::string& schedule) const {
  return all_.contains({problem, target, schedule});
}

void bar(std::vector<Record>& records, const Record& named, const std::string& reason) {
  const std::string problem = named.problem, target = named.conditions.target, schedule = named.schedule;
  for (Record& r : records) {
    if (r.status != Status::ok || r.problem != problem || r.conditions.target != target || r.schedule != schedule)
      continue;
    r.status = Status::wrong, r.error = reason;  // every reader of records avoids wrong schedules
    r.samples_ms.clear(), r.versus.reset();
  }
}

std::vector<const Record*> ranked(std::span<const Record* const> records, const Barred& barred,
                                  const OverDefault& over) {
  std::map<std::string, std::vector<Judged>> by_schedule;
  for (const Record* r : records) {
    if (r->status != Status::ok || barred.holds(r->problem, r->conditions.target, r->schedule)) continue;
    by_schedule[r->schedule].push_back({r, over.of(*r)});
  }
  std::vector<Judged> best;
  for (auto& [schedule, same] : by_schedule) best.push_back(counting(std::move(same)));
  std::sort(best.begin(), best.end(), better);
  std::vector<const Record*> all;
  for (const Judged& j : best) all.push_back(j.record);
  return all;
}

std::vector<Record> history_best(std::span<const Record> records) {
  using Key = std::tuple<std::string, std::string, std::string, int>;
  std::vector<Key> order;
  std::map<Key, std::vector<const Record*>> groups;
  for (const Record& r : records) {
    const Key key{r.problem, r.conditions.target, r.conditions.device, r.conditions.threads};
    if (!groups.contains(key)) order.push_back(key);
    groups[key].push_back(&r);
  }
  const Barred barred(records);
  std::vector<Record> best;
  for (const Key& key : order) {
    if (const auto all = ranked(groups[key], barred); !all.empty()) best.push_back(*all.front());
  }
  return best;
}

Matcher::Matcher(std::vector<Record> records) : records_(std::move(records)), barred_(records_) {
  for (size_t i = 0; i < records_.size(); ++i) {
    const Record& r = records_[i];
    shapes_.push_back(shape_of(r.problem));
    if (r.status != Status::ok || !r.mapped()) continue;
    if (r.imported())
      ++imported_[std::string(anchor_of(r.problem))];
    else if (!barred_.holds(r.problem, r.conditions.target, r.schedule))
      by_form_[shapes_[i].form].push_back(i);
  }
}

std::vector<Distance> Matcher::differences(const Record& r, const Query& q, double doublings) const {
  std::vector<Distance> all;
  if (!q.versions.empty() && r.conditions.codegen != code_version(r, q.versions)) all.push_back(Distance::codegen);
  if (!q.layouts.empty() && r.layouts != q.layouts) all.push_back(Distance::layouts);
  if (q.threads > 0 && r.conditions.threads != q.threads) all.push_back(Distance::threads);
  if (!q.device.empty() && r.conditions.device != q.device) all.push_back(Distance::family);
  if (epilogue_of(r.problem) != epilogue_of(q.problem)) all.push_back(Distance::epilogue);
  if (doublings > 0) all.push_back(Distance::shape);
  return all;
}

// The records of a group have the same distance and the same problem and come from one machine, so that their
// measurements are comparable.
std::map<Matcher::GroupKey, Matcher::Group> Matcher::groups(const Query& query) const {
  std::map<GroupKey, Group> all;
  const ProblemShape shape = shape_of(query.problem);
  const auto form = by_form_.find(shape.form);
  if (form == by_form_.end()) return all;
  for (const size_t i : form->second) {
    const Record& r = records_[i];
    const std::optional<double> doublings = shape_distance(shapes_[i], shape);
    if (!doublings || *doublings > kMostDoublings || r.conditions.target != query.target) continue;
    if (!query.device.empty() && !same_family(r.conditions.device, query.device)) continue;
    if (barred_.holds(query.problem, query.target, r.schedule)) continue;
    std::vector<Distance> differ = differences(r, query, *doublings);
    Group& group = all[{loss_of(differ, *doublings), r.problem, r.conditions.device, r.conditions.threads}];
    group.differences = std::move(differ);
    group.records.push_back(&r);
  }
  return all;
}

std::vector<Match> Matcher::matches(const Query& query, size_t most, const Takes& takes) const {
  std::vector<Match> all;
  std::set<std::string> asked;
  for (const auto& [key, group] : groups(query)) {
    const auto& [loss, problem, device, threads] = key;
    const OverDefault over = problem == query.problem ? OverDefault(group.records, query.fallback) : OverDefault();
    for (const Record* r : ranked(group.records, barred_, over)) {
      if (all.size() == most) return all;
      const std::optional<Ratio> ratio = over.of(*r);
      if (!ratio ? asked.contains(r->schedule) : !asked.insert(r->schedule).second) continue;
      Match match{*r, ratio, over.converts(*r), Distance::exact, group.differences, loss, {}};
      if (!match.differences.empty()) match.distance = match.differences.back();
      if (takes && !takes(match)) continue;
      match.words = words_of(match, query);
      all.push_back(std::move(match));
    }
  }
  return all;
}

std::optional<Match> Matcher::best(const Query& query, const Takes& takes) const {
  std::vector<Match> all = matches(query, 1, takes);
  return all.empty() ? std::nullopt : std::optional(std::move(all.front()));
}

int64_t Matcher::imported(const std::string& problem) const {
  const auto it = imported_.find(std::string(anchor_of(problem)));
  return it == imported_.end() ? 0 : it->second;
}

std::string imported_text(int64_t imported) {
  if (imported == 0) return {};
  return fmt::format(
      "{} imported record{} for these problems {} not used: other systems did not measure {} against Kilter's default",
      imported, imported == 1 ? "" : "s", imported == 1 ? "is" : "are", imported == 1 ? "it" : "them");
}

}  // namespace kilter::tune
