// Compares every network with published figures and with the exported file of the same name: operators, parameters and
// convolutions.
#include <gtest/gtest.h>

#include "measures.h"

namespace kilter::zoo {
namespace {

struct Known {
  std::string_view name;
  int64_t
      parameters;  ///< published count, minus one of the two parameters per channel of each folded batch normalisation
  size_t convolutions, distinct;
  Counts operators;
};

// Published counts are from torchvision's documentation. The count of mobilenet_v1 is that of the exported file; the
// paper rounds it to 4.2 million.
const std::vector<Known> kKnown = {
    {"resnet18",
     11'689'512 - 4'800,
     20,
     11,
     {{"Conv", 20}, {"Relu", 17}, {"Add", 8}, {"MaxPool", 1}, {"GlobalAveragePool", 1}, {"Flatten", 1}, {"Gemm", 1}}},
    {"resnet34",
     21'797'672 - 8'512,
     36,
     11,
     {{"Conv", 36}, {"Relu", 33}, {"Add", 16}, {"MaxPool", 1}, {"GlobalAveragePool", 1}, {"Flatten", 1}, {"Gemm", 1}}},
    {"resnet50",
     25'557'032 - 26'560,
     53,
     23,
     {{"Conv", 53}, {"Relu", 49}, {"Add", 16}, {"MaxPool", 1}, {"GlobalAveragePool", 1}, {"Flatten", 1}, {"Gemm", 1}}},
    {"resnet101",
     44'549'160 - 52'672,
     104,
     23,
     {{"Conv", 104},
      {"Relu", 100},
      {"Add", 33},
      {"MaxPool", 1},
      {"GlobalAveragePool", 1},
      {"Flatten", 1},
      {"Gemm", 1}}},
    {"resnet152",
     60'192'808 - 75'712,
     155,
     23,
     {{"Conv", 155},
      {"Relu", 151},
      {"Add", 50},
      {"MaxPool", 1},
      {"GlobalAveragePool", 1},
      {"Flatten", 1},
      {"Gemm", 1}}},
    {"vgg11", 132'863'336, 8, 7, {{"Conv", 8}, {"Relu", 10}, {"MaxPool", 5}, {"Flatten", 1}, {"Gemm", 3}}},
    {"vgg13", 133'047'848, 10, 9, {{"Conv", 10}, {"Relu", 12}, {"MaxPool", 5}, {"Flatten", 1}, {"Gemm", 3}}},
    {"vgg16", 138'357'544, 13, 9, {{"Conv", 13}, {"Relu", 15}, {"MaxPool", 5}, {"Flatten", 1}, {"Gemm", 3}}},
    {"vgg19", 143'667'240, 16, 9, {{"Conv", 16}, {"Relu", 18}, {"MaxPool", 5}, {"Flatten", 1}, {"Gemm", 3}}},
    {"mobilenet_v1",
     4'221'032,
     27,
     19,
     {{"Conv", 27}, {"Clip", 27}, {"GlobalAveragePool", 1}, {"Flatten", 1}, {"Gemm", 1}}},
    {"mobilenet_v2",
     3'504'872 - 17'056,
     52,
     30,
     {{"Conv", 52}, {"Clip", 35}, {"Add", 10}, {"GlobalAveragePool", 1}, {"Flatten", 1}, {"Gemm", 1}}},
    {"squeezenet1_0",
     1'248'424,
     26,
     22,
     {{"Conv", 26}, {"Relu", 26}, {"Concat", 8}, {"MaxPool", 3}, {"GlobalAveragePool", 1}, {"Flatten", 1}}},
    {"squeezenet1_1",
     1'235'496,
     26,
     18,
     {{"Conv", 26}, {"Relu", 26}, {"Concat", 8}, {"MaxPool", 3}, {"GlobalAveragePool", 1}, {"Flatten", 1}}},
    {"inception_v3",
     23'834'568 - 17'216,
     94,
     43,
     {{"Conv", 94},
      {"Relu", 94},
      {"Concat", 11},
      {"AveragePool", 9},
      {"MaxPool", 4},
      {"GlobalAveragePool", 1},
      {"Flatten", 1},
      {"Gemm", 1}}},
};

TEST(Networks, MatchPublishedNetworks) {
  for (const Known& known : kKnown) {
    SCOPED_TRACE(known.name);
    const Graph graph = outline(known.name);
    EXPECT_EQ(parameters(graph), known.parameters);
    const auto convs = convolutions(graph);
    EXPECT_EQ(convs.size(), known.convolutions);
    EXPECT_EQ(distinct(convs).size(), known.distinct);
    EXPECT_EQ(operators(graph), known.operators);
  }
}

TEST(Networks, Densenet121) {
  const Graph graph = outline("densenet121");
  // 62 batch normalisations remain, with 4 numbers per channel; the published figure counts 2. The 59 after conv0 and
  // the bottleneck convolutions are folded, which leaves a bias.
  int64_t standing = 0;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op->name == "BatchNormalization") standing += graph.type(node.inputs[0]).shape[1];
  }
  EXPECT_EQ(parameters(graph), 7'978'856 - (64 + 58 * 128) + 2 * standing);
  EXPECT_EQ(distinct(convolutions(graph)).size(), 66U);
  EXPECT_EQ(operators(graph), (Counts{{"Conv", 120},
                                      {"BatchNormalization", 62},
                                      {"Relu", 121},
                                      {"Concat", 58},
                                      {"MaxPool", 1},
                                      {"AveragePool", 3},
                                      {"GlobalAveragePool", 1},
                                      {"Flatten", 1},
                                      {"Gemm", 1}}));
}

