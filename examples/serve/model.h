// A served model: its instances, and whether requests can be joined.
#pragma once

#include <string>
#include <vector>

#include "instance.h"
#include "protocol.h"

namespace serve {

struct ModelOptions {
  int threads = 0;        ///< of each instance; 0: the CPUs divided by the instances
  int instances = 1;      ///< runs at the same time
  int64_t max_batch = 8;  ///< largest number of rows in a run; 1: each request is run by itself
};

struct Model {
  Signature signature;
  /// The numbers of rows that have plans, ascending. Empty: requests are run by themselves, with the shapes they have.
  std::vector<int64_t> batch_sizes;
  std::vector<Instance> instances;
  std::vector<std::string> notes;  ///< for the user who starts the server

  bool joins() const { return !batch_sizes.empty() && batch_sizes.back() > 1; }
  /// Returns the smallest size with a plan for `rows`, which must be at most the largest size.
  int64_t size_for(int64_t rows) const;
};

/// Loads a model, compiles the plans for all batch sizes, and runs some of them with made-up inputs. `file`: an .onnx
/// file, zoo:NAME, or a compiled file. Throws kilter::ApiError.
Model load_model(const std::string& name, const std::string& file, const ModelOptions& options);

}  // namespace serve
