// Programs at the limits of what models may contain: names, counts and shapes that do not fit, and ownership of memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "../onnx/model_maker.h"
#include "compile/memory_model.h"
#include "compile/session.h"

namespace kilter {
namespace {

using onnx::add_attribute;
using onnx::add_node;
using onnx::error_of;
using onnx::ModelMaker;
using onnx::set_floats;
using onnx::set_int64s;
using onnx::set_tensor_type;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int32_t kFloat = 1, kInt64 = 7, kBool = 9;

class Network {
 public:
  explicit Network(const ModelMaker& maker) : model_(maker.parse()) {
    Session::Options options;
    options.compile.target = parse_target("native");
    options.threads = 1;
    session_ = Session::open(model_.name(), options);
  }
  Session* operator->() { return session_.get(); }

 private:
  MemoryModel model_;
  std::unique_ptr<Session> session_;
};

std::vector<float> floats(const Tensor& t) { return {t.span<float>().begin(), t.span<float>().end()}; }

Tensor pair(float a, float b) { return Tensor::of<float>({2}, {a, b}); }

onnx::pb::GraphProto& body_of(onnx::pb::NodeProto& node, const std::string& name) {
  return *add_attribute(node, name, onnx::kGraphAttr).mutable_g();
}

void scalar(onnx::pb::TensorProto& tensor, const std::string& name, int64_t value) {
  set_int64s(tensor, name, {value});
  tensor.clear_dims();
}

/// A Loop with n iterations over a state v that starts as x, whose body has the inputs i, go, v and no nodes.
struct LoopMaker : ModelMaker {
  explicit LoopMaker(const std::vector<std::string>& outputs = {"y"}) {
    input("n", {}, kInt64);
    input("x", {2});
    auto& loop = node("Loop", {"n", "", "x"}, outputs, "loop");
    body = &body_of(loop, "body");
    set_tensor_type(*body->add_input(), "i", {}, kInt64);
    set_tensor_type(*body->add_input(), "go", {}, kBool);
    set_tensor_type(*body->add_input(), "v", {2});
    set_tensor_type(*body->add_output(), "go", {}, kBool);
  }
  onnx::pb::GraphProto* body;
};

TEST(EmptyTensors, LoseAnAxis) {
  ModelMaker maker;
  maker.input("x", {1, 4, "n"});
  set_int64s(maker.initializer(), "axes", {0});
  add_attribute(maker.node("ReduceSum", {"x", "axes"}, {"y"}), "keepdims", onnx::kIntAttr);
  maker.output("y", {4, "n"});
  Network network(maker);
  EXPECT_EQ(network->run({{"x", Tensor(DType::f32, {1, 4, 0})}})[0].shape(), (Shape{4, 0}));
  EXPECT_EQ(network->run({{"x", Tensor(DType::f32, {1, 4, 2})}})[0].shape(), (Shape{4, 2}));
}

TEST(Names, OfABodyShadowOuterNames) {
  // Outside the body, k is 1; inside, it is an initializer, 10. The body's state has the name of the network's input.
  ModelMaker maker;
  maker.input("n", {}, kInt64);
  maker.input("x", {2});
  set_floats(maker.initializer(), "k", {}, {1});
  maker.node("Add", {"x", "k"}, {"start"});
  auto& body = body_of(maker.node("Loop", {"n", "", "start"}, {"y"}, "loop"), "body");
  set_tensor_type(*body.add_input(), "i", {}, kInt64);
  set_tensor_type(*body.add_input(), "go", {}, kBool);
  set_tensor_type(*body.add_input(), "x", {2});
  set_floats(*body.add_initializer(), "k", {}, {10});
  add_node(*body.add_node(), "Add", {"x", "k"}, {"start"}, "");
  set_tensor_type(*body.add_output(), "go", {}, kBool);
  set_tensor_type(*body.add_output(), "start", {2});
  maker.output("y", {2});
  Network network(maker);
  EXPECT_THAT(floats(network->run({{"n", Tensor::scalar(int64_t{2})}, {"x", pair(0, 5)}})[0]), ElementsAre(21, 26));
}

TEST(Outputs, OfABodyMayBeInputsConstantsAndOuterValues) {
  LoopMaker maker({"y", "counts", "ks"});
  set_floats(maker.initializer(), "k", {1}, {7});
  set_tensor_type(*maker.body->add_output(), "x", {2});
  set_tensor_type(*maker.body->add_output(), "i", {}, kInt64);
  set_tensor_type(*maker.body->add_output(), "k", {1});
  maker.output("y", {2});
  maker.output("counts", {"n"}, kInt64);
  maker.output("ks", {"n", 1});
  Network network(maker);
  const auto out = network->run({{"n", Tensor::scalar(int64_t{2})}, {"x", pair(3, 4)}});
  EXPECT_THAT(floats(out[0]), ElementsAre(3, 4));
  EXPECT_THAT(out[1].ints(), ElementsAre(0, 1));
  EXPECT_THAT(floats(out[2]), ElementsAre(7, 7));
}

/// y = x or the constant k; z = y.
ModelMaker direct_model() {
  ModelMaker maker;
  maker.input("x", {65});
  set_floats(maker.initializer(), "k", {2}, {7, 8});
  maker.node("ReduceMax", {"x"}, {"most"});
  set_floats(maker.initializer(), "zero", {1}, {0});
  maker.node("Greater", {"most", "zero"}, {"above"});
  auto& choice = maker.node("If", {"above"}, {"y"}, "if");
  set_tensor_type(*body_of(choice, "then_branch").add_output(), "x", {65});
  set_tensor_type(*body_of(choice, "else_branch").add_output(), "k", {2});
  maker.node("Identity", {"y"}, {"z"});
  maker.output("y", {"n"});
  maker.output("z", {"n"});
  return maker;
}

TEST(Outputs, HaveTheirOwnMemory) {
  // The caller may write to the outputs. That changes neither the inputs, nor the weights, nor each other.
  Network network(direct_model());
  const std::map<std::string, Tensor> inputs = {{"x", Tensor(DType::f32, {65})}};
  for (int round = 0; round < 3; ++round) {
    const auto out = network->run(inputs);
    ASSERT_THAT(floats(out[0]), ElementsAre(7, 8));
    out[0].data<float>()[0] = -1;
    EXPECT_THAT(floats(out[1]), ElementsAre(7, 8));
    out[1].data<float>()[1] = -1;
  }
  inputs.at("x").data<float>()[3] = 1;
  const auto out = network->run(inputs);
  out[0].data<float>()[3] = -1;
  EXPECT_EQ(inputs.at("x").data<float>()[3], 1);
  EXPECT_EQ(out[1].data<float>()[3], 1);
}

TEST(Outputs, OfABranchMayBeAbsent) {
  // The function returns its second input, which the call omits.
  ModelMaker maker(18);
  maker.import("my", 1);
  maker.input("x", {2});
  auto& function = *maker.proto.add_functions();
  function.set_name("Second"), function.set_domain("my");
  function.add_input("a"), function.add_input("b"), function.add_output("b");
  function.add_opset_import()->set_version(18);
  scalar(maker.initializer(), "one", 1);
  maker.node("Size", {"x"}, {"size"});
  maker.node("Greater", {"size", "one"}, {"cond"});
  auto& choice = maker.node("If", {"cond"}, {"y"}, "if");
  auto& branch = body_of(choice, "then_branch");
  add_node(*branch.add_node(), "Second", {"x"}, {"none"}, "").set_domain("my");
  set_tensor_type(*branch.add_output(), "none", {2});
  set_tensor_type(*body_of(choice, "else_branch").add_output(), "x", {2});
  maker.node("OptionalHasElement", {"y"}, {"has"});
  maker.output("has", {}, kBool);
  Network network(maker);
  EXPECT_FALSE(*network->run({{"x", pair(1, 2)}})[0].data<bool>());
}

TEST(Outputs, GivenMemoryMustNotOverlapInputs) {
  Network network(direct_model());
  const Tensor x(DType::f32, {65});
  const std::map<std::string, Tensor> inputs = {{"x", x}};
  x.data<float>()[3] = 1;
  EXPECT_THAT(error_of([&] { network->run(inputs, {{"z", x}}); }),
              HasSubstr("memory for output 'z' overlaps input 'x'; give it memory of its own"));
}

TEST(Outputs, OfEarlierRunsKeepTheirValues) {
  // The slices that Scan takes of a large tensor and the sequence of them refer to memory of a segment's outputs.
  ModelMaker maker;
  maker.input("x", {3, 4096});
  maker.node("Abs", {"x"}, {"a"});
  auto& body = body_of(maker.node("Scan", {"a"}, {"y"}, "scan"), "body");
  add_attribute(maker.graph().mutable_node()->at(1), "num_scan_inputs", onnx::kIntAttr).set_i(1);
  set_tensor_type(*body.add_input(), "row", {4096});
  set_tensor_type(*body.add_output(), "row", {4096});
  maker.node("SplitToSequence", {"y"}, {"parts"});
  auto& output = *maker.graph().add_output();
  output.set_name("parts");
  output.mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(kFloat);
  Network network(maker);
  std::vector<AnyValue> kept;
  for (int run = 1; run <= 8; ++run) {
    Tensor x(DType::f32, {3, 4096});
    std::ranges::fill(x.span<float>(), -static_cast<float>(run));
    kept.push_back(network->run_values({{"x", x}})[0]);
  }
  for (size_t run = 0; run < kept.size(); ++run) {
    for (const AnyValue& part : kept[run].elements())
      EXPECT_EQ(part.tensor().data<float>()[4095], static_cast<float>(run + 1));
  }
}

TEST(DefaultInputs, OfAProgramMayBeGiven) {
  // k has the default 1; the body of the loop reads it, too.
  LoopMaker maker;
  maker.input("k", {2});
  set_floats(maker.initializer(), "k", {2}, {1, 1});
  add_node(*maker.body->add_node(), "Add", {"v", "k"}, {"w"}, "");
  set_tensor_type(*maker.body->add_output(), "w", {2});
  maker.node("NonZero", {"k"}, {"where"});
  maker.output("y", {2});
  maker.output("where", {1, "m"}, kInt64);
  Network network(maker);
  const Tensor n = Tensor::scalar(int64_t{3}), x = pair(0, 0);
  EXPECT_THAT(floats(network->run({{"n", n}, {"x", x}})[0]), ElementsAre(3, 3));
  const auto out = network->run({{"n", n}, {"x", x}, {"k", pair(2, 0)}});
  EXPECT_THAT(floats(out[0]), ElementsAre(6, 0));
  EXPECT_THAT(out[1].ints(), ElementsAre(0));
  EXPECT_THAT(floats(network->run({{"n", n}, {"x", x}})[0]), ElementsAre(3, 3));
}

TEST(DefaultInputs, GivenToAStaticGraphReachBranches) {
  ModelMaker maker;
  maker.input("x", {2});
  maker.input("k", {2});
  set_floats(maker.initializer(), "k", {2}, {1, 1});
  auto& yes = maker.initializer();
  yes.set_name("yes"), yes.set_data_type(kBool), yes.add_int32_data(1);
  auto& choice = maker.node("If", {"yes"}, {"y"}, "if");
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& branch = body_of(choice, name);
    add_node(*branch.add_node(), "Add", {"x", "k"}, {"sum"}, "");
    set_tensor_type(*branch.add_output(), "sum", {2});
  }
  maker.output("y", {2});
  Network network(maker);
  EXPECT_THAT(floats(network->run({{"x", pair(0, 0)}})[0]), ElementsAre(1, 1));
  EXPECT_THAT(floats(network->run({{"x", pair(0, 0)}, {"k", pair(5, 6)}})[0]), ElementsAre(5, 6));
  EXPECT_FALSE(network->runs_program());
}

TEST(MissingOperators, OperatorsMatterOnlyInBranchesThatRun) {
  // Both nodes of the first branch are missing; the first one has a graph inside it.
  ModelMaker maker;
  maker.input("x", {65});
  set_floats(maker.initializer(), "zero", {1}, {0});
  maker.node("ReduceMax", {"x"}, {"most"});
  maker.node("Greater", {"most", "zero"}, {"above"});
  auto& choice = maker.node("If", {"above"}, {"y"}, "if");
  auto& branch = body_of(choice, "then_branch");
  auto& unknown = add_node(*branch.add_node(), "Nowhere", {"x"}, {"a"}, "outer");
  set_tensor_type(*body_of(unknown, "body").add_output(), "x", {65});
  add_node(*branch.add_node(), "NowhereElse", {"a"}, {"b"}, "inner");
  set_tensor_type(*branch.add_output(), "b", {65});
  set_tensor_type(*body_of(choice, "else_branch").add_output(), "x", {65});
  maker.output("y", {65});
  Network network(maker);
  Tensor x(DType::f32, {65});
  EXPECT_EQ(network->run({{"x", x}})[0].elems(), 65);
  x.data<float>()[0] = 1;
  EXPECT_THAT(
      error_of([&] { network->run({{"x", x}}); }),
      testing::AllOf(testing::StartsWith("unsupported: Nowhere 'outer': "), HasSubstr("is missing from Kilter")));
}

TEST(Loop, NeedsNeitherCountNorStates) {
  ModelMaker maker;
  maker.input("x", {});
  auto& body = body_of(maker.node("Loop", {}, {"all"}, "loop"), "body");
  set_tensor_type(*body.add_input(), "i", {}, kInt64);
  set_tensor_type(*body.add_input(), "go", {}, kBool);
  scalar(maker.initializer(), "three", 3);
  add_node(*body.add_node(), "Less", {"i", "three"}, {"on"}, "");
  set_tensor_type(*body.add_output(), "on", {}, kBool);
  set_tensor_type(*body.add_output(), "x", {});
  maker.output("all", {"n"});
  Network network(maker);
  EXPECT_THAT(floats(network->run({{"x", Tensor::scalar(2.0F)}})[0]), ElementsAre(2, 2, 2, 2));
}

TEST(Loop, ABodyThatDoesNotFitIsAnError) {
  LoopMaker maker;
  maker.output("y", {2});
  const std::map<std::string, Tensor> inputs = {{"n", Tensor::scalar(int64_t{2})}, {"x", pair(0, 0)}};
  EXPECT_EQ(error_of([&] { Network(maker)->run(inputs); }),
            "bad_model: Loop 'loop': expected a graph with 3 inputs and at least 2 outputs as its body, got 3 inputs "
            "and 1 outputs");
  set_tensor_type(*maker.body->add_output(), "x", {2});
  maker.body->mutable_input()->RemoveLast();
  EXPECT_EQ(error_of([&] { Network(maker)->run(inputs); }),
            "bad_model: Loop 'loop': expected a graph with 3 inputs and at least 2 outputs as its body, got 2 inputs "
            "and 2 outputs");
}

TEST(Loop, BodyWithoutGraphIsAnError) {
  ModelMaker maker;
  maker.input("n", {}, kInt64);
  add_attribute(maker.node("Loop", {"n"}, {"y"}, "loop"), "body", onnx::kGraphAttr);
  maker.output("y", {"n"});
  EXPECT_THAT(error_of([&] { Network(maker)->run({{"n", Tensor::scalar(int64_t{2})}}); }),
              HasSubstr("Loop 'loop': attribute 'body' has the type of a graph, but contains none"));
}

TEST(Loop, StackingMoreThanMemoryIsAnError) {
  // Every iteration stacks the same 64 MiB, which use memory only once.
  LoopMaker maker({"y", "all"});
  maker.node("Expand", {"one", "sides"}, {"large"});
  set_floats(maker.initializer(), "one", {1}, {1});
  set_int64s(maker.initializer(), "sides", {int64_t{1} << 24});
  set_tensor_type(*maker.body->add_output(), "v", {2});
  set_tensor_type(*maker.body->add_output(), "large", {1 << 24});
  maker.output("y", {2});
  maker.output("all", {"n", 1 << 24});
  Network network(maker);
  const auto run = [&](int64_t n) { return network->run({{"n", Tensor::scalar(n)}, {"x", pair(1, 2)}}); };
  EXPECT_THAT(error_of([&] { run(int64_t{1} << 40); }),
              testing::AllOf(testing::StartsWith("out_of_memory: Loop 'loop': its iterations have produced "),
                             HasSubstr(" values to be stacked, and "), HasSubstr("run fewer iterations")));
  EXPECT_EQ(run(1)[1].shape(), (Shape{1, 1 << 24}));  // the session can still be used
}

TEST(Sequences, ContainTensorsOnly) {
  ModelMaker maker;
  maker.input("x", {2});
  maker.node("SequenceConstruct", {"x", "x"}, {"q"});
  maker.node("SequenceConstruct", {"x", "q"}, {"r"}, "outer");
  maker.node("SequenceLength", {"r"}, {"y"});
  maker.output("y", {}, kInt64);
  Network network(maker);
  EXPECT_EQ(error_of([&] { network->run({{"x", pair(0, 0)}}); }),
            "bad_model: SequenceConstruct 'outer': input 1 is sequence of 2 (f32[2], f32[2]), expected a tensor");
}

TEST(Sequences, TakingFromAnEmptyOneIsAnError) {
  for (const char* op : {"SequenceErase", "SequenceAt"}) {
    ModelMaker maker;
    maker.input("at", {}, kInt64);
    maker.node("SequenceEmpty", {}, {"q"});
    maker.node(op, {"q", "at"}, {"r"}, "take");
    maker.node("OptionalHasElement", {"r"}, {"y"});
    maker.proto.mutable_opset_import(0)->set_version(18);
    maker.output("y", {}, kBool);
    Network network(maker);
    EXPECT_EQ(error_of([&] { network->run({{"at", Tensor::scalar(int64_t{0})}}); }),
              fmt::format("bad_model: {} 'take': the sequence has no elements, expected one or more", op));
  }
}

TEST(Sequences, NumberOfPartsIsLimited) {
  // The tensor has no elements, but 2^39 rows.
  ModelMaker maker;
  maker.input("shape", {2}, kInt64);
  maker.node("ConstantOfShape", {"shape"}, {"none"});
  maker.node("SplitToSequence", {"none"}, {"q"}, "split");
  maker.node("SequenceLength", {"q"}, {"y"});
  maker.output("y", {}, kInt64);
  Network network(maker);
  EXPECT_EQ(
      error_of([&] { network->run({{"shape", Tensor::of<int64_t>({2}, {int64_t{1} << 39, 0})}}); }),
      "bad_model: SplitToSequence 'split': splits into 549755813888 parts; the limit is 16777216; give larger sizes");
  EXPECT_EQ(network->run({{"shape", Tensor::of<int64_t>({2}, {3, 0})}})[0].as_int(0), 3);
}

/// y stacks -e for the elements e of x.
ModelMaker scan_model(int64_t axis) {
  ModelMaker maker;
  maker.input("x", {"n"});
  auto& scan = maker.node("Scan", {"x"}, {"y"}, "scan");
  add_attribute(scan, "num_scan_inputs", onnx::kIntAttr).set_i(1);
  auto& axes = add_attribute(scan, "scan_output_axes", onnx::kIntsAttr);
  axes.add_ints(axis);
  auto& body = body_of(scan, "body");
  set_tensor_type(*body.add_input(), "e", {});
  add_node(*body.add_node(), "Neg", {"e"}, {"f"}, "");
  set_tensor_type(*body.add_output(), "f", {});
  maker.output("y", {"n"});
  return maker;
}

TEST(Scan, AxesOfOutputsMayBeNegative) {
  Network network(scan_model(-1));
  EXPECT_THAT(floats(network->run({{"x", pair(1, 2)}})[0]), ElementsAre(-1, -2));
  EXPECT_EQ(network->run({{"x", Tensor(DType::f32, {0})}})[0].shape(), Shape{0});
}

TEST(Scan, AnAxisOutOfRangeIsAnError) {
  Network network(scan_model(3));
  EXPECT_EQ(error_of([&] { network->run({{"x", pair(1, 2)}}); }),
            "bad_model: Scan 'scan': axis 3 is out of range for rank 1; legal values are -1 to 0");
}

TEST(Scan, OfOpset8HasLengths) {
  // Sums of the elements of two sequences: the second one has 2 of 3 elements.
  ModelMaker maker(8);
  maker.input("lengths", {2}, kInt64);
  maker.input("start", {2});
  maker.input("x", {2, 3});
  auto& scan = maker.node("Scan", {"lengths", "start", "x"}, {"total", "sums"}, "scan");
  add_attribute(scan, "num_scan_inputs", onnx::kIntAttr).set_i(1);
  auto& body = body_of(scan, "body");
  set_tensor_type(*body.add_input(), "sum", {});
  set_tensor_type(*body.add_input(), "e", {});
  add_node(*body.add_node(), "Add", {"sum", "e"}, {"next"}, "");
  add_node(*body.add_node(), "Identity", {"next"}, {"same"}, "");
  set_tensor_type(*body.add_output(), "next", {});
  set_tensor_type(*body.add_output(), "same", {});
  maker.output("total", {2});
  maker.output("sums", {2, 3});
  Network network(maker);
  const auto run = [&](const Tensor& lengths) {
    return network->run(
        {{"lengths", lengths}, {"start", pair(0, 10)}, {"x", Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6})}});
  };
  const auto out = run(Tensor::of<int64_t>({2}, {3, 2}));
  EXPECT_THAT(floats(out[0]), ElementsAre(6, 19));
  EXPECT_THAT(floats(out[1]), ElementsAre(1, 3, 6, 14, 19, 0));
  EXPECT_EQ(error_of([&] { run(Tensor::of<int64_t>({2}, {3, -2})); }),
            "bad_model: Scan 'scan': the length of a sequence is -2, expected 0 or more");
}