TEST(Networks, CenternetDla34) {
  const Graph graph = outline("centernet_dla34");
  EXPECT_EQ(operators(graph),
            (Counts{{"Conv", 49}, {"Relu", 42}, {"Add", 15}, {"MaxPool", 6}, {"Concat", 6}, {"ConvTranspose", 3}}));
  EXPECT_EQ(parameters(graph), 18'016'580);
  EXPECT_EQ(distinct(convolutions(graph)).size(), 27U);
  ASSERT_EQ(graph.outputs().size(), 3U);
  EXPECT_EQ(graph.type(graph.outputs()[0].value).shape, (Shape{1, 80, 152, 152}));
  EXPECT_EQ(graph.type(graph.outputs()[1].value).shape, (Shape{1, 2, 152, 152}));
  EXPECT_EQ(graph.type(graph.outputs()[2].value).shape, (Shape{1, 2, 152, 152}));
}

TEST(Networks, R3d18) {
  const Graph graph = outline("r3d18");
  EXPECT_EQ(parameters(graph), 33'371'472 - 4'800);  // torchvision's documentation
  EXPECT_EQ(operators(graph),
            (Counts{{"Conv", 20}, {"Relu", 17}, {"Add", 8}, {"GlobalAveragePool", 1}, {"Flatten", 1}, {"Gemm", 1}}));
}

TEST(Networks, Unet3d) {
  const Graph graph = outline("unet3d", {.size = 32});
  EXPECT_EQ(parameters(graph), 19'069'955);  // the paper's figure
  EXPECT_EQ(operators(graph),
            (Counts{{"Conv", 15}, {"Relu", 14}, {"MaxPool", 3}, {"ConvTranspose", 3}, {"Concat", 3}}));
  EXPECT_EQ(graph.type(graph.outputs()[0].value).shape, (Shape{1, 3, 16, 32, 32}));
}

TEST(Networks, BertBase) {
  const Graph graph = outline("bert_base", {.batch = 2, .size = 48});
  EXPECT_EQ(graph.type(graph.inputs()[0]).shape, (Shape{2, 48, 768}));
  EXPECT_EQ(graph.type(graph.outputs()[0].value).shape, (Shape{2, 48, 768}));
  // A layer has 4 square matrices, 2 of 768 x 3072, their biases and 2 normalisations. The embeddings have one more
  // normalisation.
  const int64_t layer = 4 * (768 * 768 + 768) + 2 * 768 * 3072 + 3072 + 768 + 4 * 768;
  EXPECT_EQ(layer, 7'087'872);
  EXPECT_EQ(parameters(graph), 12 * layer + 2 * 768);
  const Counts counts = operators(graph);
  EXPECT_EQ(counts.at("MatMul"), 96);
  EXPECT_EQ(counts.at("LayerNormalization"), 25);
  EXPECT_EQ(counts.at("Reshape"), 48);
  EXPECT_EQ(counts.at("Transpose"), 48);
  EXPECT_EQ(counts.at("Softmax"), 12);
  EXPECT_EQ(counts.at("Erf"), 12);
}

TEST(Networks, WidthMultiplierScalesChannels) {
  const auto half = convolutions(outline("mobilenet_v1", {.width = 0.5}));
  ASSERT_EQ(half.size(), 27U);
  EXPECT_EQ(half.front().weights, (Shape{16, 3, 3, 3}));
  EXPECT_EQ(half.back().weights, (Shape{512, 512, 1, 1}));
  const auto v2 = convolutions(outline("mobilenet_v2", {.width = 0.35}));
  ASSERT_EQ(v2.size(), 52U);
  EXPECT_EQ(v2.front().weights, (Shape{16, 3, 3, 3}));     // 11.2 rounds up: 8 is below nine tenths of it
  EXPECT_EQ(v2.back().weights, (Shape{1280, 112, 1, 1}));  // the last block never shrinks
  EXPECT_EQ(convolutions(outline("mobilenet_v2", {.width = 1.4})).back().weights, (Shape{1792, 448, 1, 1}));
}

}  // namespace
}  // namespace kilter::zoo
