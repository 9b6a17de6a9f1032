#include "tune/cost/table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/files.h"
#include "base/json_text.h"
#include "base/random.h"
#include "base/text.h"

namespace kilter::tune {
namespace {

using nlohmann::json;

size_t number_of(const std::string& name, std::map<std::string, size_t>& numbers, std::vector<std::string>& names) {
  const auto [at, is_new] = numbers.emplace(name, names.size());
  if (is_new) names.push_back(name);
  return at->second;
}

class TableReader {
 public:
  void read(std::string_view text, const std::string& where) {
    where_ = where;
    line_ = 0;
    bool header = true;
    for (const std::string_view line : split(text, '\n')) {
      ++line_;
      if (trim(line).empty()) continue;
      const json value = parse(line);
      header ? read_header(value) : read_row(value);
      header = false;
    }
    if (header)
      fail(ErrorKind::bad_input, "{}: empty; expected a line {{\"format\": \"{}\", ...}} and rows", where,
           kTableFormat);
  }

  Table finish() {
    if (table_.set.size() == 0)
      fail(ErrorKind::bad_input, "{}: no rows; there is nothing to learn or to judge", where_);
    return std::move(table_);
  }

 private:
  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::bad_input, "{}: line {}: {}", where_, line_, fmt::format(format, std::forward<Args>(args)...));
  }

  json parse(std::string_view line) const {
    json value = try_parse_json(line);
    if (!value.is_object()) bad("expected a JSON object, got {}", line.substr(0, 60));
    return value;
  }

  void read_header(const json& line) {
    const json format = line.value("format", json());
    if (format != kTableFormat) bad("expected \"format\": \"{}\", got {}", kTableFormat, json_text(format));
    if (!line.contains("features")) bad("no \"features\": expected a list of names");
    const std::vector<std::string> features = names(line.at("features"));
    std::vector<std::string>& known = table_.set.rows.features;
    if (known.empty()) {
      known = features;
      check_matrix(table_.set.rows, fmt::format("{}: line {}", where_, line_));
    }
    if (features != known) {
      bad("expected the {} features of the first file, got {}; use tables of the same version", known.size(),
          features.size());
    }
  }

  std::vector<std::string> names(const json& list) const {
    std::vector<std::string> out;
    if (!list.is_array()) bad("\"features\": expected a list of names, got {}", list.type_name());
    for (const json& name : list) {
      if (!name.is_string()) bad("\"features\": expected names, got {}", json_text(name));
      out.push_back(name.get<std::string>());
    }
    return out;
  }

  std::string text(const json& row, const char* field, bool needed) const {
    if (!row.contains(field) && !needed) return "";
    const json value = row.value(field, json());
    if (!value.is_string()) bad("\"{}\": expected a string, got {}", field, json_text(value));
    return value.get<std::string>();
  }

  /// Reads a number; null means `missing`.
  double number(const json& value, const std::string& field, double missing) const {
    if (value.is_null()) return missing;
    if (!value.is_number()) bad("{}: expected a number or null, got {}", field, json_text(value));
    return value.get<double>();
  }

  double cost_of(const json& row) const {
    constexpr double kFailure = std::numeric_limits<double>::infinity();
    if (row.contains("cost") == row.contains("ms")) bad("expected either \"cost\", or \"ms\" and \"default_ms\"");
    if (row.contains("cost")) return number(row.at("cost"), "\"cost\"", kFailure);
    const double ms = number(row.at("ms"), "\"ms\"", kFailure);
    const double base = number(row.value("default_ms", json()), "\"default_ms\"", 0);
    if (!(ms > 0)) bad("\"ms\": expected a time above 0, got {}", ms);
    if (!(base > 0)) bad("\"default_ms\": expected the time of the task's default, above 0, got {}", base);
    return std::log(ms / base);
  }

  void add_features(const json& row) {
    Matrix& rows = table_.set.rows;
    const json x = row.value("x", json());
    if (!x.is_array() || x.size() != rows.columns()) {
      bad("\"x\": expected a list of {} numbers, got {}", rows.columns(),
          x.is_array() ? fmt::format("{}", x.size()) : std::string(x.type_name()));
    }
    for (size_t i = 0; i < x.size(); ++i) {
      const double value = number(x[i], "\"x\": " + rows.features[i], std::numeric_limits<double>::quiet_NaN());
      if (std::abs(value) > std::numeric_limits<float>::max())
        bad("\"x\": {}: {} is beyond the range of a float", rows.features[i], value);
      rows.values.push_back(static_cast<float>(value));
    }
  }

