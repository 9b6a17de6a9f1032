// The graph: names, use lists, order, dead code; and physical layouts.
#include "graph/graph.h"

#include <gtest/gtest.h>

#include <vector>

#include "ops/op.h"

namespace kilter {
namespace {

const TensorType kType{DType::f32, {2, 3}, {}};

class GraphTest : public testing::Test {
 protected:
  GraphTest() { x_ = graph_.add_input("x", kType); }

  NodeId relu(ValueId in, const std::string& name) {
    return graph_.add_node(find_op("", "Relu", 17), name, 17, {}, {in}, {kType}, {name + "_out"});
  }
  NodeId add(ValueId a, ValueId b, const std::string& name) {
    return graph_.add_node(find_op("", "Add", 17), name, 17, {}, {a, b}, {kType}, {name + "_out"});
  }
  ValueId out(NodeId id) const { return graph_.node(id).outputs.at(0); }

  Graph graph_;
  ValueId x_;
};

TEST_F(GraphTest, NamesAreMadeUnique) {
  const NodeId a = relu(x_, "a");
  const NodeId b = relu(x_, "a");
  const NodeId c = relu(x_, "");
  EXPECT_EQ(graph_.node(a).name, "a");
  EXPECT_EQ(graph_.node(b).name, "a_1");
  EXPECT_EQ(graph_.node(c).name, "Relu");
  EXPECT_EQ(graph_.value(out(a)).name, "a_out");
  EXPECT_EQ(graph_.value(out(b)).name, "a_out_1");
  EXPECT_EQ(graph_.fresh_name("x"), "x_1");
  EXPECT_EQ(graph_.fresh_name("y"), "y");
  verify(graph_);
}

TEST_F(GraphTest, ANameIsFreeAgainAfterErase) {
  const NodeId a = relu(x_, "a");
  graph_.erase(a);
  EXPECT_TRUE(graph_.order().empty());
  const NodeId b = relu(x_, "a");
  EXPECT_EQ(graph_.node(b).name, "a");
  EXPECT_EQ(graph_.value(out(b)).name, "a_out");
  verify(graph_);
}

TEST_F(GraphTest, NodesTakeNamesThatAreFree) {
  const NodeId a = relu(x_, "a"), b = relu(x_, "b");
  graph_.rename_node(b, "a");
  EXPECT_EQ(graph_.node(b).name, "a_1");
  graph_.erase(a);
  graph_.rename_node(b, "a");
  EXPECT_EQ(graph_.node(b).name, "a");
  EXPECT_EQ(graph_.node(relu(x_, "b")).name, "b");
  verify(graph_);
}

TEST_F(GraphTest, RenameTakesAndFreesNames) {
  const ValueId y = out(relu(x_, "a"));
  graph_.rename(y, "x");
  EXPECT_EQ(graph_.value(y).name, "x_1");
  graph_.rename(y, "y");
  EXPECT_EQ(graph_.find_value("y"), y);
  EXPECT_EQ(graph_.find_value("x_1"), kNone);
  EXPECT_EQ(graph_.find_value("a_out"), kNone);
}

TEST_F(GraphTest, UsersAreOrderedAndUnique) {
  const NodeId a = relu(x_, "a");
  const NodeId b = add(x_, x_, "b");
  const NodeId c = add(out(a), out(b), "c");
  EXPECT_EQ(graph_.users(x_), (std::vector<NodeId>{a, b}));
  EXPECT_EQ(graph_.users(out(a)), std::vector<NodeId>{c});
  EXPECT_TRUE(graph_.users(out(c)).empty());
}

TEST_F(GraphTest, UsersReflectInPlaceChanges) {
  const NodeId a = relu(x_, "a");
  const NodeId b = relu(x_, "b");
  Node& changed = graph_.change_node(b);
  EXPECT_EQ(graph_.users(x_), (std::vector<NodeId>{a, b}));
  changed.inputs[0] = out(a);
  EXPECT_EQ(graph_.users(x_), std::vector<NodeId>{a});
  EXPECT_EQ(graph_.users(out(a)), std::vector<NodeId>{b});
  graph_.sort();
  EXPECT_EQ(graph_.users(out(a)), std::vector<NodeId>{b});
}

TEST_F(GraphTest, ReplaceUsesRefusesAnotherType) {
  graph_.name = "g";
  const NodeId a = relu(x_, "a");
  const NodeId b = relu(out(a), "b");
  graph_.add_output(out(b), "y");
  const auto refusal = [&](const TensorType& type) {
    const NodeId made = graph_.add_node(find_op("", "Identity", 17), "made", 17, {}, {x_}, {type}, {"made_out"});
    std::string message;
    try {
      graph_.replace_uses(out(a), out(made));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::internal);
      message = error.message();
    }
    const bool replaced = graph_.node(b).inputs[0] != out(a);
    EXPECT_EQ(replaced, message.empty());
    graph_.replace_uses(out(made), out(made));
    return message;
  };
  EXPECT_EQ(
      refusal({DType::f32, {1, 2, 3}, {}}),
      "graph 'g': 'a_out' of type f32[2,3] computed by Relu 'a' cannot be replaced by 'made_out' of type "
      "f32[1,2,3] computed by Identity 'made'; a replacement must have the element type and shape of what it replaces");
  EXPECT_NE(refusal({DType::f16, {2, 3}, {}}), "");
  EXPECT_NE(refusal({DType::f32, {6}, {}}), "");
  EXPECT_EQ(refusal({DType::f32, {2, 3}, {.block = 8}}), "");
}

TEST_F(GraphTest, UsersAreKnownAfterChangesOfManyNodes) {
  const NodeId a = relu(x_, "a");
  std::vector<NodeId> readers;
  for (int i = 0; i < 100; ++i) readers.push_back(relu(x_, "r"));
  for (NodeId id : readers) graph_.change_node(id).inputs[0] = out(a);
  EXPECT_EQ(graph_.users(x_), std::vector<NodeId>{a});
  EXPECT_EQ(graph_.users(out(a)), readers);
  for (NodeId id : readers) graph_.erase(id);
  EXPECT_EQ(graph_.order(), std::vector<NodeId>{a});
  EXPECT_TRUE(graph_.users(out(a)).empty());
  verify(graph_);
}

TEST_F(GraphTest, LateChangesAreDetected) {
  const NodeId a = relu(x_, "a");
  Node& late = graph_.change_node(relu(x_, "late"));
  for (size_t i = 0; i < Graph::kRecent; ++i) graph_.change_node(relu(x_, "other"));
  graph_.users(x_);
  late.inputs[0] = out(a);
  try {
    verify(graph_);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::internal);
    EXPECT_NE(error.message().find("Relu 'late' was changed later than change_node() allows"), std::string::npos)
        << error.message();
  }
}

