// The edges between the layers of a plan, which profiles contain.
#include "profile/edges.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "compile/compile.h"
#include "zoo/zoo.h"

namespace kilter::profile {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Compiled compiled(const std::string& network) {
  CompileOptions options;
  options.target = parse_target("x86-64-v3");
  options.contents.code = false;
  return compile_graph(zoo::build(network, {.weights = false}), options);
}

struct Edges {
  explicit Edges(const Compiled& c) : plan(c.plan), reads(reads_of(c.plan)) {}

  /// The layers that a layer reads, without itself and halos.
  std::set<std::string> of(const std::string& layer) const {
    std::set<std::string> out;
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      if (plan.steps[s].name != layer) continue;
      for (const size_t from : reads[s].steps) {
        const Step& step = plan.steps[from];
        if (step.name != layer && step.kind != StepKind::halo) out.insert(step.name);
      }
    }
    return out;
  }

  const Plan& plan;
  std::vector<StepReads> reads;
};

TEST(Edges, ResidualBranchesAndSharedValues) {
  const Compiled c = compiled("resnet18");
  const Edges edges(c);
  EXPECT_THAT(edges.of("layer1.0.conv1"), ElementsAre("maxpool"));
  EXPECT_THAT(edges.of("layer1.0.conv2"), ElementsAre("layer1.0.conv1", "maxpool"));
  EXPECT_THAT(edges.of("layer2.0.conv1"), ElementsAre("layer1.1.conv2"));
  EXPECT_THAT(edges.of("layer2.0.downsample"), ElementsAre("layer1.1.conv2"));
  EXPECT_THAT(edges.of("layer2.0.conv2"), ElementsAre("layer2.0.conv1", "layer2.0.downsample"));
}

TEST(Edges, NetworkInputsAndHalosAreNamed) {
  const Compiled c = compiled("resnet18");
  const Edges edges(c);
  int64_t halos = 0, readers = 0;
  for (size_t s = 0; s < c.plan.steps.size(); ++s) {
    readers += edges.reads[s].inputs == std::vector<std::string>{"input"} ? 1 : 0;
    EXPECT_LE(edges.reads[s].inputs.size(), 1u);
    if (c.plan.steps[s].kind != StepKind::halo) continue;
    EXPECT_THAT(edges.reads[s].steps, IsEmpty());
    ++halos;
    bool read = false;
    for (size_t later = s + 1; later < c.plan.steps.size(); ++later)
      read |= std::ranges::count(edges.reads[later].steps, s) > 0;
    EXPECT_TRUE(read) << c.plan.steps[s].name;
  }
  EXPECT_GT(halos, 0);
  EXPECT_EQ(readers, 1);
}

TEST(Edges, PartsOfAJoinedBufferAreReadTogether) {
  const Compiled c = compiled("squeezenet1_1");
  const Edges edges(c);
  EXPECT_THAT(edges.of("fire2.expand3x3"), ElementsAre("fire2.squeeze"));
  EXPECT_THAT(edges.of("fire3.squeeze"), ElementsAre("fire2.expand1x1", "fire2.expand3x3"));
}

/// The compiler knows the producers of each task from the graph.
TEST(Edges, AgreeWithTheGraphOfTheBuiltInNetworks) {
  for (const char* network : {"resnet18", "resnet50", "mobilenet_v2", "squeezenet1_1", "inception_v3", "densenet121",
                              "vgg11", "bert_base", "centernet_dla34", "r3d18", "unet3d"}) {
    const Compiled c = compiled(network);
    const Edges edges(c);
    std::map<std::string, std::set<std::string>> expected;
    for (size_t s = 0; s < c.plan.steps.size(); ++s) {
      for (const size_t from : edges.reads[s].steps) EXPECT_LT(from, s) << network << ' ' << c.plan.steps[s].name;
      for (const size_t from : c.notes[s].producers) {
        if (c.plan.steps[from].name != c.plan.steps[s].name)
          expected[c.plan.steps[s].name].insert(c.plan.steps[from].name);
      }
    }
    for (const Step& step : c.plan.steps) {
      if (step.kind != StepKind::halo) {
        EXPECT_EQ(fmt::format("{}", edges.of(step.name)), fmt::format("{}", expected[step.name]))
            << network << ' ' << step.name << ' ' << step.shapes;
      }
    }
  }
}

}  // namespace
}  // namespace kilter::profile
