// The public C++ interface, through its public header.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "../base/scratch_folder.h"
#include "../onnx/loop_model.h"
#include "api/option_words.h"
#include "base/files.h"
#include "exec/plan_file.h"
#include "kilter/kilter.h"
#include "target/target.h"

namespace kilter {
namespace {

/// Returns the message of the ApiError that `f` throws, or "no error" if it throws none. Other exceptions propagate.
template <class F>
std::string api_error_of(F&& f) {
  try {
    f();
  } catch (const ApiError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Api, ALibraryIsWrittenWithItsHeader) {
  const ScratchFolder folder;
  Network net = Network::load("zoo:squeezenet1_1", {.threads = 1, .shapes = {{"input", {1, 3, 32, 32}}}});
  const std::string path = (folder.path() / "sources").string();
  const std::vector<std::string> files = net.save_library(path, {.name = "squeeze", .sources = true});
  EXPECT_EQ(files.size(), 6U);
  EXPECT_TRUE(std::filesystem::exists(path + "/squeeze.h"));
  EXPECT_EQ(api_error_of([&] { net.save_library("net.dll"); }),
            "net.dll: expected a name that ends in .so (shared library), .a (static library) or .o (object file)");
}

TEST(Api, FailuresThrowApiErrorWithMessage) {
  EXPECT_EQ(api_error_of([] { Network::load("/nowhere/none.onnx", {.threads = 1}); }),
            "cannot read file '/nowhere/none.onnx': No such file or directory");
  const std::vector<float> three{1, 2, 3};
  EXPECT_EQ(api_error_of([&] { f32({2, 2}, three); }), "a tensor of shape 2x2 has 4 elements, got 3 values");
}

TEST(Api, MessagesNameFieldsInsteadOfOptions) {
  EXPECT_EQ(with_fields("--input x=1x3 and `--input x=1x3 --keep-float a`; --shapes: give --max-shapes 3, --memory"),
            "shapes x=1x3 and `shapes x=1x3 keep_float a`; shape_ranges: give max_shapes 3, memory_bytes");
  EXPECT_EQ(with_fields("run `kilter tune M --records x`, `--records x`"),
            "run `kilter tune M --records x`, `records x`");
  EXPECT_EQ(with_fields("a--input --inputs --weights file, --disable x --"),
            "a--input --inputs LibraryOptions::weights_in_file, --disable x --");
  EXPECT_EQ(with_option_names("--keep-float a: --specialise now (--shapes)"),
            "keep-float a: --specialise now (shapes)");
  const std::vector<float> x(3 * 32 * 32);
  NetworkOptions options{.threads = 1, .shapes = {{"inptu", {1, 3, 32, 32}}}};
  EXPECT_EQ(api_error_of([&] { Network::load("zoo:squeezenet1_1", options).run({{"input", f32({1, 3, 32, 32}, x)}}); }),
            "shapes inptu=1x3x32x32: zoo:squeezenet1_1 has input 'input' of shape 1x3x32x32");
  options = {.threads = 1, .shape_ranges = {{"input", "1x3x{32..64}xq"}}};
  EXPECT_THAT(api_error_of([&] { Network::load("zoo:squeezenet1_1", options); }),
              testing::StartsWith("shape_ranges input=1x3x{32..64}xq: 'q' is not a size"));
}

ApiError::Kind kind_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const ApiError& error) {
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return ApiError::Kind::internal;
}

TEST(Api, ErrorsHaveTheirKind) {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "net.onnx").string();
  std::ofstream(file) << "no model";
  using Kind = ApiError::Kind;
  EXPECT_EQ(kind_of([] { Network::load("/nowhere/none.onnx"); }), Kind::file);
  EXPECT_EQ(kind_of([&] { Network::load(file); }), Kind::model);
  EXPECT_EQ(kind_of([] { Network::load("zoo:squeezenet1_1", {.precision = "half"}); }), Kind::usage);
  Network net = Network::load("zoo:squeezenet1_1", {.threads = 1, .shapes = {{"input", {1, 3, 32, 32}}}});
  EXPECT_EQ(kind_of([&] { net.run({}); }), Kind::input);
  EXPECT_EQ(kind_of([] { throw OutOfMemory("out of memory"); }), Kind::out_of_memory);
}

TEST(Api, ReadingElementsAsAnotherTypeIsAnError) {
  const std::shared_ptr<const std::byte[]> bytes(new std::byte[8]{});
  const auto of = [&](Type type) { return TensorValue{"scores", type, {1}, bytes}; };
  const auto error = [&](Type type) { return api_error_of([&] { (void)of(type).as<float>(); }); };
  EXPECT_EQ(error(Type::f32), "no error");
  EXPECT_EQ(error(Type::i64), "'scores' has elements of type i64; read them with as<int64_t>()");
  EXPECT_EQ(error(Type::f16), "'scores' has elements of type f16; read them with as<uint16_t>()");
  EXPECT_EQ(error(Type::boolean), "'scores' has elements of type bool; read them with as<bool>()");
  EXPECT_EQ(error(Type::string), "'scores' has elements of type str; read them with as<std::string>()");
  EXPECT_EQ(error(Type::i4), "'scores' has elements of type i4; read them with as<int8_t>()");
  EXPECT_EQ(error(Type::f8e8m0), "'scores' has elements of type f8e8m0; read them with as<uint8_t>()");
  EXPECT_NE(of(Type::i64).as<long long>(), nullptr);
  EXPECT_NE(of(Type::bf16).as<uint16_t>(), nullptr);
  EXPECT_NE(of(Type::u2).as<uint8_t>(), nullptr);
  EXPECT_NE(of(Type::f64).as<std::byte>(), nullptr);
  EXPECT_NE(of(Type::boolean).as<bool>(), nullptr);
  EXPECT_FALSE(reads<int32_t>(Type::f32) || reads<uint64_t>(Type::i64) || reads<int8_t>(Type::u8));
  EXPECT_FALSE(reads<std::byte>(Type::string));
}

TEST(Api, LayerPlansAndRecordsGiveSchedules) {
  const ScratchFolder folder;
  const std::string plan = (folder.path() / "net.plan").string(), file = (folder.path() / "net.kilter").string();
  std::vector<std::string> notices;
  const auto with = [&](const std::string& records, const std::string& layer_plan) {
    NetworkOptions options{.threads = 2, .shapes = {{"input", {1, 3, 32, 32}}}};
    options.records = records, options.layer_plan = layer_plan;
    options.notice = [&](const std::string& line) { notices.push_back(line); };
    return options;
  };
  const auto load = [&](const NetworkOptions& options) { return Network::load("zoo:squeezenet1_1", options); };
  std::ofstream(plan) << "# squeezenet1_1 for x86-64 on 2 threads, tuned\nconv10 = threads=1\n";
  load(with("", plan)).save(file);
  EXPECT_EQ(Network::load(file, {.threads = 1}).note(),
            "compiled for 2 threads, run on 1; expected loss about 4 % (an estimate)");
  EXPECT_EQ(api_error_of([&] { load(with("some.db", plan)); }),
            "records some.db and layer plan " + plan + ": give only one of them");
  std::ofstream(plan) << "/no/such/Node = threads=1\n";
  EXPECT_NE(api_error_of([&] { load(with("", plan)).save(file); }).find("/no/such/Node"), std::string::npos);
  EXPECT_NE(
      api_error_of([&] { load(with("/nowhere/records.db", "")); }).find("records /nowhere/records.db: no such file"),
      std::string::npos);
  EXPECT_EQ(api_error_of([&] { load({.choose = "best"}); }),
            "choose best: expected 'accepted', 'history-best' or 'graph-best'");
}

TEST(Api, SaveDoesNotReplaceOtherFiles) {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "m.onnx").string();
  std::ofstream(file, std::ios::binary) << onnx::doubling_loop().bytes();
  const std::string before = read_file(file);
  Network net = Network::load(file, {.threads = 1});
  EXPECT_EQ(
      api_error_of([&] { net.save(file); }),
      "cannot write a compiled file to '" + file +
          "': it exists and is not a compiled file, so it is not replaced; give another name, or remove it first");
  EXPECT_EQ(read_file(file), before);
  std::ofstream(folder.path() / "empty").close();
  net.save((folder.path() / "empty").string());
  net.save((folder.path() / "empty").string());
}

