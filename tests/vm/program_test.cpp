// Networks that run as programs: control flow, sequences, data-dependent shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "../onnx/loop_model.h"
#include "../onnx/model_maker.h"
#include "compile/memory_model.h"
#include "compile/session.h"

namespace kilter {
namespace {

using onnx::add_attribute;
using onnx::add_node;
using onnx::doubling_loop;
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

TEST(Loop, RunsTheGivenNumberOfTimes) {
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

/// Records the events of a run: "(0" and ")" around segment 0, "[" and "]" around its code, "i" for an iteration, and
/// the names of operators in place of the number.
class Notes : public vm::Observer {
 public:
  void begin(const vm::Instr& instr) override {
    text += "(";
    text += instr.node != nullptr ? std::string(instr.node->op->name) : std::to_string(instr.segment);
  }
  void end() override { text += ")"; }
  void iteration() override { text += "i"; }
  RunTrace* enter_code(const Plan& /*plan*/) override {
    text += "[";
    return nullptr;
  }
  void leave_code() override { text += "]"; }

  std::string text;
};

TEST(Observer, SeesInstructionsIterationsAndCode) {
  Network network(doubling_loop());
  const auto run = [&] {
    return network->run({{"n", Tensor::scalar(int64_t{2})}, {"x", Tensor::of<float>({2}, {-1, 3})}});
  };
  run();
  Notes notes;
  network->program().observe(&notes);
  run();
  EXPECT_EQ(notes.text, "(0)(Loopi(1)i(1[]))");  // segment 1 runs for the third and fourth time
  run(), run();
  notes.text.clear();
  run();
  EXPECT_EQ(notes.text, "(0[])(Loopi(1[])i(1[]))");
  network->program().observe(nullptr);
  run();
  EXPECT_EQ(notes.text, "(0[])(Loopi(1[])i(1[]))");
}

TEST(Forms, SayHowSegmentsRun) {
  Network network(doubling_loop());
  for (const int64_t n : {2, 0}) network->run({{"n", Tensor::scalar(n)}, {"x", Tensor::of<float>({2}, {-1, 3})}});
  std::string all;
  for (const ProgramRunner::FormState& form : network->program().forms())
    all += fmt::format("{} with {}\n", form.segment, text(form));
  EXPECT_EQ(all, "0 with f32[2]: reference kernels, 2 runs\n1 with bool[], f32[2]: reference kernels, 2 runs\n");
}

TEST(Loop, EndlessLoopIsInterrupted) {
  int64_t checks = 0;
  Network network(doubling_loop("true"), [&] {
    if (++checks == 100) fail(ErrorKind::usage, "interrupted");
  });
  EXPECT_EQ(error_of([&] { network->run({{"n", Tensor::scalar(int64_t{1})}, {"x", Tensor::of<float>({2}, {0, 0})}}); }),
            "usage: interrupted");
  EXPECT_EQ(checks, 100);
}

TEST(Loop, NonIntegerCountIsAnError) {
  ModelMaker maker = doubling_loop();
  maker.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(kFloat);
  Network network(maker);
  EXPECT_EQ(error_of([&] { network->run({{"n", Tensor::scalar(1.0F)}, {"x", Tensor::of<float>({2}, {0, 0})}}); }),
            "bad_model: Loop 'loop': the trip count is f32[], expected one i64");
}

/// y = Relu(x) if any element of x is above 0, otherwise the scalar -1: branches of different rank.
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

/// y = the elements of the sequence s, one after another.
ModelMaker concatenation() {
  ModelMaker maker;
  auto& input = *maker.graph().add_input();
  input.set_name("s");
  input.mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(kFloat);
  add_attribute(maker.node("ConcatFromSequence", {"s"}, {"y"}), "axis", onnx::kIntAttr).set_i(0);
  maker.output("y", {"n"});
  return maker;
}

TEST(Sequences, AreInputsOfRunValues) {
  Network network(concatenation());
  const Tensor a = Tensor::of<float>({1}, {7}), b = Tensor::of<float>({2}, {8, 9});
  const auto out = network->run_values({{"s", AnyValue::sequence({a, b})}});
  EXPECT_THAT(floats(out[0].tensor()), ElementsAre(7, 8, 9));
  const auto error = [&](const AnyValue& value) { return error_of([&] { network->run_values({{"s", value}}); }); };
  EXPECT_THAT(error(a), HasSubstr("input 's' must be sequence of f32[...], got f32"));
  EXPECT_THAT(error({}), HasSubstr("input 's' must be sequence of f32[...], got absent"));
  EXPECT_THAT(error(AnyValue::sequence({a, Tensor::scalar(int64_t{1})})),
              HasSubstr("input 's' must be sequence of f32[...], got sequence of 2 (f32[1], i64[])"));
}

TEST(RunValues, WritesTensorsToMemoryOfTheCaller) {
  Network network(concatenation());
  const AnyValue s = AnyValue::sequence({Tensor::of<float>({2}, {8, 9})});
  const Tensor memory(DType::f32, {2});
  EXPECT_EQ(network->run_values({{"s", s}}, {{"y", memory}})[0].tensor().raw(), memory.raw());
  EXPECT_THAT(floats(memory), ElementsAre(8, 9));
  EXPECT_EQ(error_of([&] { network->run_values({{"s", s}}, {{"y", Tensor(DType::f32, {3})}}); }),
            "bad_input: memory for output 'y' must be f32[2], got f32[3]");
}

TEST(RunValues, RefusesMemoryForSequences) {
  ModelMaker maker;
  maker.input("x", {2});
  maker.node("SequenceConstruct", {"x"}, {"s"});
  auto& output = *maker.graph().add_output();
  output.set_name("s");
  output.mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(kFloat);
  Network network(maker);
  const Tensor x(DType::f32, {2});
  EXPECT_EQ(
      error_of([&] { network->run_values({{"x", x}}, {{"s", Tensor(DType::f32, {2})}}); }),
      "bad_input: memory for output 's': the output is sequence of 1 (f32[2]); memory can be given for tensors of "
      "numbers");
}

TEST(Strings, AreInputsAndOutputsOfRunValues) {
  ModelMaker maker(20);
  maker.input("a", {2}, 8);
  maker.node("StringConcat", {"a", "a"}, {"b"});
  maker.output("b", {2}, 8);
  Network network(maker);
  Tensor a(DType::string, {2});
  a.strings() = {"x", "\xff"};
  EXPECT_EQ(network->run_values({{"a", a}})[0].tensor().strings(), (std::vector<std::string>{"xx", "\xff\xff"}));
  EXPECT_THAT(error_of([&] { network->compile(); }), HasSubstr("'a' is str[2], not a tensor of numbers"));
}

TEST(Outputs, DoNotAliasInputsConstantsOrEachOther) {
  // a and b are the same: x or the constant.
  ModelMaker maker;
  maker.input("cond", {}, 9);
  maker.input("x", {2});
  onnx::set_floats(maker.initializer(), "two", {2}, {2, 2});
  auto& choice = maker.node("If", {"cond"}, {"a", "b"}, "if");
  const auto branch = [&](const char* name, const char* output) {
    auto& graph = *add_attribute(choice, name, onnx::kGraphAttr).mutable_g();
    add_node(*graph.add_node(), "Identity", {output}, {std::string(name) + "_o"}, "");
    for (int i = 0; i < 2; ++i) set_tensor_type(*graph.add_output(), std::string(name) + "_o", {2});
  };
  branch("then_branch", "x"), branch("else_branch", "two");
  maker.output("a", {2});
  maker.output("b", {2});
  Network network(maker);
  Tensor x = Tensor::of<float>({2}, {1, 1});
  for (const bool cond : {true, false}) {
    for (int run = 0; run < 5; ++run) {
      const auto out = network->run({{"cond", Tensor::scalar(cond)}, {"x", x}});
      for (const Tensor& y : out) EXPECT_THAT(floats(y), ElementsAre(cond ? 1 : 2, cond ? 1 : 2));
      out[0].data<float>()[0] = 7;
      EXPECT_EQ(out[1].data<float>()[0], cond ? 1 : 2);
    }
  }
  EXPECT_THAT(floats(x), ElementsAre(1, 1));
}

TEST(Partition, KnownShapesStayInSegments) {
  // The shape of z follows from that of NonZero's result, whose value is not needed.
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

TEST(Partition, SegmentProvidesShapesForLaterOnes) {
  // The last Reshape needs only the shape of r.
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