  void read_row(const json& row) {
    const std::string task = text(row, "task", true);
    const std::string device = text(row, "device", false);
    const double cost = cost_of(row);
    const double weight = number(row.value("weight", json(1)), "\"weight\"", 1);
    if (!(weight >= 0)) bad("\"weight\": expected 0 or more, got {}", weight);
    add_features(row);
    table_.task_of.push_back(number_of(task, task_numbers_, table_.tasks));
    table_.device_of.push_back(number_of(device, device_numbers_, table_.devices));
    const auto group = groups_.emplace(std::pair(table_.task_of.back(), table_.device_of.back()), groups_.size());
    table_.set.groups.push_back(static_cast<int64_t>(group.first->second));
    table_.set.costs.push_back(cost);
    table_.set.weights.push_back(weight);
  }

  std::string where_;
  int line_ = 0;
  Table table_;
  std::map<std::string, size_t> task_numbers_, device_numbers_;
  std::map<std::pair<size_t, size_t>, size_t> groups_;
};

}  // namespace

Table read_table(const std::vector<std::filesystem::path>& files) {
  TableReader reader;
  for (const std::filesystem::path& file : files) reader.read(read_file(file), file.string());
  return reader.finish();
}

Table parse_table(std::string_view text, const std::string& where) {
  TableReader reader;
  reader.read(text, where);
  return reader.finish();
}

std::vector<size_t> folds_of(const Table& table, HoldOut by, size_t folds, uint64_t seed) {
  const bool task = by == HoldOut::task;
  const size_t kinds = (task ? table.tasks : table.devices).size();
  const char* const what = task ? "tasks" : "devices";
  if (folds < 2) fail(ErrorKind::usage, "held out by {}: {} folds; expected 2 or more", what, folds);
  if (kinds < folds) {
    fail(ErrorKind::usage, "held out by {}: {} folds need at least as many {}; the table has {}", what, folds, what,
         kinds);
  }
  const Random random(seed, what);
  std::vector<size_t> order(kinds);
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = kinds; i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<size_t>(random.integer(i, 0, static_cast<int64_t>(i) - 1))]);
  }
  std::vector<size_t> fold(kinds);
  for (size_t i = 0; i < kinds; ++i) fold[order[i]] = i % folds;
  std::vector<size_t> out;
  for (const size_t kind : task ? table.task_of : table.device_of) out.push_back(fold[kind]);
  return out;
}

std::vector<double> predict_held_out(const Table& table, const std::vector<size_t>& folds, const MakeModel& make) {
  std::vector<double> out(table.set.size());
  const size_t count = *std::max_element(folds.begin(), folds.end()) + 1;
  for (size_t fold = 0; fold < count; ++fold) {
    std::vector<size_t> known;
    std::vector<size_t> held;
    for (size_t i = 0; i < folds.size(); ++i) (folds[i] == fold ? held : known).push_back(i);
    const std::unique_ptr<TrainableModel> model = make();
    model->fit(table.set.take(known));
    const std::vector<double> predicted = model->predict(table.set.rows.take(held));
    for (size_t i = 0; i < held.size(); ++i) out[held[i]] = predicted[i];
  }
  return out;
}

std::vector<Metrics> judge_by_device(const Table& table, const std::vector<double>& predicted) {
  std::vector<Metrics> out;
  for (size_t device = 0; device < table.devices.size(); ++device) {
    std::vector<double> p;
    std::vector<double> costs;
    std::vector<int64_t> groups;
    for (size_t i = 0; i < predicted.size(); ++i) {
      if (table.device_of[i] != device) continue;
      p.push_back(predicted[i]);
      costs.push_back(table.set.costs[i]);
      groups.push_back(table.set.groups[i]);
    }
    out.push_back(judge(p, costs, groups));
  }
  return out;
}

}  // namespace kilter::tune
