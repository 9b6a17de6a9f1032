// Checks every rule of the verifier by the text of its message.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "graph/graph.h"
#include "ops/op.h"

namespace kilter {
namespace {

const TensorType kType{DType::f32, {2}, {}};

/// Returns the verifier's message for a graph that `f` breaks. The graph has input x, const k, a = Relu(x),
/// b = Add(a, k) and output y = b.
std::string message(const std::function<void(Graph&)>& f) {
  Graph g;
  g.name = "g";
  const ValueId x = g.add_input("x", kType);
  const ValueId k = g.add_constant("k", Tensor::of<float>({2}, {1, 2}));
  const NodeId a = g.add_node(find_op("", "Relu", 17), "a", 17, {}, {x}, {kType}, {"a"});
  const NodeId b = g.add_node(find_op("", "Add", 17), "b", 17, {}, {g.node(a).outputs[0], k}, {kType}, {"b"});
  g.add_output(g.node(b).outputs[0], "y");
  verify(g);
  f(g);
  try {
    verify(g);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::internal);
    const std::string prefix = "graph 'g' is invalid: ";
    EXPECT_TRUE(error.message().starts_with(prefix)) << error.message();
    return error.message().substr(prefix.size());
  }
  return "valid";
}

constexpr ValueId kX = 0;
constexpr ValueId kK = 1;
constexpr ValueId kA = 2;
constexpr ValueId kB = 3;

TEST(Verify, Types) {
  EXPECT_EQ(message([](Graph& g) { g.change_value(kA).type.shape = {-1}; }),
            "value 'a': shape -1 has a negative dimension; every dimension must be 0 or more");
  EXPECT_EQ(message([](Graph& g) { g.change_value(kA).type.shape = {int64_t{1} << 30, int64_t{1} << 11}; }),
            "value 'a': shape 1073741824x2048 has more than 2^40 elements; the limit is 2^40 per tensor");
  EXPECT_EQ(message([](Graph& g) { g.change_value(kA).type.layout.block = 0; }),
            "value 'a' has block 0, expected 1 or more");
  EXPECT_EQ(message([](Graph& g) { g.change_value(kA).type.layout.block = 8; }),
            "value 'a' of rank 1 has block 8, which needs rank 2 or more");
  EXPECT_EQ(message([](Graph& g) { g.change_value(kA).type.layout.halo = {1, 1, 1, 1}; }),
            "value 'a' of rank 1 has a halo, which needs rank 4");
  EXPECT_EQ(message([](Graph& g) { g.change_value(kA).type.layout.halo = {-1, 0, 0, 0}; }),
            "value 'a' has a halo of -1, expected 0 or more");
}

TEST(Verify, Names) {
  EXPECT_EQ(message([](Graph& g) { g.change_value(kA).name = "x"; }), "two values are named 'x'");
  EXPECT_EQ(message([](Graph& g) { g.change_value(kA).name = ""; }), "value 2 has no name");
  EXPECT_EQ(message([](Graph& g) { g.change_node(0).name = "b"; }), "two nodes are named 'b'");
  EXPECT_EQ(message([](Graph& g) { g.change_node(0).name = ""; }), "node 0 has no name");
}

TEST(Verify, Inputs) {
  EXPECT_EQ(message([](Graph& g) { g.change_value(kX).dead = true; }), "graph input 'x' is dead");
  EXPECT_EQ(message([](Graph& g) { g.change_value(kX).producer = 0; }), "graph input 'x' has a producer");
  EXPECT_EQ(message([](Graph& g) { g.change_value(kX).constant = Tensor(DType::f32, {2}); }),
            "graph input 'x' is also a constant");
}

TEST(Verify, Constants) {
  EXPECT_EQ(message([](Graph& g) { g.change_value(kK).type.shape = {3}; }),
            "constant 'k' has type f32[3], but its tensor is f32[2]");
  EXPECT_EQ(message([](Graph& g) { g.change_value(kK).constant = Tensor(); }), "constant 'k' has no tensor");
  EXPECT_EQ(message([](Graph& g) { g.change_value(kK).producer = 0; }), "constant 'k' has a producer");
  EXPECT_EQ(message([](Graph& g) { g.change_value(kK).constant.reset(); }),
            "Add 'b': input 1, 'k', is neither a graph input nor a constant nor computed by a node");
}

TEST(Verify, Replacements) {
  EXPECT_EQ(message([](Graph& g) { g.change_value(kA).replaced_by = 9; }), "value 'a' is replaced by value 9 of 4");
  EXPECT_EQ(message([](Graph& g) {
              const ValueId wide = g.add_constant("wide", Tensor(DType::f32, {1, 2}));
              g.change_value(kA).replaced_by = wide;
            }),
            "'a' of type f32[2] computed by Relu 'a' cannot be replaced by 'wide' of type f32[1,2], a constant; a "
            "replacement must have the element type and shape of what it replaces");
}

TEST(Verify, Operands) {
  EXPECT_EQ(message([](Graph& g) { g.change_node(0).inputs = {}; }), "Relu 'a' has 0 inputs, expected 1 or more");
  EXPECT_EQ(message([](Graph& g) { g.change_node(0).inputs = {kX, kX}; }),
            "Relu 'a' has 2 inputs, expected 1 or fewer");
  EXPECT_EQ(message([](Graph& g) { g.change_node(0).inputs = {kNone}; }), "Relu 'a': required input 0 is left out");
  EXPECT_EQ(message([](Graph& g) { g.change_node(0).inputs = {77}; }), "Relu 'a': input 0 is value 77 of 4");
  EXPECT_EQ(message([](Graph& g) { g.change_node(0).inputs = {kB}; }),
            "Relu 'a': input 0, 'b', is computed by a later node");
  EXPECT_EQ(message([](Graph& g) { g.change_node(0).op = nullptr; }), "node 'a' has no operator");
  EXPECT_EQ(message([](Graph& g) { g.change_node(1).opset = 3; }),
            "Add 'b' is of opset 3, but its definition is for 7 to 2147483647");
  EXPECT_EQ(message([](Graph& g) { g.erase(0); }), "Add 'b': input 0 is the dead value 'a'");
}

TEST(Verify, Outputs) {
  EXPECT_EQ(message([](Graph& g) { g.change_node(0).outputs = {kA, kB}; }),
            "Relu 'a' has 2 outputs, expected 1 or fewer");
  EXPECT_EQ(message([](Graph& g) { g.change_node(0).outputs = {kB}; }),
            "Relu 'a': output 0, 'b', claims to be output 0 of node 1");
  EXPECT_EQ(message([](Graph& g) { g.change_value(kA).dead = true; }), "Relu 'a': output 0 is the dead value 'a'");
  EXPECT_EQ(message([](Graph& g) { g.set_output(0, 9); }), "graph output 'y' is value 9 of 4");
  EXPECT_EQ(message([](Graph& g) { g.add_output(kX, ""); }), "a graph output has no name");
  EXPECT_EQ(message([](Graph& g) { g.add_output(kX, "y"); }), "two graph outputs are named 'y'");
  EXPECT_EQ(message([](Graph& g) { g.erase(1); }), "graph output 'y' reads the dead value 'b'");
  EXPECT_EQ(message([](Graph& g) { g.add_output(kX, "z"); }), "valid");
}

}  // namespace
}  // namespace kilter
