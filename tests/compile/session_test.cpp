// Built-in networks opened through a session: which size a given shape asks for.
#include "compile/session.h"

#include <gtest/gtest.h>

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
            "zoo squeezenet1_1: expected a size of at least 25 and at most 65536 pixels, got 8; its own is 224");
}

}  // namespace
}  // namespace kilter
