// The definition of an operator. The definitions are in the files of src/ops/; each node points to its own.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/any_value.h"
#include "base/error.h"
#include "base/tensor.h"
#include "graph/graph.h"

namespace kilter {

class Expr;           // loop/expr.h
struct Guarded;       // loop/expr.h
struct ResizePlan;    // ops/support/resize_coords.h
class ExpandContext;  // ops/support/builder.h

/// The template family that can lower an operator; `schedule/` does the matching.
enum class Family : uint8_t {
  reference,    ///< no loop form yet: the reference kernel runs
  map,          ///< output element = scalar expression of input elements at the same (broadcast) index
  movement,     ///< output element = an input element at another index, or a fill value; regions() describes the copies
  reshape,      ///< same elements in the same row-major order: a view
  reduce,       ///< reduction over axes
  matmul,       ///< MatMul
  gemm,         ///< Gemm, Einsum: products that passes rewrite as MatMul
  matmul_bits,  ///< MatMulBits: a product with weights of 4 or 8 bits
  attention,    ///< FusedAttention
  recurrent,    ///< LSTM, GRU, RNN and their steps
  conv,         ///< Conv
  conv_transpose,
  pool,       ///< MaxPool, AveragePool, LpPool
  softmax,    ///< Softmax, LogSoftmax
  normalize,  ///< LayerNormalization, RMSNormalization, InstanceNormalization, GroupNormalization
  gather,     ///< Gather, GatherND, GatherElements: rows and elements by index
  resize,     ///< Resize, Upsample
  channels,   ///< TakeChannels: channels of images in any order
  scatter,    ///< ScatterND, ScatterElements: rows and elements written by index
  arg,        ///< ArgMax, ArgMin
  sample,     ///< GridSample: interpolates between the pixels of an image
  trees,      ///< TreeSums: sums the leaves that rows of features reach in decision trees
};
std::string_view name(Family family);
/// Returns whether the family multiplies matrices that are both operands, not packed.
bool is_product(Family family);
/// Returns whether the family sums products, so that the rate of multiply-adds may bound it: products, also with
/// packed weights, and convolutions.
bool is_contraction(Family family);

/// The function by which an operator combines elements: the elements along the axes of a reduction, in the window of a
/// pool, or in the operands of an element-wise operator. ArgMax and ArgMin return the position of the maximum or
/// minimum.
enum class Combiner : uint8_t { none, sum, product, max, min, mean };

/// The forms of movement that passes and placement treat specially.
enum class Movement : uint8_t {
  other,
  concat,     ///< joins its operands along attribute `axis`
  split,      ///< cuts its operand into parts along attribute `axis`
  slice,      ///< selects a range with a step along some axes
  transpose,  ///< permutes axes by attribute `perm`
  frames,     ///< selects runs of frames of volumes
  relayout,   ///< copies a value into another layout or another buffer; created by passes and by placement
};

/// The part of the data that one entry of the index operand of a gather or a scatter addresses.
enum class Addressing : uint8_t {
  none,
  axis,     ///< the slice at one index along attribute `axis`
  element,  ///< one element; its other coordinates are those of the entry
  tuple,    ///< the innermost dimension of the indices is a tuple of coordinates
};

/// The elements over which a normalisation computes mean and variance.
enum class Statistics : uint8_t {
  none,
  row,           ///< all elements in the dimensions from attribute `axis` on
  row_squares,   ///< the same elements, but only the mean of their squares
  channel,       ///< the pixels of a channel
  group,         ///< the pixels of a group of channels
  volume_group,  ///< the pixels of a group of channels over all frames of a volume
};
/// Returns whether the elements are the pixels of one or more channels.
bool over_pixels(Statistics statistics);

/// How an operator runs the graphs inside its node (graph/open_graph.h). Only a program (vm/program.h) runs these.
enum class Control : uint8_t {
  none,
  branch,  ///< If: one of two graphs
  loop,    ///< Loop: a graph, repeated as a count and a condition determine
  scan,    ///< Scan: a graph, for each element along an axis
  map,     ///< SequenceMap: a graph, for each element of sequences
};

/// Throws bad_model for a node: "Conv 'name': <text>".
[[noreturn]] void node_error(const Node& node, const std::string& text);
/// Thrown when the shape of a node's output depends on data that is not known. The importer then specialises the graph
/// to the values of graph inputs, if these determine the data.
struct NeedsValue {
  int32_t input_index;
};

/// The argument of OpDef::infer. Shapes are static; values are known if an input is a constant or was folded.
class InferContext {
 public:
  InferContext(const Node& of, std::vector<const TensorType*> types, std::vector<const Tensor*> values,
               size_t output_count)
      : node(of), outputs(output_count), inputs_(std::move(types)), values_(std::move(values)) {}

