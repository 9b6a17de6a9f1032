#include "tune/records/explain_log.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "tune/records/match.h"
#include "tune/records/problem_words.h"

namespace kilter::tune {
namespace {

/// A record is reported as slow if it takes at least this many times as long as the best record of its problem.
constexpr double kSlowAlternative = 10;
/// A layer is reported as slow if it reaches less than this share of the log's median GFLOP/s.
constexpr double kSlowLayer = 1.0 / 3;
/// An unexplained part of the measured time is reported if it is at least this share of that time.
constexpr double kUnexplained = 0.1;

struct Machine {
  std::string device, target;
  int threads = 0;
  auto operator<=>(const Machine&) const = default;
};
Machine machine_of(const Record& r) { return {r.conditions.device, r.conditions.target, r.conditions.threads}; }

/// Returns the machine with the most `ok` records among those that match `device`.
Machine main_machine(const std::vector<Record>& records, const std::string& device) {
  Filter filter;
  filter.device = device;
  filter.status = Status::ok;
  std::map<Machine, size_t> counts;
  for (const Record& r : records) {
    if (filter.admits(r)) ++counts[machine_of(r)];
  }
  if (counts.empty()) {
    fail(ErrorKind::bad_input, "records explain: none of the {} records in the log {}", records.size(),
         device.empty() ? "is ok" : "is ok and from device '" + device + "'");
  }
  const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
  return std::max_element(counts.begin(), counts.end(), fewer)->first;
}

std::vector<LogRow> rows_of(const std::vector<NetworkLayer>& layers) {
  std::vector<LogRow> rows;
  for (const NetworkLayer& layer : layers) {
    const std::string anchor(anchor_of(layer.problem));
    if (anchor.starts_with("relayout(")) continue;  // from Kilter's plan, not from the network
    auto at = std::find_if(rows.begin(), rows.end(), [&](const LogRow& r) { return r.problem == anchor; });
    if (at == rows.end()) at = rows.insert(at, {anchor, {}, layer.flops, std::nullopt, 0});
    at->layers.push_back(layer.name);
  }
  return rows;
}

double middle(std::vector<double> values) { return values.empty() ? 0 : median(values); }

/// Returns a text such as "index 331287 (winograd)" for a foreign schedule, and the whole text for one of Kilter's.
std::string short_schedule(const Record& r) {
  if (r.mapped()) return r.schedule;
  const size_t index = r.schedule.find(" index=");
  if (index == std::string::npos) return r.schedule;
  return r.schedule.substr(kForeignSchedule.size(), r.schedule.find(' ', index + 1) - kForeignSchedule.size());
}

class Suspicion {
 public:
  Suspicion(LogExplanation& out, const std::map<std::string, std::vector<const Record*>>& log) : out_(out), log_(log) {}

  void run() {
    unexplained();
    slow_alternatives();
    slow_layers();
    not_covered();
    single_samples();
    if (out_.threads == 0) say("the log does not say on how many threads it was measured");
  }

