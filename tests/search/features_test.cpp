// Features: every knob of every template is visible in them, different points have different features, and all figures
// are finite and repeatable.
#include "tune/space/features.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tasks.h"

namespace kilter::tune {
namespace {

size_t column(std::string_view name) {
  for (size_t i = 0; i < all_features().size(); ++i) {
    if (all_features()[i].name == name) return i;
  }
  ADD_FAILURE() << "no feature " << name;
  return 0;
}

TEST(Features, HaveUniqueNamesAndMeanings) {
  std::set<std::string> names;
  for (const Feature& f : all_features()) {
    EXPECT_TRUE(names.insert(f.name).second) << f.name;
    EXPECT_FALSE(f.meaning.empty()) << f.name;
  }
}

TEST(Features, EveryKnobOfEveryTemplateIsAColumn) {
  const auto check = [](const std::string& problem, const char* target) {
    const TaskOf t(problem, target);
    const Space space(*t.task, t.limits);
    for (const Part& part : space.parts()) {
      for (const Knob& knob : part.knobs) {
        const auto named = [&](const Feature& f) { return f.name == "knob." + knob.name; };
        EXPECT_TRUE(std::ranges::any_of(all_features(), named)) << part.from->name << " " << knob.name;
      }
    }
  };
  for (const std::string& problem : problems()) check(problem, "znver4");
  for (const std::string& problem : tile_problems()) check(problem, kTileTarget);
}

TEST(Features, AreFiniteOfOneWidthAndRepeatable) {
  for (const std::string& target : targets()) {
    for (const std::string& problem : problems()) {
      const TaskOf t(problem, target);
      const Space space(*t.task, t.limits);
      const Featurizer features(space, 2), again(space, 2);
      std::vector<Point> points;
      for (size_t i = 0; i < space.legal().size(); i += 37) points.push_back(space.legal()[i].point);
      const FeatureRows rows = features.rows(points);
      ASSERT_EQ(rows.width, all_features().size());
      ASSERT_EQ(rows.count(), points.size());
      for (size_t i = 0; i < rows.values.size(); ++i)
        ASSERT_TRUE(std::isfinite(rows.values[i])) << all_features()[i % rows.width].name << " of " << problem;
      for (size_t i = 0; i < points.size(); ++i) EXPECT_TRUE(std::ranges::equal(rows.row(i), again.row(points[i])));
    }
  }
}

TEST(Features, DistinguishAllPoints) {
  const TaskOf t("conv2d n1 c32 h9 w9 k32 r3 s3 pad1 f32 +bias +relu", "znver4");
  const Space space(*t.task, t.limits);
  const Featurizer features(space);
  std::set<std::vector<float>> seen;
  for (const LegalPoint& l : space.legal()) EXPECT_TRUE(seen.insert(features.row(l.point)).second);
}

TEST(Features, MatchHandComputedValues) {
  const TaskOf t("matmul(f32[1,13,40] f32[40,50]) +add(f32[50])", "znver4");
  const Space space(*t.task, t.limits);
  const auto point = space.find(parse_schedule("matmul_tiled vectors=2 rows=7 prefetch=1024"));
  ASSERT_TRUE(point.has_value());
  const std::vector<float> row = Featurizer(space, 4).row(*point);
  EXPECT_FLOAT_EQ(row[column("dim.rows")], std::log2(1 + 13.0F));
  EXPECT_FLOAT_EQ(row[column("dim.columns")], std::log2(1 + 50.0F));
  EXPECT_FLOAT_EQ(row[column("dim.reduction")], std::log2(1 + 40.0F));
  EXPECT_FLOAT_EQ(row[column("machine.threads")], 2);
  EXPECT_FLOAT_EQ(row[column("machine.vector_bytes")], 6);
  EXPECT_FLOAT_EQ(row[column("template.matmul_tiled")], 1);
  EXPECT_FLOAT_EQ(row[column("template.conv2d_direct")], 0);
  EXPECT_FLOAT_EQ(row[column("knob.vectors")], std::log2(3.0F));
  EXPECT_FLOAT_EQ(row[column("knob.prefetch")], std::log2(1025.0F));
  EXPECT_FLOAT_EQ(row[column("knob.tile")], -1);
  EXPECT_FLOAT_EQ(row[column("tile.registers")], 14 / 32.0F);
  EXPECT_FLOAT_EQ(row[column("tile.loads")], 9 / 14.0F);
  EXPECT_FLOAT_EQ(row[column("tile.columns_rest")], 64 / 50.0F - 1);
  // Two tiles of rows times two panels are one tile for each of four threads.
  EXPECT_FLOAT_EQ(row[column("tile.count")], 1);
  EXPECT_FLOAT_EQ(row[column("task.weight_bytes")], std::log2(1 + 4 * (2000.0F + 50)));
}

TEST(Features, DependOnThreadsAndTarget) {
  const TaskOf t(problems()[0], "znver4"), other(problems()[0], "x86-64-v3");
  const Space space(*t.task, t.limits), narrow(*other.task, other.limits);
  const Point p = *space.default_point();
  EXPECT_NE(Featurizer(space, 1).row(p), Featurizer(space, 2).row(p));
  EXPECT_NE(Featurizer(space, 1).row(p)[column("machine.registers")],
            Featurizer(narrow, 1).row(*narrow.default_point())[column("machine.registers")]);
}

}  // namespace
}  // namespace kilter::tune
