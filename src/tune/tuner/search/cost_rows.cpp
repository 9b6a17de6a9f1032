#include "tune/tuner/search/cost_rows.h"

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/json_text.h"
#include "tune/cost/table.h"
#include "tune/space/features.h"
#include "tune/tuner/tasks/task_space.h"

namespace kilter::tune {
namespace {

using nlohmann::json;

/// The records of one task with one device, version of the code and number of threads.
struct Group {
  std::string problem, device, target;
  int threads = 1;
  auto operator<=>(const Group&) const = default;
};

/// Returns why a record cannot be used for training; empty if it can.
std::string unfit(const Record& r) {
  if (r.imported()) return "imported from another system";
  if (r.conditions.target.empty()) return "with an unknown target";
  if (r.status == Status::ok && !r.versus) return "not measured against the default";
  return "";
}

using RowSink = std::function<void(const Group&, const std::vector<float>&, double)>;

/// Calls `row` for each usable trial with the logarithm of its cost, and counts the other records by reason.
void each_row(std::span<const Record> records, std::map<std::string, int64_t>& left_out, const RowSink& row) {
  std::map<Group, std::vector<const Record*>> groups;
  for (const Record& r : records) {
    const std::string reason = unfit(r);
    if (!reason.empty()) ++left_out[reason];
    if (reason.empty())
      groups[{r.problem, r.conditions.device, r.conditions.target, r.conditions.threads}].push_back(&r);
  }
  for (const auto& [group, members] : groups) {
    std::unique_ptr<TaskSpace> task;
    try {
      task = std::make_unique<TaskSpace>(group.problem, parse_target(group.target));
    } catch (const Error&) {
      left_out["with a problem or target that this version does not know"] += static_cast<int64_t>(members.size());
      continue;
    }
    const Featurizer features(*task->space, group.threads);
    for (const Record* r : members) {
      const auto schedule = try_parse_schedule(r->schedule);
      const auto point = schedule ? task->space->find(*schedule) : std::nullopt;
      if (!point) ++left_out["with a schedule that this version does not know"];
      const double cost = r->status == Status::ok ? std::log(r->versus->ratio.value) : INFINITY;
      if (point) row(group, features.row(*point), cost);
    }
  }
}

}  // namespace

CostRows::CostRows() {
  json names = json::array();
  for (const Feature& f : all_features()) names.push_back(f.name);
  text_ = json_text(json{{"format", kTableFormat}, {"features", names}}) + "\n";
}

void CostRows::add_row(const std::string& task, const std::string& device, std::span<const float> x, double cost) {
  json row = {{"task", task}, {"device", device}, {"x", json::array()}};
  for (const float v : x) row["x"].push_back(v);
  row["cost"] = std::isfinite(cost) ? json(std::round(cost * 1e5) / 1e5) : json();
  text_ += json_text(row) + "\n";
  ++rows_;
}

void CostRows::add(const CostTable& table, const std::string& where) {
  const TaskSpace task(table.problem, parse_target(table.target));
  const Featurizer features(*task.space, table.threads);
  const std::string device = table.conditions.substr(0, table.conditions.find(';'));
  for (const CostRow& row : table.rows) {
    const auto point = task.space->find(row.schedule);
    if (!point) {
      fail(ErrorKind::bad_input,
           "{}: '{}' is not in the space of '{}' on {}; measure the table again with `kilter searchers --measure`",
           where, row.schedule.text(), table.problem, table.target);
    }
    add_row(table.problem, device, features.row(*point), std::log(row.cost));
  }
}

void CostRows::add(std::span<const Record> records) {
  each_row(records, left_out_, [&](const Group& group, const std::vector<float>& x, double cost) {
    add_row(group.problem, group.device, x, cost);
  });
}

EarlierTrials lessons_of(std::span<const Record> records, uint32_t first_group) {
  EarlierTrials out;
  std::map<std::string, std::pair<uint32_t, size_t>> given;  // by problem: its group number, rows so far
  std::map<std::string, int64_t> left_out;
  each_row(records, left_out, [&](const Group& group, const std::vector<float>& x, double cost) {
    const auto number = first_group + static_cast<uint32_t>(given.size());
    auto& [own, rows] = given.try_emplace(group.problem, number, 0).first->second;
    if (std::isfinite(cost) && rows++ < kMostLessons) out.add(x, cost / std::log(2.0), own);
  });
  return out;
}

}  // namespace kilter::tune
