#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"
#include "graph/op_def.h"
#include "graph/values.h"

namespace kilter {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), ready_(graph.value_count(), false) {}

  void run() {
    check_inputs();
    check_values();
    check_order();
    check_outputs();
    if (const NodeId id = graph_.changed_too_late(); id != kNone)
      broken("{} was changed later than change_node() allows", label(graph_.node(id)));
  }

 private:
  template <class... Args>
  [[noreturn]] void broken(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::internal, "graph '{}' is invalid: {}", graph_.name,
         fmt::format(format, std::forward<Args>(args)...));
  }

  bool exists(ValueId id) const { return id >= 0 && static_cast<size_t>(id) < graph_.value_count(); }

  void check_inputs() {
    for (ValueId id : graph_.inputs()) {
      if (!exists(id)) broken("graph input is value {} of {}", id, graph_.value_count());
      const Value& value = graph_.value(id);
      if (value.dead) broken("graph input '{}' is dead", value.name);
      if (value.producer != kNone) broken("graph input '{}' has a producer", value.name);
      if (value.constant) broken("graph input '{}' is also a constant", value.name);
      if (ready_[static_cast<size_t>(id)]) broken("graph input '{}' is listed twice", value.name);
      ready_[static_cast<size_t>(id)] = true;
    }
  }

  void check_type(const Value& value) const {
    const Layout& layout = value.type.layout;
    try {
      elems(value.type.shape);
    } catch (const Error& error) {
      broken("value '{}': {}", value.name, error.message());
    }
    const size_t rank = value.type.shape.size();
    if (layout.block < 1) broken("value '{}' has block {}, expected 1 or more", value.name, layout.block);
    if (layout.block > 1 && rank < 2)
      broken("value '{}' of rank {} has block {}, which needs rank 2 or more", value.name, rank, layout.block);
    const bool narrow = layout.stored == DType::f16 || layout.stored == DType::bf16 || layout.stored == DType::u8;
    if (layout.stored && (value.type.dtype != DType::f32 || !narrow))
      broken("value '{}' of {} is stored as {}; only f32 values are stored as f16, bf16 or u8", value.name,
             name(value.type.dtype), name(*layout.stored));
    if (layout.zero != 0 && layout.stored != DType::u8)
      broken("value '{}' has the stored zero {}, which needs storage as u8", value.name, layout.zero);
    for (int32_t width : layout.halo) {
      if (width < 0) broken("value '{}' has a halo of {}, expected 0 or more", value.name, width);
    }
    if (layout.has_halo() && rank != 4)
      broken("value '{}' of rank {} has a halo, which needs rank 4", value.name, rank);
  }

  void check_replacement(ValueId id, const Value& value) const {
    if (value.replaced_by == kNone) return;
    if (!exists(value.replaced_by))
      broken("value '{}' is replaced by value {} of {}", value.name, value.replaced_by, graph_.value_count());
    if (const std::string fault = replacement_fault(graph_, id, value.replaced_by); !fault.empty()) broken("{}", fault);
  }

  void check_values() {
    std::unordered_set<std::string_view> names;
    names.reserve(graph_.value_count());
    for (ValueId id = 0; exists(id); ++id) {
      const Value& value = graph_.value(id);
      check_replacement(id, value);
      if (value.dead) continue;
      if (value.name.empty()) broken("value {} has no name", id);
      if (!names.insert(value.name).second) broken("two values are named '{}'", value.name);
      check_type(value);
      if (value.constant) {
        const Tensor& tensor = *value.constant;
        if (value.producer != kNone) broken("constant '{}' has a producer", value.name);
        if (!tensor.defined()) broken("constant '{}' has no tensor", value.name);
        const TensorType held{tensor.dtype(), tensor.shape(), value.type.layout};
        if (held != value.type)
          broken("constant '{}' has type {}, but its tensor is {}", value.name, text(value.type), text(held));
        ready_[static_cast<size_t>(id)] = true;
      }
    }
  }

  void check_order() {
    std::vector<bool> listed(graph_.node_count());
    std::unordered_set<std::string_view> names;
    names.reserve(graph_.order().size());
    for (NodeId id : graph_.order()) {
      if (id < 0 || static_cast<size_t>(id) >= graph_.node_count())
        broken("the order lists node {} of {}", id, graph_.node_count());
      const Node& node = graph_.node(id);
      if (listed[static_cast<size_t>(id)]) broken("the order lists {} twice", label(node));
      listed[static_cast<size_t>(id)] = true;
      if (node.dead) broken("the order lists the dead {}", label(node));
      if (node.name.empty()) broken("node {} has no name", id);
      if (!names.insert(node.name).second) broken("two nodes are named '{}'", node.name);
      check_node(id, node);
    }
    for (NodeId id = 0; static_cast<size_t>(id) < graph_.node_count(); ++id) {
      const Node& node = graph_.node(id);
      if (!node.dead && !listed[static_cast<size_t>(id)]) broken("the order lacks the live {}", label(node));
    }
  }

  void check_node(NodeId id, const Node& node) {
    if (node.op == nullptr) broken("node '{}' has no operator", node.name);
    const OpDef& def = *node.op;
    if (node.opset < def.since || node.opset > def.until) {
      broken("{} is of opset {}, but its definition is for {} to {}", label(node), node.opset, def.since, def.until);
    }
    check_count(node, "inputs", node.inputs.size(), def.min_inputs, def.max_inputs);
    check_count(node, "outputs", node.outputs.size(), def.min_outputs, def.max_outputs);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (input == kNone && static_cast<int32_t>(i) >= def.min_inputs) continue;
      if (input == kNone) broken("{}: required input {} is left out", label(node), i);
      if (!exists(input)) broken("{}: input {} is value {} of {}", label(node), i, input, graph_.value_count());
      const Value& value = graph_.value(input);
      if (value.dead) broken("{}: input {} is the dead value '{}'", label(node), i, value.name);
      if (ready_[static_cast<size_t>(input)]) continue;
      if (value.producer == kNone)
        broken("{}: input {}, '{}', is neither a graph input nor a constant nor computed by a node", label(node), i,
               value.name);
      broken("{}: input {}, '{}', is computed by a later node", label(node), i, value.name);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      if (output == kNone) continue;
      if (!exists(output)) broken("{}: output {} is value {} of {}", label(node), i, output, graph_.value_count());
      const Value& value = graph_.value(output);
      if (value.dead) broken("{}: output {} is the dead value '{}'", label(node), i, value.name);
      if (value.producer != id || value.output_index != static_cast<int32_t>(i)) {
        broken("{}: output {}, '{}', claims to be output {} of node {}", label(node), i, value.name, value.output_index,
               value.producer);
      }
      if (ready_[static_cast<size_t>(output)])
        broken("{}: output {}, '{}', is computed twice", label(node), i, value.name);
      ready_[static_cast<size_t>(output)] = true;
    }
  }

  void check_count(const Node& node, std::string_view what, size_t count, int32_t least, int32_t most) const {
    const auto n = static_cast<int32_t>(count);
    if (n < least) broken("{} has {} {}, expected {} or more", label(node), n, what, least);
    if (most >= 0 && n > most) broken("{} has {} {}, expected {} or fewer", label(node), n, what, most);
  }

  void check_outputs() const {
    std::unordered_set<std::string_view> names;
    for (const Graph::Output& output : graph_.outputs()) {
      if (output.name.empty()) broken("a graph output has no name");
      if (!names.insert(output.name).second) broken("two graph outputs are named '{}'", output.name);
      if (!exists(output.value))
        broken("graph output '{}' is value {} of {}", output.name, output.value, graph_.value_count());
      const Value& value = graph_.value(output.value);
      if (value.dead) broken("graph output '{}' reads the dead value '{}'", output.name, value.name);
      if (!ready_[static_cast<size_t>(output.value)])
        broken("graph output '{}' reads '{}', which nothing produces", output.name, value.name);
    }
  }

  const Graph& graph_;
  std::vector<bool> ready_;  ///< by value: defined at this point of the order
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).run(); }

}  // namespace kilter
