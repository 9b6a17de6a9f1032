#include "schedule/problem/task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "base/text.h"
#include "ops/support/builder.h"
#include "ops/support/window.h"

namespace kilter {
namespace {

struct AttrText {
  std::string operator()(int64_t v) const { return fmt::format("{}", v); }
  std::string operator()(float v) const { return fmt::format("{}", v); }
  std::string operator()(const std::string& v) const { return v; }
  std::string operator()(const std::vector<int64_t>& v) const { return fmt::format("{}", fmt::join(v, ",")); }
  std::string operator()(const std::vector<float>& v) const { return fmt::format("{}", fmt::join(v, ",")); }
  std::string operator()(const std::vector<std::string>& v) const { return fmt::format("{}", fmt::join(v, ",")); }
  std::string operator()(const Tensor& v) const { return fmt::format("{}[{}]", name(v.dtype()), text(v.shape())); }
};

/// Returns "f32", or "f32:bf16" for f32 stored as bf16.
std::string element_text(const TensorType& type) {
  const std::string own(name(type.dtype));
  return type.layout.stored ? fmt::format("{}:{}", own, stored_text(type.layout)) : own;
}

std::string plain_text(const TensorType& type) {
  return fmt::format("{}[{}]", element_text(type), fmt::join(type.shape, ","));
}

std::string window_text(const Window& w) {
  std::string out;
  const auto all = [](const std::vector<int64_t>& v, int64_t x) {
    return std::all_of(v.begin(), v.end(), [x](int64_t e) { return e == x; });
  };
  if (!all(w.strides, 1)) out += fmt::format(" stride{}", fmt::join(w.strides, ","));
  std::vector<int64_t> pads = w.pads_begin;
  pads.insert(pads.end(), w.pads_end.begin(), w.pads_end.end());
  if (!all(pads, 0))
    out += all(pads, pads[0]) ? fmt::format(" pad{}", pads[0]) : fmt::format(" pad{}", fmt::join(pads, ","));
  if (!all(w.dilations, 1)) out += fmt::format(" dil{}", fmt::join(w.dilations, ","));
  return out;
}

/// Returns "conv2d n1 c64 h56 w56 k64 r3 s3 pad1 f32".
std::string conv_text(const Graph& graph, const Node& node) {
  const TensorType& x = graph.type(node.inputs[0]);
  const TensorType& w = graph.type(node.inputs[1]);
  const int64_t groups = node.int_attr("group", 1);
  std::string out = fmt::format("conv2d n{} c{} h{} w{} k{} r{} s{}", x.shape[0], x.shape[1], x.shape[2], x.shape[3],
                                w.shape[0], w.shape[2], w.shape[3]);
  if (groups != 1) out += fmt::format(" g{}", groups);
  out += window_text(conv_window(node, x.shape, w.shape));
  out += fmt::format(" {}", element_text(x));
  if (const DType sum = graph.type(node.outputs[0]).dtype; sum != x.dtype) out += fmt::format("->{}", name(sum));
  if (node.input(2) != kNone) out += " +bias";
  return out;
}

/// Returns the type without the type in memory. Problem lines do not say how constants are stored, since the precision
/// determines it.
TensorType as_computed(TensorType type) {
  type.layout.stored.reset();
  return type;
}

constexpr int64_t kMostWritten = 8;  ///< most elements of an integer constant that are written out

const TensorType& first_output(const Graph& graph, const Node& node) {
  const auto it = std::find_if(node.outputs.begin(), node.outputs.end(), [](ValueId v) { return v != kNone; });
  if (it == node.outputs.end()) fail(ErrorKind::internal, "{} has no output", label(node));
  return graph.type(*it);
}

/// Returns "i64[2]=2,3" for short integer lists, the number for other one-element constants, and an empty text for all
/// others. f64 factors and summands of an f32 result are written only if they are 0 or 1, which make kernels simpler;
/// layers that differ in any others are the same problem.
std::string constant_text(const Graph& graph, const Node& node, ValueId id) {
  const Value& v = graph.value(id);
  if (!v.constant) return {};
  const Tensor& t = *v.constant;
  if (v.type.dtype == DType::f64 && t.elems() == 1 && first_output(graph, node).dtype == DType::f32) {
    const double value = t.as_double(0);
    return value == 0 || value == 1 ? fmt::format("{}={}", plain_text(v.type), value) : plain_text(v.type);
  }
  if (v.type.dtype == DType::i64 && v.type.shape.size() == 1 && t.elems() <= kMostWritten)
    return fmt::format("{}={}", plain_text(v.type), fmt::join(t.ints(), ","));
  if (t.elems() != 1) return {};
  return is_float(v.type.dtype) ? fmt::format("{}", t.as_double(0)) : fmt::format("{}", t.as_int(0));
}

/// Whether the text may list a node's operands in any order. Means are excluded, although their order does not matter
/// either, because records from earlier versions list their operands in the order of the node.
bool commutes(const Node& node) {
  const Combiner combiner = node.op->combiner;
  return node.op->family == Family::map && combiner != Combiner::none && combiner != Combiner::mean;
}

/// The values of a task's nodes, and how the text of a later node refers to them.
struct Chain {
  const TensorType* domain;   ///< type of the anchor's result
  ValueId previous = kNone;   ///< of the previous node: "%" where its place must be shown
  std::vector<ValueId> made;  ///< by node, in order: the values before the last are "%0", "%1", ...
};

std::string operand_text(const Graph& graph, const Node& node, ValueId in, const Chain* chain) {
  if (in == kNone) return "?";
  if (std::string value = constant_text(graph, node, in); !value.empty()) return value;
  if (graph.value(in).constant) return plain_text(as_computed(graph.type(in)));
  if (chain == nullptr) return plain_text(graph.type(in));
  if (in == chain->previous) return "%";
  const auto at = std::find(chain->made.begin(), chain->made.end(), in);
  return at == chain->made.end() ? plain_text(graph.type(in)) : fmt::format("%{}", at - chain->made.begin());
}

/// Returns a node's operands and attributes. For nodes after the anchor, omits the previous value and trailing outside
/// operands of the same type, as long as the remaining operands stay unambiguous.
std::string general_text(const Graph& graph, const Node& node, const Chain* chain) {
  std::vector<std::string> parts;
  for (ValueId in : node.inputs) parts.push_back(operand_text(graph, node, in, chain));
  if (chain != nullptr) {
    const auto previous = std::find(parts.begin(), parts.end(), "%");
    if (previous != parts.end() && commutes(node)) std::rotate(parts.begin(), previous, previous + 1);
    if (!parts.empty() && parts.front() == "%") {
      parts.erase(parts.begin());
      const std::string like = plain_text(*chain->domain);
      while (!parts.empty() && parts.back() == like) parts.pop_back();
    }
  }
  for (const auto& [key, attr] : node.attrs) parts.push_back(fmt::format("{}={}", key, std::visit(AttrText{}, attr)));
  std::string out = lower(node.op->name);
  if (!parts.empty()) out += fmt::format("({})", fmt::join(parts, " "));
  return out;
}

/// Returns the text of a node and the element-wise nodes after it: "conv2d n1 c64 h56 w56 k64 r3 s3 pad1 f32 +bias
/// +relu".
std::string part_text(const Graph& graph, NodeId first, std::span<const NodeId> after) {
  const Node& node = graph.node(first);
  const auto output = [&](NodeId id) { return graph.node(id).outputs[0]; };
  const bool conv = node.op->family == Family::conv && graph.type(node.inputs[0]).shape.size() == 4;
  std::string out = conv ? conv_text(graph, node) : general_text(graph, node, nullptr);
  Chain chain{&first_output(graph, node), output(first), {output(first)}};
  for (NodeId id : after) {
    out += (id == after.front() ? " +" : "+") + general_text(graph, graph.node(id), &chain);
    chain.previous = output(id);
    chain.made.push_back(output(id));
  }
  return out;
}

}  // namespace

bool is_dense(const Shape& shape, const Shape& strides) {
  int64_t step = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] != 1 && strides[d] != step) return false;
    step *= shape[d];
  }
  return true;
}

