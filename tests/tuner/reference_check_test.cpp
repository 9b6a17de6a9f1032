// The check of plans against the reference kernels: the compiled default plan is right, and faults are reported.
#include "tune/tuner/race/reference_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "../base/error_of.h"
#include "checked_case.h"
#include "compile/run_values.h"
#include "ops/support/builder.h"

namespace kilter::tune {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(ReferenceCheck, DefaultPlanIsCheckedAgainstReferenceKernels) {
  const CheckedCase net(small_network());
  const ReferenceCheck check = net.check(2);
  EXPECT_EQ(check.wrong, "");
  EXPECT_GE(check.values, static_cast<int64_t>(net.tasks().size()));
  EXPECT_GT(check.values, 20);
  EXPECT_GT(check.worst, 0);
  EXPECT_LT(check.worst, 1e-4);
  require_right(check);
}

// The networks contain parts of concatenations, residual additions, pairs of convolutions in one task, and views.
TEST(ReferenceCheck, TasksOfEveryKindAreRight) {
  for (const std::string name : {"mobilenet_v2", "inception_v3"}) {
    const int64_t size = name == "inception_v3" ? 107 : 64;
    const ReferenceCheck check = CheckedCase(zoo::build(name, {.size = size, .classes = 10})).check();
    EXPECT_EQ(check.wrong, "") << name;
    EXPECT_LT(check.worst, 1e-4) << name;
  }
}

TEST(ReferenceCheck, WrongLayerIsNamed) {
  CheckedCase net(small_network());
  net.change_weights_of("fire5.squeeze", 40);
  const ReferenceCheck check = net.check();
  EXPECT_NE(check.wrong.find("value 'fire5.squeeze.relu' of layer 'fire5.squeeze' (conv2d n1 "), std::string::npos)
      << check.wrong;
  EXPECT_NE(check.wrong.find("from the reference kernel's, whose largest magnitude is "), std::string::npos);
  EXPECT_NE(check.wrong.find("; expected at most 0.001 of that"), std::string::npos) << check.wrong;
  ASSERT_TRUE(check.layer);
  EXPECT_EQ(check.layer->node, "fire5.squeeze");
  EXPECT_EQ(check.layer->problem.substr(0, 10), "conv2d n1 ");
  EXPECT_NE(check.wrong.find(check.layer->problem + " | " + check.layer->schedule.text()), std::string::npos);
  const std::string text = error_of([&] { require_right(check); }, ErrorKind::internal);
  EXPECT_EQ(text.find("the default plan is wrong: value 'fire5.squeeze.relu'"), 0U) << text;
  EXPECT_NE(text.find("nothing is tuned. `--schedule LAYER=SCHEDULE` forces another schedule"), std::string::npos);
}

TEST(ReferenceCheck, UnexpectedNanIsWrong) {
  CheckedCase net(small_network());
  net.change_weights_of("fire5.squeeze", std::numeric_limits<float>::quiet_NaN());
  EXPECT_NE(net.check().wrong.find("elements are NaN or infinite where the reference kernel's are not, or the reverse"),
            std::string::npos)
      << net.check().wrong;
}

/// Only the layers that differ from the default plan are checked.
TEST(ReferenceCheck, OnlyChangedLayersAreChecked) {
  NetworkBench bench = bench_of(small_network());
  const auto values = [&](const Choices& choices) {
    const ReferenceCheck check = check_choices(bench, choices);
    EXPECT_EQ(check.wrong, "");
    EXPECT_FALSE(check.layer);
    EXPECT_LT(check.worst, 1e-4);
    return check.values;
  };
  EXPECT_EQ(values({}), 0);
  Choices choices;
  choices["conv1"].threads = 1;
  EXPECT_EQ(values(choices), 0) << "the same schedule";
  choices["pool3"].plain = true;
  EXPECT_GE(values(choices), 1);
  const auto direct = [](const NetworkTask& t) { return t.fallback.name == "conv2d_direct" && t.nodes.size() > 1; };
  const std::vector<NetworkTask> tasks = bench.tasks();
  const auto task = std::ranges::find_if(tasks, direct);
  ASSERT_NE(task, tasks.end());
  Schedule other = task->fallback;
  for (auto& [knob, value] : other.knobs) value = knob != "prefetch" ? value : value == 0 ? 1 : 0;
  EXPECT_EQ(values({{task->nodes[0], other}, {task->nodes[1], other}}), 1) << "one layer of a task";
}

/// A runner that does not execute its plans: their values are those of the reference kernels.
class OnPaper : public Runner {
 public:
  explicit OnPaper(const CheckedCase& of) : of_(of) {
    const Graph& graph = of.compiled.tasks->graph;
    std::map<ValueId, Tensor> values;
    for (size_t i = 0; i < graph.inputs().size(); ++i) values[graph.inputs()[i]] = of.inputs[i];
    for (const NodeId id : graph.order()) {
      const Node& node = graph.node(id);
      std::vector<Tensor> operands;
      std::vector<TensorType> types;
      for (const ValueId v : node.inputs)
        operands.push_back(v == kNone ? Tensor() : graph.value(v).constant ? *graph.value(v).constant : values.at(v));
      for (const ValueId v : node.outputs) types.push_back(graph.type(v));
      const std::vector<Tensor> results = run_reference(node, std::move(operands), types);
      for (size_t i = 0; i < results.size(); ++i) {
        values[node.outputs[i]] = results[i];
        by_name_[graph.value(node.outputs[i]).name] = results[i];
      }
    }
  }