  const Node& node;
  std::vector<std::optional<TensorType>> outputs;  ///< filled by infer; size = outputs of the node

  size_t input_count() const { return inputs_.size(); }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  /// Returns the type of input i. Throws bad_model when it is missing.
  const TensorType& type(size_t i) const;
  const Shape& shape(size_t i) const { return type(i).shape; }
  DType dtype(size_t i) const { return type(i).dtype; }
  int64_t rank(size_t i) const { return static_cast<int64_t>(shape(i).size()); }
  /// Returns the constant value of input i, or nullptr when it is left out or not known at compile time.
  const Tensor* value(size_t i) const { return i < values_.size() ? values_[i] : nullptr; }
  /// Returns the value of input i, which the output's shape depends on. Throws NeedsValue when it is not known.
  const Tensor& needed(size_t i) const;
  std::vector<int64_t> needed_ints(size_t i) const { return needed(i).ints(); }

  void set(size_t output, DType type, Shape shape);
  [[noreturn]] void error(const std::string& text) const { node_error(node, text); }

 private:
  std::vector<const TensorType*> inputs_;
  std::vector<const Tensor*> values_;
};

/// The argument of OpDef::reference: dense inputs (undefined Tensor = left out) and allocated dense outputs.
struct ReferenceContext {
  const Node& node;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;  ///< allocated by the caller from infer(); undefined = not wanted

  bool has(size_t i) const { return i < inputs.size() && inputs[i].defined(); }
  const Tensor& in(size_t i) const { return inputs.at(i); }
  const Tensor& out(size_t i = 0) const { return outputs.at(i); }
  bool wants(size_t i) const { return i < outputs.size() && outputs[i].defined(); }
};

/// The argument of OpDef::run. Values that nothing else refers to may be changed in place.
struct RunContext {
  const Node& node;
  std::vector<AnyValue> inputs;  ///< absent: left out, or an absent optional

  bool has(size_t i) const { return i < inputs.size() && !inputs[i].absent(); }
  /// Return input i as a tensor or a sequence. Throw bad_model if it is something else.
  const Tensor& tensor(size_t i) const;
  AnyValue& sequence(size_t i);
};

/// A box of elements that a movement operator copies. For every index vector i in `extent`:
///   out[out_offset + i . out_strides] = in[in_offset + i . in_strides]
/// in elements of the dense row-major tensors. With input == kNone, the box is filled with `fill` instead. The regions
/// of one node are disjoint in the output and together cover it.
struct CopyRegion {
  int32_t input = 0;
  int64_t in_offset = 0;
  int64_t out_offset = 0;
  Shape extent;
  Shape in_strides;
  Shape out_strides;
  double fill = 0;
};

/// The types and values that the optional hooks see.
struct OpView {
  const Node& node;
  std::vector<TensorType> inputs;  ///< rank-0 f32 for inputs left out
  std::vector<bool> present;
  std::vector<const Tensor*> values;  ///< constants, nullptr elsewhere
  std::vector<TensorType> outputs;
  /// A result that OpDef::regions computed for all outputs at once, so that asking for each of n outputs takes O(n)
  /// time.
  mutable std::vector<int64_t> of_outputs = {};
};

/// The allowed error of the compiled kernel against the reference: |got - want| <= atol + rtol * |want| per element.
/// With `scaled`, atol is multiplied by the largest |want| of the tensor.
struct Tolerance {
  double rtol = 1e-5;
  double atol = 1e-6;
  bool scaled = true;
};

/// A test case in one line, e.g. "f32[1,16,7,7] f32[32,16,3,3] ? | pads=[1,1,1,1] strides=[2,2] | 17". It starts with
/// the operands: a type (random values: floats N(0,1), integers 0..99, bool both), `type=v1,v2,...` (a constant that
/// the compiler sees), `type:v1,v2,...` (an input with these values), or `?` (left out). One value fills the whole
/// tensor; nan, inf, -inf, true, false and "text" are values. The attributes follow (`value=f32[2]=1,2` for a tensor),
/// then the opset (the newest when absent or empty), then the number of outputs wanted (min_outputs when absent):
/// "f32[2,6] i64[3]=1,2,3 | axis=1 | | 3".
using CaseText = std::string_view;

struct AttrSpec {
  std::string_view name;
  std::string_view type;      ///< int, float, string, ints, floats, strings, tensor, graph
  std::string_view fallback;  ///< as text; "required" when the attribute must be present, "" when it has no default
};

struct OpDef {
  std::string_view name;
  std::string_view domain = "";  ///< "" is ai.onnx; "kilter" for operators that only Kilter's own passes create
  int32_t since = 1;             ///< first opset whose form of the operator this definition understands
  int32_t until = std::numeric_limits<int32_t>::max();  ///< last such opset
  Family family = Family::reference;
  Combiner combiner = Combiner::none;
  Movement movement = Movement::other;
  Addressing addressing = Addressing::none;
  Statistics statistics = Statistics::none;
  Control control = Control::none;
  bool logarithmic = false;     ///< Family::softmax only: the result is the logarithm
  bool absorbs_zero = false;    ///< an element of the result is 0 if one operand's is 0 and the others' are finite
  bool passes_values = false;   ///< results contain only values of operand 0, perhaps in another type; scalar() takes
                                ///< and returns the codes of narrow types
  bool separable = false;       ///< each output index reads one input index of its own dimension
  int32_t position_input = -1;  ///< the operand whose entries select rows of operand 1; -1: none
  int32_t min_inputs = 1;
  int32_t max_inputs = 1;  ///< -1: variadic
  int32_t min_outputs = 1;
  int32_t max_outputs = 1;  ///< -1: variadic
  std::vector<AttrSpec> attrs = {};
  std::string_view summary;  ///< one sentence with shapes; source: the ONNX operator of that name unless stated