const Operand* Task::find(ValueId value) const {
  for (const auto* list : {&inputs, &outputs}) {
    for (const Operand& o : *list) {
      if (o.value == value) return &o;
    }
  }
  return nullptr;
}

const Operand& Task::operand(ValueId value) const {
  const Operand* found = find(value);
  require(found != nullptr, "value {} is not an operand of task '{}'", value, node().name);
  return *found;
}

std::string Task::ops() const {
  std::vector<std::string_view> names;
  for (NodeId id : feeder) names.push_back(graph->node(id).op->name);
  for (NodeId id : prologue) names.push_back(graph->node(id).op->name);
  names.push_back(node().op->name);
  for (NodeId id : epilogue) names.push_back(graph->node(id).op->name);
  return fmt::format("{}", fmt::join(names, "+"));
}

std::string Task::problem() const {
  std::string out;
  if (!feeder.empty()) out = part_text(*graph, feeder.front(), std::span(feeder).subspan(1)) + " => ";
  for (NodeId id : prologue) out += general_text(*graph, graph->node(id), nullptr) + "+ ";
  out += part_text(*graph, anchor, epilogue);
  const auto stored = std::ranges::find_if(outputs, [](const Operand& o) { return o.type.layout.stored.has_value(); });
  return stored == outputs.end() ? out : fmt::format("{} >{}", out, stored_text(stored->type.layout));
}

