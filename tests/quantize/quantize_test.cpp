#include "quantize/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "models.h"

namespace kilter::quantize {
namespace {

using testing::HasSubstr;

const Shape kShape = {1, 3, 12, 12};

Options options_in(const Folder& folder) {
  Options options;
  options.runs.scratch = folder.path() / "scratch.onnx";
  options.runs.compile.target = native_target();
  options.runs.threads = 1;
  return options;
}

std::map<std::string, int> count_ops(const std::filesystem::path& file) {
  std::map<std::string, int> counts;
  const Document document = Document::load(file);
  for (const auto& node : document.nodes()) ++counts[op_name(node)];
  return counts;
}

const LayerError& layer(const Report& report, const std::string& node) {
  return *std::ranges::find(report.measured.layers, node, &LayerError::node);
}

TEST(QuantiseModel, ReportsTheErrorOfTheWrittenModel) {
  const Folder folder;
  const auto file = folder.write(residual_model()), out = folder.path() / "q.onnx";
  const auto samples = folder.samples(kShape, 4);
  const Report report = quantise_model(file, samples, options_in(folder), out);
  EXPECT_EQ(report.samples, 4U);
  EXPECT_EQ(report.folded, 1);
  EXPECT_EQ(report.measured.layers.size(), 5U) << "all but Flatten, which computes nothing";
  EXPECT_GT(report.measured.outputs.at(0).error.db(), 30);
  EXPECT_EQ(report.measured.outputs.at(0).rows, 4);
  // The error of the written file on the same samples is the error that was reported.
  const auto whole = open_model(file), quantised = open_model(out);
  Error2 error;
  for (const auto& entry : std::filesystem::directory_iterator(samples)) {
    const std::map<std::string, Tensor> inputs{{"x", load_npy(entry.path())}};
    const Tensor want = whole->run(inputs)[0], got = quantised->run(inputs)[0];
    for (int64_t i = 0; i < want.elems(); ++i) {
      error.signal += std::pow(want.as_double(i), 2);
      error.noise += std::pow(want.as_double(i) - got.as_double(i), 2);
    }
  }
  EXPECT_NEAR(error.db(), report.measured.outputs.at(0).error.db(), 0.5);
}

TEST(QuantiseModel, SurroundsLayersWithPairs) {
  const Folder folder;
  const auto out = folder.path() / "q.onnx";
  quantise_model(folder.write(residual_model()), folder.samples(kShape, 2), options_in(folder), out);
  // Pairs for x, r1, c2, r2, p, f; two constants of each of three products.
  EXPECT_EQ(count_ops(out), (std::map<std::string, int>{{"Conv", 2},
                                                        {"Relu", 2},
                                                        {"Add", 1},
                                                        {"GlobalAveragePool", 1},
                                                        {"Flatten", 1},
                                                        {"Gemm", 1},
                                                        {"QuantizeLinear", 6},
                                                        {"DequantizeLinear", 12}}));
}

TEST(QuantiseModel, WritesOperatorsOnIntegers) {
  const Folder folder;
  const auto out = folder.path() / "q.onnx";
  Options options = options_in(folder);
  options.format = Format::qoperator;
  quantise_model(folder.write(residual_model()), folder.samples(kShape, 2), options, out);
  EXPECT_EQ(count_ops(out), (std::map<std::string, int>{{"QLinearConv", 2},
                                                        {"com.microsoft:QLinearAdd", 1},
                                                        {"com.microsoft:QLinearGlobalAveragePool", 1},
                                                        {"Flatten", 1},
                                                        {"com.microsoft:QGemm", 1},
                                                        {"QuantizeLinear", 1}}));
}

/// The error of a layer alone must not include that of the layers before it.
TEST(QuantiseModel, SeparatesTheErrorsOfLayers) {
  const Folder folder;
  ModelMaker model = residual_model();
  // One huge weight of the first convolution spoils all others of its tensor.
  std::vector<float> weights = normal(8 * 3 * 3 * 3, 1, 0.3F);
  weights[0] = 200;
  onnx::set_floats(*model.graph().mutable_initializer(0), "w1", {}, weights);
  const auto file = folder.write(model), samples = folder.samples(kShape, 4);
  Options options = options_in(folder);
  const Report tensor = quantise_model(file, samples, options, folder.path() / "q.onnx");
  EXPECT_EQ(tensor.measured.layers.front().node, "conv1") << "the worst layer is the first of the table";
  EXPECT_LT(layer(tensor, "conv2").in_network.db(), layer(tensor, "conv2").alone.db() - 2);
  options.per_channel = true;
  const Report channel = quantise_model(file, samples, options, folder.path() / "q.onnx");
  EXPECT_GT(layer(channel, "conv1").alone.db(), layer(tensor, "conv1").alone.db());
  options.per_channel = false, options.exclude = {"conv1"};
  const Report excluded = quantise_model(file, samples, options, folder.path() / "q.onnx");
  EXPECT_GT(excluded.measured.outputs[0].error.db(), tensor.measured.outputs[0].error.db());
  EXPECT_EQ(excluded.left_out.at(0).node, "conv1");
}

TEST(QuantiseModel, KeepsNamesOfOutputsThatAreQuantised) {
  const Folder folder;
  ModelMaker m = residual_model();
  m.output("r1", {1, 8, 12, 12});  // the first convolution's result, which others read too
  const auto file = folder.write(m), samples = folder.samples(kShape, 2);
  for (const Format format : {Format::qdq, Format::qoperator}) {
    Options options = options_in(folder);
    options.format = format;
    quantise_model(file, samples, options, folder.path() / "q.onnx");
    const Document written = Document::load(folder.path() / "q.onnx");
    const auto makes_it = [](const onnx::pb::NodeProto& node) { return node.output(0) == "r1"; };
    const auto producer = std::find_if(written.nodes().begin(), written.nodes().end(), makes_it);
    ASSERT_NE(producer, written.nodes().end());
    EXPECT_EQ(op_name(*producer), "DequantizeLinear");
  }
}

TEST(QuantiseModel, NamesASampleThatIsNotFinite) {
  const Folder folder;
  const auto file = folder.write(residual_model());
  const auto samples = folder.samples(kShape, 3);
  Tensor bad = Tensor(DType::f32, kShape);
  bad.data<float>()[7] = NAN;
  save_npy(samples / "0001.npy", bad);
  EXPECT_EQ(onnx::error_of([&] { quantise_model(file, samples, options_in(folder), folder.path() / "q.onnx"); }),
            fmt::format("bad_input: {}: element 7 of 432 is nan; expected finite values, since ranges and errors are "
                        "measured on the samples; correct the file or remove it from the samples",
                        (samples / "0001.npy").string()));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "q.onnx"));
}

