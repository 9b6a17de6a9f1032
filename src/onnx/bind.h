// Creates a static graph from a model, its input shapes and the values that shapes depend on.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "onnx/model_data.h"
#include "onnx/specialise.h"

namespace kilter::onnx {

class Binder {
 public:
  Binder(const ModelData& model, const Model::Shapes& shapes, const Model::Values& values, Specialiser::Mode mode)
      : model_(model), shapes_(shapes), values_(values), mode_(mode), open_(model.open_graph(given_defaults())) {}

  /// Runs in Mode::bind; see Model::bind.
  Graph run();
  /// Runs in Mode::probe; see Model::try_bind.
  Model::Bound try_run();
  /// Runs in Mode::probe; see Model::value_inputs.
  std::vector<std::string> needed_inputs();

 private:
  bool any_small_input() const;
  Specialiser specialise();
  Graph finished(Specialiser& from);
  std::set<std::string> given_defaults() const;
  void add_inputs(Specialiser& to);
  void add_outputs(Specialiser& from);
  void check_output(const Port& port, const TensorType& type) const;

  const ModelData& model_;
  const Model::Shapes& shapes_;
  const Model::Values& values_;
  Specialiser::Mode mode_;
  std::shared_ptr<const OpenGraph> open_;
  Graph graph_;
};

}  // namespace kilter::onnx
