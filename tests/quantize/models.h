// Small models for the tests, as files in a separate folder.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>

#include "../base/scratch_folder.h"
#include "../onnx/model_maker.h"
#include "base/files.h"
#include "base/npy.h"
#include "base/random.h"
#include "compile/session.h"

namespace kilter::quantize {

using onnx::ModelMaker;

inline std::vector<float> normal(int64_t count, uint32_t seed, float factor = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> of(0, factor);
  std::vector<float> made(static_cast<size_t>(count));
  for (float& v : made) v = of(random);
  return made;
}

inline void set_ints(onnx::pb::NodeProto& node, const std::string& name, std::initializer_list<int64_t> values) {
  auto& attribute = onnx::add_attribute(node, name, onnx::kIntsAttr);
  for (const int64_t v : values) attribute.add_ints(v);
}

/// A folder for the files of one test.
class Folder : public ScratchFolder {
 public:
  std::filesystem::path write(const ModelMaker& model, const std::string& name = "model.onnx") const {
    write_file_atomically(path() / name, model.bytes());
    return path() / name;
  }
  /// Writes samples of normally distributed values. Returns their folder.
  std::filesystem::path samples(const Shape& shape, int count) const {
    std::filesystem::create_directories(path() / "samples");
    for (int i = 0; i < count; ++i) {
      const std::vector<float> values = normal(elems(shape), static_cast<uint32_t>(100 + i));
      save_npy(path() / "samples" / fmt::format("{:04}.npy", i), Tensor::of<float>(shape, std::span(values)));
    }
    return path() / "samples";
  }
};

inline void add_floats(ModelMaker& model, const std::string& name, const Shape& shape, uint32_t seed, float factor) {
  onnx::set_floats(model.initializer(), name, shape, normal(elems(shape), seed, factor));
}

/// x[1,3,12,12] -> conv1 -> bn -> relu1 -> conv2 -> add(relu1) -> relu2 -> pool -> flatten -> fc -> y[1,5]
inline ModelMaker residual_model(int64_t opset = 17) {
  ModelMaker m(opset);
  m.input("x", {1, 3, 12, 12});
  set_ints(m.node("Conv", {"x", "w1"}, {"c1"}, "conv1"), "pads", {1, 1, 1, 1});
  m.node("BatchNormalization", {"c1", "gamma", "beta", "mean", "var"}, {"b1"}, "bn");
  m.node("Relu", {"b1"}, {"r1"}, "relu1");
  set_ints(m.node("Conv", {"r1", "w2", "bias2"}, {"c2"}, "conv2"), "pads", {1, 1, 1, 1});
  m.node("Add", {"c2", "r1"}, {"s"}, "add");
  m.node("Relu", {"s"}, {"r2"}, "relu2");
  m.node("GlobalAveragePool", {"r2"}, {"p"}, "pool");
  m.node("Flatten", {"p"}, {"f"}, "flatten");
  m.node("Gemm", {"f", "w3", "bias3"}, {"y"}, "fc");
  m.output("y", {1, 5});
  add_floats(m, "w1", {8, 3, 3, 3}, 1, 0.3F);
  add_floats(m, "gamma", {8}, 2, 1);
  add_floats(m, "beta", {8}, 3, 0.5F);
  add_floats(m, "mean", {8}, 4, 0.5F);
  onnx::set_floats(m.initializer(), "var", {8}, std::vector<float>(8, 2.0F));
  add_floats(m, "w2", {8, 8, 3, 3}, 5, 0.2F);
  add_floats(m, "bias2", {8}, 6, 0.5F);
  add_floats(m, "w3", {8, 5}, 7, 0.5F);
  add_floats(m, "bias3", {5}, 8, 0.5F);
  return m;
}

inline std::unique_ptr<Session> open_model(const std::filesystem::path& file) {
  Session::Options options;
  options.compile.target = native_target();
  options.threads = 1;
  return Session::open(file.string(), options);
}

/// Runs a model once on seeded values.
inline std::vector<Tensor> run(const std::filesystem::path& file, const Shape& shape) {
  return open_model(file)->run({{"x", random_input("x", DType::f32, shape)}});
}

inline double most_difference(const Tensor& a, const Tensor& b) {
  double most = 0;
  for (int64_t i = 0; i < a.elems(); ++i) most = std::max(most, std::abs(a.as_double(i) - b.as_double(i)));
  return most;
}

}  // namespace kilter::quantize
