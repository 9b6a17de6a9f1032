// The graph IR: SSA values and nodes over typed, static-shaped tensors.
//
// A Graph is always static: every value has an element type and a shape of integers. Symbolic dimensions live in
// onnx::Model and are bound to integers when a Graph is made from it (see onnx/model.h).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/tensor.h"

namespace kilter {

struct OpDef;  // op_def.h
class Graph;

/// How a value lies in memory. Logical shape [d0, d1, ..., dn-1]:
///   block == 1: row-major.
///   block  > 1 (rank >= 2): physical [d0, ceil(d1/block), d2, ..., dn-1, block], for 4-D images NCHW[block]c.
///     The unused lanes of the last block hold 0: whoever produces the value writes them.
/// halo: extra rows and columns around the last two logical dimensions (before block), always 0 in memory:
///   {top, bottom, left, right}. Only values of rank 4 have a halo.
struct Layout {
  int32_t block = 1;
  std::array<int32_t, 4> halo{};

  bool plain() const { return block == 1 && !has_halo(); }
  bool has_halo() const { return halo != std::array<int32_t, 4>{}; }
  bool operator==(const Layout&) const = default;
};

/// "f32[1,64,56,56]", "f32[1,64,56,56]{c16}", "f32[1,64,56,56]{c16 halo1,1,1,1}".
struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  Layout layout;

  bool operator==(const TensorType&) const = default;
};
std::string text(const TensorType& type);

/// The physical array behind a type: extents (halo included), strides in elements and the offset of the first
/// logical element. Dimensions as Layout describes; `dims` without halo, `strides` with it.
struct Physical {
  Shape dims;          ///< physical extents without halo; last is `block` when blocked
  Shape strides;       ///< elements between neighbours along each physical dimension
  int64_t offset = 0;  ///< elements from the buffer's start to logical element 0
  int64_t elems = 0;   ///< elements of the whole buffer, halo and unused lanes included
};
Physical physical(const TensorType& type);

using ValueId = int32_t;
using NodeId = int32_t;
constexpr int32_t kNone = -1;

/// Attribute of a node. Graph-valued attributes (If, Loop, Scan) hold the parsed body.
struct SubgraphAttr {
  std::shared_ptr<const void> body;  ///< onnx::GraphProto of the body, kept for the VM
};
using Attr = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                          std::vector<std::string>, Tensor, SubgraphAttr>;
/// "int", "float", "string", "ints", "floats", "strings", "tensor", "graph".
std::string_view attr_type(const Attr& attr);
/// Attributes by name. Its special members, as those of Graph, are compiled once: in each file that copies or destroys
/// a node they would take a second or more.
class Attrs : public std::map<std::string, Attr, std::less<>> {
 public:
  Attrs();
  Attrs(std::initializer_list<value_type> attrs);
  Attrs(const Attrs& other);
  Attrs(Attrs&& other) noexcept;
  Attrs& operator=(const Attrs& other);
  Attrs& operator=(Attrs&& other) noexcept;
  ~Attrs();
};

struct Value {
  std::string name;  ///< unique in its graph
  TensorType type;
  NodeId producer = kNone;         ///< kNone for graph inputs and constants
  int32_t output_index = 0;        ///< which output of the producer
  std::optional<Tensor> constant;  ///< set for constants: logical and dense, whatever layout the type asks for
  ValueId replaced_by = kNone;     ///< what its readers were made to read instead at last
  bool dead = false;
};

struct Node {
  std::string name;  ///< unique in its graph; the ONNX node's name where it has one
  /// What `name` was made unique of: that of the node that it was made for, at times with ".part" behind it.
  std::string named_after;
  const OpDef* op = nullptr;
  int32_t opset = 0;  ///< version of the operator's domain in the model: attributes and semantics follow it
  Attrs attrs;
  std::vector<ValueId> inputs;   ///< kNone: optional input left out
  std::vector<ValueId> outputs;  ///< kNone: optional output not wanted
  int32_t group = kNone;         ///< fused group (set by the fuse pass), kNone before
  bool dead = false;

  /// The i-th input; kNone where it is left out, also where the list ends before it.
  ValueId input(size_t i) const { return i < inputs.size() ? inputs[i] : kNone; }
  /// The attribute or `fallback`; throws bad_model when present with another type.
  int64_t int_attr(std::string_view key, int64_t fallback) const;
  float float_attr(std::string_view key, float fallback) const;
  std::string string_attr(std::string_view key, std::string_view fallback) const;
  std::vector<int64_t> ints_attr(std::string_view key, std::vector<int64_t> fallback = {}) const;
  std::vector<float> floats_attr(std::string_view key, std::vector<float> fallback = {}) const;
  const Tensor* tensor_attr(std::string_view key) const;  ///< nullptr when absent
  bool has_attr(std::string_view key) const { return attrs.find(key) != attrs.end(); }
};

/// "Conv 'name'": how errors name a node, printable.
std::string label(const Node& node);

/// Nodes and values live in arenas and are named by id; ids and references stay valid while the graph lives. Erasing
/// marks as dead. Names of values and names of nodes are two name spaces.
class Graph {
 public:
  std::string name;

  Graph();
  Graph(const Graph& other);
  Graph(Graph&& other);
  Graph& operator=(const Graph& other);
  Graph& operator=(Graph&& other);
  ~Graph();

