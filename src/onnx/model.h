// An ONNX model as read from disk, and the static graph created from it for given shapes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/any_value.h"
#include "base/tensor.h"
#include "graph/open_graph.h"

namespace kilter::onnx {

/// A declared dimension: a size, or unknown with the name that the file gives it (possibly empty). Sizes <= 0 in the
/// file are unknown.
struct Dim {
  std::optional<int64_t> size;
  std::string symbol;
};

struct Port {
  std::string name;
  DType type = DType::f32;               ///< of the tensor, of the tensors in a sequence, or of the values in maps
  std::optional<std::vector<Dim>> dims;  ///< nullopt: rank unknown; of the values in maps, which are single ones: empty
  DeclaredType::Kind kind = DeclaredType::Kind::tensor;
  bool of_sequence = false;       ///< an optional value that is a sequence if it is present
  std::optional<DType> key = {};  ///< type of the keys if it is a map, or a sequence or an optional value of maps

  bool is_tensor() const { return kind == DeclaredType::Kind::tensor; }
  bool is_sequence() const { return kind == DeclaredType::Kind::sequence || of_sequence; }
  /// Whether a plan can have the port: it is a tensor whose elements are not strings.
  bool plain() const { return is_tensor() && type != DType::string; }
};
/// Returns "f32[batch,3,224,224]", "sequence of f32[...]", "optional f32[2]", "optional sequence of f32[...]", "map
/// from str to f32" or "sequence of maps from i64 to f32".
std::string text(const Port& port);
/// Returns the port's shape if it is a tensor and the model gives every size; otherwise nothing.
std::optional<Shape> declared_shape(const Port& port);
/// Returns whether the port's declaration allows this shape. Names of dimensions are ignored, and a declared rank of 0,
/// which some exporters write for "unknown", allows every shape.
bool fits(const Port& port, const Shape& shape);
/// Returns whether a value has the kind and the element types that the port declares. Shapes are ignored.
bool fits(const Port& port, const AnyValue& value);

/// An operator that the model needs and Kilter lacks, with the nodes that use it.
struct Missing {
  std::string op;      ///< "domain:Name@opset"
  std::string reason;  ///< "unknown operator", "runs only with the VM (control flow)"
  std::vector<std::string> nodes;
};

class Model {
 public:
  ~Model();
  /// Reads a binary ONNX file. External data is mapped, not copied. It must be inside the file's folder or, if the file
  /// is a symbolic link, inside the folder of its target.
  static std::shared_ptr<const Model> load(const std::filesystem::path& file);
  /// Reads a model from bytes; external data is refused unless `folder` is given.
  static std::shared_ptr<const Model> parse(std::span<const std::byte> bytes, const std::string& name,
                                            const std::filesystem::path& folder = {});

  const std::string& name() const;
  int64_t ir_version() const;
  /// Returns opsets by domain ("" for ai.onnx).
  const std::map<std::string, int64_t>& opsets() const;
  const std::vector<Port>& inputs() const;          ///< without initializers
  const std::vector<Port>& default_inputs() const;  ///< with initializers, which a given shape or value replaces
  const std::vector<Port>& outputs() const;
  /// Returns every operator that is missing (subgraphs included).
  std::vector<Missing> missing() const;
  /// Throws unsupported with the operators that are missing outside the branches of If nodes.
  void fail_if_missing() const;

  /// Shapes of inputs by name. Inputs not named must be fully declared.
  using Shapes = std::map<std::string, Shape>;
  /// Values of inputs that shapes depend on, by name: they become constants of the graph.
  using Values = std::map<std::string, Tensor>;
  /// Returns the graph before its shapes are known, with regions. Default inputs are constants, except for those that
  /// `given` names.
  std::shared_ptr<const OpenGraph> open_graph(const std::set<std::string>& given = {}) const;
  /// Creates the static graph: binds shapes, expands functions, infers every type, and folds shape computations. Throws
  /// bad_model; bad_input for a shape that contradicts the declaration and for an unbound dimension, naming it and how
  /// to bind it; unsupported for missing operators, listing all of them; NeedsProgram (ops/support/builder.h) for
  /// data-dependent shapes, naming the node and the value, and for operators that run only in a program.
  Graph bind(const Shapes& shapes, const Values& values = {}) const;
  /// A graph, or the names of inputs whose values have to be known for it, as value_inputs() returns them.
  struct Bound {
    Graph graph;
    std::vector<std::string> needed;
  };
  /// Like bind(), but returns the inputs whose values it needs if `values` does not have all of them.
  Bound try_bind(const Shapes& shapes, const Values& values) const;
  /// Returns the inputs whose values determine shapes, given the input shapes and the values known so far. The values
  /// of the returned inputs can reveal further ones, so repeat with them until the result is empty; then call bind.
  /// Throws as bind does, unless all inputs have too many elements for shapes to depend on their values: then the
  /// result is empty.
  std::vector<std::string> value_inputs(const Shapes& shapes, const Values& values = {}) const;

 private:
  Model();
  static std::shared_ptr<const Model> parse_in(std::span<const std::byte> bytes, const std::string& name,
                                               const std::vector<std::filesystem::path>& folders);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns a text about the inputs whose shapes neither the model nor the caller gives: the open dimensions, and
/// options that would set them all. Empty if there are none. `given`: shapes by name, which also determine the sizes of
/// named dimensions. `examples`: shapes to show; others are made up.
std::string open_inputs_text(const std::vector<Port>& ports, const Model::Shapes& given,
                             const Model::Shapes& examples = {});

/// Writes a graph (ONNX operators only) as an ONNX model. Weights are stored inside, or in `FILE.weights` next to it
/// when they exceed 1 GiB. `opset` is that of ai.onnx. A node created for another opset is written if its form is the
/// same in `opset`; otherwise throws unsupported, naming the node. Throws io when the file cannot be written, and
/// leaves no partial file.
void save(const Graph& graph, const std::filesystem::path& file, int64_t opset);

/// Read a tensor from a TensorProto file (`input_0.pb` in the ONNX test layout) or from its bytes.
Tensor load_tensor(const std::filesystem::path& file);
Tensor parse_tensor(std::span<const std::byte> bytes, const std::string& what);

}  // namespace kilter::onnx