std::string Task::layouts() const {
  std::vector<std::string> parts;
  for (const auto* list : {&inputs, &outputs}) {
    for (const Operand& o : *list) {
      std::string part = o.type.layout.block > 1 ? fmt::format("c{}", o.type.layout.block) : "plain";
      if (o.constant != nullptr && o.type.layout.stored) part += fmt::format(" {}", name(*o.type.layout.stored));
      if (o.type.layout.has_halo()) part += fmt::format("halo{}", fmt::join(o.type.layout.halo, ","));
      if (!is_dense(o.phys.dims, o.phys.strides) && o.phys.strides != physical(o.type).strides)
        part += fmt::format("/{}", fmt::join(o.phys.strides, ","));
      parts.push_back(part);
    }
    if (list == &inputs) parts.emplace_back("->");
  }
  return fmt::format("{}", fmt::join(parts, " "));
}

std::string Task::shapes() const {
  std::vector<std::string> parts;
  for (const Operand& o : inputs) parts.push_back(plain_text(o.type));
  parts.emplace_back("->");
  for (const Operand& o : outputs) parts.push_back(plain_text(o.type));
  return fmt::format("{}", fmt::join(parts, " "));
}

int64_t Task::flops() const {
  int64_t total = 0;
  const auto add = [&](NodeId id) {
    const Node& n = graph->node(id);
    total += n.op->flops != nullptr ? n.op->flops(view(*graph, n)) : elems(first_output(*graph, n).shape);
  };
  for (NodeId id : feeder) add(id);
  for (NodeId id : prologue) add(id);
  add(anchor);
  for (NodeId id : epilogue) add(id);
  return total;
}

int64_t Task::bytes() const {
  const auto of = [](const Operand& o) { return elems(o.type.shape) * stored_bytes(o.type); };
  int64_t written = 0, read = 0;
  for (const Operand& o : outputs) written += of(o);
  const Family family = node().op->family;
  const bool selects = family == Family::gather || family == Family::movement || family == Family::channels;
  const std::span<const ValueId> data =
      std::span(node().inputs).first(family == Family::gather ? 1 : node().inputs.size());
  int64_t selected = 0;
  for (const Operand& o : inputs)
    (selects && std::ranges::find(data, o.value) != data.end() ? selected : read) += of(o);
  return std::min(selected, written) + read + written;
}

}  // namespace kilter
