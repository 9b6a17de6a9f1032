// A network ready to run: an ONNX file, a built-in network or a compiled file; plans are compiled for the shapes that
// come in and kept.
#pragma once

#include <cstdint>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "compile/loaded.h"
#include "compile/shared_constants.h"
#include "exec/executor.h"
#include "onnx/model.h"

namespace kilter {

/// Used by one thread at a time.
class Session {
 public:
  struct Options {
    CompileOptions compile;
    int threads = 0;             ///< 0: default_threads()
    onnx::Model::Shapes shapes;  ///< of inputs, by name; others come from the model or the tensors
    bool verify_file = true;     ///< LoadOptions::verify of a compiled file
    /// Most bytes that plans beside the one in use take (held_bytes()); beyond it those that were used longest ago go,
    /// and a Loaded& of them with them.
    int64_t plan_cache_bytes = std::numeric_limits<int64_t>::max();
  };

  /// `model`: path of an .onnx file, `zoo:NAME`, or a file made by `kilter compile`.
  static std::unique_ptr<Session> open(const std::string& model, Options options);

  const std::string& name() const { return name_; }
  bool compiled_file() const { return model_ == nullptr && !zoo_; }
  /// Declared inputs; of compiled files as the plan has them.
  std::vector<onnx::Port> inputs() const;
  /// Inputs that the model gives a value itself: only those need a tensor that Options::shapes names.
  std::vector<onnx::Port> default_inputs() const;
  std::vector<onnx::Port> outputs() const;
  const Options& options() const { return options_; }
  /// The plan of a compiled file; null for a model, which has a plan for each shape.
  const Plan* file_plan() const { return compiled_file() ? &plans_.front().loaded.plan() : nullptr; }
  /// What is to be said of how a compiled file runs here (base/other_threads.h); empty where there is nothing.
  std::string note() const;

  /// The static graph for these shapes; unsupported for compiled files.
  Graph graph(const onnx::Model::Shapes& shapes, const onnx::Model::Values& values = {}) const;
  /// Plan for shapes (merged over Options::shapes); compiled on first use. `values`: of inputs that shapes depend on.
  /// Not made ready to run, so the target may be another machine. Plans share the packed constants that are the same.
  Loaded& compile(const onnx::Model::Shapes& shapes = {}, const onnx::Model::Values& values = {});
  /// The same, ready to run; unsupported when this machine cannot run its code.
  Loaded& prepare(const onnx::Model::Shapes& shapes = {}, const onnx::Model::Values& values = {});
  /// The plan for these inputs: for their shapes, and for the values of those that shapes depend on.
  Loaded& prepare_for(const std::map<std::string, Tensor>& inputs);
  /// Copies of the values that shapes depend on. Looks at the whole model.
  onnx::Model::Values needed_values(const std::map<std::string, Tensor>& inputs) const;

  /// Runs once; every input of the model must be there, with the declared element type, and default inputs may be.
  /// Answers outputs in order. The model is looked at only for inputs unlike those of earlier runs whose plans are
  /// kept.
  std::vector<Tensor> run(const std::map<std::string, Tensor>& inputs);

  size_t plans() const { return plans_.size(); }
  /// Bytes of machine code, packed constants (shared ones once), working memory and outputs of all plans.
  int64_t held_bytes() const;

 private:
  struct Kept {
    onnx::Model::Shapes shapes;
    onnx::Model::Values values;
    Loaded loaded;
    std::optional<KnownInputs> known;  ///< of its last run through run()
  };
  Session() = default;
  void check_inputs(const std::map<std::string, Tensor>& inputs) const;
  void check_shapes(const Plan& plan, const std::map<std::string, Tensor>& inputs) const;
  onnx::Model::Shapes merged(const onnx::Model::Shapes& shapes) const;
  int64_t own_bytes(const Loaded& loaded) const;
  Kept& use(std::list<Kept>::iterator kept);
  Kept& kept_for(const onnx::Model::Shapes& shapes, const onnx::Model::Values& values);
  void make_ready(Loaded& loaded);
  void drop_unused();

  std::string name_;
  Options options_;
  std::shared_ptr<const onnx::Model> model_;
  std::optional<Graph> zoo_;
  std::shared_ptr<ThreadPool> pool_;
  SharedConstants constants_;
  std::list<Kept> plans_;  ///< last used first
};

/// A seeded tensor: floats N(0,1), integers 0 to `most`, booleans both; the stream is named by the input.
Tensor random_input(const std::string& name, DType type, const Shape& shape, uint64_t seed = 0, int64_t most = 99);

}  // namespace kilter
