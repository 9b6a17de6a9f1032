#include "tune/records/maintain.h"

#include <algorithm>
#include <map>
#include <new>
#include <tuple>

#include "base/error.h"
#include "base/text.h"
#include "measure/conditions.h"
#include "schedule/problem/problem.h"
#include "schedule/schedule.h"
#include "tune/records/match.h"

namespace kilter::tune {
namespace {

/// Returns the fault in a schedule's text; empty if it can be read.
std::string schedule_fault(const std::string& text) {
  try {
    const Schedule schedule = parse_schedule(text);
    if (schedule.name != "reference" && find_template(schedule.name) == nullptr)
      return fmt::format("schedule '{}': no template '{}' in this version", text, schedule.name);
  } catch (const Error& e) {
    return e.message();
  }
  return {};
}

std::string problem_fault(const std::string& problem) {
  try {
    parse_problem(problem);
  } catch (const Error& e) {
    return e.message();
  } catch (const std::bad_alloc&) {
    return fmt::format("problem '{}': its operands do not fit this machine's memory", problem);
  }
  return {};
}

}  // namespace

void check_date(std::string_view option, const std::string& date) {
  if (second_of(date)) return;
  fail(ErrorKind::usage, "{} {}: expected a date such as 2026-03-01, or a date and time such as 2026-03-01T12:00:00Z",
       option, date);
}

namespace {

/// Returns a key that differs between records of different code: the code generator, and whether the kernels are
/// current. All older kernels share a key.
std::string code_of(const Record& r) {
  const std::string& codegen = r.conditions.codegen;
  const std::string generator = codegen.substr(0, codegen.find(','));
  return codegen == code_version(r, KernelVersions(generator)) ? generator + ", today" : generator;
}

/// Records with equal keys compete for the places that are kept.
using PruneKey = std::tuple<std::string, std::string, std::string, std::string, int, std::string>;
PruneKey key_of(const Record& r) {
  const Conditions& c = r.conditions;
  return {r.problem, r.layouts, c.target, c.device, c.threads, code_of(r)};
}

/// Returns the `keep` best schedules and the best of each template; the graph tuner also considers the latter.
std::set<std::string> schedules_kept(const std::vector<const Record*>& best_first, size_t keep) {
  std::set<std::string> kept, templates;
  for (size_t i = 0; i < best_first.size(); ++i) {
    const std::string& schedule = best_first[i]->schedule;
    const bool first = best_first[i]->mapped() && templates.insert(schedule.substr(0, schedule.find(' '))).second;
    if (i < keep || (first && keep > 0)) kept.insert(schedule);
  }
  return kept;
}

}  // namespace

PrunePlan plan_prune(std::span<const Record> records, const PruneOptions& options, const Filter& may_go) {
  std::map<PruneKey, std::vector<const Record*>> groups;
  for (const Record& r : records) groups[key_of(r)].push_back(&r);
  const Barred barred(records);
  std::map<PruneKey, std::set<std::string>> best;
  for (const auto& [key, group] : groups) best[key] = schedules_kept(ranked(group, barred), options.keep);
  PrunePlan plan;
  for (const Record& r : records) {
    const bool ok = r.status == Status::ok;
    const std::string& date = r.conditions.date;  // empty: unknown, so not before any date
    const bool stays = (ok ? best[key_of(r)].contains(r.schedule) : !options.drop_failures) || !may_go.admits(r) ||
                       (!options.before.empty() && (date.empty() || date >= options.before));
    if (stays) {
      ++plan.kept;
    } else {
      plan.ids.insert(r.id());
      ++(ok ? plan.measured : plan.failed);
    }
  }
  return plan;
}

Verification verify(Store& store, const std::function<void(size_t, size_t)>& progress) {
  Verification out;
  for (const std::string& fault : store.check_file()) out.file.push_back(fmt::format("{}: {}", store.name(), fault));
  Reading reading = store.read();
  out.damaged = std::move(reading.damaged), out.unreadable = std::move(reading.newer);
  std::map<std::string, std::string> problems, schedules;  // faults by text, since many records share them
  size_t done = 0;
  for (const Record& r : reading.records) {
    if (progress) progress(done++, reading.records.size());
    if (!problems.contains(r.problem)) problems[r.problem] = problem_fault(r.problem);
    if (!schedules.contains(r.schedule)) schedules[r.schedule] = r.mapped() ? schedule_fault(r.schedule) : "";
    const std::string& fault = problems[r.problem].empty() ? schedules[r.schedule] : problems[r.problem];
    if (fault.empty()) {
      ++out.sound;
    } else {
      out.unreadable.push_back(fmt::format("record {}: {}", r.id().substr(0, kShownDigits), fault));
    }
  }
  return out;
}

}  // namespace kilter::tune
