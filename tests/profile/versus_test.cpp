// The two sides of a comparison: the conditions that differ, and the layers that account for the difference in time.
#include "profile/versus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../base/error_of.h"
#include "base/error.h"
#include "network.h"
#include "profile/peer.h"

namespace kilter::profile {
namespace {

using testing::HasSubstr;

Side side(std::vector<LayerTime> layers) {
  Side s;
  s.layers = std::move(layers);
  return s;
}

TEST(Versus, LayersArePairedByNameAndSortedByDifference) {
  const Side a = side({{"conv1", "fast", 1.0}, {"conv2", "x", 4.0}, {"only a", "", 0.5}});
  const Side b = side({{"conv1", "slow", 3.0}, {"conv2", "x", 4.1}, {"conv2", "y", 0.4}});
  const auto all = layer_differences(a, b);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].name, "conv1");
  EXPECT_DOUBLE_EQ(all[0].difference(), 2.0);
  EXPECT_EQ(all[0].b_detail, "slow");
  EXPECT_DOUBLE_EQ(all[1].difference(), 0.5);
  EXPECT_EQ(all[1].name, "conv2");
  EXPECT_EQ(all[1].b_detail, "x, y");
  EXPECT_EQ(all[2].name, "only a");
  EXPECT_DOUBLE_EQ(all[2].difference(), -0.5);
}

TEST(Versus, TableAddsUpAndCountsTheRest) {
  const Side a = side({{"conv1", "", 1.0}, {"conv2", "", 2.0}, {"conv3", "", 3.0}});
  const Side b = side({{"conv1", "", 1.5}, {"conv2", "", 2.25}, {"conv3", "", 3.125}});
  const std::string text = differences_text(a, b, 1);
  EXPECT_THAT(text, HasSubstr("conv1"));
  EXPECT_THAT(text, testing::Not(HasSubstr("conv2")));
  EXPECT_THAT(text, HasSubstr("(2 more)"));
  EXPECT_THAT(text, HasSubstr("0.3750"));
  EXPECT_THAT(text, HasSubstr("+0.8750"));
}

TEST(Versus, TheTableAddsUpToTheTimesOfWholeRuns) {
  Side a = side({{"conv1", "", 1.0}, {"conv2", "", 2.0}}), b = side({{"conv1", "", 1.5}, {"conv2", "", 2.25}});
  EXPECT_THAT(differences_text(a, b, 9), testing::Not(HasSubstr("whole run")));
  a.ms = 3.5, b.ms = 3;
  const std::string text = differences_text(a, b, 9);
  const std::string gap(28, ' ');
  EXPECT_THAT(text, HasSubstr("  all layers        " + gap + "   3.0000     3.7500    +0.7500\n"));
  EXPECT_THAT(text, HasSubstr("  not in the layers " + gap + "   0.5000    -0.7500    -1.2500\n"));
  EXPECT_THAT(text, HasSubstr("  whole run         " + gap + "   3.5000     3.0000    -0.5000\n"));
}

TEST(Versus, PeerLayersAreSeparateFromItsRunTime) {
  Side b = side({{"conv1", "", 1.5}, {"conv2", "", 2.25}});
  b.ms = 3;
  EXPECT_EQ(peer_layers_text('B', b), "") << "Kilter's own";
  b.profiled_ms = 3.6, b.conditions.executor = "onnxruntime 1.31.1";
  EXPECT_EQ(
      peer_layers_text('B', b),
      "B's layers come from the profiler of onnxruntime 1.31.1: 3.7500 ms in all, in other runs, which take 20.0 % "
      "longer than its 3.0000 ms\n");
  b.profiled_ms = 2.7;
  EXPECT_THAT(peer_layers_text('B', b), HasSubstr("which take 10.0 % less than its"));
}

