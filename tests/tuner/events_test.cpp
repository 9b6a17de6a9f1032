#include "tune/tuner/events.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "tune/tuner/tune_json.h"

namespace kilter::tune {
namespace {

TEST(TuneLog, ReportsAllEventsAndKeepsABoundedTrace) {
  int64_t told = 0;
  TuneLog log([&](const TuneEvent& event) {
    EXPECT_EQ(event.trials, told);
    ++told;
  });
  constexpr int64_t kMany = 5 * kMostTraced;
  for (int64_t i = 0; i < kMany; ++i) {
    log.tell(i, GainEvent{i, "map item=1", {0.9, 0.8, 1}, 2});
    log.point(i, 1, 0);
  }
  EXPECT_EQ(told, kMany);
  const TuneTrace trace = log.finish();
  EXPECT_LE(trace.points.size(), kMostTraced);
  EXPECT_GE(trace.points.size(), kMostTraced / 4);
  EXPECT_LE(trace.gains.size(), kMostTraced);
  // The points are evenly spaced over the whole run and start at its first entry.
  EXPECT_EQ(trace.points.front().trials, 0);
  const int64_t stride = trace.points[1].trials;
  for (size_t i = 0; i < trace.points.size(); ++i) EXPECT_EQ(trace.points[i].trials, stride * static_cast<int64_t>(i));
  EXPECT_GE(trace.points.back().trials, kMany - stride);
}

TEST(TuneLog, PhasesEndWhereTheNextBegins) {
  TuneLog log(nullptr);
  for (const char* phase : {"preparing", "searching", "racing"}) log.tell(0, PhaseEvent{phase});
  const TuneTrace trace = log.finish();
  ASSERT_EQ(trace.spans.size(), 3U);
  EXPECT_EQ(trace.spans[0].end, trace.spans[1].begin);
  EXPECT_EQ(trace.spans[1].end, trace.spans[2].begin);
  EXPECT_GE(trace.spans[2].end, trace.spans[2].begin);
}

TEST(TuneJson, EventsHaveTheirKeys) {
  const auto keys = [](const nlohmann::json& json) {
    std::vector<std::string> all;
    for (const auto& [key, value] : json.items()) all.push_back(key);
    return all;
  };
  using Keys = std::vector<std::string>;
  const TrialEvent good{3, "conv1", "map item=1", Status::ok, "", {0.9, 0.8, 1}, {0.95, 0.9, 1}, 2, 8, {88.5, 0}};
  const nlohmann::json trial = to_json(TuneEvent{1.5, 7, good});
  EXPECT_EQ(keys(trial), (Keys{"all_samples", "error", "event", "gflops", "node", "ratio", "samples", "schedule",
                               "seconds", "share_of_bound", "so_far", "status", "task", "trials"}));
  EXPECT_EQ(trial["gflops"], 88.5);
  EXPECT_EQ(trial["share_of_bound"], nullptr);  // unknown
  const nlohmann::json gain = to_json(TuneEvent{1, 2, GainEvent{3, "map item=1", {0.9, 0.8, 1}, 2, {88.5, 0.7}}});
  EXPECT_EQ(gain["gflops"], 88.5);
  EXPECT_EQ(gain["share_of_bound"], 0.7);
  EXPECT_EQ(trial["ratio"], (nlohmann::json{{"value", 0.9}, {"low", 0.8}, {"high", 1.0}}));
  const TrialEvent bad{3, "conv1", "map item=1", Status::crash, "signal 11", {}, {}, 0, 0};
  const nlohmann::json failed = to_json(TuneEvent{1.5, 7, bad});
  EXPECT_EQ(keys(failed), (Keys{"error", "event", "node", "schedule", "seconds", "status", "task", "trials"}));
  EXPECT_EQ(failed["status"], "crash");
  EXPECT_EQ(keys(to_json(TuneEvent{0, 0, RaceEvent{1, 2, 0, {}, {}, {}, 0, "it crashed"}})),
            (Keys{"attempt", "event", "fault", "rounds", "seconds", "tasks", "trials"}));
}

TEST(TuneJson, ProgressCoversTheWholeRun) {
  TuneProgress p;
  p.phase = "searching", p.seconds = 35, p.budget_seconds = 300, p.trials = 1234, p.most_trials = 2000;
  p.default_ms = 4, p.predicted_ms = 2, p.flops = 200'000'000, p.bound_ms = 1;
  p.tasks.resize(1);
  p.tasks[0].share = 0.5, p.tasks[0].current = 0.5;
  p.runs.taken = 4, p.runs.disturbed = 3;
  EXPECT_EQ(to_json(p), (nlohmann::json{{"event", "progress"},
                                        {"phase", "searching"},
                                        {"seconds", 35.0},
                                        {"seconds_left", 265.0},
                                        {"trials", 1234},
                                        {"trials_left", 766},
                                        {"failures", 0},
                                        {"restarts", 0},
                                        {"default_ms", 4.0},
                                        {"predicted_ms", 2.0},
                                        {"remaining", 0.0},
                                        {"gflops", 100.0},
                                        {"last_gflops", 200'000'000 / 3.0 * 1e-6},
                                        {"share_of_bound", 0.5},
                                        {"quiet", "busy"},
                                        {"disturbed_share", 0.75}}));
  p.budget_seconds = std::numeric_limits<double>::infinity(), p.most_trials = 0, p.bound_ms = 0;
  p.default_bytes = 500, p.predicted_bytes = 400;
  const nlohmann::json open = to_json(p);
  EXPECT_EQ(open["default_bytes"], 500) << "bytes are there if they have a weight";
  EXPECT_EQ(open["predicted_bytes"], 400);
  for (const char* key : {"seconds_left", "trials_left", "share_of_bound"}) EXPECT_EQ(open[key], nullptr) << key;
}

}  // namespace
}  // namespace kilter::tune
