// Compares networks that have Winograd layers, and the narrow precisions, with results in f64, and checks the limits in
// doc/accuracy.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include "compile/session.h"
#include "exact.h"
#include "ops/support/evaluate.h"
#include "zoo/zoo.h"

namespace kilter {
namespace {

constexpr int kInputs = 8;
constexpr double kMostError = 1e-4;  ///< of the largest output
constexpr double kMostRatio = 3;     ///< rms error over all inputs, relative to that without Winograd

/// The limits of a narrow precision: the largest error divided by the largest output, and the rms error divided by that
/// of the outputs.
struct NarrowLimits {
  Precision precision;
  double worst, rms;
};
constexpr std::array kNarrow = {NarrowLimits{Precision::bf16, 0.03, 0.02},
                                NarrowLimits{Precision::fp16, 0.004, 0.0025}};

struct Network {
  std::string_view name;
  int64_t size;                ///< of the image, in pixels
  std::string_view file = "";  ///< file in models/, for networks that are not built in
  /// The limits of narrow precisions are multiplied by this. The detector's outputs are small if its input is noise, so
  /// its errors are large in relation to them.
  double narrow_factor = 1;
};

/// The errors of a network that is compiled in one way.
struct Errors {
  double worst = 0;    ///< largest error divided by the largest output, over all inputs
  double squares = 0;  ///< sum of the squared errors over all inputs
};

struct Compared {
  Errors normal, strict;
  std::map<Precision, Errors> narrow;  ///< of the precisions that this CPU has
  double squares = 0;                  ///< sum of the squared outputs
  size_t winograd = 0;                 ///< Winograd layers
};

size_t winograd_layers(const Plan& plan) {
  std::set<std::string> layers;
  for (const Step& s : plan.steps) {
    if (s.schedule.starts_with("conv2d_winograd")) layers.insert(s.name);
  }
  return layers.size();
}

/// Returns the network's graph for images of the requested size, or nothing if its file is missing.
std::optional<Graph> graph_of(const Network& network) {
  if (network.file.empty()) return zoo::build(network.name, {.size = network.size});
  const auto file = std::filesystem::path(KILTER_MODELS) / network.file;
  if (!std::filesystem::exists(file)) return std::nullopt;
  Session::Options options;
  options.compile.target = parse_target("native");
  const auto session = Session::open(file.string(), options);
  return session->graph({{session->inputs().at(0).name, {1, 3, network.size, network.size}}});
}

Loaded compiled(const Graph& graph, Accuracy accuracy, Precision precision = Precision::declared) {
  CompileOptions options;
  options.target = parse_target("native");
  options.accuracy = accuracy, options.precision = precision;
  const auto program = std::make_shared<const Program>(compile_graph(graph, options).plan);
  return {program, std::make_unique<Instance>(program, std::make_shared<ThreadPool>(1)), {}};
}

std::map<Precision, Loaded> narrow_ones(const Graph& graph) {
  const CpuLimits limits = parse_target("native").limits;
  std::map<Precision, Loaded> all;
  if (limits.has_dot(DType::bf16, DType::bf16, limits.lanes_f32()))
    all.emplace(Precision::bf16, compiled(graph, Accuracy::normal, Precision::bf16));
  if (limits.f16_convert) all.emplace(Precision::fp16, compiled(graph, Accuracy::normal, Precision::fp16));
  return all;
}

void add(Errors& errors, const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  for (size_t o = 0; o < want.size(); ++o) {
    double most = 0, largest = 0;
    for (int64_t i = 0; i < want[o].elems(); ++i) {
      const double w = want[o].as_double(i), e = std::abs(got[o].as_double(i) - w);
      ASSERT_TRUE(std::isfinite(e));
      most = std::max(most, e), largest = std::max(largest, std::abs(w));
      errors.squares += e * e;
    }
    errors.worst = std::max(errors.worst, most / largest);
  }
}

Compared compare_with_f64(const Graph& graph) {
  Compared out;
  const Graph wide = in_f64(graph);
  Loaded normal = compiled(graph, Accuracy::normal), strict = compiled(graph, Accuracy::strict);
  std::map<Precision, Loaded> narrow = narrow_ones(graph);
  out.winograd = winograd_layers(normal.plan());
  EXPECT_EQ(winograd_layers(strict.plan()), 0U);
  for (uint64_t seed = 0; seed < kInputs; ++seed) {
    std::vector<Tensor> inputs, wide_inputs;
    for (const PlanTensor& t : normal.plan().inputs) {
      inputs.push_back(random_input(t.name, t.type, t.shape, seed));
      wide_inputs.push_back(to_f64(inputs.back()));
    }
    const std::vector<Tensor> want = evaluate(wide, wide_inputs);
    for (const Tensor& t : want) {
      for (int64_t i = 0; i < t.elems(); ++i) out.squares += t.as_double(i) * t.as_double(i);
    }
    add(out.normal, run_plan(normal, inputs), want);
    add(out.strict, run_plan(strict, inputs), want);
    for (auto& [precision, network] : narrow) add(out.narrow[precision], run_plan(network, inputs), want);
  }
  return out;
}

class NetworkAccuracy : public testing::TestWithParam<Network> {};

TEST_P(NetworkAccuracy, StaysWithinErrorLimits) {
  const std::optional<Graph> graph = graph_of(GetParam());
  if (!graph) GTEST_SKIP() << KILTER_MODELS << "/" << GetParam().file << " is missing; bench/peers.py fetches it";
  const Compared c = compare_with_f64(*graph);
  const double rms = std::sqrt(c.normal.squares / c.squares), exact = std::sqrt(c.strict.squares / c.squares);
  std::cout << fmt::format("| {} ({}x{}) | {} | {:.1e} | {:.1e} | {:.1e} | {:.1e} | {:.2f} |\n", GetParam().name,
                           GetParam().size, GetParam().size, c.winograd, c.normal.worst, c.strict.worst, rms, exact,
                           rms / exact);
  EXPECT_GT(c.winograd, 0U) << "no layer to look at";
  EXPECT_LE(c.normal.worst, kMostError);
  EXPECT_LE(c.strict.worst, kMostError);
  EXPECT_LE(rms, kMostRatio * exact);
  for (const NarrowLimits& limits : kNarrow) {
    if (!c.narrow.contains(limits.precision)) continue;
    const Errors& errors = c.narrow.at(limits.precision);
    const double narrow_rms = std::sqrt(errors.squares / c.squares), factor = GetParam().narrow_factor;
    std::cout << fmt::format("| {} ({}x{}) | {} | {:.1e} | {:.1e} |\n", GetParam().name, GetParam().size,
                             GetParam().size, name(limits.precision), errors.worst, narrow_rms);
    EXPECT_LE(errors.worst, factor * limits.worst) << name(limits.precision);
    EXPECT_LE(narrow_rms, factor * limits.rms) << name(limits.precision);
    EXPECT_GT(narrow_rms, 1e-5) << name(limits.precision) << ": nothing was rounded";
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, NetworkAccuracy,
                         testing::Values(Network{"resnet18", 96}, Network{"squeezenet1_1", 96}, Network{"resnet50", 96},
                                         Network{"vgg16", 96}, Network{"densenet121", 96}, Network{"inception_v3", 139},
                                         Network{"centernet_dla34", 96},
                                         Network{"ppocr_det", 160,
                                                 "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", 10}),
                         [](const auto& network) { return std::string(network.param.name); });

}  // namespace
}  // namespace kilter