 private:
  template <class... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) {
    out_.suspects.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void unexplained() {
    const double rest = out_.measured_ms - out_.predicted_ms;
    if (out_.measured_ms <= 0 || std::abs(rest) < kUnexplained * out_.measured_ms) return;
    if (rest < 0) {
      return say(
          "the layers of the log sum to {:.1f} ms, more than the {:.1f} ms that were measured, so the conditions were "
          "different",
          out_.predicted_ms, out_.measured_ms);
    }
    say("{:.1f} of the {:.1f} ms ({:.0f} %) are not in the layers that the log covers: look at the {} other layers, at "
        "layout changes and at what runs on another device, before tuning these layers longer",
        rest, out_.measured_ms, 100 * rest / out_.measured_ms, out_.uncovered_layers());
  }

  /// Reports problems with several kernels in the log, where the choice of kernel matters.
  void slow_alternatives() {
    for (const LogRow& row : out_.covered) {
      for (const Record* r : log_.at(row.problem)) {
        const double times = r->ms() / row.best->ms();
        if (times < kSlowAlternative) continue;
        say("{}: {} takes {:.3f} ms, {:.0f} times as long as {} ({:.3f} ms); only the best record counts; a build that "
            "used the other would lose {:.1f} ms",
            row.problem, short_schedule(*r), r->ms(), times, short_schedule(*row.best), row.best->ms(),
            (r->ms() - row.best->ms()) * static_cast<double>(row.layers.size()));
      }
    }
  }

  void slow_layers() {
    std::vector<double> rates;
    for (const LogRow& row : out_.covered) rates.push_back(row.gflops());
    const double usual = middle(rates);
    for (const LogRow& row : out_.covered) {
      if (row.gflops() >= kSlowLayer * usual) continue;
      const double gain = row.ms() * (1 - row.gflops() / usual);
      say("{}: {:.0f} GFLOP/s, but the log's median is {:.0f}; at the median {} layer{} would take {:.2f} ms less",
          row.problem, row.gflops(), usual, row.layers.size(), row.layers.size() == 1 ? "" : "s", gain);
    }
  }

  void not_covered() {
    double all = 0, missing = 0;
    for (const auto* rows : {&out_.covered, &out_.uncovered}) {
      for (const LogRow& row : *rows) {
        const double flops = static_cast<double>(row.flops) * static_cast<double>(row.layers.size());
        all += flops;
        if (rows == &out_.uncovered) missing += flops;
      }
    }
    if (out_.uncovered.empty()) return;
    say("{} layers ({:.1f} % of the arithmetic) have no record: {}", out_.uncovered_layers(),
        all > 0 ? 100 * missing / all : 0, kinds(out_.uncovered));
  }

  /// "6 convtranspose, 1 maxpool"
  static std::string kinds(const std::vector<LogRow>& rows) {
    std::map<std::string, size_t> counts;
    for (const LogRow& row : rows) counts[row.problem.substr(0, row.problem.find_first_of("( "))] += row.layers.size();
    std::vector<std::string> parts;
    for (const auto& [kind, count] : counts) parts.push_back(fmt::format("{} {}", count, kind));
    return fmt::format("{}", fmt::join(parts, ", "));
  }

  void single_samples() {
    size_t single = 0, all = 0;
    for (const LogRow& row : out_.covered) {
      ++all;
      if (row.best->samples_ms.size() < 2) ++single;
    }
    if (single > 0)
      say("{} of {} best records have a single sample and so no spread: small differences in this log mean nothing",
          single, all);
  }

  LogExplanation& out_;
  const std::map<std::string, std::vector<const Record*>>& log_;
};

size_t layers_of(const std::vector<LogRow>& rows) {
  size_t count = 0;
  for (const LogRow& row : rows) count += row.layers.size();
  return count;
}

}  // namespace

size_t LogExplanation::covered_layers() const { return layers_of(covered); }
size_t LogExplanation::uncovered_layers() const { return layers_of(uncovered); }

LogExplanation explain_log(const std::vector<NetworkLayer>& layers, const std::vector<Record>& records,
                           const ExplainLogOptions& options) {
  LogExplanation out;
  const Machine machine = main_machine(records, options.device);
  out.device = machine.device, out.target = machine.target, out.threads = machine.threads;
  out.measured_ms = options.measured_ms;
  std::map<std::string, std::vector<const Record*>> log;
  std::set<std::string> seen;  // a log may contain a record more than once
  for (const Record& r : records) {
    if (!seen.insert(r.id()).second) continue;
    if (machine_of(r) != machine) ++out.others;
    if (machine_of(r) == machine && r.status == Status::ok && !r.samples_ms.empty())
      log[std::string(anchor_of(r.problem))].push_back(&r);
  }
  const Barred barred(records);
  size_t used = 0;
  for (LogRow& row : rows_of(layers)) {
    const auto found = log.find(row.problem);
    const auto best = found == log.end() ? std::vector<const Record*>{} : ranked(found->second, barred);
    if (!best.empty()) row.best = *best.front(), row.records = found->second.size(), ++used;
    (best.empty() ? out.uncovered : out.covered).push_back(std::move(row));
  }
  out.unused = log.size() - used;
  for (const LogRow& row : out.covered) out.predicted_ms += row.ms();
  std::stable_sort(out.covered.begin(), out.covered.end(),
                   [](const LogRow& a, const LogRow& b) { return a.ms() > b.ms(); });
  std::stable_sort(out.uncovered.begin(), out.uncovered.end(),
                   [](const LogRow& a, const LogRow& b) { return a.flops > b.flops; });
  Suspicion(out, log).run();
  return out;
}

std::string text(const LogExplanation& e, size_t most) {
  std::string out =
      fmt::format("records from {}{}{}", e.device.empty() ? "an unknown device" : e.device,
                  e.target.empty() || e.target == e.device ? "" : ", target " + e.target,
                  e.others > 0 ? fmt::format("; {} from other devices or numbers of threads left out", e.others) : "");
  out += fmt::format("\npredicted: {:.3f} ms in the {} of {} layers that the log covers", e.predicted_ms,
                     e.covered_layers(), e.covered_layers() + e.uncovered_layers());
  if (e.measured_ms > 0)
    out += fmt::format(": {:.0f} % of the {:.1f} ms measured", 100 * e.predicted_ms / e.measured_ms, e.measured_ms);
  if (e.unused > 0) out += fmt::format("; {} problems of the log are not in the network", e.unused);
  out += fmt::format("\n{:>6} {:>9} {:>9} {:>9} {:>7}  problem | schedule\n", "layers", "ms each", "ms", "GFLOP/s",
                     "records");
  for (size_t i = 0; i < std::min(most, e.covered.size()); ++i) {
    const LogRow& row = e.covered[i];
    out += fmt::format("{:>6} {:>9.4f} {:>9.4f} {:>9.1f} {:>7}  {} | {}\n", row.layers.size(), row.best->ms(), row.ms(),
                       row.gflops(), row.records, row.problem, short_schedule(*row.best));
  }
  if (e.covered.size() > most) out += fmt::format("({} more)\n", e.covered.size() - most);
  if (!e.uncovered.empty()) out += "not in the log:\n";
  for (size_t i = 0; i < std::min(most, e.uncovered.size()); ++i)
    out += fmt::format("{:>6} {}\n", e.uncovered[i].layers.size(), e.uncovered[i].problem);
  if (e.uncovered.size() > most) out += fmt::format("({} more)\n", e.uncovered.size() - most);
  if (!e.suspects.empty()) out += "suspects:\n";
  for (const std::string& s : e.suspects) out += fmt::format("  - {}\n", s);
  return out;
}

nlohmann::json to_json(const LogExplanation& e) {
  const auto rows = [](const std::vector<LogRow>& all) {
    nlohmann::json list = nlohmann::json::array();
    for (const LogRow& row : all) {
      nlohmann::json json{{"problem", row.problem}, {"layers", row.layers}, {"flops", row.flops}};
      if (row.best) {
        json["best"] = to_json(*row.best);
        json["ms_each"] = row.best->ms(), json["ms"] = row.ms(), json["gflops"] = row.gflops();
        json["records"] = row.records;
      }
      list.push_back(std::move(json));
    }
    return list;
  };
  return {{"device", e.device},
          {"target", e.target},
          {"threads", e.threads},
          {"other_records", e.others},
          {"predicted_ms", e.predicted_ms},
          {"measured_ms", e.measured_ms},
          {"covered", rows(e.covered)},
          {"uncovered", rows(e.uncovered)},
          {"unused_problems", e.unused},
          {"suspects", e.suspects}};
}

}  // namespace kilter::tune
