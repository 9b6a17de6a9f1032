// Writes pages of tuning runs that no real network produces: `tuning_worst_case FOLDER` writes worst-tuning.html with
// worst-tuning.json (80 tasks, names and figures chosen to break a page) and empty-tuning.html (a run that ended at
// once).

#include <cmath>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

#include "hostile.h"
#include "profile/report/tuning_report.h"

namespace {

using kilter::hostile::kHostile;
using kilter::hostile::write;
using nlohmann::json;

constexpr int kTasks = 80, kPoints = 1500;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kDefaultMs = 12.5, kSeconds = 3725;

json ratio(double value, double half) { return {{"value", value}, {"low", value - half}, {"high", value + half}}; }

std::string problem(int i) {
  if (i % 5 == 3) return kHostile[static_cast<size_t>(i / 5) % kHostile.size()];
  return "conv2d n1 c" + std::to_string(16 + i) + " h56 w56 k64 r3 s3 pad1 f32 +bias +relu";
}

json speed(double gflops, double share) { return {{"gflops", gflops}, {"share_of_bound", share}}; }

json task(int i) {
  const bool changed = i % 3 == 0;
  const double value = i == 9 ? kNan : 0.6 + 0.004 * i;
  return {{"task", 2 * i + 3},
          {"problem", problem(i)},
          {"layouts", "c16 plain -> c16"},
          {"nodes", {problem(i), "second"}},
          {"share", std::pow(0.93, (i * 37) % kTasks) * 0.07},
          {"default", "conv2d_direct vectors=2 rows=1 tile=14 prefetch=0"},
          {"schedule", changed ? "conv2d_winograd m=4 vectors=2 tile=8 count=2 split=1 prefetch=2048"
                               : "conv2d_direct vectors=2 rows=1 tile=14 prefetch=0"},
          {"predicted", ratio(value, 0.02)},
          {"in_network", ratio(value + 0.05, 0.3)},
          {"before", i == 6   ? json{{"gflops", nullptr}, {"share_of_bound", nullptr}}
                     : i == 7 ? speed(98.72, 1.7)
                              : speed(98.72, 0.58)},
          {"after", speed(123.27, i == 9 ? kNan : 0.713)},
          {"trials", i % 11 == 0 ? 0 : 1000 / (1 + i)},
          {"tried", 100},
          {"size", 123456},
          {"failures", i % 4 == 1 ? 7 : 0},
          {"space", "<b>space</b>"}};
}

json race(int attempt) {
  json out{{"attempt", attempt}, {"tasks", 27}, {"seconds", 3700 + attempt}, {"rounds", 0}, {"fault", kHostile[0]}};
  if (attempt == 2) return out;
  out["rounds"] = 40, out["fault"] = "", out["given_way"] = 3 - attempt / 2;
  out["ratio"] = ratio(0.95, 0.004);
  out["default_ms"] = out["tuned_ms"] = ratio(kDefaultMs, 0.1);
  return out;
}

json trace() {
  json points = json::array(), gains = json::array(), races = json::array();
  for (int i = 0; i < kPoints; ++i) {
    const double fall = 1 - 0.12 * (1 - std::exp(-i / 300.0)) + 0.01 * std::sin(i);
    points.push_back({{"seconds", 8 + i * 2.45},
                      {"trials", i * 24},
                      {"predicted_ms", kDefaultMs * fall},
                      {"remaining", 0.15 * std::exp(-i / 400.0)}});
    if (i % 9 != 0) continue;
    for (int n = 0; n < 1 + i % 7; ++n) {
      gains.push_back({{"event", "gain"},
                       {"seconds", 8 + i * 2.45},
                       {"trials", i * 24},
                       {"task", 2 * ((i + n) % kTasks) + 3},
                       {"schedule", "conv2d_direct tile=" + std::to_string(i)},
                       {"ratio", ratio(0.8, 0.1)},
                       {"gflops", 111.5},
                       {"share_of_bound", nullptr},
                       {"predicted_ms", kDefaultMs * fall}});
    }
  }
  for (int attempt = 1; attempt <= 4; ++attempt) races.push_back(race(attempt));
  return {{"default_ms", kDefaultMs},
          {"points", points},
          {"gains", gains},
          {"spans",
           {{{"phase", "preparing"}, {"begin", 0.0}, {"end", 8.0}},
            {{"phase", "searching"}, {"begin", 8.0}, {"end", 3684.0}},
            {{"phase", "racing"}, {"begin", 3684.0}, {"end", 3700.0}},
            {{"phase", "choosing"}, {"begin", 3700.0}, {"end", kSeconds}}}},
          {"races", races}};
}

json empty_run() {
  return {{"model", "empty"},
          {"settings", {{"threads", 1}, {"budget_seconds", 60}, {"searcher", "model"}, {"seed", 1}, {"until", 1.0}}},
          {"conditions", json::object()},
          {"default_ms", ratio(1, 0)},
          {"tuned_ms", ratio(1, 0)},
          {"ratio", ratio(1, 0)},
          {"history_ratio", ratio(1, 0)},
          {"same_plan", true},
          {"rounds", 0},
          {"trials", 0},
          {"failures", 0},
          {"restarts", 0},
          {"seconds", 0.0},
          {"trials_per_second", 0.0},
          {"regret", kNan},
          {"as_long_again", kNan},
          {"refused", kHostile[0]},
          {"winner_flips", 0.0},
          {"fidelity", 1.0},
          {"stopped_because", "interrupted"},
          {"phases", json::array()},
          {"tasks", json::array()},
          {"trace",
           {{"default_ms", 1.0},
            {"points", json::array()},
            {"gains", json::array()},
            {"spans", json::array()},
            {"races", json::array()}}}};
}

json worst_run() {
  json run = empty_run();
  run["model"] = "worst </title></script><script>document.title='owned'</script> \xff";
  run["conditions"] = {{"device", "<script>device</script>"}, {"target", "znver5"}, {"threads", 16},
                       {"date", "2026-11-21T18:20:28Z"},      {"later", {1, 2, 3}}, {"program", kHostile[1]}};
  run["conditions"].update(json{{"taken", 900},
                                {"disturbed", 880},
                                {"best_ms", 9.5},
                                {"quiet", "busy"},
                                {"disturbed_share", 0.98},
                                {"quiet_text", "busy: 880 of 900 runs disturbed (98 %: <b>waited</b>)"}});
  run["settings"]["ops"] = {kHostile[0], "matmul"};
  run["default_ms"] = ratio(kDefaultMs, 0.1), run["tuned_ms"] = ratio(11.2, 0.1), run["ratio"] = ratio(0.9, 0.004);
  run["history_ratio"] = ratio(0.92, 0.004);
  run["graph"] = {{"rounds", 36}, {"won", true}, {"ratio", ratio(0.978, 0.01)}};
  run["previous"] = ratio(1.01, 0.02);
  run["same_plan"] = false, run["rounds"] = 54, run["trials"] = kPoints * 24, run["failures"] = 12345;
  run["restarts"] = 7, run["seconds"] = kSeconds, run["trials_per_second"] = 9.66, run["regret"] = 0.034;
  run["as_long_again"] = 0.012, run["earlier_records"] = {{"read", 3000}, {"counted", 2900}, {"advised", 3}};
  run.erase("refused");
  run["before"] = speed(80.5, 0.5), run["after"] = speed(89.5, 0.55);
  run["settings"]["budget_seconds"] = nullptr;  // no limit
  run["winner_flips"] = 0.25, run["fidelity"] = 0.97, run["stopped_because"] = kHostile[0];
  int n = 0;
  for (const char* phase :
       {"preparing", "compiling candidates", "loading and checking", "measuring", "<b>racing</b>", "graph tuner"})
    run["phases"].push_back({{"phase", phase}, {"seconds", 8 + 700 * n++}});
  for (int i = 0; i < kTasks; ++i) run["tasks"].push_back(task(i));
  run["trace"] = trace();
  return run;
}

json undecided_run() {
  json run = empty_run();
  run.erase("refused");
  run["undecided"] = kHostile[0];
  run["conditions"] = {{"quiet", "busy"}, {"disturbed_share", 0.98}, {"quiet_text", "busy: 98 of 100 runs disturbed"}};
  return run;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: tuning_worst_case FOLDER\n";
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  const json worst = worst_run();
  write(folder / "worst-tuning.html", kilter::profile::html_tuning_report(worst));
  write(folder / "worst-tuning.json", worst.dump(-1, ' ', false, json::error_handler_t::replace));
  const json undecided = undecided_run();
  write(folder / "undecided-tuning.html", kilter::profile::html_tuning_report(undecided));
  write(folder / "undecided-tuning.json", undecided.dump(-1, ' ', false, json::error_handler_t::replace));
  write(folder / "empty-tuning.html", kilter::profile::html_tuning_report(empty_run()));
  return 0;
}
