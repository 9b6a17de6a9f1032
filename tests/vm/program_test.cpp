// Networks that run as programs: control flow, sequences, data-dependent shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "../onnx/model_maker.h"
#include "compile/memory_model.h"
#include "compile/session.h"

namespace kilter {
namespace {

using onnx::add_attribute;
using onnx::add_node;
using onnx::error_of;
using onnx::ModelMaker;
using onnx::set_tensor_type;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int32_t kFloat = 1, kInt64 = 7, kBool = 9;

/// A session over a model in memory.
class Network {
 public:
  explicit Network(const ModelMaker& maker, vm::CheckInterrupt interrupt = {}) : model_(maker.parse()) {
    Session::Options options;
    options.compile.target = parse_target("native");
    options.threads = 1;
    options.interrupt = std::move(interrupt);
    session_ = Session::open(model_.name(), options);
  }
  Session* operator->() { return session_.get(); }

 private:
  MemoryModel model_;
  std::unique_ptr<Session> session_;
};

std::vector<float> floats(const Tensor& t) { return {t.span<float>().begin(), t.span<float>().end()}; }

void boolean(onnx::pb::TensorProto& tensor, const std::string& name, bool value) {
  tensor.set_name(name);
  tensor.set_data_type(kBool);
  tensor.add_int32_data(value ? 1 : 0);
}

/// x doubles as often as `n` says: y is the last one, and all has each of them. The body reads `one` from outside.
ModelMaker doubling_loop(const std::string& condition = "") {
  ModelMaker maker;
  maker.input("n", {}, kInt64);
  maker.input("x", {2});
  if (condition == "true") boolean(maker.initializer(), "true", true);
  maker.node("Abs", {"x"}, {"start"}, "abs");
  auto& loop = maker.node("Loop", {condition == "true" ? "" : "n", condition, "start"}, {"y", "all"}, "loop");
  auto& body = *add_attribute(loop, "body", onnx::kGraphAttr).mutable_g();
  set_tensor_type(*body.add_input(), "i", {}, kInt64);
  set_tensor_type(*body.add_input(), "go", {}, kBool);
  set_tensor_type(*body.add_input(), "v", {2});
  add_node(*body.add_node(), "Identity", {"go"}, {"go_on"}, "");
  add_node(*body.add_node(), "Add", {"v", "v"}, {"w"}, "twice");
  set_tensor_type(*body.add_output(), "go_on", {}, kBool);
  set_tensor_type(*body.add_output(), "w", {2});
  set_tensor_type(*body.add_output(), "w", {2});
  maker.output("y", {2});
  maker.output("all", {"n", 2});
  return maker;
}

TEST(Loop, RunsAsOftenAsItsCountSays) {
  Network network(doubling_loop());
  for (const int64_t n : {3, 0, 5}) {
    const auto out = network->run({{"n", Tensor::scalar(n)}, {"x", Tensor::of<float>({2}, {-1, 3})}});
    const auto factor = static_cast<float>(1 << n);
    EXPECT_THAT(floats(out[0]), ElementsAre(factor, 3 * factor));
    EXPECT_EQ(out[1].shape(), (Shape{n, 2}));
    if (n > 0) {
      EXPECT_EQ(out[1].data<float>()[0], 2);
    }
  }
  EXPECT_TRUE(network->runs_program());
}

TEST(Loop, WithoutEndIsInterrupted) {
  int64_t checks = 0;
  Network network(doubling_loop("true"), [&] {
    if (++checks == 100) fail(ErrorKind::usage, "interrupted");
  });
  EXPECT_EQ(error_of([&] { network->run({{"n", Tensor::scalar(int64_t{1})}, {"x", Tensor::of<float>({2}, {0, 0})}}); }),
            "usage: interrupted");
  EXPECT_EQ(checks, 100);
}

TEST(Loop, ACountThatIsNoIntegerIsAnError) {
  ModelMaker maker = doubling_loop();
  maker.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(kFloat);
  Network network(maker);
  EXPECT_EQ(error_of([&] { network->run({{"n", Tensor::scalar(1.0F)}, {"x", Tensor::of<float>({2}, {0, 0})}}); }),
            "bad_model: Loop 'loop': the trip count is f32[], expected one i64");
}

/// y = Relu(x) if any element of x is above 0, else the scalar -1: branches of different rank.
ModelMaker ranks_model() {
  ModelMaker maker;
  maker.input("x", {1, 3, 64, 64});
  onnx::set_floats(maker.initializer(), "zero", {}, {0});
  onnx::set_floats(maker.initializer(), "minus", {}, {-1});
  add_attribute(maker.node("ReduceMax", {"x"}, {"most"}), "keepdims", onnx::kIntAttr).set_i(0);
  maker.node("Greater", {"most", "zero"}, {"cond"});
  auto& choice = maker.node("If", {"cond"}, {"y"}, "if");
  auto& then_branch = *add_attribute(choice, "then_branch", onnx::kGraphAttr).mutable_g();
  add_node(*then_branch.add_node(), "Relu", {"x"}, {"t"}, "");
  set_tensor_type(*then_branch.add_output(), "t", {1, 3, 64, 64});
  auto& else_branch = *add_attribute(choice, "else_branch", onnx::kGraphAttr).mutable_g();
  add_node(*else_branch.add_node(), "Identity", {"minus"}, {"e"}, "");
  set_tensor_type(*else_branch.add_output(), "e", {});
  maker.output("y", {});
  return maker;
}

TEST(If, BranchesMayHaveDifferentRanks) {
  Network network(ranks_model());
  Tensor x(DType::f32, {1, 3, 64, 64});
  EXPECT_EQ(network->run({{"x", x}})[0].shape(), Shape{});
  x.data<float>()[5] = 2;
  const Tensor y = network->run({{"x", x}})[0];
  EXPECT_EQ(y.shape(), x.shape());
  EXPECT_EQ(y.data<float>()[5], 2);
}

TEST(If, AConditionOfSeveralElementsIsAnError) {
  ModelMaker maker = ranks_model();
  maker.graph().mutable_node(0)->mutable_attribute(0)->set_i(1);
  auto& axes = *maker.graph().mutable_node(0)->add_attribute();
  axes.set_name("axes"), axes.set_type(onnx::kIntsAttr), axes.add_ints(3);
  Network network(maker);
  EXPECT_EQ(error_of([&] { network->run({{"x", Tensor(DType::f32, {1, 3, 64, 64})}}); }),
            "bad_model: If 'if': the condition is bool[1,3,64,1], expected one bool");
}

TEST(DataDependent, ShapesFollowTheData) {
  ModelMaker maker;
  maker.input("x", {100});
  maker.node("NonZero", {"x"}, {"where"}, "nz");
  maker.node("Transpose", {"where"}, {"rows"});
  maker.node("GatherND", {"x", "rows"}, {"picked"});
  maker.node("Exp", {"picked"}, {"y"});
  maker.output("y", {"n"});
  Network network(maker);
  Tensor x(DType::f32, {100});
  EXPECT_EQ(network->run({{"x", x}})[0].shape(), Shape{0});
  x.data<float>()[7] = 1, x.data<float>()[50] = 2;
  EXPECT_THAT(floats(network->run({{"x", x}})[0]),
              ElementsAre(testing::FloatEq(2.7182817F), testing::FloatEq(7.389056F)));
}

TEST(DataDependent, ValuesOfAnInputOfAnySizeAreData) {
  ModelMaker maker;
  maker.input("tokens", {"n"}, kInt64);
  maker.node("ReduceSum", {"tokens"}, {"sum"});
  maker.node("Squeeze", {"sum"}, {"count"});
  auto& zero = maker.initializer();
  zero.set_name("zero"), zero.set_data_type(kInt64), zero.add_int64_data(0);
  auto& one = maker.initializer();
  one.set_name("one"), one.set_data_type(kInt64), one.add_int64_data(1);
  maker.node("Range", {"zero", "count", "one"}, {"y"});
  maker.output("y", {"m"}, kInt64);
  Network network(maker);
  for (int64_t n = 1; n < 9; ++n)
    EXPECT_EQ(network->run({{"tokens", Tensor::of<int64_t>({2}, {n, 1})}})[0].shape(), Shape{n + 1});
  EXPECT_TRUE(network->runs_program());
  EXPECT_LE(network->plans(), 2U) << "no plan for each value";
}

TEST(Sequences, GrowInALoopWithoutCopies) {
  ModelMaker maker;
  maker.input("n", {}, kInt64);
  maker.node("SequenceEmpty", {}, {"none"});
  auto& loop = maker.node("Loop", {"n", "", "none"}, {"all"}, "loop");
  auto& body = *add_attribute(loop, "body", onnx::kGraphAttr).mutable_g();
  set_tensor_type(*body.add_input(), "i", {}, kInt64);
  set_tensor_type(*body.add_input(), "go", {}, kBool);
  body.add_input()->set_name("list");
  add_node(*body.add_node(), "Identity", {"go"}, {"go_on"}, "");
  add_node(*body.add_node(), "SequenceInsert", {"list", "i"}, {"longer"}, "");
  set_tensor_type(*body.add_output(), "go_on", {}, kBool);
  body.add_output()->set_name("longer");
  maker.node("SequenceLength", {"all"}, {"length"});
  maker.node("SequenceAt", {"all", "n2"}, {"one"}, "at");
  maker.input("n2", {}, kInt64);
  maker.output("length", {}, kInt64);
  maker.output("one", {}, kInt64);
  Network network(maker);
  const auto out = network->run({{"n", Tensor::scalar(int64_t{3000})}, {"n2", Tensor::scalar(int64_t{-2})}});
  EXPECT_EQ(out[0].as_int(0), 3000);
  EXPECT_EQ(out[1].as_int(0), 2998);
  EXPECT_EQ(error_of([&] { network->run({{"n", Tensor::scalar(int64_t{2})}, {"n2", Tensor::scalar(int64_t{2})}}); }),
            "bad_model: SequenceAt 'at': position 2 is out of range for a sequence of 2; legal values are -2 to 1");
}

TEST(Sequences, AreOutputsOfRunValues) {
  ModelMaker maker;
  maker.input("x", {4, 2});
  maker.node("SplitToSequence", {"x"}, {"parts"}, "split");
  auto& output = *maker.graph().add_output();
  output.set_name("parts");
  output.mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(kFloat);
  Network network(maker);
  const std::map<std::string, AnyValue> inputs = {{"x", Tensor(DType::f32, {4, 2})}};
  EXPECT_EQ(text(network->run_values(inputs)[0]), "sequence of 4 (f32[1,2], f32[1,2], f32[1,2], f32[1,2])");
  EXPECT_THAT(error_of([&] { network->run({{"x", Tensor(DType::f32, {4, 2})}}); }),
              HasSubstr("output 'parts' is sequence of 4"));
}

TEST(Partition, KnownShapesStayInSegments) {
  // The shape of z follows from that of NonZero's result, whose value nothing needs.
  ModelMaker maker;
  maker.input("x", {100});
  maker.node("Relu", {"x"}, {"r"});
  maker.node("NonZero", {"r"}, {"where"}, "nz");
  maker.node("Shape", {"where"}, {"s"});
  auto& minus = maker.initializer();
  onnx::set_int64s(minus, "flat", {-1});
  maker.node("Reshape", {"where", "flat"}, {"f"});
  maker.node("Reshape", {"f", "s"}, {"z"});
  maker.output("z", {1, "n"}, kInt64);
  Network network(maker);
  EXPECT_EQ(vm::text(network->program().program()),
            "function 0(%x) -> (%z)\n"
            "  %r = segment 0 of 1 nodes(%x)\n"
            "  %where = NonZero 'nz'(%r)\n"
            "  %z = segment 1 of 3 nodes(%where)\n");
}

TEST(Partition, ASegmentGivesWhatLaterOnesNeedForShapes) {
  // The last Reshape needs the shape of r, which it does not read otherwise.
  ModelMaker maker;
  maker.input("x", {1, 100});
  maker.node("Relu", {"x"}, {"r"});
  maker.node("Shape", {"r"}, {"s"});
  maker.node("NonZero", {"r"}, {"where"}, "nz");
  maker.node("ReduceSum", {"where"}, {"sum"});
  maker.node("Expand", {"sum", "s"}, {"z"});
  maker.output("z", {1, 100}, kInt64);
  Network network(maker);
  Tensor x(DType::f32, {1, 100});
  x.data<float>()[40] = 1;
  const Tensor z = network->run({{"x", x}})[0];
  EXPECT_EQ(z.shape(), (Shape{1, 100}));
  EXPECT_EQ(z.as_int(99), 40);
}

}  // namespace
}  // namespace kilter