TEST(QuantiseModel, NamesAValueThatIsNotFinite) {
  const Folder folder;
  const auto file = folder.write(residual_model());
  const auto samples = folder.samples(kShape, 1);
  Tensor huge(DType::f32, kShape);
  std::ranges::fill(huge.span<float>(), 3e38F);
  save_npy(samples / "0001.npy", huge);
  EXPECT_THAT(onnx::error_of([&] { quantise_model(file, samples, options_in(folder), folder.path() / "q.onnx"); }),
              testing::AllOf(HasSubstr((samples / "0001.npy").string() + ": with this sample, the network computes"),
                             HasSubstr("that is not finite (NaN or infinity) although the sample is")));
}

TEST(QuantiseModel, NamesConstantsThatAreNotFinite) {
  const Folder folder;
  ModelMaker model = residual_model();
  std::vector<float> bias = normal(5, 1);
  bias[3] = INFINITY;
  onnx::set_floats(*model.graph().mutable_initializer(8), "bias3", {}, bias);
  const auto file = folder.write(model);
  EXPECT_EQ(
      onnx::error_of(
          [&] { quantise_model(file, folder.samples(kShape, 1), options_in(folder), folder.path() / "q.onnx"); }),
      fmt::format("bad_model: {}: Gemm 'fc': the constant 'bias3' contains inf; expected finite values; leave the "
                  "node float with --exclude",
                  file.string()));
}

TEST(Samples, OfSeveralInputs) {
  const Folder folder;
  const std::vector<onnx::Port> ports = {{"a/b", DType::f32, std::vector<onnx::Dim>{{2, ""}}},
                                         {"n", DType::i64, std::vector<onnx::Dim>{{1, ""}}}};
  for (const char* name : {"s2", "s1"}) {
    std::filesystem::create_directories(folder.path() / name);
    save_npy(folder.path() / name / "a_b.npy", Tensor::of<float>({2}, {1, 2}));
    save_npy(folder.path() / name / "n.npy", Tensor::of<int64_t>({1}, {3}));
  }
  const Samples samples(folder.path(), ports);
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples.name(0), (folder.path() / "s1").string());
  EXPECT_EQ(samples.load(1).at("n").as_int(0), 3);
  std::filesystem::remove(folder.path() / "s2" / "n.npy");
  EXPECT_EQ(
      onnx::error_of([&] { samples.load(1); }),
      fmt::format("bad_input: {0}/s2/n.npy: the file is missing; each folder in {0} is a sample, with a file for "
                  "each input\n"
                  "the model's inputs:\n"
                  "  a/b: f32[2]\n"
                  "  n: i64[1]\n"
                  "each folder in DIR is one sample, with the files a_b.npy n.npy. To make samples in Python from "
                  "real inputs (about 100):\n"
                  "  for i, sample in enumerate(samples):\n"
                  "    os.makedirs(f\"DIR/{{i:04}}\")\n"
                  "    numpy.save(f\"DIR/{{i:04}}/a_b.npy\", sample[\"a/b\"].astype(numpy.float32))\n"
                  "    numpy.save(f\"DIR/{{i:04}}/n.npy\", sample[\"n\"].astype(numpy.int64))",
                  folder.path().string()));
}

