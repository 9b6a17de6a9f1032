// Search spaces: points and schedules correspond, every legal point can be lowered, no illegal schedule is a point, the
// default is included, neighbourhood is symmetric, counts add up, and pruning keeps the points that it must.
#include "tune/space/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "base/random.h"
#include "compile/compile.h"
#include "tasks.h"
#include "tune/space/prune.h"
#include "zoo/zoo.h"

namespace kilter::tune {
namespace {

using testing::HasSubstr;

template <class F>
void for_all(const F& check) {
  for (const std::string& target : targets()) {
    for (const std::string& problem : problems()) {
      SCOPED_TRACE(problem + " on " + target);
      const TaskOf t(problem, target);
      check(t, Space(*t.task, t.limits));
    }
  }
  for (const std::string& problem : tile_problems()) {
    SCOPED_TRACE(problem + " on " + kTileTarget);
    const TaskOf t(problem, kTileTarget);
    check(t, Space(*t.task, t.limits));
  }
}

TEST(Space, TestProblemsCoverEveryTemplate) {
  std::set<std::string_view> seen;
  for_all([&](const TaskOf&, const Space& space) {
    for (const Part& part : space.parts()) seen.insert(part.from->name);
  });
  for (const Template* t : all_templates()) {
    // These have no knobs, and neither do move_regions and conv_transpose, which the problems cover.
    const bool alike = t->name == "gather_rows" || t->name == "resize_table" || t->name == "take_channels";
    EXPECT_TRUE(alike || seen.contains(t->name)) << t->name;
  }
}

TEST(Space, PointsOrdinalsAndSchedulesRoundTrip) {
  for_all([](const TaskOf&, const Space& space) {
    const uint64_t step = std::max<uint64_t>(space.raw_size() / 997, 1);
    for (uint64_t i = 0; i < space.raw_size(); i += step) EXPECT_EQ(space.ordinal(space.point(i)), i);
    for (const LegalPoint& l : space.legal()) {
      const Schedule schedule = space.schedule(l.point);
      ASSERT_EQ(space.find(schedule), l.point) << schedule.text();
      ASSERT_EQ(space.find(parse_schedule(schedule.text())), l.point);
    }
  });
}

TEST(Space, KnobsInAnotherOrderAreTheSamePoint) {
  const TaskOf t(problems()[0], "znver4");
  const Space space(*t.task, t.limits);
  Schedule schedule = space.schedule(space.legal().front().point);
  std::reverse(schedule.knobs.begin(), schedule.knobs.end());
  EXPECT_EQ(space.find(schedule), space.legal().front().point);
  schedule.knobs.pop_back();
  EXPECT_EQ(space.find(schedule), std::nullopt);
  EXPECT_EQ(space.find(parse_schedule("matmul_tiled vectors=1 rows=1 prefetch=0")), std::nullopt);
}

TEST(Space, CountsAddUp) {
  for_all([](const TaskOf&, const Space& space) {
    uint64_t raw = 0, illegal = 0;
    for (const Part& part : space.parts()) {
      EXPECT_EQ(part.first, raw);
      raw += part.size;
    }
    for (const auto& [limit, count] : space.illegal()) illegal += count;
    EXPECT_EQ(raw, space.raw_size());
    EXPECT_EQ(illegal + space.legal().size(), raw);
    EXPECT_EQ(space.parts().size() + space.left_out().size(), all_templates().size());
    EXPECT_TRUE(std::is_sorted(space.legal().begin(), space.legal().end(), [&](const auto& a, const auto& b) {
      return space.ordinal(a.point) < space.ordinal(b.point);
    }));
  });
}

/// Returns up to `most` of the legal points, evenly spread.
std::vector<Point> some(const Space& space, size_t most) {
  std::vector<Point> out;
  const size_t step = std::max<size_t>((space.legal().size() + most - 1) / most, 1);
  for (size_t i = 0; i < space.legal().size(); i += step) out.push_back(space.legal()[i].point);
  return out;
}

TEST(Space, LegalPointsLower) {
  for_all([](const TaskOf&, const Space& space) {
    for (const Point& p : some(space, 60)) {
      const auto lowered = space.lower(p);
      ASSERT_TRUE(lowered) << space.schedule(p).text() << ": " << lowered.rejected().text();
    }
  });
}

TEST(Space, IllegalPointsDoNotLower) {
  for_all([](const TaskOf& t, const Space& space) {
    const uint64_t step = std::max<uint64_t>(space.raw_size() / 499, 1);
    for (uint64_t i = 0; i < space.raw_size(); i += step) {
      const Point p = space.point(i);
      if (space.contains(p)) continue;
      const auto lowered = space.lower(p);
      ASSERT_FALSE(lowered) << space.schedule(p).text();
      EXPECT_EQ(space.find(space.schedule(p)), std::nullopt);
      EXPECT_TRUE(space.illegal().contains(limit_of(lowered.rejected()))) << t.task->problem();
    }
  });
}

TEST(Space, EveryLegalPointOfASmallSpaceLowers) {
  for (const std::string& target : targets()) {
    for (const size_t i : {1, 5, 8, 11}) {
      const TaskOf t(problems()[i], target);
      const Space space(*t.task, t.limits);
      for (const LegalPoint& l : space.legal()) ASSERT_TRUE(space.lower(l.point)) << space.schedule(l.point).text();
    }
  }
}

TEST(Space, TheDefaultIsThePointThatCompilingChooses) {
  for_all([](const TaskOf& t, const Space& space) {
    const Schedule chosen = choose(*t.task, t.limits).schedule;
    ASSERT_TRUE(space.default_point().has_value());
    EXPECT_EQ(space.schedule(*space.default_point()).text(), chosen.text());
  });
}

TEST(Space, ForbiddenSchedulesAreLeftOut) {
  const TaskOf t("conv2d n1 c32 h28 w28 k32 r3 s3 pad1 f32", "znver4");
  const std::string& node = t.task->node().name;
  const Space all(*t.task, t.limits);
  const std::vector<Forbidden> winograd{parse_forbidden("winograd@" + node)};
  const Space direct(*t.task, t.limits, Accuracy::normal, winograd);
  ASSERT_EQ(direct.parts().size(), 1U);
  EXPECT_EQ(direct.parts()[0].from->name, "conv2d_direct");
  const auto reason = std::ranges::find(direct.left_out(), "conv2d_winograd", [](const auto& r) { return r.first; });
  ASSERT_NE(reason, direct.left_out().end());
  EXPECT_EQ(reason->second.text(), "--forbid: limit allowed schedules, got conv2d_winograd@" + node);
  EXPECT_EQ(Space(*t.task, t.limits, Accuracy::normal, std::vector{parse_forbidden("winograd@other")}).parts().size(),
            2U);
  // If the default schedule is forbidden, another schedule becomes the default, the same one as in compilation.
  const Schedule own = direct.schedule(*direct.default_point());
  std::vector<Forbidden> both = winograd;
  both.push_back(parse_forbidden(own.text()));
  const Space without(*t.task, t.limits, Accuracy::normal, both);
  EXPECT_FALSE(without.find(own).has_value());
  EXPECT_EQ(without.legal().size() + 1, direct.legal().size());
  EXPECT_EQ(without.illegal().at("--forbid"), 1U);
  EXPECT_EQ(without.schedule(*without.default_point()).text(),
            choose(*t.task, t.limits, {}, Accuracy::normal, both).schedule.text());
}

TEST(Space, StrictAccuracyExcludesApproximations) {
  const TaskOf t("conv2d n1 c32 h28 w28 k32 r3 s3 pad1 f32", "znver4");
  const Space normal(*t.task, t.limits), strict(*t.task, t.limits, Accuracy::strict);
  EXPECT_EQ(normal.parts().size(), 2U);
  ASSERT_EQ(strict.parts().size(), 1U);
  EXPECT_EQ(strict.parts()[0].from->name, "conv2d_direct");
  EXPECT_EQ(strict.schedule(*strict.default_point()).text(),
            choose(*t.task, t.limits, {}, Accuracy::strict).schedule.text());
  const auto reason = std::find_if(strict.left_out().begin(), strict.left_out().end(),
                                   [](const auto& r) { return r.first == "conv2d_winograd"; });
  ASSERT_NE(reason, strict.left_out().end());
  EXPECT_EQ(reason->second.text(), "accuracy: limit default, got strict");
}

TEST(Space, TasksWithoutTemplateHaveNoPoints) {
  const TaskOf t("matmul(f64[5,8] f64[8,4])", "znver4");
  const Space space(*t.task, t.limits);
  EXPECT_EQ(space.raw_size(), 0U);
  EXPECT_TRUE(space.legal().empty());
  EXPECT_EQ(space.default_point(), std::nullopt);
  EXPECT_EQ(space.left_out().size(), all_templates().size());
  const Pruned pruned = prune(space);
  EXPECT_TRUE(pruned.points.empty());
  EXPECT_EQ(pruned.text(), "0 points; 0 left");
}

TEST(Space, NeighboursAreLegalDistinctAndMutual) {
  for_all([](const TaskOf&, const Space& space) {
    for (const Point& p : some(space, 150)) {
      const std::vector<Point> near = space.neighbours(p);
      EXPECT_EQ(std::set<Point>(near.begin(), near.end()).size(), near.size());
      for (const Point& n : near) {
        ASSERT_TRUE(space.contains(n));
        ASSERT_NE(n, p);
        const std::vector<Point> back = space.neighbours(n);
        EXPECT_NE(std::find(back.begin(), back.end(), p), back.end())
            << space.schedule(p).text() << " and " << space.schedule(n).text();
      }
    }
  });
}

TEST(Space, NeighboursDifferInOneKnobOrAreTheBestOfAnotherTemplate) {
  const TaskOf t("conv2d n1 c32 h28 w28 k32 r3 s3 pad1 f32", "znver4");
  const Space space(*t.task, t.limits);
  size_t changes = 0;
  for (const Point& p : some(space, 400)) {
    for (const Point& n : space.neighbours(p)) {
      if (n.part != p.part) {
        EXPECT_EQ(space.best_of(n.part), n);
        EXPECT_EQ(space.best_of(p.part), p);
        ++changes;
        continue;
      }
      int different = 0;
      for (size_t k = 0; k < kMostKnobs; ++k) different += n.at[k] == p.at[k] ? 0 : 1;
      EXPECT_EQ(different, 1);
    }
  }
  const std::vector<Point> near = space.neighbours(*space.best_of(0));
  EXPECT_NE(std::find(near.begin(), near.end(), *space.best_of(1)), near.end());
}

TEST(Space, SamplesCoverTheSpaceEvenly) {
  const TaskOf t("conv2d n1 c32 h10 w13 k32 r3 s3 g32 pad1 f32 +bias +clip(0 6)", "znver4");
  const Space space(*t.task, t.limits);
  const size_t points = space.legal().size();
  std::vector<int> seen(points, 0);
  const int draws = static_cast<int>(points) * 200;
  for (int i = 0; i < draws; ++i) ++seen[*space.index_of(space.sample(7, static_cast<uint64_t>(i)))];
  for (const int count : seen) EXPECT_NEAR(count, 200, 85);  // six standard deviations
  EXPECT_EQ(space.sample(7, 3), space.sample(7, 3));
}

TEST(Space, RandomTasksHaveLegalDefaultsOnEveryTarget) {
  const Random random(20);
  for (uint64_t i = 0; i < 40; ++i) {
    const auto draw = [&](uint64_t k, int64_t low, int64_t high) { return random.integer(i * 16 + k, low, high); };
    const int64_t kernel = draw(0, 0, 1) * 2 + 1, size = draw(1, kernel, 30);
    const std::string problem =
        draw(2, 0, 3) == 0
            ? fmt::format("matmul(f32[{},{}] f32[{},{}])", draw(3, 1, 60), size, size, draw(4, 2, 90))
            : fmt::format("conv2d n1 c{} h{} w{} k{} r{} s{}{} f32 +bias +relu", 16 * draw(5, 1, 4), size,
                          draw(6, kernel, 30), 16 * draw(7, 1, 6), kernel, kernel, kernel == 3 ? " pad1" : "");
    for (const std::string& target : targets()) {
      SCOPED_TRACE(problem + " on " + target);
      const TaskOf t(problem, target);
      const Space space(*t.task, t.limits);
      ASSERT_TRUE(space.default_point().has_value());
      EXPECT_EQ(space.schedule(*space.default_point()).text(), choose(*t.task, t.limits).schedule.text());
      const Pruned pruned = prune(space, {1});
      EXPECT_NE(std::find(pruned.points.begin(), pruned.points.end(), *space.default_point()), pruned.points.end());
      for (uint64_t k = 0; k < 8; ++k) {
        const Point p = space.sample(i, k);
        EXPECT_TRUE(space.lower(p)) << space.schedule(p).text();
        for (const Point& n : space.neighbours(p)) EXPECT_TRUE(space.contains(n));
      }
    }
  }
}

TEST(Prune, CountsAddUpAndDefaultsAreKept) {
  for_all([](const TaskOf&, const Space& space) {
    for (const double beyond : {1.0, 1.5, 3.0, std::numeric_limits<double>::infinity()}) {
      const Pruned pruned = prune(space, {beyond});
      uint64_t out = 0;
      for (const RuledOut& r : pruned.ruled_out) out += r.count;
      EXPECT_EQ(out + pruned.points.size(), pruned.raw);
      EXPECT_EQ(pruned.raw, space.raw_size());
      const std::set<Point> kept(pruned.points.begin(), pruned.points.end());
      EXPECT_EQ(kept.size(), pruned.points.size());
      EXPECT_TRUE(kept.contains(*space.default_point()));
      for (size_t part = 0; part < space.parts().size(); ++part) {
        if (const auto best = space.best_of(part)) {
          EXPECT_TRUE(kept.contains(*best));
        }
      }
      if (std::isinf(beyond)) {
        EXPECT_EQ(kept.size(), space.legal().size());
      }
    }
  });
}

TEST(Prune, KeepsTheCheapestInOrder) {
  const TaskOf t("conv2d n1 c64 h14 w14 k64 r1 s1 f32", "znver4");
  const Space space(*t.task, t.limits);
  const Pruned pruned = prune(space, {1.3});
  const auto cycles = [&](const Point& p) { return space.legal()[*space.index_of(p)].estimate.cycles; };
  for (size_t i = 1; i < pruned.points.size(); ++i) EXPECT_LE(cycles(pruned.points[i - 1]), cycles(pruned.points[i]));
  size_t within = 0;
  for (const LegalPoint& l : space.legal()) within += l.estimate.cycles <= 1.3 * cycles(pruned.points[0]) ? 1 : 0;
  EXPECT_EQ(within, pruned.points.size());
  EXPECT_LT(pruned.points.size(), space.legal().size());
}

TEST(Prune, CountsPointsRuledOutByEachLimit) {
  const TaskOf t("conv2d n1 c64 h14 w14 k64 r1 s1 f32", "znver4");
  const Space space(*t.task, t.limits);
  // There are 3 values of vectors (1, 2, 4), 30 of tile and 7 of prefetch. Tiles of up to 30, 14 and 6 pixels fit in
  // registers.
  EXPECT_EQ(space.raw_size(), 630U);
  EXPECT_EQ(space.legal().size(), 350U);
  EXPECT_EQ(prune(space, {std::numeric_limits<double>::infinity()}).text(),
            "630 points; ruled out: 280 by register tile; 350 left");
  EXPECT_THAT(prune(space, {2}).text(), HasSubstr("280 by register tile, "));
  EXPECT_THAT(prune(space, {2}).text(), HasSubstr(" by 2 times the best estimate; "));
}

TEST(Prune, RefusesLessThanOne) {
  const TaskOf t("relu(f32[3,50])", "znver4");
  const Space space(*t.task, t.limits);
  for (const double beyond : {0.5, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    try {
      prune(space, {beyond});
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      EXPECT_THAT(e.message(), testing::StartsWith("prune: expected 1 or more times the best estimate, got "));
    }
  }
}

TEST(Space, TasksMatchTheCompiledNetwork) {
  const Target target = parse_target("znver4");
  for (const std::string name : {"squeezenet1_1", "mobilenet_v2"}) {
    CompileOptions options;
    options.target = target;
    options.contents.code = false;
    const Compiled compiled = compile_graph(zoo::build(name, {.weights = false}), options);
    std::vector<std::string> want, got;
    std::string last;
    for (const Step& step : compiled.plan.steps) {
      if (step.kind == StepKind::halo || step.name == last) continue;  // the stages of a layer are one task
      last = step.name;
      want.push_back(step.problem + " | " + step.layouts);
    }
    const PlacedTasks placed = place_tasks(zoo::build(name, {.weights = false}), target.limits);
    for (const Task& t : placed.tasks) got.push_back(t.problem() + " | " + t.layouts());
    EXPECT_EQ(got, want) << name;
  }
}

}  // namespace
}  // namespace kilter::tune