TEST_F(GraphTest, ChangesAreCountedAndQueriesAreNot) {
  int64_t before = graph_.changes();
  const auto changed = [&] { return std::exchange(before, graph_.changes()) != graph_.changes(); };
  const NodeId a = relu(x_, "a"), b = relu(out(a), "b"), c = relu(x_, "c");
  EXPECT_TRUE(changed());
  graph_.add_output(out(b), "y");
  EXPECT_TRUE(changed());
  graph_.set_output(0, out(c));
  EXPECT_TRUE(changed());
  graph_.replace_uses(out(c), out(b));
  EXPECT_TRUE(changed());
  graph_.rename(out(b), "other");
  EXPECT_TRUE(changed());
  graph_.rename_node(b, "another");
  EXPECT_TRUE(changed());
  graph_.change_node(b).group = b;
  EXPECT_TRUE(changed());
  graph_.change_value(out(b)).type.layout = Layout{};
  EXPECT_TRUE(changed());
  graph_.add_constant("k", Tensor::scalar(1.0F));
  EXPECT_TRUE(changed());
  EXPECT_EQ(graph_.remove_dead(), 1);  // node c; also removes the constant
  EXPECT_TRUE(changed());
  graph_.sort();
  EXPECT_EQ(graph_.remove_dead(), 0);
  graph_.sort();
  graph_.give_names_back(0);
  changed();  // a node may have got its name back
  graph_.order();
  graph_.users(x_);
  graph_.only_user(x_);
  graph_.find_value("other");
  graph_.set_output(0, out(b));  // b is this output already
  graph_.rename(out(b), "other");
  verify(graph_);
  graph_.sort();
  EXPECT_EQ(graph_.remove_dead(), 0);
  EXPECT_FALSE(changed());
  graph_.erase(b);
  EXPECT_TRUE(changed());
  graph_.clear_outputs();
  EXPECT_TRUE(changed());
}

TEST_F(GraphTest, SortAndRemoveDeadWorkAgainAfterAChange) {
  const NodeId a = relu(x_, "a"), b = relu(out(a), "b");
  graph_.add_output(out(b), "y");
  graph_.sort();
  EXPECT_EQ(graph_.remove_dead(), 0);
  const NodeId late = relu(x_, "late");
  graph_.change_node(a).inputs[0] = out(late);
  graph_.sort();
  EXPECT_EQ(graph_.order(), (std::vector<NodeId>{late, a, b}));
  graph_.change_node(b).inputs[0] = x_;
  graph_.sort();
  EXPECT_EQ(graph_.remove_dead(), 2);
  EXPECT_EQ(graph_.order(), std::vector<NodeId>{b});
  verify(graph_);
}