TEST(Samples, RefuseOtherTypesAndShapes) {
  const Folder folder;
  const std::vector<onnx::Port> ports = {{"x", DType::f32, std::vector<onnx::Dim>{{std::nullopt, "n"}, {2, ""}}}};
  EXPECT_THAT(
      onnx::error_of([&] { Samples(folder.path(), ports); }),
      HasSubstr("the folder contains no samples\nthe model's inputs:\n  x: f32[n,2]\neach file DIR/*.npy is one "
                "sample of 'x'."));
  EXPECT_THAT(onnx::error_of([&] { Samples(folder.path() / "none", ports); }),
              HasSubstr("cannot be read: No such file"));
  save_npy(folder.path() / "a.npy", Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
  save_npy(folder.path() / "b.npy", Tensor::of<float>({1, 3}, {1, 2, 3}));
  save_npy(folder.path() / "c.npy", Tensor::of<double>({1, 2}, {1, 2}));
  const Samples samples(folder.path(), ports);
  EXPECT_EQ(samples.load(0).at("x").shape(), Shape({3, 2}));
  EXPECT_EQ(
      onnx::error_of([&] { samples.load(1); }),
      fmt::format("bad_input: {}/b.npy: f32 of shape 1x3, expected f32[n,2] for input 'x'", folder.path().string()));
  EXPECT_EQ(
      onnx::error_of([&] { samples.load(2); }),
      fmt::format("bad_input: {}/c.npy: f64 of shape 1x2, expected f32[n,2] for input 'x'", folder.path().string()));
}

/// x[2,40] x w[40,6] -> Gemm(v[5,6] transposed) -> y[2,5]
ModelMaker matmul_model() {
  ModelMaker m;
  m.input("x", {2, 40});
  m.node("MatMul", {"x", "w"}, {"p"}, "product");
  auto& gemm = m.node("Gemm", {"p", "v", "bias"}, {"y"}, "last");
  onnx::add_attribute(gemm, "transB", onnx::kIntAttr).set_i(1);
  m.output("y", {2, 5});
  add_floats(m, "w", {40, 6}, 1, 1);
  add_floats(m, "v", {5, 6}, 2, 1);
  add_floats(m, "bias", {5}, 3, 1);
  return m;
}

TEST(WeightsOnly, BlocksOfEightBitsRun) {
  const Folder folder;
  const auto file = folder.write(matmul_model()), out = folder.path() / "q.onnx";
  WeightOptions options{Format::qdq, 8, 16, {}, {}};
  const WeightReport report = quantise_weights_only(file, options, out);
  ASSERT_EQ(report.layers.size(), 2U);
  for (const auto& l : report.layers) EXPECT_GT(l.error.db(), 40);
  EXPECT_EQ(report.opset, 21);
  const Tensor want = run(file, {2, 40})[0];
  EXPECT_LT(most_difference(want, run(out, {2, 40})[0]), 0.2);
  options.exclude = {"product"};
  EXPECT_EQ(quantise_weights_only(file, options, out).left_out.at(0).reason, "--exclude");
}

TEST(WeightsOnly, PacksTwoWeightsInAByte) {
  const Folder folder;
  ModelMaker m;
  m.input("x", {1, 18});
  m.node("MatMul", {"x", "w"}, {"y"}, "product");
  m.output("y", {1, 1});
  std::vector<float> weights(18, 0);
  weights[0] = -8, weights[1] = 3, weights[15] = 7, weights[16] = 4, weights[17] = -2;
  onnx::set_floats(m.initializer(), "w", {18, 1}, weights);
  quantise_weights_only(folder.write(m), {Format::matmulnbits, 4, 16, {}, {}}, folder.path() / "q.onnx");
  const Document written = Document::load(folder.path() / "q.onnx");
  const auto& node = written.nodes()[0];
  EXPECT_EQ(op_name(node), "com.microsoft:MatMulNBits");
  EXPECT_EQ(int_attribute(node, "K", 0), 18);
  EXPECT_EQ(int_attribute(node, "N", 0), 1);
  const Tensor& packed = *written.constant(node.input(1));
  EXPECT_EQ(packed.shape(), Shape({1, 2, 8}));
  EXPECT_EQ(packed.data<uint8_t>()[0], 0xb0) << "-8 is 0 and 3 is 11; the first is in the lower half";
  EXPECT_EQ(packed.data<uint8_t>()[7], 0xf8);
  // The block of 4 and -2 has the scale -0.5: the weight of largest magnitude becomes -8, and -2 becomes 4.
  EXPECT_EQ(packed.data<uint8_t>()[8], 0xc0);
  EXPECT_EQ(packed.data<uint8_t>()[9], 0x88) << "there are no weights";
  EXPECT_EQ(written.constant(node.input(2))->as_double(0), 1);
  EXPECT_EQ(written.constant(node.input(2))->as_double(1), -0.5);
}

TEST(WeightsOnly, RefusesModelsWithoutMatrices) {
  const Folder folder;
  const auto file = folder.write(onnx::relu_model());
  EXPECT_EQ(onnx::error_of([&] { quantise_weights_only(file, {}, folder.path() / "q.onnx"); }),
            fmt::format("bad_model: {}: nothing to quantise: expected at least one MatMul or Gemm with constant f32 "
                        "weights of rank 2, found none; convolutions need --samples",
                        file.string()));
}

}  // namespace
}  // namespace kilter::quantize
