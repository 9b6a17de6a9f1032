// Writes reports of profiles that no real network produces: `report_worst_case FOLDER` writes worst.html with
// worst.json (200 layers on 16 threads, names and figures chosen to break a page) and empty.html (an empty profile).

#include <cmath>
#include <filesystem>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

#include "hostile.h"
#include "profile/report/report.h"

namespace {

using kilter::hostile::kHostile;
using kilter::hostile::write;
using nlohmann::json;

constexpr int kLayers = 200, kThreads = 16;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string layer_name(int i) {
  const auto index = static_cast<size_t>(i);
  if (i % 7 == 3) return kHostile[(index / 7) % kHostile.size()];
  return "block" + std::to_string(i / 10) + ".layer" + std::to_string(i % 10) + ".conv";
}

json counters(int i, double ms) {
  if (i % 3 == 0) return json::object();
  json values = {{"cycles", 3e6 * ms * kThreads}, {"instructions", 6e6 * ms * kThreads}, {"cache_misses", 1e4 * ms}};
  if (i % 5 == 0) values["invalid"] = "more cycles than <the clock> allows";
  return values;
}

/// Rows that a row claims to read: the one before, some further up, and some that cannot be.
json reads(int i) {
  json rows = json::array();
  for (const int from : {i - 1, i % 6 == 5 ? i - 4 : i - 1, i % 40 == 39 ? i - 39 : i - 1, i, i + 1, 5000, -1})
    rows.push_back(from);
  return rows;
}

json row(int i, double ms) {
  constexpr const char* kKinds[] = {"layer", "layer", "pack", "layer", "layout change",
                                    "halo",  "layer", "copy", "layer"};
  constexpr const char* kLevels[] = {"FMA", "L2", "L3", "DRAM", "fork and join"};
  const std::string kind = i % 23 == 0 ? "reference" : kKinds[i % 9];
  const bool work = kind == "layer";
  const double flops = work ? 1e6 * std::pow(1.08, i % 90) : 0;
  std::vector<double> busy(kThreads);
  for (int t = 0; t < kThreads; ++t) busy[static_cast<size_t>(t)] = ms * (0.5 + 0.03 * t);
  return {{"kind", kind},
          {"step", i},
          {"name", layer_name(i)},
          {"layer", layer_name(i % 50 == 5 ? i + 1 : i)},
          {"ops", work ? (i % 5 == 0 ? kHostile[static_cast<size_t>(i / 5) % kHostile.size()] : "Conv+Relu") : kind},
          {"problem", "conv2d n1 c64 h56 w56 k64 r3 s3 pad1 f32 <b>&" + layer_name(i)},
          {"schedule", "conv2d_direct vectors=2 rows=1 tile=14 prefetch=0"},
          {"schedule_from", i % 4 ? "default" : "record"},
          {"record", i % 4 ? "" : "exact <b>match</b> of " + layer_name(i)},
          {"reads", i % 50 == 20 ? json::array() : reads(i)},
          {"reads_inputs", i % 90 == 0 ? json{kHostile[0], kHostile[1]} : json::array()},
          {"shapes", "f32[1,64,56,56] -> f32[1,64,56,56]"},
          {"layouts", i % 2 ? json::object() : json{{"source", "<c16>"}, {"weights", ""}, {"destination", "c16"}}},
          {"hash", work ? "0123456789abcdef" : ""},
          {"device", "cpu"},
          {"count", 1 + i % 3},
          {"duration_ms", ms},
          {"p10_ms", ms * 0.9},
          {"p90_ms", i % 31 == 0 ? kNan : ms * 1.2},
          {"percent", 0.0},
          {"barrier_ms", ms * 0.1},
          {"gap_before_ms", 0.0001},
          {"busy_ms", busy},
          {"threads", kThreads},
          {"balance", 0.75},
          {"flops", flops},
          {"bytes", i % 11 == 0 ? 0 : 100000 + 1000 * i},
          {"weight_bytes", i},
          {"gflops", i % 29 == 0 ? kNan : flops / std::max(ms, 1e-9) * 1e-6},
          {"gbps", ms > 0 ? 0.1 / ms : 0.0},
          {"bound", {{"kind", work ? "compute" : "none"}, {"ms", work ? ms / 3 : 0.0}, {"level", kLevels[i % 5]}}},
          {"share_of_bound", i % 37 == 1 ? 1.7
                             : work      ? 1.0 / 3
                                         : 0.0},
          {"beats_bound", i % 37 == 1},
          {"counters", counters(i, ms)}};
}

json conditions() {
  return {{"device", "<script>device</script>"},
          {"target", "znver5"},
          {"threads", kThreads},
          {"date", "2026-11-21T18:20:28Z"},
          {"records", "none"},
          {"unknown_later_field", {1, 2, 3}},
          {"taken", 48},
          {"kept", 24},
          {"disturbed", 48},
          {"best_ms", 1.5},
          {"took_part", std::vector<double>(kThreads, 0.01)},
          {"absent_threads", "16 threads requested, 1 took part: <b>threads</b> 1 to 15"},
          {"quiet", "busy"},
          {"disturbed_share", 1.0},
          {"quiet_text", "busy: 48 of 48 runs disturbed (100 %: <b>waited</b>); the time is an upper bound"}};
}

json empty_profile() {
  const json time = {{"mean_ms", 0.0}, {"p10_ms", 0.0}, {"p90_ms", 0.0}};
  return {
      {"model", "empty"},
      {"total_ms", 0.0},
      {"sum_ms", 0.0},
      {"end_to_end_ms", 0.0},
      {"residual_ms", 0.0},
      {"overhead_percent", kNan},
      {"kernels_ms", 0.0},
      {"barriers_ms", 0.0},
      {"gaps_ms", 0.0},
      {"total", time},
      {"end_to_end", time},
      {"passes", 0},
      {"kept", 0},
      {"threads", 1},
      {"conditions", json::object()},
      {"peaks", json::object()},
      {"memory",
       {{"arena_bytes", 0}, {"constants_bytes", 0}, {"scratch_bytes", 0}, {"code_bytes", 0}, {"arena", json::array()}}},
      {"rows", json::array()},
      {"timeline", json::array()}};
}

void add_rows(json& profile) {
  double sum = 0, at = 0;
  for (int i = 0; i < kLayers; ++i) {
    const double ms = i % 41 == 40 ? 0.0 : 0.002 * std::pow(1.03, (i * 37) % 200);
    json r = row(i, ms);
    sum += ms;
    for (int t = 0; t < kThreads; ++t) {
      profile["timeline"].push_back(
          {{"row", i}, {"thread", t}, {"begin_us", at + 0.2 * t}, {"end_us", at + 1000 * ms * (0.5 + 0.03 * t)}});
    }
    at += 1000 * ms + 1;
    profile["rows"].push_back(std::move(r));
    profile["memory"]["arena"].push_back({{"name", layer_name(i)},
                                          {"offset", (i % 4) * 1000000},
                                          {"bytes", 200000 + 4000 * i},
                                          {"first_step", i},
                                          {"last_step", std::min(i + 1 + i % 6, kLayers - 1)}});
  }
  for (json& r : profile["rows"]) r["percent"] = 100 * r["duration_ms"].get<double>() / sum;
  profile["sum_ms"] = sum;
  profile["kernels_ms"] = 0.9 * sum, profile["barriers_ms"] = 0.1 * sum;
  profile["total_ms"] = 1.001 * sum, profile["residual_ms"] = 0.001 * sum, profile["end_to_end_ms"] = 0.9 * sum;
  profile["total"] = {{"mean_ms", 1.001 * sum}, {"p10_ms", 0.95 * sum}, {"p90_ms", 1.2 * sum}};
  profile["end_to_end"] = {{"mean_ms", 0.9 * sum}, {"p10_ms", 0.8 * sum}, {"p90_ms", 1.1 * sum}};
}

json worst_profile() {
  json profile = empty_profile();
  profile["model"] = "worst </title></script><script>document.title='owned'</script> \xff";
  profile["threads"] = kThreads;
  profile["passes"] = 24, profile["kept"] = 12;
  profile["overhead_percent"] = 1.2;
  profile["bounds_beaten"] = "5 layers beat their bounds: <b>others</b>";
  profile["sum_over_end_to_end"] = {{"value", 1.01}, {"low", 1.0}, {"high", 1.02}};
  profile["conditions"] = conditions();
  const std::vector<double> flat(kThreads, 400.0);
  profile["peaks"] = {{"gflops", flat},    {"l2_gbps", flat},     {"l3_gbps", flat},     {"dram_gbps", flat},
                      {"region_us", flat}, {"l2_bytes", 1048576}, {"l3_bytes", 33554432}};
  profile["memory"]["arena_bytes"] = 4000000;
  profile["memory"]["constants_bytes"] = 123456789;
  add_rows(profile);
  json findings = json::array();
  for (int i = 3; i < 60; i += 7) {
    const bool first = i == 3, fact = i > 30;
    findings.push_back({{"kind", first  ? "first"
                                 : fact ? "fact"
                                        : "action"},
                        {"step", i},
                        {"name", layer_name(i)},
                        {"cause", "cause " + layer_name(i)},
                        {"evidence", {"evidence " + layer_name(i), "balance 0.61"}},
                        {"gain_ms", 0.5},
                        {"gain_percent", 1.5},
                        {"gain_percent_interval", {1.2, 1.8}},
                        {"how", i % 2 ? "measured" : "predicted"},
                        {"steps", {i, i + 1, i + 2}},
                        {"advice", "advice " + layer_name(i)},
                        {"action", "kilter profile '" + layer_name(i) + "'"}});
  }
  json layers = json::array();
  for (int i = 0; i < kLayers; ++i) {
    layers.push_back(
        {{"row", i},
         {"causes", {{{"cause", "tail <of a tile>"}, {"evidence", "evidence " + layer_name(i)}}}},
         {"approximates", "largest error of " + layer_name(i)},
         {"runners_up", {{{"schedule", "conv2d_direct tile=7"}, {"predicted_ms", 0.5}, {"measured_ms", 0.6}}}},
         {"rejected", {{{"template", "winograd"}, {"check", "stride"}, {"limit", "1"}, {"got", "2"}}}}});
  }
  profile["tuning"] = {{"lines", {kHostile[0], "from records", kHostile[12]}}, {"action", kHostile[3]}};
  profile["explain"] = {
      {"summary", {kHostile[0], "Too few threads are busy."}},
      {"split",
       {{{"what", kHostile[1]}, {"ms", 3.0}, {"percent", 75.0}}, {{"what", "gaps"}, {"ms", 1.0}, {"percent", 25.0}}}},
      {"findings", findings},
      {"withheld", "3 findings are withheld <b>"},
      {"layers", layers},
      {"against",
       {{"a", {{"what", kHostile[0]}, {"ms", 2.0}}},
        {"b", {{"what", kHostile[1]}, {"ms", kNan}, {"conditions", {{"program", kHostile[0]}}}}},
        {"ratio", {{"value", kNan}, {"low", 0.9}, {"high", 1.1}}},
        {"layers",
         {{{"name", kHostile[1]}, {"a_ms", 0.0}, {"b_ms", 1.0}},
          {{"name", "behind most"}, {"a_ms", 3.0}, {"b_ms", 1.0}},
          {{"name", kHostile[12]}, {"a_ms", 1.0}, {"b_ms", kNan}}}}}}};
  return profile;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: report_worst_case FOLDER\n";
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  const json worst = worst_profile();
  write(folder / "worst.html", kilter::profile::html_report(worst));
  write(folder / "worst.json", worst.dump(-1, ' ', false, json::error_handler_t::replace));
  write(folder / "empty.html", kilter::profile::html_report(empty_profile()));
  return 0;
}
