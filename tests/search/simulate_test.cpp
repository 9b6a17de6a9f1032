// Tables of costs, and games (searches simulated with them): tables survive a round trip through text, errors name the
// line, curves and regrets are right.
#include "tune/search/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "../base/error_of.h"
#include "tasks.h"
#include "tune/space/prune.h"

namespace kilter::tune {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const std::string kProblem = "conv2d n1 c32 h10 w13 k32 r3 s3 g32 pad1 f32 +bias +clip(0 6)";

/// Returns a table in which costs fall with the tile size and each trial takes 100 ms.
CostTable table_of(const Space& space) {
  CostTable table{kProblem, "znver4", 1, 3, "by hand", {}};
  for (const LegalPoint& l : space.legal()) {
    const Schedule schedule = space.schedule(l.point);
    table.rows.push_back({schedule, 1.5 - 0.05 * static_cast<double>(schedule.knob("tile")), 100});
  }
  return table;
}

TEST(CostTable, RoundTrips) {
  const TaskOf t(kProblem, "znver4");
  const Space space(*t.task, t.limits);
  CostTable table = table_of(space);
  table.rows[2].cost = kInfinity;
  table.rows.push_back({parse_schedule("conv2d_direct vectors=1 rows=2 tile=3 prefetch=0"), 1.0625, 7.5});
  const CostTable back = parse_cost_table(text(table), "table");
  EXPECT_EQ(back.problem, table.problem);
  EXPECT_EQ(back.target, table.target);
  EXPECT_EQ(back.threads, 1);
  EXPECT_EQ(back.prune, 3);
  EXPECT_EQ(back.conditions, "by hand");
  ASSERT_EQ(back.rows.size(), table.rows.size());
  for (size_t i = 0; i < table.rows.size(); ++i) {
    EXPECT_EQ(back.rows[i].schedule, table.rows[i].schedule);
    EXPECT_EQ(back.rows[i].ms, table.rows[i].ms);
    if (std::isinf(table.rows[i].cost)) {
      EXPECT_TRUE(std::isinf(back.rows[i].cost));
    } else {
      EXPECT_NEAR(back.rows[i].cost, table.rows[i].cost, 5e-4);
    }
  }
}

TEST(CostTable, BadLinesNameTheirNumber) {
  const std::string header =
      R"({"problem":"p","target":"t","threads":1,"prune":3,"conditions":"c","templates":[["map","item"]]})";
  const std::string end = "; `kilter searchers --measure` writes such files";
  const auto error = [](const std::string& text) {
    return error_of([&] { parse_cost_table(text, "a.jsonl"); }, ErrorKind::bad_input);
  };
  const std::string row = "expected [template, knob..., cost above 0 or null, ms], got ";
  EXPECT_EQ(error(header + "\n[0,1024,1.5]\n"), "a.jsonl line 2: " + row + "'[0,1024,1.5]'" + end);
  EXPECT_EQ(error(header + "\n[0,1024,1.5,3]\n\n[1,1024,1.5,3]"), "a.jsonl line 4: " + row + "'[1,1024,1.5,3]'" + end);
  EXPECT_EQ(error(header + "\n[0,1024,-1,3]"), "a.jsonl line 2: " + row + "'[0,1024,-1,3]'" + end);
  EXPECT_EQ(error(header + "\n[0,1024,"), "a.jsonl line 2: " + row + "'[0,1024,'" + end);
  EXPECT_THAT(error("{}"), testing::StartsWith(R"(a.jsonl line 1: expected {"problem":TEXT,)"));
  EXPECT_THAT(error(""), testing::HasSubstr("got 'nothing'"));
}

TEST(Game, RefusesTablesOfOtherSpaces) {
  const TaskOf t(kProblem, "znver4");
  const Space space(*t.task, t.limits);
  CostTable table = table_of(space);
  table.rows.push_back(table.rows.front());
  EXPECT_EQ(error_of([&] { Game(space, table, "a.jsonl"); }, ErrorKind::bad_input),
            "a.jsonl: 'conv2d_depthwise tile=1' appears twice; remove one");
  table.rows.back().schedule = parse_schedule("conv2d_depthwise tile=77");
  EXPECT_EQ(error_of([&] { Game(space, table, "a.jsonl"); }, ErrorKind::bad_input),
            "a.jsonl: 'conv2d_depthwise tile=77' is not in the space of '" + kProblem +
                "' on znver4; the table was measured for other templates: measure it again with `kilter searchers "
                "--measure`");
  table.rows.pop_back();
  std::erase_if(table.rows, [](const CostRow& r) { return r.schedule.knob("tile") == 13; });
  EXPECT_EQ(error_of([&] { Game(space, table, "a.jsonl"); }, ErrorKind::bad_input),
            "a.jsonl: expected the default schedule 'conv2d_depthwise tile=13' among its rows; measure it again with "
            "`kilter searchers --measure`");
}

TEST(Game, CurvesFallToTheOptimum) {
  const TaskOf t(kProblem, "znver4");
  const Space space(*t.task, t.limits);
  const CostTable table = table_of(space);
  const Game game(space, table, "table");
  EXPECT_EQ(game.points(), 13U);
  EXPECT_DOUBLE_EQ(game.optimum(), 0.85);
  EXPECT_DOUBLE_EQ(game.default_cost(), 0.85);
  for (const SearcherRow& row : all_searchers()) {
    if (row.name.starts_with("xgb")) continue;
    const Curve curve = game.play(parse_search_options(row.name));
    ASSERT_EQ(curve.best.size(), 12U) << row.name;  // all but the default
    EXPECT_TRUE(std::is_sorted(curve.best.rbegin(), curve.best.rend()));
    EXPECT_DOUBLE_EQ(curve.best.back(), 0.9) << row.name;
    EXPECT_NEAR(curve.seconds.back(), 1.2, 1e-9);
    EXPECT_EQ(curve.thinking_ms, 0);
    EXPECT_EQ(curve.best_after(0.05), 1);
    EXPECT_EQ(curve.best_after(0.1), curve.best[0]);
    EXPECT_EQ(curve.best_after(0.29), curve.best[1]);
    EXPECT_EQ(curve.best_after(99), curve.best.back());
    EXPECT_EQ(curve.best_after_trials(0), 1);
    EXPECT_EQ(curve.best_after_trials(3), curve.best[2]);
    EXPECT_EQ(curve.best_after_trials(1000), curve.best.back());
  }
  EXPECT_NEAR(game.regret(0.9), 0.9 / 0.85 - 1, 1e-12);
}

TEST(Game, StopsAtTheGivenLimits) {
  const TaskOf t(kProblem, "znver4");
  const Space space(*t.task, t.limits);
  const CostTable table = table_of(space);
  const Game game(space, table, "table");
  PlayOptions how;
  how.most_trials = 5;
  EXPECT_EQ(game.play(parse_search_options("random"), how).best.size(), 5U);
  how = {};
  how.batch = 1;
  how.most_seconds = 0.35;
  EXPECT_EQ(game.play(parse_search_options("random"), how).best.size(), 4U);
  // With a clock, the searcher's own time counts, too. Each reading of this one takes 50 ms.
  double now = 0;
  how = {};
  how.batch = 4;
  how.clock = [&] { return now += 50; };
  const Curve curve = game.play(parse_search_options("random"), how);
  EXPECT_DOUBLE_EQ(curve.seconds[3], 0.05 + 0.05 + 0.4);
  EXPECT_DOUBLE_EQ(curve.seconds[4], 0.5 + 0.05 + 0.05 + 0.1);
}

TEST(Game, SpreadMatchesHandComputation) {
  const Spread s = spread_of({4, 1, 3, 2, 5});
  EXPECT_EQ(s.mean, 3);
  EXPECT_EQ(s.low, 2);
  EXPECT_EQ(s.median, 3);
  EXPECT_EQ(s.high, 4);
}

TEST(Game, NoisyRunsAreJudgedByTrueCosts) {
  const TaskOf t(kProblem, "znver4");
  const Space space(*t.task, t.limits);
  CostTable table = table_of(space);  // 0.85 to 1.45
  for (CostRow& row : table.rows) row.cost = 1;
  const Game even(space, table, "even");
  PlayOptions how;
  how.noise = 0.1;
  how.most_trials = 400;
  for (const std::string name : {"model", "ga", "random"}) {
    // All schedules are as good as the default, so choosing a lucky one costs nothing.
    for (const double best : even.play(parse_search_options(name), how).best) EXPECT_EQ(best, 1) << name;
  }
  table = table_of(space);
  const Game game(space, table, "table");
  size_t worse = 0;
  for (int64_t seed = 1; seed <= 10; ++seed) {
    SearchOptions o = parse_search_options("random");
    o.seed = seed;
    const Curve curve = game.play(o, how);
    EXPECT_GT(curve.best.size(), 12U) << "what may be the best is measured again";
    EXPECT_EQ(game.play(o, how).best, curve.best) << "the same seed, the same noise";
    worse += std::is_sorted(curve.best.rbegin(), curve.best.rend()) ? 0 : 1;  // a lucky schedule was chosen for a while
    EXPECT_LE(curve.best.back(), 0.95);
    o.seed += 100;
    EXPECT_NE(game.play(o, how).best, curve.best);
  }
  EXPECT_GT(worse, 0U);
  how.samples = 400;  // makes costs almost exact
  EXPECT_DOUBLE_EQ(game.play(parse_search_options("random"), how).best.back(), 0.9);
}

TEST(Game, StopsAtTheOptimumOnRequest) {
  const TaskOf t(kProblem, "znver4");
  const Space space(*t.task, t.limits);
  CostTable table = table_of(space);
  std::ranges::find_if(table.rows, [](const CostRow& r) { return r.schedule.knob("tile") == 6; })->cost = 0.5;
  const Game game(space, table, "table");
  PlayOptions how;
  how.batch = 1;
  how.stop_at_optimum = true;
  const Curve curve = game.play(parse_search_options("random"), how);
  EXPECT_LT(curve.best.size(), 12U);
  EXPECT_EQ(curve.best.back(), 0.5);
  EXPECT_EQ(curve.best_after(60), 0.5);
}

TEST(Game, LeadMatchesHandComputation) {
  const Lead lead = lead_of({{-1, -3}, {1, 1}, {-3, -3}});
  EXPECT_DOUBLE_EQ(lead.mean, (-2.0 + 1 - 3) / 3);
  EXPECT_DOUBLE_EQ(lead.half, 1.96 * std::sqrt(2.0 / 2) / 3);  // only within the first task do the seeds differ
  EXPECT_EQ(lead.less, 2U);
  EXPECT_EQ(lead.more, 1U);
  EXPECT_TRUE(lead.told());
  EXPECT_FALSE(lead_of({{-1, 2}}).told());
}

TEST(CostTable, BestSchedulesAreRemeasuredUntilStable) {
  // The costs of eight schedules were measured too low. Measured again, the first three exceed the others.
  std::vector<CostRow> rows;
  std::map<std::string, double> truth;
  for (int64_t i = 0; i < 8; ++i) {
    rows.push_back({Schedule{"map", {{"item", i + 1}}}, 0.90 + 0.01 * static_cast<double>(i), 1});
    truth[rows.back().schedule.text()] = i < 3 ? 1.5 : rows.back().cost + 0.001;
  }
  rows.push_back({Schedule{"map", {{"item", 99}}}, kInfinity, 1});
  std::vector<size_t> passes;
  std::vector<Schedule> seen;
  const std::string said = settle_front(rows, 3, [&](const std::vector<Schedule>& schedules) {
    passes.push_back(schedules.size());
    std::vector<double> costs;
    for (const Schedule& s : schedules) seen.push_back(s), costs.push_back(truth.at(s.text()));
    return costs;
  });
  EXPECT_EQ(passes, (std::vector<size_t>{3, 3}));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(rows[i].cost, truth.at(rows[i].schedule.text())) << i;
  EXPECT_TRUE(std::ranges::is_sorted(rows, {}, &CostRow::cost));
  EXPECT_EQ(
      said,
      "the 3 cheapest and 3 that were among them earlier were measured again, in 2 passes; half of the costs moved by "
      "more than 31.6 %");
  std::vector<CostRow> none;
  EXPECT_EQ(settle_front(none, 3, [](const auto&) { return std::vector<double>{}; }), "no cost was measured again");
}

}  // namespace
}  // namespace kilter::tune
