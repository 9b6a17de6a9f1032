// The public C++ interface, through its public header.
#include <gtest/gtest.h>

#include <fstream>

#include "../base/scratch_folder.h"
#include "../onnx/loop_model.h"
#include "exec/plan_file.h"
#include "kilter/kilter.h"

namespace kilter {
namespace {

/// The message of the ApiError that `f` throws; "no error" if it throws nothing. Other exceptions propagate.
template <class F>
std::string api_error_of(F&& f) {
  try {
    f();
  } catch (const ApiError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Api, FailuresAreApiErrorsWithTheirMessage) {
  EXPECT_EQ(api_error_of([] { Network::load("/nowhere/none.onnx", {.threads = 1}); }),
            "cannot read file '/nowhere/none.onnx': No such file or directory");
  const std::vector<float> three{1, 2, 3};
  EXPECT_EQ(api_error_of([&] { f32({2, 2}, three); }), "a tensor of shape 2x2 has 4 elements, got 3 values");
}

TEST(Api, ASavedNetworkAnswersAsTheOneItWasMadeFrom) {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "net.kilter").string();
  const std::vector<int64_t> shape{1, 3, 32, 32};
  Network net = Network::load("zoo:squeezenet1_1", {.threads = 1, .shapes = {{"input", shape}}});
  net.save(file);
  Network saved = Network::load(file, {.threads = 1});
  EXPECT_EQ(saved.inputs().at(0).shape, shape);
  EXPECT_EQ(api_error_of([&] { saved.run({}); }), "net.kilter: input 'input' (f32[1,3,32,32]) is missing");
  std::vector<float> image(3 * 32 * 32);
  for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i % 255) / 255;
  const auto answer = [&](Network& network) {
    const TensorValue out = network.run({{"input", f32(shape, image)}}).at(0);
    EXPECT_EQ(out.shape, (std::vector<int64_t>{1, 1000}));
    return std::vector<float>(out.as<float>(), out.as<float>() + 1000);
  };
  EXPECT_EQ(answer(saved), answer(net));
}

TEST(Api, TensorsOfStringsAreObjectsOfStdString) {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "strings.onnx").string();
  onnx::ModelMaker maker(20);
  maker.input("a", {2}, 8);
  maker.node("StringConcat", {"a", "a"}, {"b"});
  maker.output("b", {2}, 8);
  std::ofstream(file, std::ios::binary) << maker.bytes();
  Network net = Network::load(file, {.threads = 1});
  EXPECT_EQ(net.inputs().at(0).type, Type::string);
  const std::vector<std::string> words{"ab", "\xff"};
  const TensorValue out = net.run({{"a", strings({2}, words)}}).at(0);
  ASSERT_EQ(out.type, Type::string);
  EXPECT_EQ(std::vector<std::string>(out.as<std::string>(), out.as<std::string>() + 2),
            (std::vector<std::string>{"abab", "\xff\xff"}));
  EXPECT_EQ(api_error_of([&] { net.run({{"a", View{Type::string, {2}, nullptr}}}); }),
            "input 'a' of shape 2 is a null pointer; expected strings");
  EXPECT_EQ(type_bytes(Type::string), static_cast<int64_t>(sizeof(std::string)));
}

TEST(Api, LoopsRunAndSequencesNeedThePythonPackage) {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "m.onnx").string();
  std::ofstream(file, std::ios::binary) << onnx::doubling_loop().bytes();
  Network loop = Network::load(file, {.threads = 1});
  const std::vector<float> x{1, -2};
  const std::vector<int64_t> n{3};
  const TensorValue y = loop.run({{"x", f32({2}, x)}, {"n", i64({}, n)}}).at(0);
  EXPECT_EQ(std::vector<float>(y.as<float>(), y.as<float>() + 2), (std::vector<float>{8, 16}));

  onnx::ModelMaker maker;
  maker.input("x", {2});
  maker.node("SequenceConstruct", {"x"}, {"s"});
  auto& output = *maker.graph().add_output();
  output.set_name("s");
  output.mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(1);
  std::ofstream(file, std::ios::binary) << maker.bytes();
  Network sequence = Network::load(file, {.threads = 1});
  const std::string message =
      "'s' is sequence of f32[...]; the C++ interface has tensors only: use the Python package, or change the model to "
      "return tensors";
  EXPECT_EQ(api_error_of([&] { sequence.outputs(); }), message);
  EXPECT_EQ(api_error_of([&] { sequence.run({{"x", f32({2}, x)}}); }), message);
}

TEST(Api, APrecisionAndTheLayersThatStayInF32AreOptions) {
  const std::vector<int64_t> shape{1, 3, 32, 32};
  std::vector<float> image(3 * 32 * 32);
  for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i % 255) / 255;
  const auto answer = [&](const std::string& precision, const std::vector<std::string>& keep_float) {
    Network net = Network::load("zoo:squeezenet1_1", {.threads = 1,
                                                      .target = "x86-64-v3",
                                                      .shapes = {{"input", shape}},
                                                      .precision = precision,
                                                      .keep_float = keep_float});
    const TensorValue out = net.run({{"input", f32(shape, image)}}).at(0);
    return std::vector<float>(out.as<float>(), out.as<float>() + 1000);
  };
  const auto wide = answer("declared", {}), narrow = answer("fp16", {});
  EXPECT_NE(narrow, wide);
  const auto far = [&](const std::vector<float>& from) {
    float most = 0;
    for (size_t i = 0; i < wide.size(); ++i) most = std::max(most, std::abs(from[i] - wide[i]));
    return most;
  };
  EXPECT_LT(far(answer("fp16", {"Conv", "Relu", "MaxPool", "Concat"})), far(narrow) / 2);
  EXPECT_EQ(api_error_of([&] { answer("int8", {}); }), "precision 'int8': expected declared, bf16 or fp16");
  const ScratchFolder folder;
  const std::string file = (folder.path() / "net.kilter").string();
  Network::load("zoo:squeezenet1_1", {.threads = 1, .shapes = {{"input", shape}}}).save(file);
  EXPECT_EQ(api_error_of([&] { Network::load(file, {.precision = "bf16"}); }),
            "precision 'bf16': " + file + " is a compiled file, which runs as it was compiled; load the model");
}

TEST(Api, AFileThatWasTunedForOtherThreadsSaysSo) {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "net.kilter").string(), tuned = (folder.path() / "tuned.kilter").string();
  Network::load("zoo:squeezenet1_1", {.threads = 1, .shapes = {{"input", {1, 3, 32, 32}}}}).save(file);
  EXPECT_EQ(Network::load(file, {.threads = 2}).note(), "") << "default schedules are for any number";
  Plan plan = load_plan(file);
  plan.compiled_for = 2;
  save_plan(plan, tuned);
  EXPECT_EQ(Network::load(tuned, {.threads = 2}).note(), "");
  EXPECT_EQ(Network::load(tuned, {.threads = 1}).note(),
            "compiled for 2 threads, run on 1; expected loss about 4 % (an estimate)");
  EXPECT_EQ(Network::load("zoo:squeezenet1_1", {.threads = 1}).note(), "");
}

}  // namespace
}  // namespace kilter
