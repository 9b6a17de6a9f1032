// Sessions with declared ranges of shapes: what they refuse, the plans that they compile in advance, and their compiled
// files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../base/error_of.h"
#include "../base/scratch_folder.h"
#include "../vm/program_models.h"
#include "compile/memory_model.h"
#include "kilter/kilter.h"
#include "models.h"
#include "onnx/bind_ranges.h"

namespace kilter {
namespace {

using onnx::ModelMaker;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::unique_ptr<Session> open_with(const std::string& model, const std::vector<std::string>& ranges,
                                   int64_t max_shapes = kDefaultMaxShapes) {
  Session::Options options;
  options.compile.target = parse_target("native");
  options.threads = 1;
  options.ranges = ShapeRanges::parse(ranges);
  options.max_shapes = max_shapes;
  return Session::open(model, std::move(options));
}

/// y = Softmax(Relu(x)) over the channels, w = ids + mask.
ModelMaker two_parts() {
  ModelMaker maker;
  maker.input("x", {"n", 3, "h", "w"});
  maker.input("ids", {"n", "seq"});
  maker.input("mask", {"n", "seq"});
  maker.node("Relu", {"x"}, {"p"});
  add_attribute(maker.node("Softmax", {"p"}, {"y"}), "axis", onnx::kIntAttr).set_i(1);
  maker.node("Add", {"ids", "mask"}, {"s"});
  maker.output("y", {"n", 3, "h", "w"});
  maker.output("s", {"n", "seq"});
  return maker;
}

std::string bad_ranges(const std::vector<std::string>& ranges, ErrorKind kind = ErrorKind::bad_input) {
  const MemoryModel model(two_parts().parse());
  return error_of([&] { open_with(model.name(), ranges); }, kind);
}

TEST(Ranges, UnknownInputsAreRefused) {
  EXPECT_EQ(bad_ranges({"q=1x3"}),
            "m.onnx: --shapes q=1x3: the model has no input 'q'; its inputs are: 'x' f32[n,3,h,w], 'ids' f32[n,seq], "
            "'mask' f32[n,seq]");
  EXPECT_EQ(bad_ranges({"x=1x3x{1..4}"}),
            "m.onnx: input 'x' (f32[n,3,h,w]): --shapes declares 1x3x{1..4}; expected 4 dimensions, got 3");
  EXPECT_EQ(
      bad_ranges({"x=1x{1..4}x8x8"}),
      "m.onnx: input 'x' (f32[n,3,h,w]): --shapes declares 1x{1..4}x8x8; dimension 1 is 3 in the model, got {1..4}: "
      "give 3 there");
  EXPECT_THAT(bad_ranges({"ids=1x{1..4}", "mask=1x{1..5}"}, ErrorKind::usage),
              StartsWith("--shapes: dimension 1 of input 'ids' and dimension 1 of input 'mask' are both named 'seq'"));
}

TEST(Ranges, UseDimensionNamesOfTheModel) {
  const MemoryModel model(two_parts().parse());
  const auto session = open_with(model.name(), {"x=1x3x{8,16}x{4..6}", "ids=1x{1..9:4}"});
  EXPECT_EQ(session->ranges().text(), "x=1x3x{h=8,16}x{w=4..6} ids=1x{seq=1..9:4} mask=1x{seq=1..9:4}");
  EXPECT_EQ(onnx::ranges_text(session->inputs()[0], session->ranges()), "n = 1, h = {8,16}, w = {4..6}");
  EXPECT_EQ(onnx::ranges_text(session->outputs()[1], session->ranges()), "n = 1, seq = {1..9:4}");
  EXPECT_EQ(session->ranges().count(), 18);
}

TEST(Ranges, LimitAllEntryPoints) {
  const MemoryModel model(two_parts().parse());
  const auto session = open_with(model.name(), {"x=1x3x{8,16}x{4..6}", "ids=1x{1..9:4}"});
  const std::string error =
      "m.onnx: input 'x': dimension 2 ('h') is 9; expected {8,16}, of which 8 and 16 are the nearest; give the input "
      "such "
      "a size, or declare 9 as well (--shapes) when the network is compiled";
  const auto run = [&](const Shape& x, int64_t ids, int64_t mask) {
    return error_of(
        [&] {
          session->run({{"x", random_input("x", DType::f32, x)},
                        {"ids", random_input("ids", DType::f32, {1, ids})},
                        {"mask", random_input("mask", DType::f32, {1, mask})}});
        },
        ErrorKind::bad_input);
  };
  EXPECT_EQ(run({1, 3, 8, 5}, 5, 5), "no error");
  EXPECT_EQ(run({1, 3, 9, 5}, 5, 5), error);
  EXPECT_EQ(error_of([&] { session->compile({{"x", {1, 3, 9, 5}}, {"ids", {1, 5}}, {"mask", {1, 5}}}); }), error);
  EXPECT_EQ(error_of([&] { (void)session->graph({{"x", {1, 3, 9, 5}}, {"ids", {1, 5}}, {"mask", {1, 5}}}); }), error);
  EXPECT_THAT(run({1, 3, 8, 5}, 5, 9), StartsWith("m.onnx: input 'mask': dimension 1 ('seq') is 9, but dimension 1 of "
                                                  "input 'ids' is 5; expected the same size"));
  Session::Options options;
  options.compile.target = parse_target("native");
  options.ranges = ShapeRanges::parse({"x=1x3x{8,16}x{4..6}"});
  options.shapes = {{"x", {1, 3, 9, 5}}};
  EXPECT_EQ(error_of([&] { Session::open(model.name(), options); }), error);
}

TEST(Ranges, LimitProgramsToo) {
  const MemoryModel model(onnx::picking_model().parse());
  const auto session = open_with(model.name(), {"x={2..8:2}x4"});
  EXPECT_NO_THROW(session->run({{"x", random_input("x", DType::f32, {4, 4})}}));
  EXPECT_EQ(
      error_of([&] { session->run({{"x", random_input("x", DType::f32, {3, 4})}}); }, ErrorKind::bad_input),
      "m.onnx: input 'x': dimension 0 ('n') is 3; expected {2..8:2}, of which 2 and 4 are the nearest; give the input "
      "such a size, or declare 3 as well (--shapes) when the network is compiled");
}

TEST(Ranges, PlansAreMadeAheadForAllShapesOrForSome) {
  const ScratchFolder folder;
  const std::string model = open_zoo(folder.path(), "squeezenet1_1", 64);
  const auto few = open_with(model, {"input={1,2}x3x{64..96:16}x64"});
  const auto all = few->specialise();
  EXPECT_EQ(all.shapes, 6);
  EXPECT_TRUE(all.all);
  EXPECT_EQ(few->plans(), 6U);
  const auto session = open_with(model, {"input=1x3x{64..128:8}x{64..128:8}"}, 20);
  const auto some = session->specialise();
  EXPECT_EQ(some.shapes, 16);
  EXPECT_FALSE(some.all);
  EXPECT_EQ(session->plans(), 16U);
  // A run with a planned shape compiles no further plan.
  const Tensor image = random_input("input", DType::f32, {1, 3, 128, 128});
  const std::vector<Tensor> out = session->run({{"input", image}});
  EXPECT_EQ(session->plans(), 16U);
  const std::vector<Tensor> alone = open_session(model)->run({{"input", image}});
  for (int64_t i = 0; i < out[0].elems(); ++i) ASSERT_NEAR(out[0].as_double(i), alone[0].as_double(i), 1e-3);
}

TEST(Ranges, ProgressCountsShapes) {
  const MemoryModel model(two_parts().parse());
  Session::Options options;
  options.compile.target = parse_target("native");
  options.ranges = ShapeRanges::parse({"x=1x3x{8,16}x4", "ids=1x1"});
  std::vector<std::string> told;
  options.compile.report.progress = [&](const CompileStage& stage) { told.emplace_back(stage.name); };
  Session::open(model.name(), options)->specialise();
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.front(), "shape 1 of 2: read the model");
  EXPECT_THAT(told, testing::Contains("shape 2 of 2: generate code of kernels"));
  EXPECT_EQ(told.back(), "") << "the end, once";
  EXPECT_EQ(std::ranges::count(told, ""), 1);
}

TEST(Ranges, PlansCannotBeMadeAheadForUnknownShapes) {
  const MemoryModel model(two_parts().parse());
  EXPECT_EQ(
      error_of([&] { open_with(model.name(), {"x=1x3x{8,16}x4"})->specialise(); }, ErrorKind::bad_input),
      "m.onnx: input 'ids' f32[n,seq]: no size for dimensions 0 ('n'), 1 ('seq'); input 'mask' f32[n,seq]: no size "
      "for dimensions 0 ('n'), 1 ('seq'); give the shape, e.g. `--input ids=1x128 --input mask=1x128`");
}

TEST(Ranges, SegmentsOfProgramsAreCompiledAhead) {
  const MemoryModel model(onnx::picking_model().parse());
  const auto session = open_with(model.name(), {"x={2..6:2}x4"});
  EXPECT_EQ(session->specialise().shapes, 3);
  EXPECT_EQ(session->plans(), 3U) << "the first segment, for each shape";
}

TEST(Ranges, PlansForValuesCannotBeMadeAhead) {
  ModelMaker maker;
  maker.input("x", {"n", 4});
  maker.input("sizes", {2}, 7);
  maker.node("Reshape", {"x", "sizes"}, {"y"}, "reshape");
  maker.output("y", {"a", "b"});
  const MemoryModel model(maker.parse());
  EXPECT_EQ(error_of([&] { open_with(model.name(), {"x={1..3}x4"})->specialise(); }, ErrorKind::unsupported),
            "m.onnx: plans cannot be compiled before the first run, since shapes also depend on the values of input "
            "'sizes'; compile them when they are needed (--specialise never)");
}

// Compiled files.

std::string save(Session& session, const ScratchFolder& folder) {
  const std::string file = (folder.path() / "net.kilter").string();
  session.save(file);
  return file;
}

TEST(RangesFile, HasAPlanForEachShapeAndItsWeightsOnce) {
  const ScratchFolder folder;
  const std::string model = open_zoo(folder.path(), "squeezenet1_1", 64);
  const auto session = open_with(model, {"input={1,2}x3x{64..96:16}x64"});
  const std::string file = save(*session, folder);
  const auto one = open_with(model, {"input=1x3x64x64"});
  const std::string single = (folder.path() / "one.kilter").string();
  one->save(single);
  const auto size = [](const std::string& f) { return static_cast<double>(std::filesystem::file_size(f)); };
  EXPECT_LT(size(file), 2.5 * size(single)) << "six plans with the same weights";
  const auto loaded = open_session(file);
  EXPECT_EQ(loaded->ranges().text(), session->ranges().text());
  EXPECT_EQ(loaded->file_program()->plan_count(), 6U);
  EXPECT_TRUE(loaded->file_program()->file().has_whole_network());
  EXPECT_EQ(onnx::text(loaded->inputs()[0]), onnx::text(session->inputs()[0]));
  for (const auto& shapes : session->ranges().all()) {
    const Tensor image = random_input("input", DType::f32, shapes.at("input"));
    const std::vector<Tensor> want = session->run({{"input", image}}), got = loaded->run({{"input", image}});
    ASSERT_TRUE(want[0].same(got[0])) << text(image.shape());
  }
  EXPECT_THAT(
      error_of([&] { loaded->run({{"input", random_input("input", DType::f32, {1, 3, 65, 64})}}); },
               ErrorKind::bad_input),
      StartsWith("net.kilter: input 'input': dimension 2 ('input2') is 65; expected {64..96:16}, of which 64 and 80 "
                 "are the nearest; give the input such a size, or declare 65 as well (--shapes) when"));
  EXPECT_EQ(
      error_of([&] { loaded->specialise(); }, ErrorKind::usage),
      "net.kilter is a compiled file, which has its plans already; plans are compiled in advance for models only");
}

TEST(RangesFile, EqualSessionsSaveEqualFiles) {
  const ScratchFolder folder;
  const MemoryModel model(two_parts().parse());
  const std::vector<std::string> ranges{"x=1x3x{8,16}x{4..6}", "ids=1x{1..9:4}"};
  const std::string first = read_file(save(*open_with(model.name(), ranges), folder));
  const auto again = open_with(model.name(), ranges);
  again->specialise();
  EXPECT_EQ(read_file(save(*again, folder)), first);
}

TEST(RangesFile, TooManyShapesAreRefused) {
  const ScratchFolder folder;
  const MemoryModel model(two_parts().parse());
  const std::vector<std::string> ranges{"x=1x3x{1..9}x{1..9}", "ids=1x1"};
  EXPECT_EQ(
      error_of([&] { save(*open_with(model.name(), ranges), folder); }, ErrorKind::bad_input),
      "m.onnx: --shapes declares 81 shapes (x=1x3x{h=1..9}x{w=1..9} ids=1x1 mask=1x1); a compiled file has a plan for "
      "each of them, and at most 64: declare fewer, such as with a larger step, or raise the limit with "
      "--max-shapes");
  EXPECT_THAT(folder.path(), testing::ResultOf([](const auto& p) { return std::filesystem::is_empty(p); }, true));
  EXPECT_NO_THROW(save(*open_with(model.name(), ranges, 81), folder));
}

TEST(RangesFile, OfAProgramHasPlansForAllShapes) {
  const ScratchFolder folder;
  const MemoryModel model(onnx::picking_model().parse());
  const auto session = open_with(model.name(), {"x={2..6:2}x4"});
  const auto loaded = open_session(save(*session, folder));
  EXPECT_EQ(loaded->file_program()->plans(0).size(), 3U);
  EXPECT_FALSE(loaded->file_program()->file().has_whole_network());
  for (const int64_t n : {2, 4, 6}) {
    const std::map<std::string, Tensor> inputs{{"x", random_input("x", DType::f32, {n, 4})}};
    EXPECT_TRUE(session->run(inputs)[0].same(loaded->run(inputs)[0])) << n;
  }
  EXPECT_THAT(error_of([&] { loaded->run({{"x", random_input("x", DType::f32, {3, 4})}}); }, ErrorKind::bad_input),
              HasSubstr("dimension 0 ('n') is 3; expected {2..6:2}"));
}

// The C++ interface.

TEST(RangesApi, AreOptionsOfTheNetwork) {
  const ScratchFolder folder;
  const std::string model = open_zoo(folder.path(), "squeezenet1_1", 64);
  NetworkOptions options{.threads = 1};
  options.shape_ranges = {{"input", "1x3x{64..80:16}x64"}};
  options.specialise = "now";
  Network net = Network::load(model, options);
  const std::vector<float> image(static_cast<size_t>(3 * 80 * 64), 0.5F);
  const auto want = net.run({{"input", f32({1, 3, 80, 64}, image)}});
  const std::string file = (folder.path() / "net.kilter").string();
  net.save(file);
  const auto got = Network::load(file, {.threads = 1}).run({{"input", f32({1, 3, 80, 64}, image)}});
  EXPECT_TRUE(std::equal(want[0].as<float>(), want[0].as<float>() + 1000, got[0].as<float>()));
  const auto message = [](auto f) {
    try {
      f();
    } catch (const ApiError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message([&] { net.run({{"input", f32({1, 3, 64, 80}, image)}}); }),
              HasSubstr("input 'input': dimension 3 ('input3') is 80; expected 64; give the input such a size"));
  options.specialise = "later";
  EXPECT_EQ(message([&] { Network::load(model, options); }), "specialise 'later': expected auto, never or now");
  options.specialise = "never", options.max_shapes = 0;
  EXPECT_EQ(message([&] { Network::load(model, options); }), "max_shapes 0: expected 1 or more");
}

}  // namespace
}  // namespace kilter
