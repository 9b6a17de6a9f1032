// Built-in networks opened through a session: which size a given shape selects.
#include "compile/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "../base/error_of.h"
#include "../base/scratch_folder.h"
#include "base/files.h"
#include "onnx/model.h"
#include "ops/op.h"

namespace kilter {
namespace {

Session::Options options(const std::string& input, Shape shape) {
  Session::Options options;
  options.compile.target = parse_target("native");
  options.threads = 1;
  options.shapes[input] = std::move(shape);
  return options;
}

Shape input_shape(const std::string& model, const Shape& asked) {
  const auto session = Session::open(model, options("input", asked));
  const Graph graph = session->graph({});
  return graph.type(graph.inputs().at(0)).shape;
}

std::string error_of(const std::string& model, const std::string& input, const Shape& asked) {
  try {
    Session::open(model, options(input, asked));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.message();
  }
  return "no error";
}

TEST(Session, SizeOfABuiltInImageNetworkIsItsLastExtent) {
  EXPECT_EQ(input_shape("zoo:squeezenet1_1", {2, 3, 40, 40}), (Shape{2, 3, 40, 40}));
}

TEST(Session, SizeOfABuiltInEncoderIsItsNumberOfTokens) {
  EXPECT_EQ(input_shape("zoo:bert_base", {2, 16, 768}), (Shape{2, 16, 768}));
}

TEST(Session, AShapeThatDoesNotFitABuiltInNetworkIsAnError) {
  EXPECT_EQ(error_of("zoo:squeezenet1_1", "input", {1, 3, 48, 40}),
            "--input input=1x3x48x40: zoo:squeezenet1_1 has input 'input' of shape 1x3x40x40");
  EXPECT_EQ(error_of("zoo:squeezenet1_1", "input", {1, 40, 3}),
            "--input input=1x40x3: zoo:squeezenet1_1 has input 'input' of shape 1x3x40x40");
  EXPECT_EQ(error_of("zoo:squeezenet1_1", "image", {1, 3, 40, 40}),
            "--input image=1x3x40x40: zoo:squeezenet1_1 has input 'input' of shape 1x3x40x40");
  EXPECT_EQ(error_of("zoo:squeezenet1_1", "input", {1, 3, 8, 8}),
            "zoo squeezenet1_1: expected a size of at least 25 and at most 65536 pixels, got 8; the default is 224");
}

/// y = x + w, where w is an input with the default value 1, 2, 3.
class DefaultInput : public testing::Test {
 protected:
  void SetUp() override {
    Graph g;
    const ValueId x = g.add_input("x", {DType::f32, {3}, {}});
    const ValueId w = g.add_constant("w", tensor({1, 2, 3}));
    const std::optional<TensorType> type{TensorType{DType::f32, {3}, {}}};
    const NodeId add = g.add_node(find_op("", "Add", 17), "add", 17, {}, {x, w}, {type}, {"sum"});
    g.add_output(std::as_const(g).node(add).outputs[0], "y");
    onnx::save(g, file_, 17);
    // Protobuf merges appended data: graph { input { name: "w" type { tensor_type { elem_type: 1 shape [3] } } } }.
    const std::string input("\x3a\x11\x5a\x0f\x0a\x01w\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x03", 19);
    write_file_atomically(file_, read_file(file_) + input);
  }
  static Tensor tensor(const std::vector<float>& values) {
    Tensor t(DType::f32, {static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), t.data<float>());
    return t;
  }
  std::vector<float> run(Session& session, const std::map<std::string, Tensor>& inputs) const {
    const std::vector<Tensor> out = session.run(inputs);
    return {out.at(0).data<float>(), out.at(0).data<float>() + out.at(0).elems()};
  }
  std::unique_ptr<Session> open(const onnx::Model::Shapes& shapes = {}) const {
    Session::Options how;
    how.compile.target = parse_target("native");
    how.threads = 1;
    how.shapes = shapes;
    return Session::open(file_.string(), how);
  }
  ScratchFolder folder_;
  std::filesystem::path file_ = folder_.path() / "m.onnx";
};

TEST_F(DefaultInput, UsesItsDefaultUnlessGiven) {
  const auto session = open();
  ASSERT_EQ(session->default_inputs().size(), 1U);
  EXPECT_EQ(run(*session, {{"x", tensor({1, 1, 1})}}), (std::vector<float>{2, 3, 4}));
  EXPECT_EQ(run(*session, {{"x", tensor({1, 1, 1})}, {"w", tensor({5, 5, 6})}}), (std::vector<float>{6, 6, 7}));
}

TEST_F(DefaultInput, IsRequiredIfItsShapeIsGiven) {
  const auto session = open({{"w", {3}}});
  EXPECT_EQ(run(*session, {{"x", tensor({1, 1, 1})}, {"w", tensor({5, 5, 6})}}), (std::vector<float>{6, 6, 7}));
  EXPECT_EQ(kilter::error_of([&] { run(*session, {{"x", tensor({1, 1, 1})}}); }, ErrorKind::bad_input),
            session->name() + ": input 'w' (f32[3]) is missing");
  EXPECT_EQ(kilter::error_of([&] { run(*session, {{"x", tensor({1, 1, 1})}, {"v", tensor({1})}}); }),
            session->name() + ": no input 'v'; legal values are x, w");
  const auto plain = open();
  EXPECT_EQ(kilter::error_of([&] { run(*plain, {{"x", tensor({1, 1, 1})}, {"v", tensor({1})}}); }),
            plain->name() + ": no input 'v'; legal values are x, w");
}

}  // namespace
}  // namespace kilter