TEST(Api, ShapesAreCheckedWhenTheModelIsLoaded) {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "m.onnx").string();
  onnx::ModelMaker maker;
  maker.input("x", {2, 3});
  maker.node("Neg", {"x"}, {"y"});
  maker.output("y", {2, 3});
  std::ofstream(file, std::ios::binary) << maker.bytes();
  const auto error = [&](const NetworkOptions& options) { return api_error_of([&] { Network::load(file, options); }); };
  EXPECT_EQ(error({.shapes = {{"z", {2, 3}}}}), file + ": the model has no input 'z'; its inputs are: 'x' f32[2,3]");
  EXPECT_EQ(error({.shapes = {{"x", {2, 4}}}}),
            file + ": input 'x': declared f32[2,3], given 2x4: dimension 1 is 3 in the model, got 4");
  EXPECT_EQ(error({.shapes = {{"x", {2, 3}}}}), "no error");
}

TEST(Api, OneFileForSeveralTargets) {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "net.kilter").string();
  const std::vector<float> x(3 * 32 * 32, 0.5F);
  Network net = Network::load("zoo:squeezenet1_1", {.threads = 1, .shapes = {{"input", {1, 3, 32, 32}}}});
  const auto scores = [&](Network& network) {
    const TensorValue y = network.run({{"input", f32({1, 3, 32, 32}, x)}}).at(0);
    return std::vector<float>(y.as<float>(), y.as<float>() + 1000);
  };
  net.save(file, {"native", kThisArch == Arch::x86_64 ? "neoverse-n1" : "x86-64-v3"});
  Network loaded = Network::load(file, {.threads = 1});
  EXPECT_EQ(scores(loaded), scores(net));
  EXPECT_EQ(api_error_of([&] { loaded.save(file, {"x86-64-v3"}); }),
            "net.kilter is a compiled file, whose targets and size are those that it was compiled for; load the model");
  EXPECT_EQ(api_error_of([&] { net.save(file, {"x86-64-v3", "x86-64-v3"}); }),
            "target x86-64-v3,x86-64-v3: 'x86-64-v3' is given twice");
  EXPECT_EQ(api_error_of([&] { net.save(file, {"", "x86-64-v3"}); }),
            "target ',x86-64-v3': there is no name before or after a comma");
  const auto before = std::filesystem::file_size(file);
  net.save(file, {"native", kThisArch == Arch::x86_64 ? "neoverse-n1" : "x86-64-v3"}, "small");
  EXPECT_LT(static_cast<double>(std::filesystem::file_size(file)), 0.6 * static_cast<double>(before));
  Network small = Network::load(file, {.threads = 1});
  EXPECT_EQ(scores(small), scores(net));
  EXPECT_EQ(api_error_of([&] { net.save(file, {}, "tiny"); }), "size 'tiny': expected fast or small");
}

