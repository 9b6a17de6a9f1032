#include "tune/search/cost_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_text.h"
#include "base/text.h"
#include "measure/stats.h"

namespace kilter::tune {
namespace {

using nlohmann::json;

/// A template with the knobs that its rows have, in order.
struct Shape {
  std::string name;
  std::vector<std::string> knobs;
  bool operator==(const Shape&) const = default;
};

Shape shape_of(const Schedule& schedule) {
  Shape out{schedule.name, {}};
  for (const auto& [knob, value] : schedule.knobs) out.knobs.push_back(knob);
  return out;
}

[[noreturn]] void bad(const std::string& where, size_t line, std::string_view expected, std::string_view got) {
  constexpr size_t kMost = 80;
  fail(ErrorKind::bad_input, "{} line {}: expected {}, got '{}{}'; `kilter searchers --measure` writes such files",
       where, line, expected, got.substr(0, kMost), got.size() > kMost ? "..." : "");
}

constexpr std::string_view kHeader =
    R"({"problem":TEXT,"target":TEXT,"threads":N,"prune":NUMBER,"conditions":TEXT,"templates":[[NAME,KNOB...],...]})";

std::vector<Shape> read_header(const json& line, CostTable& table) {
  table.problem = line.at("problem").get<std::string>();
  table.target = line.at("target").get<std::string>();
  table.threads = line.at("threads").get<int>();
  table.prune = line.at("prune").get<double>();
  table.conditions = line.at("conditions").get<std::string>();
  std::vector<Shape> shapes;
  for (const json& t : line.at("templates")) {
    auto words = t.get<std::vector<std::string>>();
    if (words.empty()) throw json::other_error::create(500, "a template without a name", nullptr);
    Shape shape{words.front(), {}};
    shape.knobs.assign(words.begin() + 1, words.end());
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

/// [template, knobs..., cost or null, ms]
CostRow read_row(const json& line, const std::vector<Shape>& shapes) {
  const Shape& shape = shapes.at(line.at(0).get<size_t>());
  const size_t knobs = shape.knobs.size();
  if (line.size() != knobs + 3) throw std::out_of_range("number of fields");
  CostRow row;
  row.schedule.name = shape.name;
  for (size_t k = 0; k < knobs; ++k) row.schedule.knobs.emplace_back(shape.knobs[k], line.at(k + 1).get<int64_t>());
  const json& cost = line.at(knobs + 1);
  row.cost = cost.is_null() ? std::numeric_limits<double>::infinity() : cost.get<double>();
  row.ms = line.at(knobs + 2).get<double>();
  if (!(row.cost > 0) || !(row.ms >= 0)) throw std::out_of_range("cost or time");
  return row;
}

}  // namespace

std::string text(const CostTable& table) {
  std::vector<Shape> shapes;
  std::string rows;
  for (const CostRow& row : table.rows) {
    const Shape shape = shape_of(row.schedule);
    auto at = std::find(shapes.begin(), shapes.end(), shape);
    if (at == shapes.end()) at = shapes.insert(at, shape);
    rows += fmt::format("[{}", at - shapes.begin());
    for (const auto& [knob, value] : row.schedule.knobs) rows += fmt::format(",{}", value);
    rows += std::isfinite(row.cost) ? fmt::format(",{:.4g},{:.3g}]\n", row.cost, row.ms)
                                    : fmt::format(",null,{:.3g}]\n", row.ms);
  }
  json templates = json::array();
  for (const Shape& s : shapes) {
    json words{s.name};
    for (const std::string& k : s.knobs) words.push_back(k);
    templates.push_back(std::move(words));
  }
  nlohmann::ordered_json header{{"problem", table.problem},       {"target", table.target},
                                {"threads", table.threads},       {"prune", table.prune},
                                {"conditions", table.conditions}, {"templates", templates}};
  return json_text(header) + "\n" + rows;
}

CostTable parse_cost_table(std::string_view text, const std::string& where) {
  CostTable table;
  std::vector<Shape> shapes;
  size_t number = 0;
  bool header = false;
  for (const std::string_view raw : split(text, '\n')) {
    ++number;
    const std::string_view line = trim(raw);
    if (line.empty()) continue;
    try {
      const json parsed = parse_json(line);
      if (!header) {
        shapes = read_header(parsed, table);
        header = true;
      } else {
        table.rows.push_back(read_row(parsed, shapes));
      }
    } catch (const std::exception&) {
      bad(where, number, header ? "[template, knob..., cost above 0 or null, ms]" : kHeader, line);
    }
  }
  if (!header) bad(where, number, kHeader, "nothing");
  return table;
}

std::string settle_front(std::vector<CostRow>& rows, size_t front, const MeasureAgain& measure) {
  const auto sort = [&] { std::ranges::stable_sort(rows, {}, &CostRow::cost); };
  sort();
  std::set<std::string> done;
  std::vector<double> moves;
  for (size_t passes = 0;; ++passes) {
    std::vector<CostRow*> fresh;
    for (CostRow& row : std::span(rows).first(std::min(front, rows.size()))) {
      if (std::isfinite(row.cost) && done.insert(row.schedule.text()).second) fresh.push_back(&row);
    }
    if (fresh.empty()) {
      if (moves.empty()) return "no cost was measured again";
      const size_t kept = std::min(front, done.size());
      return fmt::format(
          "the {} cheapest and {} that were among them earlier were measured again, in {} pass{}; half of the costs "
          "moved by more than {:.1f} %",
          kept, done.size() - kept, passes, passes == 1 ? "" : "es", 100 * median(moves));
    }
    std::vector<Schedule> schedules;
    for (const CostRow* row : fresh) schedules.push_back(row->schedule);
    const std::vector<double> costs = measure(schedules);
    require(costs.size() == fresh.size(), "{} costs of {} schedules", costs.size(), fresh.size());
    for (size_t i = 0; i < fresh.size(); ++i) {
      if (std::isfinite(costs[i])) moves.push_back(std::abs(costs[i] / fresh[i]->cost - 1));
      fresh[i]->cost = costs[i];
    }
    sort();
  }
}

}  // namespace kilter::tune
