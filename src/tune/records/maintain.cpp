#include "tune/records/maintain.h"

#include <algorithm>
#include <map>
#include <new>
#include <tuple>

#include "base/error.h"
#include "schedule/problem.h"
#include "schedule/schedule.h"
#include "tune/records/match.h"

namespace kilter::tune {
namespace {

/// Empty for a schedule that can be read.
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

PrunePlan plan_prune(std::span<const Record> records, const PruneOptions& options) {
  using Key = std::tuple<std::string, std::string, std::string, int>;
  const auto key_of = [](const Record& r) {
    return Key{r.problem, r.conditions.target, r.conditions.device, r.conditions.threads};
  };
  std::map<Key, std::vector<const Record*>> groups;
  for (const Record& r : records) groups[key_of(r)].push_back(&r);
  const Barred barred(records);
  std::map<Key, std::set<std::string>> best;
  for (const auto& [key, group] : groups) {
    const std::vector<const Record*> all = ranked(group, barred);
    for (size_t i = 0; i < std::min(options.keep, all.size()); ++i) best[key].insert(all[i]->schedule);
  }
  PrunePlan plan;
  for (const Record& r : records) {
    const bool ok = r.status == Status::ok;
    const bool stays = (ok ? best[key_of(r)].contains(r.schedule) : !options.drop_failures) ||
                       (!options.before.empty() && r.conditions.date >= options.before);
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
  for (const std::string& fault : store.check_file())
    out.file.push_back(fmt::format("{}: {}", store.file().string(), fault));
  Reading reading = store.read();
  out.damaged = std::move(reading.damaged);
  std::map<std::string, std::string> problems, schedules;  // faults by text: many records share them
  size_t done = 0;
  for (const Record& r : reading.records) {
    if (progress) progress(done++, reading.records.size());
    if (!problems.contains(r.problem)) problems[r.problem] = problem_fault(r.problem);
    if (!schedules.contains(r.schedule)) schedules[r.schedule] = r.mapped() ? schedule_fault(r.schedule) : "";
    const std::string& fault = problems[r.problem].empty() ? schedules[r.schedule] : problems[r.problem];
    if (fault.empty()) {
      ++out.sound;
    } else {
      out.unreadable.push_back(fmt::format("record {}: {}", r.id().substr(0, 12), fault));
    }
  }
  return out;
}

}  // namespace kilter::tune
