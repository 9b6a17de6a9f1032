// The graph IR: SSA values and nodes over typed, static-shaped tensors.
//
// A Graph is always static: every value has an element type and a shape of integers. Symbolic dimensions exist only in
// onnx::Model and are bound to integers when a Graph is created from it (see onnx/model.h).
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

/// The layout of a value in memory. For the logical shape [d0, d1, ..., dn-1]:
///   block == 1: row-major.
///   block  > 1 (rank >= 2): physical [d0, ceil(d1/block), d2, ..., dn-1, block], for 4-D images NCHW[block]c.
///     The unused lanes of the last block are 0: the producer of the value writes them.
/// halo: extra rows and columns around the last two logical dimensions (before block), always 0 in memory:
///   {top, bottom, left, right}. Only values of rank 4 have a halo.
/// stored: the element type in memory of a value whose elements are computed as another type: f16, bf16 or u8 for f32.
///   The value's elements are those that remain after rounding to that type. Nullopt: the value's own type.
/// zero: with u8, the stored integer that stands for 0. The value's elements are integers from -zero to 255 - zero.
struct Layout {
  int32_t block = 1;
  std::array<int32_t, 4> halo{};
  std::optional<DType> stored = {};
  uint8_t zero = 0;

  /// Whether the elements are in row-major order, without halo.
  bool row_major() const { return block == 1 && !has_halo(); }
  /// Whether the value is a dense tensor of its own type.
  bool plain() const { return row_major() && !stored; }
  bool has_halo() const { return halo != std::array<int32_t, 4>{}; }
  bool operator==(const Layout&) const = default;
};

/// A tensor type. Text form: "f32[1,64,56,56]", "f32[1,64,56,56]{c16}", "f32[1,64,56,56]{bf16 c16 halo1,1,1,1}",
/// "f32[1,64]{u8+128}".
struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  Layout layout;

  bool operator==(const TensorType&) const = default;
};
std::string text(const TensorType& type);
/// The element type in memory.
inline DType stored_type(const TensorType& type) { return type.layout.stored.value_or(type.dtype); }
/// Returns "bf16", or "u8+128" if the stored integer 128 stands for 0; empty if the value is stored in its own type.
std::string stored_text(const Layout& layout);
/// Reads stored_text(). Sets `stored` and `zero`; returns whether the text is one that stored_text() can return.
bool parse_stored(std::string_view text, Layout& layout);
/// Bytes of one element in memory.
inline int64_t stored_bytes(const TensorType& type) { return size_bytes(stored_type(type)); }

/// The physical array behind a type: extents, strides in elements, and the offset of the first logical element. The
/// dimensions are those that Layout describes; `dims` excludes the halo, `strides` includes it.
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

/// An attribute of a node.
using Attr = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                          std::vector<std::string>, Tensor>;
/// Returns "int", "float", "string", "ints", "floats", "strings" or "tensor".
std::string_view attr_type(const Attr& attr);
/// Attributes by name. The special members of this class and of Graph are compiled only once: compiling them in each
/// file that copies or destroys a node would take a second or more.
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
  std::optional<Tensor> constant;  ///< set for constants: logical and dense, whatever the type's layout
  ValueId replaced_by = kNone;     ///< the value that the last replace_uses() gave to the readers of this one
  bool dead = false;
};

struct Node {
  std::string name;  ///< unique in its graph; the ONNX node's name if it has one
  /// The name from which the unique `name` was derived: that of the node for which this one was created, sometimes
  /// followed by ".part".
  std::string named_after;
  const OpDef* op = nullptr;
  int32_t opset = 0;  ///< version of the operator's domain in the model, which determines attributes and semantics
  Attrs attrs;
  std::vector<ValueId> inputs;   ///< kNone: optional input left out
  std::vector<ValueId> outputs;  ///< kNone: optional output not wanted
  int32_t group = kNone;         ///< fused group (set by the fuse pass), kNone before that
  bool dead = false;

  /// Returns the i-th input; kNone if it is left out or the list is shorter.
  ValueId input(size_t i) const { return i < inputs.size() ? inputs[i] : kNone; }
  /// Returns the attribute, or `fallback` when it is absent. Throws bad_model when it is of a different type.
  int64_t int_attr(std::string_view key, int64_t fallback) const;
  float float_attr(std::string_view key, float fallback) const;
  std::string string_attr(std::string_view key, std::string_view fallback) const;
  std::vector<int64_t> ints_attr(std::string_view key, std::vector<int64_t> fallback = {}) const;
  std::vector<float> floats_attr(std::string_view key, std::vector<float> fallback = {}) const;
  const Tensor* tensor_attr(std::string_view key) const;  ///< nullptr when absent
  bool has_attr(std::string_view key) const { return attrs.find(key) != attrs.end(); }
};

/// Returns "Conv 'name'", the printable form in which errors name a node.
std::string label(const Node& node);