  using Runner::load;
  using Runner::measure;
  Traced trace(VariantId /*id*/, std::span<const Tap> taps) override {
    runs.push_back(0);
    Traced out;
    const Plan& plan = of_.compiled.plan;
    std::vector<std::byte> arena(static_cast<size_t>(plan.arena_bytes), std::byte{0xff});
    std::vector<Tensor> outputs;
    for (const PlanTensor& t : plan.outputs) outputs.emplace_back(t.type, t.shape);
    const auto address = [&](const BufferRef& b) {
      return b.offset +
             (b.space == kilter::Space::arena ? arena.data() : outputs.at(static_cast<size_t>(b.index)).raw());
    };
    out.values.resize(taps.size());
    for (uint64_t step = 0; step < plan.steps.size(); ++step) {
      for (const PlacedValue& v : of_.compiled.values) {
        if (v.step == step) insert(v, by_name_.at(v.name), address(v.buffer));
      }
      for (size_t i = 0; i < taps.size(); ++i) {
        if (taps[i].step != step) continue;
        const std::byte* from = address(taps[i].buffer);
        out.values[i].assign(from, from + taps[i].buffer.bytes);
        runs.back() += taps[i].buffer.bytes;
      }
    }
    out.fault = fault;
    return out;
  }
  Loaded load(const Plan& /*plan*/, std::span<const StepValue> /*values*/, const LoadOptions& /*options*/) override {
    Loaded out;
    out.id = 1;
    return out;
  }
  Laps measure(std::span<const VariantId> /*ids*/, const MeasureOptions& /*options*/) override { return {}; }
  void drop(VariantId /*id*/) override {}
  ConstantStore& store() override { return store_; }
  int64_t restarts() const override { return 0; }
  bool confined() const override { return false; }

  std::optional<Fault> fault;
  std::vector<int64_t> runs;  ///< bytes that each returned

 private:
  const CheckedCase& of_;
  std::map<std::string, Tensor> by_name_;
  ConstantStore store_;
};

TEST(ReferenceCheck, APlanForAnotherProcessorIsCheckedWithoutRunningItHere) {
  CompileOptions options;
  for (const std::string target : {"cortex-a72", "neoverse-v1", "x86-64-v4"}) {
    options.target = parse_target(target);
    const Graph graph = small_network();
    CheckedCase net(graph, inputs_of(graph), options);
    OnPaper runner(net);
    const ReferenceCheck check = net.check(runner);
    EXPECT_EQ(check.wrong, "") << target;
    EXPECT_GT(check.values, 20);
    net.change_weights_of("fire5.squeeze", 40);
    EXPECT_THAT(net.check(runner).wrong, HasSubstr("value 'fire5.squeeze.relu' of layer 'fire5.squeeze'"));
    EXPECT_THAT(runner.runs, SizeIs(2));
  }
}

TEST(ReferenceCheck, ValuesOfLargeNetworksComeFromSeveralRuns) {
  Graph graph;
  graph.name = "large";
  GraphBuilder b(graph);
  ValueId x = b.input("x", DType::f32, {1, 64, 256, 256});
  using Ints = std::vector<int64_t>;
  for (int i = 0; i < 6; ++i) {
    const std::string op = i % 2 == 0 ? "MaxPool" : "AveragePool";
    x = b.add(op, {x}, {{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}}, "pool" + std::to_string(i));
  }
  graph.add_output(x, "y");
  const CheckedCase net(std::move(graph));
  OnPaper runner(net);
  EXPECT_EQ(net.check(runner).wrong, "");
  EXPECT_GT(runner.runs.size(), 1U);
  for (const int64_t bytes : runner.runs) EXPECT_LE(bytes, kTracedAtOnce);
}

TEST(ReferenceCheck, FailedRunIsAnError) {
  NetworkBench bench = bench_of(small_network());
  const CheckedCase net(small_network());
  OnPaper runner(net);
  runner.fault = Fault{1, FaultKind::crash, 3, "conv1", "signal 11 (Segmentation fault) at step 3 'conv1'"};
  EXPECT_EQ(error_of([&] { net.check(runner); }, ErrorKind::unsupported),
            "the run whose values are checked failed: signal 11 (Segmentation fault) at step 3 'conv1'");
  const auto check = [&](NetworkBench& /*bench*/, const Choices& /*choices*/) { return net.check(runner); };
  EXPECT_EQ(checked(check, bench, {}).wrong,
            "it could not be checked against the reference kernels: the run whose values are checked failed: signal 11 "
            "(Segmentation fault) at step 3 'conv1'");
}

}  // namespace
}  // namespace kilter::tune