TEST_F(GraphTest, OnlyUserMayReadSeveralTimes) {
  const NodeId a = relu(x_, "a");
  EXPECT_EQ(graph_.only_user(x_), a);
  const NodeId b = add(x_, x_, "b");
  EXPECT_EQ(graph_.only_user(x_), kNone);
  EXPECT_EQ(graph_.only_user(out(b)), kNone);
  graph_.erase(a);
  EXPECT_EQ(graph_.only_user(x_), b);
}

TEST_F(GraphTest, AnOutputIsSetToAnotherValue) {
  const NodeId a = relu(x_, "a");
  graph_.add_output(out(a), "y");
  graph_.add_output(out(a), "z");
  graph_.set_output(0, x_);
  EXPECT_TRUE(graph_.is_output(x_));
  EXPECT_TRUE(graph_.is_output(out(a)));
  graph_.set_output(1, x_);
  EXPECT_FALSE(graph_.is_output(out(a)));
  EXPECT_EQ(graph_.outputs()[0].value, x_);
  EXPECT_EQ(graph_.outputs()[1].value, x_);
}

TEST_F(GraphTest, ReplaceUsesChangesReadersAndOutputs) {
  const NodeId a = relu(x_, "a");
  const NodeId b = add(out(a), out(a), "b");
  graph_.add_output(out(a), "y");
  graph_.add_output(out(b), "z");
  graph_.replace_uses(out(a), x_);
  EXPECT_EQ(graph_.node(b).inputs, (std::vector<ValueId>{x_, x_}));
  EXPECT_EQ(graph_.outputs()[0].value, x_);
  EXPECT_EQ(graph_.outputs()[1].value, out(b));
  EXPECT_TRUE(graph_.users(out(a)).empty());
  EXPECT_TRUE(graph_.is_output(x_));
  EXPECT_FALSE(graph_.is_output(out(a)));
  EXPECT_EQ(graph_.remove_dead(), 1);
  verify(graph_);
}

TEST_F(GraphTest, SortPutsALateProducerRightBeforeItsFirstReader) {
  const NodeId a = relu(x_, "a");
  const NodeId b = relu(out(a), "b");
  const NodeId c = relu(out(b), "c");
  const NodeId late = relu(x_, "late");
  graph_.change_node(b).inputs[0] = out(late);
  graph_.sort();
  EXPECT_EQ(graph_.order(), (std::vector<NodeId>{a, late, b, c}));
  verify(graph_);
  graph_.sort();
  EXPECT_EQ(graph_.order(), (std::vector<NodeId>{a, late, b, c}));
}

TEST_F(GraphTest, SortNamesACycle) {
  const NodeId a = relu(x_, "a");
  const NodeId b = relu(out(a), "b");
  graph_.change_node(a).inputs[0] = out(b);
  graph_.name = "g";
  try {
    graph_.sort();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "graph 'g' has a cycle: Relu 'b' reads 'a_out', which depends on it");
  }
}

TEST_F(GraphTest, RemoveDeadKeepsInputsAndNeededNodes) {
  const ValueId used = graph_.add_constant("used", Tensor::of<float>({1}, {1.0F}));
  const ValueId unused = graph_.add_constant("unused", Tensor::of<float>({1}, {2.0F}));
  const NodeId a = add(x_, used, "a");
  const NodeId b = add(out(a), unused, "b");
  const NodeId c = relu(out(b), "c");
  graph_.add_output(out(a), "y");
  EXPECT_EQ(graph_.remove_dead(), 2);
  EXPECT_EQ(graph_.order(), std::vector<NodeId>{a});
  EXPECT_TRUE(graph_.node(b).dead);
  EXPECT_TRUE(graph_.value(out(c)).dead);
  EXPECT_TRUE(graph_.value(unused).dead);
  EXPECT_FALSE(graph_.value(unused).constant.has_value());
  EXPECT_FALSE(graph_.value(used).dead);
  EXPECT_EQ(graph_.inputs(), std::vector<ValueId>{x_});
  EXPECT_EQ(graph_.remove_dead(), 0);
  verify(graph_);
}

TEST_F(GraphTest, ReferencesSurviveNewNodes) {
  const NodeId a = relu(x_, "a");
  const Node& node = graph_.node(a);
  const Value& value = graph_.value(x_);
  for (int i = 0; i < 1000; ++i) relu(x_, "n");
  EXPECT_EQ(&node, &graph_.node(a));
  EXPECT_EQ(value.name, "x");
}

