// Compares networks from reports of TVM users with the convolutions in the logs of these reports.
#include <gtest/gtest.h>

#include "measures.h"

namespace kilter::zoo {
namespace {

// The 21 convolutions in the log of the report "AutoTVM tutorial produces 21 conv2d schedules for llvm and only 12
// conv2d schedules for cuda".
const std::vector<std::pair<int, Workload>> kResnet18 = {
    {1, {{1, 3, 224, 224}, {64, 3, 7, 7}, {2, 2}, {3, 3, 3, 3}}},
    {4, {{1, 64, 56, 56}, {64, 64, 3, 3}, {1, 1}, {1, 1, 1, 1}}},
    {1, {{1, 64, 56, 56}, {64, 64, 1, 1}, {1, 1}, {0, 0, 0, 0}}},
    {1, {{1, 64, 56, 56}, {128, 64, 3, 3}, {2, 2}, {1, 1, 1, 1}}},
    {1, {{1, 64, 56, 56}, {128, 64, 1, 1}, {2, 2}, {0, 0, 0, 0}}},
    {3, {{1, 128, 28, 28}, {128, 128, 3, 3}, {1, 1}, {1, 1, 1, 1}}},
    {1, {{1, 128, 28, 28}, {256, 128, 3, 3}, {2, 2}, {1, 1, 1, 1}}},
    {1, {{1, 128, 28, 28}, {256, 128, 1, 1}, {2, 2}, {0, 0, 0, 0}}},
    {3, {{1, 256, 14, 14}, {256, 256, 3, 3}, {1, 1}, {1, 1, 1, 1}}},
    {1, {{1, 256, 14, 14}, {512, 256, 3, 3}, {2, 2}, {1, 1, 1, 1}}},
    {1, {{1, 256, 14, 14}, {512, 256, 1, 1}, {2, 2}, {0, 0, 0, 0}}},
    {3, {{1, 512, 7, 7}, {512, 512, 3, 3}, {1, 1}, {1, 1, 1, 1}}},
};

// The distinct convolutions in the tuning log of CenterNet with DLA-34, from the report "Speed, why not all networks
// can be faster?".
const std::vector<Workload> kCenternet = {
    {{1, 16, 608, 608}, {16, 16, 3, 3}, {1, 1}, {1, 1, 1, 1}},
    {{1, 3, 608, 608}, {16, 3, 7, 7}, {1, 1}, {3, 3, 3, 3}},
    {{1, 16, 608, 608}, {32, 16, 3, 3}, {2, 2}, {1, 1, 1, 1}},
    {{1, 32, 304, 304}, {64, 32, 3, 3}, {2, 2}, {1, 1, 1, 1}},
    {{1, 64, 152, 152}, {128, 64, 3, 3}, {2, 2}, {1, 1, 1, 1}},
    {{1, 256, 152, 152}, {2, 256, 1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 64, 152, 152}, {256, 64, 3, 3}, {1, 1}, {1, 1, 1, 1}},
    {{1, 128, 152, 152}, {64, 128, 1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 128, 152, 152}, {64, 128, 3, 3}, {1, 1}, {1, 1, 1, 1}},
    {{1, 32, 152, 152}, {64, 32, 1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 64, 152, 152}, {64, 64, 3, 3}, {1, 1}, {1, 1, 1, 1}},
    {{1, 256, 152, 152}, {7, 256, 1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 128, 76, 76}, {128, 128, 3, 3}, {1, 1}, {1, 1, 1, 1}},
    {{1, 256, 76, 76}, {128, 256, 1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 256, 76, 76}, {128, 256, 3, 3}, {1, 1}, {1, 1, 1, 1}},
    {{1, 448, 76, 76}, {128, 448, 1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 64, 76, 76}, {128, 64, 1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 128, 76, 76}, {256, 128, 3, 3}, {2, 2}, {1, 1, 1, 1}},
    {{1, 128, 76, 76}, {64, 128, 1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 256, 38, 38}, {128, 256, 1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 128, 38, 38}, {256, 128, 1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 256, 38, 38}, {256, 256, 3, 3}, {1, 1}, {1, 1, 1, 1}},
    {{1, 512, 38, 38}, {256, 512, 1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 512, 38, 38}, {256, 512, 3, 3}, {1, 1}, {1, 1, 1, 1}},
    {{1, 896, 38, 38}, {256, 896, 1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 256, 38, 38}, {512, 256, 3, 3}, {2, 2}, {1, 1, 1, 1}},
    {{1, 512, 19, 19}, {256, 512, 1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 1280, 19, 19}, {512, 1280, 1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 256, 19, 19}, {512, 256, 1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 512, 19, 19}, {512, 512, 3, 3}, {1, 1}, {1, 1, 1, 1}},
};

std::multiset<Workload> bag(const std::vector<Workload>& all) { return {all.begin(), all.end()}; }

TEST(Reports, Resnet18HasTheWorkloadsOfTheLog) {
  const auto convs = convolutions(outline("resnet18_tvm"));
  std::vector<Workload> logged;
  for (const auto& [times, workload] : kResnet18) logged.insert(logged.end(), static_cast<size_t>(times), workload);
  EXPECT_EQ(convs.size(), 21U);
  EXPECT_EQ(distinct(convs).size(), 12U);
  EXPECT_EQ(bag(convs), bag(logged));
}

TEST(Reports, Resnet50HasItsStrideInThe1x1) {
  const auto convs = convolutions(outline("resnet50_tvm"));
  EXPECT_EQ(convs.size(), 53U);
  EXPECT_EQ(distinct(convs).size(), 20U);
  for (const Workload& w : convs) {
    if (w.stride == Shape{2, 2} && w.weights[1] != 3) {
      EXPECT_EQ((Shape{w.weights[2], w.weights[3]}), (Shape{1, 1})) << text(w.weights);
    }
  }
}

TEST(Reports, CenternetHasExactlyTheWorkloadsOfTheLog) {
  const Graph graph = outline("centernet_dla34_tvm");
  const auto convs = convolutions(graph);
  ASSERT_EQ(kCenternet.size(), 30U);
  EXPECT_EQ(distinct(convs), distinct(kCenternet));
  EXPECT_EQ(graph.type(graph.outputs()[0].value).shape, (Shape{1, 7, 152, 152}));
}

TEST(Reports, InputIsCalledData) {
  for (const std::string_view name : {"resnet18_tvm", "resnet50_tvm", "centernet_dla34_tvm"}) {
    const Graph graph = outline(name);
    EXPECT_EQ(graph.value(graph.inputs()[0]).name, "data") << name;
  }
}

}  // namespace
}  // namespace kilter::zoo
