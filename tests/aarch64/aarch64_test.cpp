// Tests code for AArch64 that is generated here and run by an emulator or a board: compares every operator's cases and
// whole networks with the reference kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "../compile/compiled_case.h"
#include "../compile/guarded_run.h"
#include "base/error.h"
#include "compile/session.h"
#include "folder.h"
#include "ops/support/builder.h"
#include "ops/support/cases.h"
#include "ops/support/evaluate.h"
#include "zoo/zoo.h"

namespace kilter {
namespace {

bool emulated() { return arm_command("").find("qemu-aarch64") != std::string::npos; }

class AArch64 : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (arm_command("").empty()) GTEST_SKIP() << "KILTER_AARCH64_BIN is not set; tests/aarch64/run.sh sets it";
    const int32_t bytes = target().limits.vector_bytes;
    if (bytes == 16) return;
    if (!emulated()) GTEST_SKIP() << "no emulator whose registers could have " << bytes << " bytes";
    setenv("QEMU_CPU", fmt::format("max,sve-default-vector-length={}", bytes).c_str(), 1);
  }
  void TearDown() override { unsetenv("QEMU_CPU"); }
  Target target() const { return parse_target(GetParam()); }
  static void expect_right(Folder& folder) {
    for (const std::string& wrong : folder.run()) ADD_FAILURE() << wrong;
  }
};

bool runs_without_compiler(const Plan& plan) {
  return std::none_of(plan.steps.begin(), plan.steps.end(),
                      [](const Step& s) { return s.kind == StepKind::reference; });
}

/// Adds a case if it can be compiled and run without reference kernels. Returns whether it was added.
bool add_case(Folder& folder, const OpDef& op, const ParsedCase& parsed, CaseText text, const Target& target) {
  try {
    const auto [c, compiled] = compile_case(op, parsed, text, target);
    if (!runs_without_compiler(compiled.plan)) return false;
    folder.add(fmt::format("{}: {}{}", op.name, text, steps_text(compiled.plan)), compiled.plan, c.inputs,
               evaluate(c.graph, c.inputs), c.tolerance);
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) ADD_FAILURE() << op.name << ": " << text << ": " << error.message();
    return false;
  }
}

TEST_P(AArch64, EveryOperatorMatchesReference) {
  // Only operators that have a template count: other operators run reference kernels, for which no code is generated.
  constexpr size_t kLeastOperators = 120;
  Folder folder;
  size_t operators = 0;
  for (const OpDef* op : all_ops()) {
    const size_t before = folder.size();
    for (CaseText text : op->cases) {
      add_case(folder, *op, parse_case(*op, text), text, target());
      if (op->family == Family::map || op->family == Family::reference) continue;
      add_case(folder, *op, with_weights(parse_case(*op, text)), text, target());
    }
    operators += folder.size() > before ? 1 : 0;
  }
  EXPECT_GE(operators, kLeastOperators);
  RecordProperty("cases", static_cast<int>(folder.size()));
  expect_right(folder);
}

TEST_P(AArch64, NetworksMatchReference) {
  // The tolerance of `kilter run --verify`: a thousandth of the largest magnitude.
  constexpr Tolerance kOfLargest{.rtol = 0, .atol = 1e-3, .scaled = true};
  Folder folder;
  for (const char* name : {"squeezenet1_1", "resnet18", "mobilenet_v2"}) {
    zoo::Options options;
    options.size = 64;
    Graph graph = zoo::build(name, options);
    std::vector<Tensor> inputs;
    for (ValueId v : graph.inputs()) {
      inputs.push_back(random_input(graph.value(v).name, graph.type(v).dtype, graph.type(v).shape));
    }
    std::vector<Tensor> want = evaluate(graph, inputs);
    const Compiled compiled = compile_for(graph, target());
    ASSERT_TRUE(runs_without_compiler(compiled.plan)) << name;
    folder.add(name, compiled.plan, inputs, std::move(want), kOfLargest);
  }
  expect_right(folder);
}

