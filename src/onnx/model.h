// An ONNX model as read from disk, and the static graph made from it for given shapes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"
#include "graph/graph.h"

namespace kilter::onnx {

/// A declared dimension: a size, or unknown with the name that the file gives it (may be empty). Sizes <= 0 in the file
/// are unknown.
struct Dim {
  std::optional<int64_t> size;
  std::string symbol;
};

struct Port {
  std::string name;
  DType type = DType::f32;
  std::optional<std::vector<Dim>> dims;  ///< nullopt: rank unknown
};
/// "f32[batch,3,224,224]".
std::string text(const Port& port);
/// Its shape where the model gives every size; nothing where it leaves one open.
std::optional<Shape> declared_shape(const Port& port);
/// Whether this shape is one that the port declares. Names of dimensions are not compared, nor is a declared rank of 0,
/// which some exporters write for "unknown".
bool fits(const Port& port, const Shape& shape);

/// An operator that the model needs and Kilter lacks, with the nodes that use it.
struct Missing {
  std::string op;      ///< "domain:Name@opset"
  std::string reason;  ///< "unknown operator", "runs only with the VM (control flow)"
  std::vector<std::string> nodes;
};

class Model {
 public:
  ~Model();
  /// Reads a binary ONNX file; external data is mapped, not copied, and must lie under the file's folder or,
  /// where the file is a symbolic link, under that of the file it leads to.
  static std::shared_ptr<const Model> load(const std::filesystem::path& file);
  /// From bytes; external data are refused unless `folder` is given.
  static std::shared_ptr<const Model> parse(std::span<const std::byte> bytes, const std::string& name,
                                            const std::filesystem::path& folder = {});

  const std::string& name() const;
  int64_t ir_version() const;
  /// Opset by domain ("" for ai.onnx).
  const std::map<std::string, int64_t>& opsets() const;
  const std::vector<Port>& inputs() const;          ///< without initializers
  const std::vector<Port>& default_inputs() const;  ///< with initializers, which a shape or value replaces
  const std::vector<Port>& outputs() const;
  /// Every operator that is missing, all at once (subgraphs included).
  std::vector<Missing> missing() const;

  /// Shapes of inputs by name. Inputs not named must be fully declared.
  using Shapes = std::map<std::string, Shape>;
  /// Values of inputs that shapes depend on, by name: they become constants of the graph.
  using Values = std::map<std::string, Tensor>;
  /// Makes the static graph: binds shapes, expands functions, infers every type, folds shape computations. Throws
  /// bad_model, bad_input (a shape that contradicts the declaration; an unbound dimension, naming it and how to bind
  /// it), unsupported (missing operators, all listed; data-dependent shapes, naming the node and the value).
  Graph bind(const Shapes& shapes, const Values& values = {}) const;
  /// The inputs whose values shapes depend on for these input shapes and already known values. Knowing them can bring
  /// up more: bind when the answer is empty. Throws as bind does.
  std::vector<std::string> value_inputs(const Shapes& shapes, const Values& values = {}) const;

 private:
  Model();
  static std::shared_ptr<const Model> parse_in(std::span<const std::byte> bytes, const std::string& name,
                                               const std::vector<std::filesystem::path>& folders);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What to say of the inputs whose shapes the model leaves open and nobody gives: which dimensions, and options that
/// would give them all. Empty where there are none. `given`: shapes by name, which say how large a named dimension is.
std::string open_inputs_text(const std::vector<Port>& ports, const Model::Shapes& given);

/// Writes a graph (ONNX operators only) as an ONNX model; weights inside, or in `FILE.weights` beside it when they
/// exceed 1 GiB. `opset` is that of ai.onnx; a node made for another opset is written when its form there is the same,
/// else unsupported names it. Throws io when the file cannot be written and leaves no part of it.
void save(const Graph& graph, const std::filesystem::path& file, int64_t opset);

/// A TensorProto file (`input_0.pb` of the ONNX test layout), and back.
Tensor load_tensor(const std::filesystem::path& file);
Tensor parse_tensor(std::span<const std::byte> bytes, const std::string& what);

}  // namespace kilter::onnx
