// Tables of costs and games over them: files read back, bad ones are answered with the line, curves and regrets are
// right, and the tables in the repository can be played.
#include "tune/search/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "../base/error_of.h"
#include "base/files.h"
#include "tasks.h"
#include "tune/space/prune.h"

namespace kilter::tune {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const std::string kProblem = "conv2d n1 c32 h10 w13 k32 r3 s3 g32 pad1 f32 +bias +clip(0 6)";

/// Costs fall with the tile; each trial takes 100 ms.
CostTable table_of(const Space& space) {
  CostTable table{kProblem, "znver4", 1, 3, "by hand", {}};
  for (const LegalPoint& l : space.legal()) {
    const Schedule schedule = space.schedule(l.point);
    table.rows.push_back({schedule, 1.5 - 0.05 * static_cast<double>(schedule.knob("tile")), 100});
  }
  return table;
}

TEST(CostTable, ReadsBack) {
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

TEST(CostTable, BadLinesAreAnsweredWithTheirNumber) {
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
            "a.jsonl: 'conv2d_depthwise tile=1' is there twice; leave one out");
  table.rows.back().schedule = parse_schedule("conv2d_depthwise tile=77");
  EXPECT_EQ(error_of([&] { Game(space, table, "a.jsonl"); }, ErrorKind::bad_input),
            "a.jsonl: 'conv2d_depthwise tile=77' is not in the space of '" + kProblem +
                "' on znver4; the table was made for other templates: make it anew with `kilter searchers --measure`");
  table.rows.pop_back();
  std::erase_if(table.rows, [](const CostRow& r) { return r.schedule.knob("tile") == 13; });
  EXPECT_EQ(error_of([&] { Game(space, table, "a.jsonl"); }, ErrorKind::bad_input),
            "a.jsonl: expected the default schedule 'conv2d_depthwise tile=13' among its rows; make it anew with "
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

TEST(Game, StopsWhereItIsTold) {
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
  // The searcher's own time counts where there is a clock: 50 ms for each look at it.
  double now = 0;
  how = {};
  how.batch = 4;
  how.clock = [&] { return now += 50; };
  const Curve curve = game.play(parse_search_options("random"), how);
  EXPECT_DOUBLE_EQ(curve.seconds[3], 0.05 + 0.05 + 0.4);
  EXPECT_DOUBLE_EQ(curve.seconds[4], 0.5 + 0.05 + 0.05 + 0.1);
}

TEST(Game, SpreadByHand) {
  const Spread s = spread_of({4, 1, 3, 2, 5});
  EXPECT_EQ(s.mean, 3);
  EXPECT_EQ(s.low, 2);
  EXPECT_EQ(s.median, 3);
  EXPECT_EQ(s.high, 4);
}

/// The tables that the repository keeps, each played by its searchers: what doc/search.md says of them.
TEST(Game, ModelBeatsGaBeatsRandomOnTheMeasuredTables) {
  double model = 0, ga = 0, random = 0;
  size_t tables = 0;
  for (const auto& entry : std::filesystem::directory_iterator(KILTER_SEARCHERS)) {
    if (entry.path().extension() != ".jsonl") continue;
    const std::string file = entry.path().string();
    const CostTable table = parse_cost_table(read_file(file), file);
    const TaskOf t(table.problem, table.target);
    const Space space(*t.task, t.limits);
    const Game game(space, table, file);
    // Costs are over the default of the day when the table was made; since then it may have become better.
    EXPECT_LE(game.default_cost(), 1.05) << file;
    const auto regret = [&](const std::string& name) {
      double sum = 0;
      for (int64_t seed = 1; seed <= 4; ++seed) {
        SearchOptions o = parse_search_options(name);
        o.seed = seed;
        PlayOptions how;
        how.most_trials = 32;
        sum += game.regret(game.play(o, how).best.back()) / 4;
      }
      return sum;
    };
    model += regret("model"), ga += regret("ga"), random += regret("random");
    ++tables;
  }
  EXPECT_EQ(tables, 10U);
  EXPECT_LT(model / 10, 0.015);
  EXPECT_LT(model, ga);
  EXPECT_LT(ga, random);
}

}  // namespace
}  // namespace kilter::tune