  ValueId add_input(std::string name, TensorType type);
  ValueId add_constant(std::string name, Tensor tensor);
  /// Adds a node at the end of the order with outputs of the given types. Names are made unique. An output of
  /// `nullopt` is not wanted.
  NodeId add_node(const OpDef* op, std::string name, int32_t opset, Attrs attrs, std::vector<ValueId> inputs,
                  const std::vector<std::optional<TensorType>>& output_types,
                  const std::vector<std::string>& output_names = {});
  /// Several outputs may read one value; their names are unique.
  void add_output(ValueId value, std::string name);

  const Value& value(ValueId id) const { return values_.at(static_cast<size_t>(id)); }
  const Node& node(NodeId id) const { return nodes_.at(static_cast<size_t>(id)); }
  const TensorType& type(ValueId id) const { return value(id).type; }
  Value& change_value(ValueId id) {
    ++changes_;
    return values_.at(static_cast<size_t>(id));
  }
  /// A node to be changed soon: before kRecent others are handed out, and before the next sort(). Its outputs stay.
  /// verify() finds what was changed later.
  Node& change_node(NodeId id);
  static constexpr size_t kRecent = 4;

  struct Output {
    std::string name;
    ValueId value;
  };
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  /// Makes the i-th output read another value.
  void set_output(size_t index, ValueId value);
  void clear_outputs();
  /// Live nodes; every producer before its users. The list is good until nodes are added or erased.
  const std::vector<NodeId>& order() const;
  size_t value_count() const { return values_.size(); }
  size_t node_count() const { return nodes_.size(); }

  /// Live nodes that read a value, in order, each once.
  std::vector<NodeId> users(ValueId id) const;
  /// The one live node that reads a value; kNone where none or several do. Quick however many there are.
  NodeId only_user(ValueId id) const;
  bool is_output(ValueId id) const { return output_places_.contains(id); }
  /// Makes every reader of `from` (graph outputs too) read `to`; throws internal where their types differ.
  void replace_uses(ValueId from, ValueId to);
  /// Marks a node and its outputs as dead and frees their names; nobody may read the outputs any more.
  void erase(NodeId id);
  /// Sorts order() topologically (stable) and rebuilds the use lists; passes call it after they add nodes.
  void sort();
  /// Removes nodes and values that no output needs; inputs stay. Answers how many nodes went.
  int remove_dead();
  /// Grows with each change, and with each node and value that is handed out to be changed: where it is what it was,
  /// the graph is, too.
  int64_t changes() const { return changes_; }

  /// A value name not yet in use that starts with `hint`.
  std::string fresh_name(std::string_view hint) const;
  /// Gives a value another name, made unique.
  void rename(ValueId id, std::string_view hint);
  /// Gives a node another name, made unique.
  void rename_node(NodeId id, std::string_view hint);
  /// Nodes from `first` on whose names were made unique take the ones that they are named after, where those are free
  /// by now: the first in order() each.
  void give_names_back(NodeId first);
  /// The live value of that name, or kNone.
  ValueId find_value(std::string_view value_name) const;
  /// A live node that was changed later than change_node() allows, so that users() may not know what it reads; or
  /// kNone.
  NodeId changed_too_late() const;

 private:
  using Names = std::map<std::string, int32_t, std::less<>>;  ///< name in use -> id of its bearer

  ValueId add_value(std::string_view hint, TensorType type);
  void note_uses(NodeId id) const;
  void settle() const;
  void bury(Node& node);
  void kill(ValueId id);

  std::deque<Value> values_;
  std::deque<Node> nodes_;
  std::vector<ValueId> inputs_;
  std::vector<Output> outputs_;
  std::unordered_map<ValueId, std::vector<size_t>> output_places_;  ///< by value that is an output: where in outputs_
  std::vector<int64_t> position_;                                   ///< by node: its rank in order_, with gaps
  int64_t changes_ = 0;
  int64_t sorted_at_ = -1, swept_at_ = -1;  ///< changes_ at the end of sort() and of remove_dead()

  // Brought up to date by the first question after a change, so that a pass of n changes takes time in n. Once settle()
  // has run, as after every pass, questions write nothing and threads may share the graph.
  mutable std::vector<NodeId> order_;                ///< erased nodes stay in it until settle()
  mutable bool has_erased_ = false;                  ///< whether order_ holds any
  mutable std::deque<std::vector<NodeId>> users_;    ///< by value: nodes that read it; some twice, dead ones too
  mutable std::vector<bool> is_stale_;               ///< by value: users_ may name nodes that do not read it any more
  mutable std::vector<std::vector<ValueId>> reads_;  ///< by node: the inputs that users_ knows of
  mutable std::vector<NodeId> touched_;              ///< handed out for change: may read what users_ does not say yet
  mutable std::vector<bool> is_touched_;             ///< by node

  Names value_names_;
  Names node_names_;
  using Suffixes = std::map<std::string, int64_t, std::less<>>;  ///< where the search for a free name goes on
  mutable Suffixes value_suffixes_;
  Suffixes node_suffixes_;
};

/// Throws internal with the first broken invariant: order, types, ids, names, single producer, dead references.
void verify(const Graph& graph);

/// One line a node: `%y: f32[1,64,56,56] = Conv@17 "name" {attrs}(%x, %w)`; constants print type and, when small,
/// values.
std::string print(const Graph& graph);
/// Reads what print() writes; large constants are read as zeros unless `constants` holds them by name.
Graph parse_graph(std::string_view text, const std::map<std::string, Tensor>& constants = {});

}  // namespace kilter
