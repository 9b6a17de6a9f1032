// Post-training quantisation of ONNX models.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "quantize/calibrate.h"
#include "quantize/measure.h"
#include "quantize/plan.h"

namespace kilter::quantize {

struct Options {
  Format format = Format::qdq;
  Calibration calibration;
  bool per_channel = false;
  DType activations = DType::u8, weights = DType::i8;
  std::set<std::string> exclude;
  Runs runs;
  std::string name;  ///< of the model in errors; empty: its path
};

struct Report {
  Measured measured;
  std::vector<LeftOut> left_out;  ///< products that stay float
  size_t samples = 0;
  int folded = 0;                    ///< nodes folded into convolutions and products
  int64_t old_opset = 0, opset = 0;  ///< of ai.onnx
  int64_t old_bytes = 0, bytes = 0;  ///< of the weights
};

/// Quantises weights and activations of a model with ranges from samples, and writes it to `out`. Throws as the steps
/// do, before anything is written.
Report quantise_model(const std::filesystem::path& model, const std::filesystem::path& samples, const Options& options,
                      const std::filesystem::path& out);

struct WeightOptions {
  Format format = Format::matmulnbits;  ///< or qdq
  int bits = 4;                         ///< 4 or 8
  int64_t block = 32;                   ///< weights along the sum that share a scale
  std::set<std::string> exclude;
  std::string name;  ///< of the model in errors; empty: its path
};

struct WeightReport {
  struct Layer {
    std::string node;
    std::string op;
    Shape shape;
    Error2 error;  ///< of the weights
  };
  std::vector<Layer> layers;  ///< the worst first
  std::vector<LeftOut> left_out;
  int64_t old_opset = 0, opset = 0;
  int64_t old_bytes = 0, bytes = 0;
};

/// Quantises the weights of MatMul and Gemm in blocks and writes the model to `out`. Each block has one scale, with
/// which its weight of largest magnitude becomes the smallest integer.
WeightReport quantise_weights_only(const std::filesystem::path& model, const WeightOptions& options,
                                   const std::filesystem::path& out);

}  // namespace kilter::quantize
