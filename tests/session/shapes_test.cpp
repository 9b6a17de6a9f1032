// One session runs a network at many shapes. The shapes share kernels, which read numbers from memory.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "../base/scratch_folder.h"
#include "base/random.h"
#include "models.h"

namespace kilter {
namespace {

/// The largest difference between tensors, relative to the largest value of the second.
double difference(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  double most = 0, scale = 1e-30;
  for (int64_t i = 0; i < b.elems(); ++i) {
    most = std::max(most, std::abs(a.as_double(i) - b.as_double(i)));
    scale = std::max(scale, std::abs(b.as_double(i)));
  }
  return most / scale;
}

/// The share of the plan's kernels that serve other shapes, too.
double shared_kernels(const Loaded& loaded) {
  int64_t kernels = 0, shared = 0;
  for (size_t i = 0; i < loaded.plan().steps.size(); ++i) {
    if (loaded.plan().steps[i].kind != StepKind::kernel) continue;
    ++kernels, shared += loaded.compiled.notes[i].shared ? 1 : 0;
  }
  return static_cast<double>(shared) / static_cast<double>(kernels);
}

/// Runs the model at these shapes in one session, and compares the results with those of reference kernels.
void check(const std::string& model, const std::vector<Shape>& shapes, const std::string& target = "native",
           Precision precision = Precision::declared, double limit = 2e-5) {
  const auto open = [&](bool naive) {
    Session::Options options;
    options.compile.target = parse_target(target);
    options.compile.debug.naive = naive;
    if (!naive) options.compile.precision = precision;
    options.threads = 2;
    return Session::open(model, std::move(options));
  };
  const auto session = open(false), reference = open(true);
  for (const Shape& shape : shapes) {
    const std::map<std::string, Tensor> inputs{{"x", random_input("x", DType::f32, shape, 1)}};
    const std::vector<Tensor> got = session->run(inputs), want = reference->run(inputs);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_LT(difference(got[i], want[i]), limit) << text(shape) << " output " << i;
  }
  EXPECT_EQ(session->varying_program(), nullptr) << "everything depends on the size of an image or a text";
  std::vector<double> shares;
  for (const Shape& shape : shapes) shares.push_back(shared_kernels(session->compile({{"x", shape}})));
  EXPECT_EQ(shares.front(), 0) << "the first shape has kernels of its own";
  const double late = std::accumulate(shares.end() - 5, shares.end(), 0.0) / 5;
  EXPECT_GT(late, 0.4) << "the last five shapes share many kernels with others";
}

std::vector<Shape> random_images(uint64_t count) {
  const Random random(7);
  std::vector<Shape> shapes;
  for (uint64_t i = 0; i < 3 * count; i += 3)
    shapes.push_back({random.integer(i, 1, 2), 3, random.integer(i + 1, 9, 90), random.integer(i + 2, 9, 90)});
  return shapes;
}

std::vector<Shape> random_sequences(uint64_t count) {
  const Random random(8);
  std::vector<Shape> shapes;
  for (uint64_t i = 0; i < 2 * count; i += 2)
    shapes.push_back({random.integer(i, 1, 2), random.integer(i + 1, 1, 150), 48});
  return shapes;
}

Tensor weights(const Shape& shape, uint64_t seed) {
  Tensor t = random_input("w", DType::f32, shape, seed);
  for (int64_t i = 0; i < t.elems(); ++i) t.data<float>()[i] *= 0.2F;
  return t;
}

/// Convolutions of all kinds, pooling, a mean over the image as a gate, upsampling.
std::string image_model(const ScratchFolder& folder) {
  const Graph graph = small_graph({1, 3, 64, 64}, [](GraphBuilder& b, ValueId x) {
    const auto conv = [&](ValueId in, Shape shape, Attrs attrs) {
      return b.add("Conv", {in, b.constant(weights(shape, static_cast<uint64_t>(shape[0] + shape[2])))},
                   std::move(attrs));
    };
    const std::vector<int64_t> one{1, 1, 1, 1}, two{2, 2};
    ValueId v = b.add("Relu", {conv(x, {24, 3, 3, 3}, {{"pads", one}, {"strides", two}})});
    v = b.add("HardSwish", {conv(v, {24, 1, 3, 3}, {{"pads", one}, {"group", int64_t{24}}})});
    const ValueId wide = b.add("Relu", {conv(v, {64, 24, 1, 1}, {})});
    const ValueId deep =
        conv(wide, {64, 1, 5, 5}, {{"pads", std::vector<int64_t>{2, 2, 2, 2}}, {"group", int64_t{64}}});
    const ValueId gate = b.add("Sigmoid", {conv(b.add("GlobalAveragePool", {deep}), {64, 64, 1, 1}, {})});
    const ValueId gated = b.add("Mul", {deep, gate});
    const ValueId dense = b.add("Add", {conv(gated, {64, 64, 3, 3}, {{"pads", one}}), wide});
    const ValueId pooled = b.add("MaxPool", {dense}, {{"kernel_shape", two}, {"strides", two}});
    const ValueId up =
        b.add("ConvTranspose", {pooled, b.constant(weights({64, 8, 3, 3}, 5))}, {{"strides", two}, {"pads", one}});
    return b.add("Softmax", {up}, {{"axis", int64_t{3}}});
  });
  return open_model(folder.path() / "image.onnx", graph);
}

/// A layer of a transformer over [batch, tokens, 48], with reshapes that depend on the number of tokens.
std::string token_model(const ScratchFolder& folder) {
  const Graph graph = small_graph({1, 8, 48}, [](GraphBuilder& b, ValueId x) {
    const auto product = [&](ValueId in, const Shape& shape, uint64_t seed) {
      return b.add("MatMul", {in, b.constant(weights(shape, seed))});
    };
    const auto heads = [&](ValueId in) {
      const ValueId split = b.add("Reshape", {in, b.constant(Tensor::of<int64_t>({4}, {0, 0, 4, 12}))});
      return b.add("Transpose", {split}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    };
    const ValueId norm = b.add("LayerNormalization", {x, b.constant(weights({48}, 1))});
    const ValueId q = heads(product(norm, {48, 48}, 2)), k = heads(product(norm, {48, 48}, 3));
    const ValueId v = heads(product(norm, {48, 48}, 4));
    const ValueId kt = b.add("Transpose", {k}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
    const ValueId scores = b.add("Softmax", {b.add("MatMul", {q, kt})}, {{"axis", int64_t{-1}}});
    const ValueId mixed =
        b.add("Transpose", {b.add("MatMul", {scores, v})}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    const ValueId joined = b.add("Reshape", {mixed, b.constant(Tensor::of<int64_t>({3}, {0, 0, 48}))});
    const ValueId sum = b.add("Add", {x, product(joined, {48, 48}, 5)});
    const ValueId hidden = b.add("Tanh", {product(sum, {48, 192}, 6)});
    return b.add("Add", {sum, product(hidden, {192, 48}, 7)});
  });
  return open_model(folder.path() / "tokens.onnx", graph, false);
}

TEST(Shapes, ImagesOfManySizes) {
  const ScratchFolder folder;
  const std::string model = image_model(folder);
  check(model, random_images(30));
}

TEST(Shapes, SequencesOfManyLengths) {
  const ScratchFolder folder;
  check(token_model(folder), random_sequences(40));
}

TEST(Shapes, LoopsWithoutMasks) {  // AVX2 has no masks for the ends of vector loops
  const ScratchFolder folder;
  check(image_model(folder), random_images(10), "x86-64-v3");
  check(token_model(folder), random_sequences(20), "x86-64-v3");
}

TEST(Shapes, ReducedPrecision) {
  const ScratchFolder folder;
  check(image_model(folder), random_images(24), "native", Precision::bf16, 0.05);
  check(token_model(folder), random_sequences(24), "native", Precision::bf16, 0.05);
}

}  // namespace
}  // namespace kilter
