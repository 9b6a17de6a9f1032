// A network ready to run: an ONNX file, a built-in network or a compiled file; plans are compiled for the shapes that
// come in and kept.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "exec/executor.h"
#include "onnx/model.h"

namespace kilter {

/// One plan; ready to run once prepared.
struct Loaded {
  std::shared_ptr<const Program> program;
  std::unique_ptr<Instance> instance;
  Compiled compiled;  ///< of compiled files only the plan
  const Plan& plan() const { return program != nullptr ? program->plan() : compiled.plan; }
};

class Session {
 public:
  struct Options {
    CompileOptions compile;
    int threads = 0;             ///< 0: default_threads()
    onnx::Model::Shapes shapes;  ///< of inputs, by name; others come from the model or the tensors
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
  /// What is to be said of how a compiled file runs here (exec/other_threads.h); empty where there is nothing.
  std::string note() const;

  /// The static graph for these shapes; unsupported for compiled files.
  Graph graph(const onnx::Model::Shapes& shapes, const onnx::Model::Values& values = {}) const;
  /// Plan for shapes (merged over Options::shapes); compiled on first use. `values`: of inputs that shapes depend on.
  /// Not made ready to run, so the target may be another machine.
  Loaded& compile(const onnx::Model::Shapes& shapes = {}, const onnx::Model::Values& values = {});
  /// The same, ready to run; unsupported when this machine cannot run its code.
  Loaded& prepare(const onnx::Model::Shapes& shapes = {}, const onnx::Model::Values& values = {});
  /// The plan for these inputs: for their shapes, and for the values of those that shapes depend on.
  Loaded& prepare_for(const std::map<std::string, Tensor>& inputs);
  /// Shapes of the inputs, and the values that shapes depend on.
  onnx::Model::Values needed_values(const std::map<std::string, Tensor>& inputs) const;

  /// Runs once; every input of the model must be there, with the declared element type, and default inputs may be.
  /// Answers outputs in order.
  std::vector<Tensor> run(const std::map<std::string, Tensor>& inputs);

 private:
  Session() = default;
  void check_inputs(const std::map<std::string, Tensor>& inputs) const;
  onnx::Model::Shapes merged(const onnx::Model::Shapes& shapes) const;

  std::string name_;
  Options options_;
  std::shared_ptr<const onnx::Model> model_;
  std::optional<Graph> zoo_;
  std::shared_ptr<ThreadPool> pool_;
  std::map<std::string, Loaded> plans_;
};

/// Runs a loaded plan on dense tensors in the plan's order.
std::vector<Tensor> run_plan(Loaded& loaded, const std::vector<Tensor>& inputs, const StepObserver* observer = nullptr);

/// A seeded tensor: floats N(0,1), integers 0..99, booleans both; the stream is named by the input.
Tensor random_input(const std::string& name, DType type, const Shape& shape, uint64_t seed = 0);

}  // namespace kilter
