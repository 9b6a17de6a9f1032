// A network compiles to the same code wherever and however it is compiled, and its results are bitwise identical on any
// number of threads. Uses real networks and named targets. tests/e2e/determinism_test.sh compares processes and
// processors.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "../base/scratch_folder.h"
#include "compile/session.h"
#include "exec/plan_file.h"
#include "guarded_run.h"
#include "onnx/model.h"
#include "zoo/zoo.h"

namespace kilter {
namespace {

std::string compiled_file(const Graph& graph, const std::string& target, int compile_threads) {
  const ScratchFolder folder;
  CompileOptions options;
  options.target = parse_target(target);
  options.threads = compile_threads;
  save_plan(compile_graph(graph, options).plan, folder.path() / "plan");
  std::stringstream bytes;
  bytes << std::ifstream(folder.path() / "plan", std::ios::binary).rdbuf();
  return bytes.str();
}

/// The first position at which two files differ; -1 if they are equal.
int64_t first_difference(const std::string& a, const std::string& b) {
  if (a == b) return -1;
  const auto at = std::mismatch(a.begin(), a.begin() + static_cast<int64_t>(std::min(a.size(), b.size())), b.begin());
  return at.first - a.begin();
}

TEST(Determinism, CompiledFilesAreTheSameForAnyNumberOfCompilingThreads) {
  const std::pair<const char*, zoo::Options> networks[] = {{"resnet18", {.size = 64, .classes = 10}},
                                                           {"squeezenet1_1", {.size = 96}},
                                                           {"mobilenet_v2", {.size = 64, .width = 0.35}}};
  for (const auto& [name, options] : networks) {
    const Graph graph = zoo::build(name, options);
    for (const char* target : {"x86-64-v3", "znver4"}) {
      const std::string one = compiled_file(graph, target, 1);
      for (int threads : {1, 2, 4})
        EXPECT_EQ(first_difference(one, compiled_file(graph, target, threads)), -1)
            << name << " for " << target << ", compiled on 1 and on " << threads << " threads, of " << one.size()
            << " bytes";
    }
  }
}

bool same(const CpuLimits& a, const CpuLimits& b) {
  return a.vector_bytes == b.vector_bytes && a.vector_registers == b.vector_registers && a.fma == b.fma &&
         a.masks == b.masks && a.f16_convert == b.f16_convert && a.l1_bytes == b.l1_bytes && a.l2_bytes == b.l2_bytes &&
         a.l3_bytes == b.l3_bytes && a.l3_rate == b.l3_rate && a.memory_rate == b.memory_rate &&
         a.loads_per_cycle == b.loads_per_cycle && a.fmas_per_cycle == b.fmas_per_cycle &&
         a.prefetch_bytes == b.prefetch_bytes;
}

TEST(Determinism, LimitsOfEveryTargetComeFromTheTable) {
  for (const TargetRow& row : all_targets()) EXPECT_TRUE(same(parse_target(row.name).limits, row.limits)) << row.name;
  const Target native = native_target();
  EXPECT_TRUE(same(native.limits, parse_target(native.name).limits))
      << native.name << ": what this machine measures or reports must not get in";
}

/// Schedules and loop IR of a network; no code is generated.
std::vector<std::string> defaults(const Graph& graph, const Target& target) {
  CompileOptions options;
  options.target = target;
  options.contents.code = false;
  const Compiled compiled = compile_graph(graph, options);
  std::vector<std::string> all;
  for (size_t s = 0; s < compiled.plan.steps.size(); ++s) {
    const Step& step = compiled.plan.steps[s];
    all.push_back(fmt::format("{} | {} | {:016x}", step.name, step.schedule, compiled.notes[s].loops));
  }
  return all;
}

TEST(Determinism, DefaultsDependOnlyOnTheLimits) {
  const Graph graph = zoo::build("resnet18", {.size = 64, .classes = 10});
  for (const auto& [a, b] : {std::pair("x86-64-v3", "haswell"), std::pair("skylake-avx512", "cascadelake")}) {
    ASSERT_TRUE(same(parse_target(a).limits, parse_target(b).limits));
    EXPECT_EQ(defaults(graph, parse_target(a)), defaults(graph, parse_target(b))) << a << " and " << b;
  }
  // A changed limit changes the defaults: weights that fit in a large L1 are streamed if L1 is small.
  Target small = parse_target("znver4");
  small.limits.l1_bytes = 4 << 10;
  EXPECT_NE(defaults(graph, parse_target("znver4")), defaults(graph, small));
}

void expect_same_bits(const Graph& graph, const std::string& what) {
  std::vector<Tensor> inputs;
  for (ValueId v : graph.inputs())
    inputs.push_back(random_input(graph.value(v).name, graph.type(v).dtype, graph.type(v).shape));
  for (const Target& target : targets_here()) {
    const auto program = std::make_shared<const Program>(compile_for(graph, target).plan);
    const std::vector<Tensor> one = run_on(program, inputs, 1);
    for (int threads : {2, 3, 8}) {
      const std::vector<Tensor> got = run_on(program, inputs, threads);
      ASSERT_EQ(got.size(), one.size());
      for (size_t i = 0; i < one.size(); ++i)
        EXPECT_TRUE(got[i].same(one[i])) << what << " for " << target.name << " on " << threads << " threads: output "
                                         << i << " has other bits than on 1";
    }
  }
}

TEST(Determinism, ConvolutionNetworksDoNotDependOnThreadCount) {
  expect_same_bits(zoo::build("resnet18", {.size = 96}), "resnet18");
  expect_same_bits(zoo::build("squeezenet1_1", {.size = 96}), "squeezenet1_1");
}

TEST(Determinism, EncoderDoesNotDependOnThreadCount) {
  expect_same_bits(zoo::build("bert_base", {.size = 24}), "bert_base");
}

TEST(Determinism, PaddleOcrDoesNotDependOnThreadCount) {
  const std::filesystem::path folder = KILTER_MODELS "/rapidocr_onnxruntime/models";
  const auto file = folder / "ch_ppocr_mobile_v2.0_cls_infer.onnx";
  if (!exists(file)) GTEST_SKIP() << file << " is not there; the test peers.fetch fetches it";
  expect_same_bits(onnx::Model::load(file)->bind({{"x", {1, 3, 48, 192}}}), "ppocr_cls");
}

}  // namespace
}  // namespace kilter
