// The table of networks: names, options, errors, sizes, weights.
#include "zoo/zoo.h"

#include <gtest/gtest.h>

#include <cmath>

#include "measures.h"

namespace kilter::zoo {
namespace {

std::string error_of(std::string_view name, const Options& options, ErrorKind kind) {
  try {
    outline(name, options);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind) << e.message();
    return e.message();
  }
  return "no error";
}

TEST(Zoo, EveryNetworkBuildsAtItsOwnSize) {
  EXPECT_EQ(all().size(), 22U);
  for (const Row& row : all()) {
    SCOPED_TRACE(row.name);
    const Graph graph = outline(row.name, {.batch = 2});
    EXPECT_NO_THROW(verify(graph));
    EXPECT_EQ(graph.name, row.name);
    ASSERT_EQ(graph.inputs().size(), 1U);
    const Shape& in = graph.type(graph.inputs()[0]).shape;
    const Shape image{2, 3, row.size, row.size}, volume{2, 3, row.frames, row.size, row.size};
    EXPECT_EQ(in, row.classes == 0 ? (Shape{2, row.size, 768}) : row.frames == 0 ? image : volume);
    EXPECT_EQ(graph.outputs()[0].name, "output");
    const Shape& out = graph.type(graph.outputs()[0].value).shape;
    EXPECT_EQ(out[0], 2);
    if (row.classes != 0) {
      EXPECT_EQ(out[1], row.classes);
    }
  }
}

TEST(Zoo, SmallestSizeBuildsAndSmallerDoesNot) {
  for (const Row& row : all()) {
    SCOPED_TRACE(row.name);
    const Graph graph = outline(row.name, {.size = row.least_size, .classes = row.classes == 0 ? 0 : 10});
    EXPECT_NO_THROW(verify(graph));
    EXPECT_GT(elems(graph.type(graph.outputs()[0].value).shape), 0);
    if (row.least_size == 1) continue;
    const std::string error = error_of(row.name, {.size = row.least_size - 1}, ErrorKind::bad_input);
    EXPECT_NE(error.find(fmt::format("at least {}", row.least_size)), std::string::npos) << error;
    // The smallest size is a limit of the network itself: below it, a layer would not fit or would have an empty
    // result.
    Options below = {.size = row.least_size - row.size_step, .classes = row.classes, .weights = false};
    if (row.size_step == 1) {
      EXPECT_ANY_THROW({
        const Graph small = row.build(below);
        if (elems(small.type(small.outputs()[0].value).shape) == 0) throw std::runtime_error("empty");
        for (const NodeId id : small.order()) {
          if (elems(small.type(small.node(id).outputs[0]).shape) == 0) throw std::runtime_error("empty");
        }
      });
    }
  }
}

TEST(Zoo, AliasesAreTheSpellingsOfTheReports) {
  const std::vector<std::pair<std::string_view, std::string_view>> pairs = {{"resnet-18", "resnet18"},
                                                                            {"resnet-34", "resnet34"},
                                                                            {"resnet-50", "resnet50"},
                                                                            {"resnet-101", "resnet101"},
                                                                            {"resnet-152", "resnet152"},
                                                                            {"vgg-11", "vgg11"},
                                                                            {"vgg-13", "vgg13"},
                                                                            {"vgg-16", "vgg16"},
                                                                            {"vgg-19", "vgg19"},
                                                                            {"mobilenet", "mobilenet_v1"},
                                                                            {"squeezenet_v1.0", "squeezenet1_0"},
                                                                            {"squeezenet_v1.1", "squeezenet1_1"},
                                                                            {"densenet-121", "densenet121"},
                                                                            {"bert_base_128", "bert_base"}};
  for (const auto& [alias, name] : pairs) {
    ASSERT_NE(find(alias), nullptr) << alias;
    EXPECT_EQ(find(alias)->name, name);
  }
}

TEST(Zoo, NamesAndAliasesAreUnique) {
  std::set<std::string_view> seen;
  for (const Row& row : all()) {
    EXPECT_TRUE(seen.insert(row.name).second) << row.name;
    for (const std::string_view alias : row.aliases) EXPECT_TRUE(seen.insert(alias).second) << alias;
  }
}

TEST(Zoo, UnknownNameListsTheNames) {
  EXPECT_EQ(find("resnet19"), nullptr);
  EXPECT_EQ(
      error_of("resnet19", {}, ErrorKind::usage),
      "zoo: no network 'resnet19'; did you mean 'resnet18'? legal values are resnet18, resnet34, resnet50, resnet101, "
      "resnet152, resnet18_tvm, resnet50_tvm, vgg11, vgg13, vgg16, vgg19, mobilenet_v1, mobilenet_v2, squeezenet1_0, "
      "squeezenet1_1, inception_v3, densenet121, centernet_dla34, centernet_dla34_tvm, bert_base, r3d18, unet3d");
  EXPECT_EQ(error_of("no_such", {}, ErrorKind::usage).substr(0, 45), "zoo: no network 'no_such'; legal values are r");
}

TEST(Zoo, BadSizesNameTheMinimum) {
  EXPECT_EQ(error_of("inception_v3", {.size = 74}, ErrorKind::bad_input),
            "zoo inception_v3: expected a size of at least 75 and at most 65536 pixels, got 74; the default is 299");
  EXPECT_EQ(error_of("centernet_dla34", {.size = 600}, ErrorKind::bad_input),
            "zoo centernet_dla34: expected a size of at least 32 and at most 65536 pixels and a multiple of 32, got "
            "600; the default is 608");
  EXPECT_EQ(error_of("bert_base", {.size = -3}, ErrorKind::bad_input),
            "zoo bert_base: expected a size of at least 1 and at most 65536 tokens, got -3; the default is 128");
}

TEST(Zoo, OptionsThatANetworkLacksAreRefused) {
  EXPECT_EQ(error_of("resnet18", {.width = 0.5}, ErrorKind::usage),
            "zoo resnet18: the network has no width multiplier, got 0.5; leave the option out");
  EXPECT_EQ(error_of("bert_base", {.classes = 5}, ErrorKind::usage),
            "zoo bert_base: the network has no classes, got 5 classes; leave the option out");
  EXPECT_EQ(error_of("mobilenet", {.width = 9}, ErrorKind::usage),
            "zoo mobilenet_v1: expected a width multiplier from 0.05 to 8, got 9");
  EXPECT_EQ(error_of("mobilenet", {.width = std::nan("")}, ErrorKind::usage),
            "zoo mobilenet_v1: expected a width multiplier from 0.05 to 8, got nan");
  EXPECT_EQ(error_of("resnet18", {.batch = 0}, ErrorKind::usage),
            "zoo resnet18: expected a batch from 1 to 65536, got 0");
  EXPECT_EQ(error_of("resnet18", {.classes = -1}, ErrorKind::usage),
            "zoo resnet18: expected a number of classes from 1 to 1048576, got -1");
}

TEST(Zoo, WeightsDependOnlyOnSeedAndName) {
  const auto weights = [](const Options& options, std::string_view name) {
    const Graph graph = build("squeezenet1_1", options);
    return *graph.value(graph.find_value(name)).constant;
  };
  const Tensor first = weights({}, "fire2.squeeze.weight");
  EXPECT_TRUE(first.same(weights({}, "fire2.squeeze.weight")));
  EXPECT_TRUE(first.same(weights({.batch = 3, .size = 64, .classes = 7}, "fire2.squeeze.weight")));
  EXPECT_FALSE(first.same(weights({.seed = 1}, "fire2.squeeze.weight")));
  EXPECT_NE(first.as_double(0) * std::sqrt(64), weights({}, "fire3.squeeze.weight").as_double(0) * std::sqrt(128));
}

TEST(Zoo, WeightsHaveTheStatedDeviation) {
  const Graph graph = build("squeezenet1_1");
  const Tensor w = *graph.value(graph.find_value("fire9.expand3x3.weight")).constant;
  double sum = 0;
  double squares = 0;
  for (const float v : w.span<float>()) {
    sum += v;
    squares += double{v} * v;
  }
  const auto count = static_cast<double>(w.elems());
  EXPECT_NEAR(sum / count, 0, 1e-3);
  EXPECT_NEAR(squares / count * (64 * 9), 2, 0.02);
}

TEST(Zoo, OutlinesHaveZeroWeights) {
  const Graph graph = outline("squeezenet1_1");
  for (const float v : graph.value(graph.find_value("conv1.weight")).constant->span<float>()) ASSERT_EQ(v, 0);
}

// The random weights let signals neither vanish nor explode.
TEST(Zoo, ActivationsKeepTheirMagnitude) {
  for (const std::string_view name : {"resnet18", "resnet18_tvm", "mobilenet_v2", "squeezenet1_1"}) {
    SCOPED_TRACE(name);
    const int64_t size = name.starts_with("resnet") ? 16 : 32;
    const Tensor out = run(build(name, {.size = size, .classes = 16}));
    double squares = 0;
    for (const float v : out.span<float>()) {
      ASSERT_TRUE(std::isfinite(v));
      squares += double{v} * v;
    }
    const double mean_square = squares / static_cast<double>(out.elems());
    EXPECT_GT(mean_square, 1e-3);
    EXPECT_LT(mean_square, 1e3);
  }
}

}  // namespace
}  // namespace kilter::zoo