TEST(Session, RecoversAfterAnError) {
  ModelMaker maker;
  maker.input("x", {"n"});
  maker.input("at", {}, kInt64);
  maker.node("Exp", {"x"}, {"e"});
  maker.node("SplitToSequence", {"e"}, {"q"});
  maker.node("SequenceAt", {"q", "at"}, {"y"}, "take");
  maker.output("y", {1});
  Network network(maker);
  for (int round = 0; round < 6; ++round) {
    EXPECT_THAT(error_of([&] { network->run({{"x", pair(0, 0)}, {"at", Tensor::scalar(int64_t{2})}}); }),
                HasSubstr("SequenceAt 'take': position 2 is out of range"));
    EXPECT_THAT(floats(network->run({{"x", pair(0, 0)}, {"at", Tensor::scalar(int64_t{1})}})[0]), ElementsAre(1));
  }
}

TEST(Session, TwinsRunInSeparateThreads) {
  LoopMaker maker({"y", "all"});
  add_node(*maker.body->add_node(), "Add", {"v", "x"}, {"w"}, "");
  set_tensor_type(*maker.body->add_output(), "w", {2});
  set_tensor_type(*maker.body->add_output(), "w", {2});
  maker.output("y", {2});
  maker.output("all", {"n", 2});
  Network network(maker);
  std::vector<std::unique_ptr<Session>> twins;
  for (int i = 0; i < 3; ++i) twins.push_back(network->twin());
  std::vector<std::thread> threads;
  std::vector<int> wrong(twins.size(), 0);
  for (size_t t = 0; t < twins.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int64_t n = 0; n < 40; ++n) {
        const auto x = static_cast<float>(t + 1);
        const auto out = twins[t]->run({{"n", Tensor::scalar(n)}, {"x", pair(x, -x)}});
        const float last = x * static_cast<float>(n + 1);
        if (floats(out[0]) != std::vector<float>{last, -last} || out[1].shape() != Shape{n, 2}) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0));
}

}  // namespace
}  // namespace kilter
