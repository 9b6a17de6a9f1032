// The samples with which a network is calibrated: a folder of .npy files.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "onnx/model.h"

namespace kilter::quantize {

class Samples {
 public:
  /// Lists a folder. For a model with one input, each file DIR/*.npy is a sample; otherwise, and then too if the folder
  /// contains folders, each folder is a sample, with a file NAME.npy for each input. Samples are sorted by name. Throws
  /// io and bad_input.
  Samples(const std::filesystem::path& folder, std::vector<onnx::Port> inputs);

  size_t size() const { return samples_.size(); }
  /// Returns the name of a sample in errors: its file or folder.
  std::string name(size_t i) const { return samples_[i].string(); }
  /// Reads a sample: a tensor for each input. Throws bad_input naming the file for a different element type or shape,
  /// and for values that are not finite.
  std::map<std::string, Tensor> load(size_t i) const;

 private:
  Tensor load_input(const std::filesystem::path& file, const onnx::Port& port) const;

  std::filesystem::path folder_;
  std::vector<onnx::Port> inputs_;
  std::vector<std::filesystem::path> samples_;
};

/// Returns a text about the inputs of a model, the form of a folder of samples for them, and how to make one.
std::string samples_help(const std::vector<onnx::Port>& inputs);

}  // namespace kilter::quantize