/// Layers are listed only if the difference is significant and the sum of their differences has the same sign.
TEST(Versus, LayersAreListedIfTheyExplainTheDifference) {
  const Side a = side({{"conv1", "", 1.0}, {"conv2", "", 2.0}});
  const Side b = side({{"conv1", "", 1.5}, {"conv2", "", 2.0}});
  EXPECT_THAT(layers_text(a, b, {1.1, 1.05, 1.15}, 9), testing::StartsWith("layers that make the difference:\n"));
  EXPECT_EQ(layers_text(a, b, {1.1, 0.95, 1.25}, 9),
            "layers: there is no significant difference for the layers to explain\n");
  EXPECT_EQ(layers_text(a, b, {0.9, 0.85, 0.95}, 9),
            "layers: their sum, +0.5000 ms, has the opposite sign to the difference, so they do not explain it\n");
  EXPECT_EQ(layers_text(a, side({}), {0.9, 0.85, 0.95}, 9), "layers: one side's layers are not known\n");
}

TEST(Versus, DifferingConditionsListThreadsFirst) {
  Side a, b;
  a.conditions.threads = 16, b.conditions.threads = 1;
  a.conditions.records = "log A", b.conditions.records = "log B";
  const std::string text = conditions_text(a, b);
  EXPECT_THAT(text, HasSubstr("threads"));
  EXPECT_LT(text.find("threads"), text.find("log A"));
  EXPECT_EQ(conditions_text(a, a), "conditions that differ: none\ntuning records of both: log A\n");
  b.conditions.records = "log A";
  EXPECT_EQ(conditions_text(a, b),
            "conditions that differ:\n  threads          A: 16   B: 1\ntuning records of both: log A\n");
  EXPECT_EQ(conditions_text({}, {}), "conditions that differ: none\n");
}

TEST(Versus, FilesWithoutResultsAreErrors) {
  EXPECT_EQ(error_of([] { side_from_json(nlohmann::json::array(), "x.json"); }),
            "x.json: no field 'conditions'; expected a file that kilter bench or kilter profile wrote with --json");
  EXPECT_EQ(
      error_of([] { side_from_json({{"conditions", nlohmann::json::object()}}, "x.json"); }),
      "x.json: no field 'estimate_ms' or 'end_to_end_ms'; expected a file that kilter bench or kilter profile wrote "
      "with --json");
}

TEST(Versus, PeerLayersAreMatchedWithOurs) {
  TestNetwork net("zoo:squeezenet1_1");
  const Graph graph = net.session->graph({});
  const Side ours = side({{"conv1", "", 1}, {"fire2.squeeze", "", 1}});
  Side peer = side({{"conv1.relu_nchwc", "Conv", 1},
                    {"fire2.squeeze/WithoutBiases", "Convolution", 2},
                    {"reorder_7", "Reorder", 3}});
  match_layers(graph, ours, peer);
  EXPECT_EQ(peer.layers[0].name, "conv1");
  EXPECT_EQ(peer.layers[0].detail, "Conv 'conv1.relu_nchwc'");
  EXPECT_EQ(peer.layers[1].name, "fire2.squeeze");
  EXPECT_EQ(peer.layers[2].name, "reorder_7");
}

TEST(Peer, MissingInterpretersAndRuntimesSayWhatToDo) {
  setenv("KILTER_PYTHON", "/nowhere/python", 1);
  EXPECT_EQ(error_of([] { Peer({"onnxruntime", "x.onnx", 1, {}}); }),
            "onnxruntime:x.onnx: the Python interpreter '/nowhere/python' does not run; set KILTER_PYTHON to one that "
            "has onnxruntime installed (this one was chosen because KILTER_PYTHON names it)");
  unsetenv("KILTER_PYTHON");
  EXPECT_EQ(error_of([] { Peer({"tensorflow", "x.onnx", 1, {}}); }),
            "tensorflow: no runtime of this name; legal values are onnxruntime, openvino");
}

}  // namespace
}  // namespace kilter::profile
