#include "tune/cost/tree_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "../base/error_of.h"
#include "../base/scratch_folder.h"
#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "tune/cost/xgboost_model.h"

namespace kilter::tune {
namespace {

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

/// Two trees: the first gives 10 or 20 if x < 1, depending on y < 5 (an unknown y counts as less), and else 30; the
/// second is a leaf of 0.5.
TreeModel small_model() {
  TreeModel::Parts parts{{"x", "y"}, Objective::cost, 0.25F, {}, {{"trainer", "by hand"}}};
  parts.trees.push_back(
      {{0, false, 1, 4}, {1, true, 5, 3}, {-1, false, 10, -1}, {-1, false, 20, -1}, {-1, false, 30, -1}});
  parts.trees.push_back({{-1, false, 0.5F, -1}});
  return TreeModel(parts);
}

TEST(TreeModel, SplitsRouteSmallerAndUnknownValues) {
  const Matrix rows{{"x", "y"}, {0, 4, 0, 5, 1, 0, kUnknown, 0, 0, kUnknown}};
  EXPECT_EQ(small_model().predict(rows), (std::vector<double>{10.75, 20.75, 30.75, 30.75, 10.75}));
}

TEST(TreeModel, FindsFeaturesByName) {
  const Matrix rows{{"other", "y", "x"}, {7, 4, 0, 7, 0, 1}};
  EXPECT_EQ(small_model().predict(rows), (std::vector<double>{10.75, 30.75}));
  EXPECT_EQ(small_model().splits(), (std::vector<int64_t>{1, 1}));
}

TEST(TreeModel, SaysWhichFeaturesAreMissing) {
  EXPECT_EQ(error_of([] { (void)small_model().predict({{"x", "z"}, {1, 2}}); }),
            "the cost model was trained on 2 features, of which 1 is not among the 2 given: y; given are x, z. Use "
            "rows of the same version, or train a model on these: kilter cost-model train");
}

TEST(TreeModel, TextOfAModel) {
  const std::string body =
      "kilter-trees 1\nobjective cost\nnote trainer by hand\nfeatures 2 x y\nbase 0.25\ntrees 2\n"
      "0r1 1l5 =10 =20 =30\n=0.5\n";
  EXPECT_EQ(small_model().text(), body + fmt::format("end {:016x}\n", hash_text(body)));
  const TreeModel back = TreeModel::parse(small_model().text(), "m");
  EXPECT_EQ(back.text(), small_model().text());
}

TEST(TreeModel, FileRoundTrip) {
  const ScratchFolder folder;
  small_model().save(folder.path() / "m.trees");
  EXPECT_EQ(TreeModel::load(folder.path() / "m.trees").text(), small_model().text());
  EXPECT_NE(error_of([&] { (void)TreeModel::load(folder.path() / "none.trees"); }).find("none.trees"),
            std::string::npos);
}

TEST(TreeModel, NumbersRoundTrip) {
  TreeModel::Parts parts{{"x"}, Objective::rank, std::nextafter(0.1F, 1.0F), {}, {}};
  for (const float value : {1e-38F, 3.4e38F, -0.0F, 1.17549435e-38F, 16777217.0F, 0.3F, 1e-45F}) {
    parts.trees.push_back({{-1, false, value, -1}});
  }
  const TreeModel back = TreeModel::parse(TreeModel(parts).text(), "m");
  EXPECT_EQ(back.parts().base, parts.base);
  for (size_t i = 0; i < parts.trees.size(); ++i) EXPECT_EQ(back.parts().trees[i][0].value, parts.trees[i][0].value);
  EXPECT_EQ(back.objective(), Objective::rank);
}

/// Returns the error from parsing the small model's text with `from` replaced by `to` and a last line with the new
/// hash.
std::string error_with(const std::string& from, const std::string& to) {
  std::string text = small_model().text();
  text.resize(text.rfind("end "));
  const size_t at = text.find(from);
  text.replace(at, from.size(), to);
  text += fmt::format("end {:016x}\n", hash_text(text));
  return error_of([&] { (void)TreeModel::parse(text, "m.trees"); });
}

TEST(TreeModel, RefusesMalformedText) {
  EXPECT_EQ(error_with("kilter-trees 1", "kilter-trees 2"),
            "m.trees: line 1: version 2; this program reads version 1; use a newer program, or train again");
  EXPECT_EQ(error_with("kilter-trees 1", "hello"), "m.trees: line 1: expected 'kilter-trees ...', got 'hello'");
  EXPECT_EQ(error_with("objective cost", "objective fun"),
            "m.trees: line 2: objective 'fun'; legal values are cost, rank");
  EXPECT_EQ(error_with("features 2 x y", "features 3 x y"), "m.trees: line 4: expected 3 names of features, got 2");
  EXPECT_EQ(error_with("features 2 x y", "features 2 x x"), "m.trees: feature x appears twice");
  EXPECT_EQ(error_with("features 2 x y", "features 0"), "m.trees: line 4: no features; a cost model needs one or more");
  EXPECT_EQ(error_with("base 0.25", "base nan"), "m.trees: line 5: expected a finite number, got 'nan'");
  EXPECT_EQ(error_with("base 0.25", "base 1e99"), "m.trees: line 5: expected a finite number, got '1e99'");
  EXPECT_EQ(error_with("trees 2", "trees -2"), "m.trees: line 6: expected a number from 0 to 1000000, got '-2'");
  EXPECT_EQ(error_with("trees 2", "trees 3"),
            "m.trees: line 9: expected a split such as 3l0.25 or a leaf such as =0.5, got 'end'");
  EXPECT_EQ(error_with("=20 =30", "=20"), "m.trees: line 7: a tree ends before its last leaf");
  EXPECT_EQ(error_with("=20 =30", "=20 =30 =40"), "m.trees: line 7: a tree is complete before '=40'");
  EXPECT_EQ(error_with("1l5", "2l5"), "m.trees: line 7: feature 2; legal values are 0..1");
  EXPECT_EQ(error_with("1l5", "1x5"),
            "m.trees: line 7: expected a split such as 3l0.25 or a leaf such as =0.5, got '1x5'");
  EXPECT_EQ(error_with("1l5", "1l5z"),
            "m.trees: line 7: expected a split such as 3l0.25 or a leaf such as =0.5, got '5z'");
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "0r1 ";
  EXPECT_EQ(error_with("0r1 1l5", deep + "1l5"), "m.trees: line 7: a tree of more than 64 levels");
}

TEST(TreeModel, DetectsDamage) {
  const std::string text = small_model().text();
  std::string changed = text;
  changed[changed.find("=20") + 1] = '3';
  EXPECT_NE(error_of([&] { (void)TreeModel::parse(changed, "m"); }).find("m: line 9: the hash of the lines above is"),
            std::string::npos);
  EXPECT_EQ(error_of([&] { (void)TreeModel::parse(text + "more\n", "m"); }),
            "m: line 9: the file continues after its end");
  EXPECT_EQ(error_of([] { (void)TreeModel::parse("", "m"); }),
            "m: line 1: expected 'kilter-trees 1', but the file ends; it is cut off");
  // A text that is cut off anywhere gives an error, never a model with fewer trees.
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_NE(error_of([&] { (void)TreeModel::parse(text.substr(0, size), "m"); }), "no error") << size;
  }
}

TEST(TreeModel, RefusesInconsistentParts) {
  TreeModel::Parts parts = small_model().parts();
  parts.trees[0][0].right = 3;
  EXPECT_EQ(error_of([&] { TreeModel{parts}; }), "tree model: tree 0, node 3: does not fit the tree around it");
  parts = small_model().parts();
  parts.trees[0][1].feature = 2;
  EXPECT_EQ(error_of([&] { TreeModel{parts}; }), "tree model: tree 0, node 1: does not fit the tree around it");
  parts = small_model().parts();
  parts.trees[1].clear();
  EXPECT_EQ(error_of([&] { TreeModel{parts}; }), "tree model: tree 1 has no node");
  parts = small_model().parts();
  parts.notes = {{"two words", "x"}};
  EXPECT_EQ(error_of([&] { TreeModel{parts}; }),
            "tree model: note 'two words': expected a key of one word and one line of text");
}

TEST(TreeModel, JoinedModelsAddUp) {
  TreeModel::Parts more{{"y", "z", "x"}, Objective::cost, 1, {}, {}};
  more.trees.push_back({{1, false, 0, 2}, {-1, false, 100, -1}, {-1, false, 200, -1}});
  const TreeModel joined = join_models(small_model(), TreeModel(more));
  const Matrix rows{{"x", "y", "z"}, {0, 4, -1, 1, 0, 1}};
  EXPECT_EQ(joined.predict(rows), (std::vector<double>{111.75, 231.75}));
  more.objective = Objective::rank;
  EXPECT_EQ(
      error_of([&] { (void)join_models(small_model(), TreeModel(more)); }),
      "cost model: the model to start from has objective cost, but the one to train has objective rank; start from one "
      "of the same objective");
}

/// Models, rows and predictions written by XGBoost 3.2.0.
class Golden : public testing::TestWithParam<const char*> {};

TEST_P(Golden, PredictsAsXgboostDoes) {
  const auto file = nlohmann::json::parse(
      read_file(std::string(KILTER_SOURCE_FOLDER) + "/tests/cost/xgboost_" + GetParam() + ".json"));
  const bool rank = std::string(GetParam()) == "rank";
  const TreeModel model = from_xgboost_json(file.at("model").dump(), {"a", "b", "c", "d"},
                                            rank ? Objective::rank : Objective::cost, "golden");
  Matrix rows{{"a", "b", "c", "d"}, {}};
  for (const auto& row : file.at("rows")) {
    for (const auto& v : row) rows.values.push_back(v.is_null() ? kUnknown : v.get<float>());
  }
  const std::vector<double> got = model.predict(rows);
  ASSERT_EQ(got.size(), 40);
  for (size_t i = 0; i < got.size(); ++i) {
    const double wanted = file.at("predictions")[i].get<double>() * (rank ? -1 : 1);
    EXPECT_EQ(got[i], wanted) << i;
  }
  EXPECT_EQ(TreeModel::parse(model.text(), "again").predict(rows), got);
}

INSTANTIATE_TEST_SUITE_P(Objectives, Golden, testing::Values("cost", "rank"),
                         [](const auto& p) { return std::string(p.param); });

TEST(XgboostJson, RefusesUnsupportedModels) {
  const auto refused = [](const std::string& text) {
    return error_of([&] { (void)from_xgboost_json(text, {"a"}, Objective::cost, "x.json"); });
  };
  EXPECT_EQ(refused("{").find("x.json: not a model in XGBoost's JSON format: "), 0);
  EXPECT_EQ(refused("{}").find("x.json: not a model in XGBoost's JSON format: "), 0);
  const auto with = [](const std::string& booster, const std::string& score, const std::string& tree) {
    return R"({"learner":{"learner_model_param":{"base_score":")" + score + R"("},"gradient_booster":{"name":")" +
           booster + R"(","model":{"trees":[)" + tree + "]}}}}";
  };
  EXPECT_EQ(refused(with("gblinear", "0", "")), "x.json: booster 'gblinear'; expected gbtree");
  EXPECT_EQ(refused(with("gbtree", "[1,2]", "")), "x.json: base_score '[1,2]' is not a number for one output");
  const std::string leaf =
      R"({"left_children":[-1],"right_children":[-1],"split_indices":[0],"split_type":[0],"default_left":[0],"split_conditions":[2]})";
  EXPECT_EQ(refused(with("gbtree", "5E-1", leaf)), "no error");
  EXPECT_EQ(
      refused(with(
          "gbtree", "0",
          R"({"left_children":[],"right_children":[],"split_indices":[],"split_type":[],"default_left":[],"split_conditions":[]})")),
      "x.json: a tree's lists are empty or of different length");
  const auto split = [](const char* left, const char* type) {
    return fmt::format(
        R"({{"left_children":[{},-1,-1],"right_children":[2,-1,-1],"split_indices":[0,0,0],"split_type":[{},0,0],)"
        R"("default_left":[0,0,0],"split_conditions":[1,2,3]}})",
        left, type);
  };
  EXPECT_EQ(refused(with("gbtree", "0", split("1", "0"))), "no error");
  EXPECT_EQ(refused(with("gbtree", "0", split("0", "0"))), "x.json: node 0 has invalid children");
  EXPECT_EQ(refused(with("gbtree", "0", split("7", "0"))), "x.json: node 0 has invalid children");
  EXPECT_EQ(refused(with("gbtree", "0", split("1", "1"))), "x.json: node 0 splits categories; expected numbers only");
}

}  // namespace
}  // namespace kilter::tune