/// Nodes and values live in arenas and are named by id. Ids and references stay valid while the graph lives; erasing
/// only marks them as dead. Names of values and names of nodes are separate namespaces.
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
  /// Adds a node at the end of the order, with outputs of the given types. Names are made unique. `nullopt` marks an
  /// output that is not wanted.
  NodeId add_node(const OpDef* op, std::string name, int32_t opset, Attrs attrs, std::vector<ValueId> inputs,
                  const std::vector<std::optional<TensorType>>& output_types,
                  const std::vector<std::string>& output_names = {});
  /// Adds a graph output. Several outputs may read one value; their names must be unique.
  void add_output(ValueId value, std::string name);

  const Value& value(ValueId id) const { return values_.at(static_cast<size_t>(id)); }
  const Node& node(NodeId id) const { return nodes_.at(static_cast<size_t>(id)); }
  const TensorType& type(ValueId id) const { return value(id).type; }
  Value& change_value(ValueId id) {
    ++changes_;
    return values_.at(static_cast<size_t>(id));
  }
  /// Returns a node for modification. Modify it immediately: before kRecent other nodes are handed out and before the
  /// next sort(). Its outputs must not change. verify() detects modifications that come later.
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
  /// Returns the live nodes, with every producer before its users. The list is valid until nodes are added or erased.
  const std::vector<NodeId>& order() const;
  size_t value_count() const { return values_.size(); }
  size_t node_count() const { return nodes_.size(); }

  /// Returns the live nodes that read a value, in order, each once.
  std::vector<NodeId> users(ValueId id) const;
  /// Returns the only live node that reads a value, or kNone if there is none or more than one. Fast for any number of
  /// users.
  NodeId only_user(ValueId id) const;
  bool is_output(ValueId id) const { return output_places_.contains(id); }
  /// Makes every reader of `from`, graph outputs included, read `to`. Throws internal if their types differ. If
  /// nothing has read `to` so far and it has no stored type, it gets that of `from`.
  void replace_uses(ValueId from, ValueId to);
  /// Marks a node and its outputs as dead and frees their names. Nothing may read the outputs any more.
  void erase(NodeId id);
  /// Sorts order() topologically (stable) and rebuilds the use lists. Passes call it after they add nodes.
  void sort();
  /// Removes nodes and values that no output needs; inputs stay. Returns the number of nodes removed.
  int remove_dead();
  /// A counter that grows with each change, and whenever a node or value is handed out for modification. While it is
  /// unchanged, so is the graph.
  int64_t changes() const { return changes_; }

  /// Returns a value name that starts with `hint` and is not in use.
  std::string fresh_name(std::string_view hint) const;
  /// Renames a value; the new name is made unique.
  void rename(ValueId id, std::string_view hint);
  /// Renames a node; the new name is made unique.
  void rename_node(NodeId id, std::string_view hint);
  /// Restores original names. Each node from `first` on that was renamed to make its name unique gets its original name
  /// back if that name is now free. If several nodes want the same name, the first in order() gets it.
  void give_names_back(NodeId first);
  /// Returns the live value of that name, or kNone.
  ValueId find_value(std::string_view value_name) const;
  /// Returns a live node that was changed later than change_node() allows, so that users() may be wrong about what it
  /// reads; kNone if there is none.
  NodeId changed_too_late() const;

 private:
  using Names = std::map<std::string, int32_t, std::less<>>;  ///< name in use -> id of its node or value

  ValueId add_value(std::string_view hint, TensorType type);
  void note_uses(NodeId id) const;
  void settle() const;
  void bury(Node& node);
  void kill(ValueId id);

  std::deque<Value> values_;
  std::deque<Node> nodes_;
  std::vector<ValueId> inputs_;
  std::vector<Output> outputs_;
  std::unordered_map<ValueId, std::vector<size_t>> output_places_;  ///< by value that is an output: its indices in
                                                                    ///< outputs_
  std::vector<int64_t> position_;                                   ///< by node: its rank in order_, with gaps
  int64_t changes_ = 0;
  int64_t sorted_at_ = -1, swept_at_ = -1;  ///< changes_ at the end of sort() and of remove_dead()

  // Updated by the first query after a change, so that a pass with n changes takes O(n) time. Once settle() has run, as
  // after every pass, queries write nothing and threads may share the graph.
  mutable std::vector<NodeId> order_;                ///< contains erased nodes until settle()
  mutable bool has_erased_ = false;                  ///< whether order_ contains erased nodes
  mutable std::deque<std::vector<NodeId>> users_;    ///< by value: nodes that read it; may contain duplicates and dead
                                                     ///< nodes
  mutable std::vector<bool> is_stale_;               ///< by value: users_ may list nodes that no longer read it
  mutable std::vector<std::vector<ValueId>> reads_;  ///< by node: the inputs that users_ knows
  mutable std::vector<NodeId> touched_;              ///< handed out for modification: may read values that users_ does
                                                     ///< not list yet
  mutable std::vector<bool> is_touched_;             ///< by node

  Names value_names_;
  Names node_names_;
  using Suffixes = std::map<std::string, int64_t, std::less<>>;  ///< where the search for a free name continues
  mutable Suffixes value_suffixes_;
  Suffixes node_suffixes_;
};

/// Throws internal with the first broken invariant: order, types, ids, names, single producer, dead references.
void verify(const Graph& graph);

/// Returns one line per node: `%y: f32[1,64,56,56] = Conv@17 "name" {attrs}(%x, %w)`. Constants print their type and,
/// when small, their values.
std::string print(const Graph& graph);
/// Reads what print() writes. Large constants are read as zeros unless `constants` contains them by name.
Graph parse_graph(std::string_view text, const std::map<std::string, Tensor>& constants = {});

}  // namespace kilter