TEST(Api, CompiledFilesRefuseCompilerOptions) {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "net.kilter").string();
  const NetworkOptions small{.threads = 1, .shapes = {{"input", {1, 3, 32, 32}}}};
  Network::load("zoo:squeezenet1_1", small).save(file);
  const auto error = [&](const NetworkOptions& options) { return api_error_of([&] { Network::load(file, options); }); };
  const std::string rest = ": " + file + " is a compiled file, which runs as it was compiled; load the model";
  EXPECT_EQ(error({.precision = "bf16"}), "precision 'bf16'" + rest);
  EXPECT_EQ(error({.accuracy = "strict"}), "accuracy 'strict'" + rest);
  EXPECT_EQ(error({.memory_bytes = 1000}), "memory_bytes 1000" + rest);
  EXPECT_EQ(error({.memory_bytes = -1}), "memory_bytes -1: expected 0 or more");
  EXPECT_EQ(error({.accuracy = "exact"}), "accuracy 'exact': expected default or strict");
  NetworkOptions limited = small;
  limited.memory_bytes = 1000;
  EXPECT_NE(api_error_of([&] { Network::load("zoo:squeezenet1_1", limited).save(file); }).find("1000"),
            std::string::npos);
}

TEST(Api, SavedNetworkMatchesOriginal) {
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

TEST(Api, StringTensorsHoldStdStrings) {
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

TEST(Api, LoopsRunAndSequencesAreValues) {
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
  EXPECT_TRUE(sequence.outputs().at(0).sequence);
  EXPECT_EQ(api_error_of([&] { sequence.run({{"x", f32({2}, x)}}); }),
            "'s' is a sequence of f32[...]; run() has tensors only, run_values() has values of every kind");
  const NetworkValue s = sequence.run_values({{"x", f32({2}, x)}}).at(0);
  EXPECT_EQ(s.name, "s");
  ASSERT_EQ(s.kind, NetworkValue::Kind::sequence);
  const TensorValue& element = s.elements.at(0).tensor;
  EXPECT_EQ(std::vector<float>(element.as<float>(), element.as<float>() + 2), x);
}

TEST(Api, StateIsKeptInsideTheNetwork) {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "m.onnx").string();
  onnx::ModelMaker maker;
  maker.input("x", {2});
  maker.input("h", {2});
  maker.node("Add", {"h", "x"}, {"hn"});
  maker.node("Neg", {"hn"}, {"y"});
  maker.output("y", {2});
  maker.output("hn", {2});
  std::ofstream(file, std::ios::binary) << maker.bytes();
  Network net = Network::load(file, {.threads = 1});
  EXPECT_TRUE(net.state().empty());
  EXPECT_EQ(api_error_of([&] { net.reset_state(); }),
            file + ": reset_state: the network has no state; call bind_state() first");
  std::vector<float> x{1, 2}, first{10, 20};
  const auto pairs = net.bind_state({}, {{"h", f32({2}, first)}});
  EXPECT_EQ(pairs, (std::map<std::string, std::string>{{"h", "hn"}}));
  first = {0, 0};
  EXPECT_EQ(net.inputs().size(), 1U);
  EXPECT_EQ(net.outputs().size(), 1U);
  const auto two = [](const TensorValue& t) { return std::vector<float>(t.as<float>(), t.as<float>() + 2); };
  const auto run = [&] {
    const std::vector<TensorValue> out = net.run({{"x", f32({2}, x)}});
    EXPECT_EQ(out.size(), 1U);
    EXPECT_EQ(out.at(0).name, "y");
    return two(out.at(0));
  };
  EXPECT_EQ(run(), (std::vector<float>{-11, -22}));
  EXPECT_EQ(run(), (std::vector<float>{-12, -24}));
  EXPECT_EQ(
      api_error_of([&] { net.run({{"x", f32({2}, x)}, {"h", f32({2}, x)}}); }),
      file +
          ": input 'h' is state, which the network keeps between runs; leave it out, and use reset_state() to set it");
  const NetworkValue held = net.state().at(0);
  EXPECT_EQ(held.name, "h");
  EXPECT_EQ(two(held.tensor), (std::vector<float>{12, 24}));
  Network moved = std::move(net);
  net = std::move(moved);
  net.reset_state({{"h", f32({2}, x)}});
  EXPECT_EQ(run(), (std::vector<float>{-2, -4}));
  EXPECT_EQ(two(held.tensor), (std::vector<float>{12, 24}));
  net.reset_state();
  EXPECT_EQ(run(), (std::vector<float>{-11, -22}));
}

/// The type of a map from strings to f32.
void set_map_type(onnx::pb::TypeProto& type) {
  type.mutable_map_type()->set_key_type(8);
  type.mutable_map_type()->mutable_value_type()->mutable_tensor_type()->set_elem_type(1);
}

TEST(Api, MapsSequencesAndOptionalValuesAreInputs) {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "m.onnx").string();
  onnx::ModelMaker maker;
  maker.import("ai.onnx.ml", 1);
  auto& map = *maker.graph().add_input();
  map.set_name("m");
  set_map_type(*map.mutable_type());
  auto& list = *maker.graph().add_input();
  list.set_name("s");
  list.mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(1);
  auto& optional = *maker.graph().add_input();
  optional.set_name("o");
  optional.mutable_type()->mutable_optional_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(1);
  auto& vectorizer = maker.node("DictVectorizer", {"m"}, {"row"});
  vectorizer.set_domain("ai.onnx.ml");
  auto& words = onnx::add_attribute(vectorizer, "string_vocabulary", onnx::kStringsAttr);
  words.add_strings("b"), words.add_strings("a");
  auto& zip = maker.node("ZipMap", {"row"}, {"maps"});
  zip.set_domain("ai.onnx.ml");
  auto& labels = onnx::add_attribute(zip, "classlabels_strings", onnx::kStringsAttr);
  labels.add_strings("y"), labels.add_strings("x");
  maker.node("SequenceLength", {"s"}, {"count"});
  maker.node("OptionalHasElement", {"o"}, {"has"});
  auto& output = *maker.graph().add_output();
  output.set_name("maps");
  set_map_type(*output.mutable_type()->mutable_sequence_type()->mutable_elem_type());
  maker.output("count", {}, 7);
  maker.output("has", {}, 9);
  std::ofstream(file, std::ios::binary) << maker.bytes();

  Network net = Network::load(file, {.threads = 1});
  const Port port = net.inputs().at(0);
  EXPECT_TRUE(port.map && !port.sequence && !port.optional && port.key == Type::string && port.type == Type::f32);
  EXPECT_TRUE(net.inputs().at(2).optional && !net.inputs().at(2).is_tensor());
  const std::vector<std::string> keys{"b", "a"};
  const std::vector<float> values{1, 2};
  const NetworkValue m = NetworkValue::map(strings({2}, keys), f32({2}, values));
  const NetworkValue one = f32({2}, values);
  auto out = net.run_values({{"m", m}, {"s", NetworkValue::sequence({one, one, one})}});
  ASSERT_EQ(out.at(0).kind, NetworkValue::Kind::sequence);
  const NetworkValue& made = out[0].elements.at(0);
  ASSERT_EQ(made.kind, NetworkValue::Kind::map);
  EXPECT_EQ(made.keys.as<std::string>()[0] + made.keys.as<std::string>()[1], "xy");
  EXPECT_EQ(made.values.as<float>()[0], 2);
  EXPECT_EQ(*out.at(1).tensor.as<int64_t>(), 3);
  EXPECT_FALSE(*out.at(2).tensor.as<bool>());
  out = net.run_values({{"m", m}, {"s", NetworkValue::sequence({})}, {"o", one}});
  EXPECT_TRUE(*out.at(2).tensor.as<bool>());
  EXPECT_EQ(api_error_of([&] { net.run_values({{"m", one}, {"s", NetworkValue::sequence({})}}); }),
            file + ": input 'm' must be map from str to f32, got f32");
  EXPECT_EQ(
      api_error_of([&] { net.run_values({{"m", NetworkValue::map(f32({2}, values), f32({2}, values))}}); }),
      "input 'm' has keys f32[2] and values f32[2]; expected one dimension of the same size, and keys of i64 or str");
  const NetworkValue odd = NetworkValue::sequence({NetworkValue(), one, one});
  EXPECT_EQ(api_error_of([&] { net.run_values({{"m", m}, {"s", odd}}); }),
            "input 's': element 0 of the sequence is neither a tensor nor a map");
  EXPECT_EQ(api_error_of([&] { net.run_values({{"m", m}}); }), file + ": input 's' (sequence of f32[...]) is missing");
}

TEST(Api, PrecisionAndKeepFloatAreOptions) {
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

TEST(Api, FileTunedForOtherThreadCountHasANote) {
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