/// Convolutions, products and attention of whole numbers in bf16, whose sums are exact. Their operands are results of
/// other nodes, because inputs of a network stay in f32.
TEST_P(AArch64, ProductsOfBf16AreExact) {
  const CpuLimits limits = target().limits;
  if (!limits.has_dot(DType::bf16, DType::bf16, limits.lanes_f32())) GTEST_SKIP() << "no instruction for bf16";
  Folder folder;
  for (int64_t seed = 0; seed < 24; ++seed) {
    Graph graph;
    GraphBuilder b(graph);
    b.fold_limit = -1;
    int64_t next = seed;
    const auto whole = [&](const Shape& shape) {
      Tensor t(DType::f32, shape);
      for (float& v : t.span<float>()) v = static_cast<float>((next = next * 1103515245 + 12345) >> 16 & 15) - 7;
      return t;
    };
    std::vector<Tensor> inputs;
    const auto input = [&](const Shape& shape) {
      inputs.push_back(whole(shape));
      return b.add("Abs", {b.input(fmt::format("x{}", inputs.size()), DType::f32, shape)});
    };
    const int64_t in = std::array{3, 16, 17, 32}[static_cast<size_t>(seed % 4)], out = 8 + seed, r = 1 + seed % 3;
    if (seed % 3 == 0) {
      graph.add_output(b.add("MatMul", {input({5, in}), b.constant(whole({in, out}))}), "y");
    } else {
      graph.add_output(b.add("Conv", {input({1, in, 7, 9}), b.constant(whole({out, in, r, r}))}), "y");
    }
    std::vector<Tensor> want = evaluate(graph, inputs);
    CompileOptions options;
    options.target = target();
    options.precision = Precision::bf16;
    options.accuracy = Accuracy::strict;
    const Compiled compiled = compile_graph(graph, options);
    const auto pairs = std::ranges::count(compiled.plan.steps, DType::bf16, &Step::multiplies);
    EXPECT_EQ(pairs, r == 1 && seed % 3 != 0 && in == 3 ? 0 : 1) << seed << steps_text(compiled.plan);
    folder.add(fmt::format("seed {}{}", seed, steps_text(compiled.plan)), compiled.plan, inputs, std::move(want),
               {.rtol = 0, .atol = 0, .scaled = false});
  }
  expect_right(folder);
}

/// Runs one program on different processors that the emulator simulates.
class EmulatedCpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!emulated()) GTEST_SKIP() << "no emulator";
  }
  void TearDown() override { unsetenv("QEMU_CPU"); }
  static void be(const char* cpu) { setenv("QEMU_CPU", cpu, 1); }
  static std::string native_target() {
    std::string text;
    FILE* pipe = popen(arm_command("native_target").c_str(), "r");
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text.push_back(static_cast<char>(c));
    EXPECT_EQ(pclose(pipe), 0);
    return text;
  }
  /// Compiles a program for a target and runs it. Returns the error with which the runner refuses it, or "it runs".
  static std::string refusal_of(const char* target) {
    Graph graph;
    graph.name = "net";
    GraphBuilder b(graph);
    graph.add_output(b.add("Relu", {b.input("x", DType::f32, {3})}), "y");
    const Tensor x(DType::f32, {3});
    Folder folder;
    folder.add("relu", compile_for(graph, parse_target(target)).plan, {x}, {x}, {});
    const std::vector<std::string> wrong = folder.run();
    return wrong.empty() ? "it runs" : wrong[0];
  }
};

TEST_F(EmulatedCpu, NativeSelectsRowOfTheProcessor) {
  be("cortex-a72");
  EXPECT_EQ(native_target(), "cortex-a72: Arm implementer 0x41 part 0xd08: fp-armv8,neon\n");
  be("neoverse-n1");
  EXPECT_EQ(native_target(), "neoverse-n1: Arm implementer 0x41 part 0xd0c: fp-armv8,neon,rdm,fullfp16,dotprod\n");
  be("a64fx");
  EXPECT_EQ(native_target(), "a64fx: Arm implementer 0x46 part 0x1: fp-armv8,neon,rdm,fullfp16,complxnum,sve,sve512\n");
  // A system may set a shorter vector length than the processor's. No row of the table matches it then.
  be("a64fx,sve-default-vector-length=32");
  EXPECT_EQ(native_target(),
            "aarch64: Arm implementer 0x46 part 0x1: fp-armv8,neon,rdm,fullfp16,complxnum,sve,sve256\n");
  be("cortex-a53");
  EXPECT_EQ(native_target(), "aarch64: Arm implementer 0x41 part 0xd03: fp-armv8,neon\n");
}

TEST_F(EmulatedCpu, MissingFeaturesAreNamed) {
  be("cortex-a72");
  EXPECT_EQ(refusal_of("neoverse-n1"),
            "relu: 'net' was compiled for target neoverse-n1 and needs CPU features that this machine (Arm implementer "
            "0x41 part 0xd08) lacks: rdm, fullfp16, dotprod; compile it for this machine");
}

TEST_F(EmulatedCpu, OtherVectorLengthIsReported) {
  be("max,sve-default-vector-length=64");
  EXPECT_EQ(refusal_of("neoverse-v1"),
            "relu: 'net' was compiled for target neoverse-v1 and needs CPU features that this machine (Arm implementer "
            "0x0 part 0x51) lacks: sve256; compile it for this machine");
}

INSTANTIATE_TEST_SUITE_P(Targets, AArch64,
                         testing::Values("aarch64", "cortex-a72", "neoverse-n1", "neoverse-v1", "neoverse-v2", "a64fx"),
                         target_as_name);

}  // namespace
}  // namespace kilter