  /// The shape and type rule. Required unless `expand`, `run` or `control` is set.
  void (*infer)(InferContext&) = nullptr;
  /// The naive kernel, straight from the definition. Required where `infer` is. Used by tests, folding and
  /// --verify, and to execute operators that have no schedule yet.
  void (*reference)(ReferenceContext&) = nullptr;
  /// Family::map only: returns the scalar expression, given one expression per present operand in order (already of the
  /// operand's element type). Nullopt: no loop form for these types.
  std::optional<Expr> (*scalar)(const OpView&, std::span<const Expr>) = nullptr;
  /// Family::map only: returns a cheaper form of scalar() with the lanes in which it may differ from scalar(). These
  /// must be rare: if there is one, all lanes are computed again. Nullopt: none for these operands.
  std::optional<Guarded> (*guarded)(const OpView&, std::span<const Expr>) = nullptr;
  /// Family::movement only: returns disjoint regions that cover output `output`. Nullopt: not expressible.
  std::optional<std::vector<CopyRegion>> (*regions)(const OpView&, int32_t output) = nullptr;
  /// Family::resize only: returns the elements of operand 0 from which each output is interpolated, with their weights.
  /// The other operands are constants.
  ResizePlan (*resize)(const OpView&) = nullptr;
  /// Replaces the node by simpler nodes: adds them to the graph and returns the values that replace the outputs. The
  /// importer calls it before it infers the shapes of the nodes that are added (see builder.h).
  std::vector<ValueId> (*expand)(ExpandContext&) = nullptr;
  /// Operators that read or create sequences or optional values: computes the outputs. Such operators run only in a
  /// program.
  std::vector<AnyValue> (*run)(RunContext&) = nullptr;
  /// Returns the operations of one run (one multiply-add = 2). When null, the family has a default.
  int64_t (*flops)(const OpView&) = nullptr;
  /// The operands whose values, not only shapes, determine the shapes of the outputs.
  std::vector<int32_t> shape_operands = {};
  bool deterministic = true;     ///< false: never folded or merged (random operators)
  bool shape_only = false;       ///< outputs depend only on the inputs' types (Shape, Size): always folded; the
                                 ///< reference sees inputs without data
  bool quantises = false;        ///< rounds operand 0 to codes, by the scale in operand 1
  bool folds_late = false;       ///< not evaluated while a graph is built, because passes look for its nodes
  bool zero_preserving = false;  ///< map only: f(0, ..., 0) = 0, so padding lanes stay 0
  Tolerance tolerance = {};
  std::vector<CaseText> cases = {};
};

}  // namespace kilter
