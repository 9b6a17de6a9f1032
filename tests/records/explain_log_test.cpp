#include "tune/records/explain_log.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compile/session.h"
#include "samples.h"
#include "tune/records/import.h"

namespace kilter::tune {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<NetworkLayer> layers_of(const std::string& model) {
  Session::Options options;
  options.compile.target = parse_target("znver4");
  options.compile.contents.code = false;
  const auto session = Session::open(model, options);
  std::vector<NetworkLayer> layers;
  for (const Step& step : session->compile().plan().steps) {
    if (step.problem.empty() || step.role == StepRole::pack) continue;
    if (layers.empty() || layers.back().name != step.name) layers.push_back({step.name, step.problem, 0});
    layers.back().flops += step.effective_flops;
  }
  return layers;
}

std::vector<Record> log_of(const std::string& file) {
  return import_file(std::filesystem::path(KILTER_RECORDS_DATA) / file, parse_target("znver4")).records();
}

// From the report "Libtorch model 30 ms, TVM needs 108 ms": about 19 of the 108 ms are in the tuned layers.
TEST(ExplainLog, NineteenOf108MillisecondsAreInTunedConvolutions) {
  const LogExplanation e =
      explain_log(layers_of("zoo:centernet_dla34_tvm"), log_of("tvm_v02.txt"), {.device = "", .measured_ms = 108});
  EXPECT_EQ(e.target, "cuda -model=unknown");
  EXPECT_NEAR(e.predicted_ms, 19.14, 0.01);
  EXPECT_THAT(e.covered, SizeIs(30));
  EXPECT_EQ(e.covered_layers(), 55U);
  EXPECT_EQ(e.unused, 0U);
  ASSERT_FALSE(e.uncovered.empty());
  for (const LogRow& row : e.uncovered) EXPECT_FALSE(row.problem.starts_with("conv2d ")) << row.problem;
  ASSERT_FALSE(e.suspects.empty());
  EXPECT_THAT(e.suspects[0], HasSubstr("88.9 of the 108.0 ms (82 %) are not in the layers that the log covers"));
  EXPECT_THAT(e.suspects, Contains(testing::AllOf(
                              HasSubstr("conv2d_nchw_winograd.cuda winograd index=331287 takes 73.713 ms, 110 times as "
                                        "long as conv2d_nchw.cuda direct index=45898438 (0.667 ms)"),
                              HasSubstr("would lose 73.0 ms"))));
  EXPECT_EQ(std::count_if(e.suspects.begin(), e.suspects.end(),
                          [](const std::string& s) { return s.find("index=331287") != std::string::npos; }),
            1);
  EXPECT_THAT(e.suspects, Contains(HasSubstr("10 layers (0.1 % of the arithmetic) have no record: 6 convtranspose, 4 "
                                             "maxpool")));
  EXPECT_THAT(e.suspects, Contains(HasSubstr("30 of 30 best records have a single sample")));
  EXPECT_THAT(e.suspects, Contains(HasSubstr("the log does not say on how many threads")));
  const std::string words = text(e, 5);
  EXPECT_THAT(words, HasSubstr("predicted: 19.136 ms in the 55 of "));
  EXPECT_THAT(words, HasSubstr(": 18 % of the 108.0 ms measured"));
  EXPECT_THAT(words, HasSubstr("(25 more)"));
  EXPECT_NEAR(to_json(e).at("predicted_ms").get<double>(), e.predicted_ms, 0);
}

TEST(ExplainLog, TakesOneDeviceOfALogWithTwo) {
  const auto layers = layers_of("zoo:resnet18_tvm");
  const auto log = log_of("tvm_v01.txt");
  const LogExplanation cpu = explain_log(layers, log);
  EXPECT_EQ(cpu.target, "llvm");
  EXPECT_EQ(cpu.others, 12U);
  EXPECT_EQ(cpu.covered_layers(), 21U);
  EXPECT_NEAR(cpu.predicted_ms, 157.72, 0.01);
  const LogExplanation gpu = explain_log(layers, log, {.device = "cuda"});
  EXPECT_EQ(gpu.covered_layers(), 21U);
  EXPECT_NEAR(gpu.predicted_ms, 0.7174, 0.0001);
  EXPECT_THAT(error_of([&] { explain_log(layers, log, {.device = "opencl"}); }),
              HasSubstr("none of the 33 records in the log is ok and from device 'opencl'"));
}

TEST(ExplainLog, SlowLayersAndOverfullLogsAreSuspects) {
  std::vector<NetworkLayer> layers;
  std::vector<Record> log;
  for (int i = 0; i < 5; ++i) {
    const std::string problem = fmt::format("conv2d n1 c{} h56 w56 k64 r3 s3 pad1 f32", 64 + i);
    layers.push_back({fmt::format("layer{}", i), problem + " +relu", 1'000'000'000});
    log.push_back(measured("conv2d_direct tile=1", i == 2 ? 20 : 2, problem));
  }
  layers.push_back({"again", layers[2].problem, 1'000'000'000});
  const LogExplanation e = explain_log(layers, log, {.device = "", .measured_ms = 30});
  EXPECT_NEAR(e.predicted_ms, 48, 1e-9);
  EXPECT_THAT(e.covered[0].layers, testing::ElementsAre("layer2", "again"));
  EXPECT_THAT(e.suspects[0],
              HasSubstr("sum to 48.0 ms, more than the 30.0 ms that were measured, so the conditions were different"));
  EXPECT_THAT(e.suspects[1],
              HasSubstr("50 GFLOP/s, but the log's median is 500; at the median 2 layers would take 36.00 "
                        "ms less"));
  EXPECT_THAT(e.suspects, SizeIs(2));
}

}  // namespace
}  // namespace kilter::tune