TEST_F(GraphTest, AttributesOfAnotherTypeAreErrors) {
  Node& node = graph_.change_node(relu(x_, "a"));
  node.attrs["alpha"] = 0.5F;
  node.attrs["axes"] = std::vector<int64_t>{1, 2};
  EXPECT_EQ(node.float_attr("alpha", 1), 0.5F);
  EXPECT_EQ(node.int_attr("group", 7), 7);
  EXPECT_EQ(node.string_attr("mode", "linear"), "linear");
  EXPECT_EQ(node.ints_attr("axes"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(node.floats_attr("scales", {2.0F}), std::vector<float>{2.0F});
  EXPECT_EQ(node.tensor_attr("value"), nullptr);
  try {
    node.int_attr("alpha", 1);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_model);
    EXPECT_EQ(error.message(), "Relu 'a': attribute 'alpha' has type float, expected int");
  }
}

TEST(Physical, PlainIsRowMajor) {
  const Physical p = physical({DType::f32, {2, 3, 4}, {}});
  EXPECT_EQ(p.dims, (Shape{2, 3, 4}));
  EXPECT_EQ(p.strides, (Shape{12, 4, 1}));
  EXPECT_EQ(p.offset, 0);
  EXPECT_EQ(p.elems, 24);
  EXPECT_EQ(physical({DType::f32, {}, {}}).elems, 1);
}

TEST(Physical, BlockRoundsChannelsUp) {
  const Physical p = physical({DType::f32, {2, 35, 5, 7}, {.block = 16}});
  EXPECT_EQ(p.dims, (Shape{2, 3, 5, 7, 16}));
  EXPECT_EQ(p.strides, (Shape{3 * 5 * 7 * 16, 5 * 7 * 16, 7 * 16, 16, 1}));
  EXPECT_EQ(p.offset, 0);
  EXPECT_EQ(p.elems, 2 * 3 * 5 * 7 * 16);
  const Physical matrix = physical({DType::f32, {4, 20}, {.block = 8}});
  EXPECT_EQ(matrix.dims, (Shape{4, 3, 8}));
  EXPECT_EQ(matrix.elems, 96);
}

TEST(Physical, HaloWidensTheStridesAndMovesTheStart) {
  // With 1 row above, 2 below, 3 columns left and 4 right, the image has 8 rows of 14.
  const Physical blocked = physical({DType::f32, {1, 16, 5, 7}, {.block = 16, .halo = {1, 2, 3, 4}}});
  EXPECT_EQ(blocked.dims, (Shape{1, 1, 5, 7, 16}));
  EXPECT_EQ(blocked.strides, (Shape{8 * 14 * 16, 8 * 14 * 16, 14 * 16, 16, 1}));
  EXPECT_EQ(blocked.offset, (1 * 14 + 3) * 16);
  EXPECT_EQ(blocked.elems, 8 * 14 * 16);
  const Physical plain = physical({DType::f32, {2, 3, 5, 7}, {.block = 1, .halo = {1, 1, 1, 1}}});
  EXPECT_EQ(plain.dims, (Shape{2, 3, 5, 7}));
  EXPECT_EQ(plain.strides, (Shape{3 * 7 * 9, 7 * 9, 9, 1}));
  EXPECT_EQ(plain.offset, 10);
  EXPECT_EQ(plain.elems, 2 * 3 * 7 * 9);
}

TEST(Physical, LayoutsThatDoNotFitAreErrors) {
  EXPECT_THROW(physical({DType::f32, {5}, {.block = 8}}), Error);
  EXPECT_THROW(physical({DType::f32, {1, 2, 3}, {.block = 1, .halo = {1, 1, 1, 1}}}), Error);
}

TEST(TypeText, ShowsLayoutOnlyWhenThereIsOne) {
  EXPECT_EQ(text(TensorType{DType::f32, {1, 64, 56, 56}, {}}), "f32[1,64,56,56]");
  EXPECT_EQ(text(TensorType{DType::i64, {}, {}}), "i64[]");
  EXPECT_EQ(text(TensorType{DType::f32, {1, 64, 56, 56}, {.block = 16}}), "f32[1,64,56,56]{c16}");
  EXPECT_EQ(text(TensorType{DType::f32, {1, 64, 56, 56}, {.block = 16, .halo = {1, 2, 3, 4}}}),
            "f32[1,64,56,56]{c16 halo1,2,3,4}");
  EXPECT_EQ(text(TensorType{DType::u8, {1, 3, 8, 8}, {.block = 1, .halo = {0, 1, 0, 1}}}), "u8[1,3,8,8]{halo0,1,0,1}");
}

}  // namespace
}  // namespace kilter
