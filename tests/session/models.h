// ONNX files for the tests of sessions: built-in networks and small ones, whose input sizes are left open.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/files.h"
#include "compile/session.h"
#include "onnx/model.h"
#include "onnx/schema.h"
#include "ops/support/builder.h"
#include "zoo/zoo.h"

namespace kilter {

/// Writes the graph to a file in which all extents of its inputs are open; with `keep_channels`, all but the second.
inline std::string open_model(const std::filesystem::path& file, const Graph& graph, bool keep_channels = true) {
  onnx::save(graph, file, 17);
  onnx::pb::ModelProto model;
  model.ParseFromString(read_file(file));
  for (auto& input : *model.mutable_graph()->mutable_input()) {
    auto& dims = *input.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim();
    for (int d = 0; d < dims.size(); ++d) {
      if (keep_channels && d == 1) continue;
      dims[d].clear_dim_value();
      dims[d].set_dim_param(input.name() + std::to_string(d));
    }
  }
  write_file_atomically(file, model.SerializeAsString());
  return file.string();
}

/// Writes a built-in image network whose batch, height and width are open.
inline std::string open_zoo(const std::filesystem::path& folder, const std::string& name, int64_t size,
                            double width = 1) {
  return open_model(folder / (name + ".onnx"), zoo::build(name, {.size = size, .width = width}));
}

/// A graph with one input "x" and one output "y", which `make` computes from x.
inline Graph small_graph(const Shape& shape, const std::function<ValueId(GraphBuilder&, ValueId)>& make) {
  Graph graph;
  GraphBuilder builder(graph, 17);
  const ValueId x = builder.input("x", DType::f32, shape);
  graph.add_output(make(builder, x), "y");
  graph.name = "small";
  return graph;
}

inline std::unique_ptr<Session> open_session(const std::string& model, int threads = 1,
                                             int64_t plan_cache_bytes = INT64_MAX) {
  Session::Options options;
  options.compile.target = parse_target("native");
  options.threads = threads;
  options.plan_cache_bytes = plan_cache_bytes;
  return Session::open(model, options);
}

}  // namespace kilter
