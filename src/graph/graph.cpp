#include "graph/graph.h"

#include <algorithm>
#include <utility>

#include "base/align.h"
#include "base/text.h"
#include "graph/op_def.h"
#include "graph/values.h"

namespace kilter {
namespace {

template <class T>
constexpr std::string_view kAttrType = "";
template <>
constexpr std::string_view kAttrType<int64_t> = "int";
template <>
constexpr std::string_view kAttrType<float> = "float";
template <>
constexpr std::string_view kAttrType<std::string> = "string";
template <>
constexpr std::string_view kAttrType<std::vector<int64_t>> = "ints";
template <>
constexpr std::string_view kAttrType<std::vector<float>> = "floats";
template <>
constexpr std::string_view kAttrType<std::vector<std::string>> = "strings";
template <>
constexpr std::string_view kAttrType<Tensor> = "tensor";

template <class T>
const T* find_attr(const Node& node, std::string_view key) {
  const auto it = node.attrs.find(key);
  if (it == node.attrs.end()) return nullptr;
  const T* value = std::get_if<T>(&it->second);
  if (value == nullptr) {
    fail(ErrorKind::bad_model, "{}: attribute '{}' has type {}, expected {}", label(node), key, attr_type(it->second),
         kAttrType<T>);
  }
  return value;
}

bool reads(const Node& node, ValueId id) {
  return std::find(node.inputs.begin(), node.inputs.end(), id) != node.inputs.end();
}

/// Returns `hint`, hint_1, hint_2, ...: the first of them that is not in `taken`.
template <class Names, class Suffixes>
std::string unused(const Names& taken, Suffixes& next, std::string_view hint) {
  const std::string base = hint.empty() ? "v" : std::string(hint);
  if (taken.find(base) == taken.end()) return base;
  int64_t& suffix = next[base];
  for (;;) {
    std::string name = fmt::format("{}_{}", base, ++suffix);
    if (taken.find(name) == taken.end()) return name;
  }
}

/// Gives the node or value `id` a free name that starts with `hint`, in place of `name`.
template <class Names, class Suffixes>
void rename_in(Names& taken, Suffixes& next, std::string& name, int32_t id, std::string_view hint) {
  if (name == hint) return;
  std::string fresh = unused(taken, next, hint);
  taken.erase(name);
  name = std::move(fresh);
  taken.emplace(name, id);
}

}  // namespace

Attrs::Attrs() = default;
Attrs::Attrs(std::initializer_list<value_type> attrs) : map(attrs) {}
Attrs::Attrs(const Attrs& other) = default;
Attrs::Attrs(Attrs&& other) noexcept = default;
Attrs& Attrs::operator=(const Attrs& other) = default;
Attrs& Attrs::operator=(Attrs&& other) noexcept = default;
Attrs::~Attrs() = default;

Graph::Graph() = default;
Graph::Graph(const Graph& other) = default;
Graph::Graph(Graph&& other) = default;
Graph& Graph::operator=(const Graph& other) = default;
Graph& Graph::operator=(Graph&& other) = default;
Graph::~Graph() = default;

std::string_view attr_type(const Attr& attr) {
  return std::visit([]<class T>(const T&) { return kAttrType<T>; }, attr);
}

std::string stored_text(const Layout& layout) {
  if (!layout.stored) return {};
  const std::string type(name(*layout.stored));
  return layout.zero == 0 ? type : fmt::format("{}+{}", type, layout.zero);
}

bool parse_stored(std::string_view text, Layout& layout) {
  const size_t plus = std::min(text.find('+'), text.size());
  const std::optional<DType> type = parse_dtype(text.substr(0, plus));
  if (!type || (*type != DType::f16 && *type != DType::bf16 && *type != DType::u8)) return false;
  const std::optional<int64_t> zero = plus == text.size() ? 0 : try_parse_int(text.substr(plus + 1));
  const bool fits = zero && *zero >= 0 && *zero <= 255 && (*zero == 0) == (plus == text.size());
  if (!fits || (*zero != 0 && *type != DType::u8)) return false;
  layout.stored = type;
  layout.zero = static_cast<uint8_t>(*zero);
  return true;
}

std::string text(const TensorType& type) {
  std::string out = fmt::format("{}[", name(type.dtype));
  for (size_t i = 0; i < type.shape.size(); ++i) out += fmt::format("{}{}", i == 0 ? "" : ",", type.shape[i]);
  out += ']';
  if (type.layout.plain()) return out;
  std::vector<std::string> words;
  if (type.layout.stored) words.push_back(stored_text(type.layout));
  if (type.layout.block != 1) words.push_back(fmt::format("c{}", type.layout.block));
  if (type.layout.has_halo()) words.push_back(fmt::format("halo{}", fmt::join(type.layout.halo, ",")));
  return out + fmt::format("{{{}}}", fmt::join(words, " "));
}

Physical physical(const TensorType& type) {
  const Layout& layout = type.layout;
  const size_t rank = type.shape.size();
  if (layout.block < 1 || (layout.block > 1 && rank < 2))
    fail(ErrorKind::internal, "layout of {}: a block needs rank 2 or more", text(type));
  if (layout.has_halo() && rank != 4) fail(ErrorKind::internal, "layout of {}: a halo needs rank 4", text(type));
  Physical out;
  out.dims = type.shape;
  if (layout.block > 1) {
    out.dims[1] = ceil_div<int64_t>(type.shape[1], layout.block);
    out.dims.push_back(layout.block);
  }
  Shape extents = out.dims;
  if (layout.has_halo()) {
    extents[2] += layout.halo[0] + layout.halo[1];
    extents[3] += layout.halo[2] + layout.halo[3];
  }
  out.elems = elems(extents);
  out.strides = dense_strides(extents);
  if (layout.has_halo()) out.offset = layout.halo[0] * out.strides[2] + layout.halo[2] * out.strides[3];
  return out;
}

std::string label(const Node& node) {
  return fmt::format("{} '{}'", node.op != nullptr ? node.op->name : std::string_view("node"), printable(node.name));
}

int64_t Node::int_attr(std::string_view key, int64_t fallback) const {
  const auto* value = find_attr<int64_t>(*this, key);
  return value != nullptr ? *value : fallback;
}
float Node::float_attr(std::string_view key, float fallback) const {
  const auto* value = find_attr<float>(*this, key);
  return value != nullptr ? *value : fallback;
}
std::string Node::string_attr(std::string_view key, std::string_view fallback) const {
  const auto* value = find_attr<std::string>(*this, key);
  return value != nullptr ? *value : std::string(fallback);
}
std::vector<int64_t> Node::ints_attr(std::string_view key, std::vector<int64_t> fallback) const {
  const auto* value = find_attr<std::vector<int64_t>>(*this, key);
  return value != nullptr ? *value : std::move(fallback);
}
std::vector<float> Node::floats_attr(std::string_view key, std::vector<float> fallback) const {
  const auto* value = find_attr<std::vector<float>>(*this, key);
  return value != nullptr ? *value : std::move(fallback);
}
const Tensor* Node::tensor_attr(std::string_view key) const { return find_attr<Tensor>(*this, key); }

ValueId Graph::add_value(std::string_view hint, TensorType type) {
  ++changes_;
  const auto id = static_cast<ValueId>(values_.size());
  Value value;
  value.name = fresh_name(hint);
  value.type = std::move(type);
  value_names_.emplace(value.name, id);
  values_.push_back(std::move(value));
  users_.emplace_back();
  is_stale_.push_back(false);
  return id;
}

ValueId Graph::add_input(std::string input_name, TensorType type) {
  const ValueId id = add_value(input_name, std::move(type));
  inputs_.push_back(id);
  return id;
}

ValueId Graph::add_constant(std::string constant_name, Tensor tensor) {
  require(tensor.defined(), "constant '{}' has no tensor", constant_name);
  const ValueId id = add_value(constant_name, {tensor.dtype(), tensor.shape(), {}});
  values_.back().constant = std::move(tensor);
  return id;
}

NodeId Graph::add_node(const OpDef* op, std::string node_name, int32_t opset, Attrs attrs, std::vector<ValueId> inputs,
                       const std::vector<std::optional<TensorType>>& output_types,
                       const std::vector<std::string>& output_names) {
  ++changes_;
  const auto id = static_cast<NodeId>(nodes_.size());
  Node node;
  if (node_name.empty()) node_name = op != nullptr ? op->name : "node";
  node.name = unused(node_names_, node_suffixes_, node_name);
  node.named_after = std::move(node_name);
  node.op = op;
  node.opset = opset;
  node.attrs = std::move(attrs);
  node.inputs = std::move(inputs);
  for (size_t i = 0; i < output_types.size(); ++i) {
    if (!output_types[i]) {
      node.outputs.push_back(kNone);
      continue;
    }
    const bool named = i < output_names.size() && !output_names[i].empty();
    const std::string hint = named ? output_names[i] : i == 0 ? node.name : fmt::format("{}_{}", node.name, i);
    const ValueId out = add_value(hint, *output_types[i]);
    values_.back().producer = id;
    values_.back().output_index = static_cast<int32_t>(i);
    node.outputs.push_back(out);
  }
  node_names_.emplace(node.name, id);
  nodes_.push_back(std::move(node));
  position_.push_back(order_.empty() ? 0 : position_[static_cast<size_t>(order_.back())] + 1);
  is_touched_.push_back(false);
  reads_.emplace_back();
  order_.push_back(id);
  note_uses(id);
  return id;
}

void Graph::add_output(ValueId id, std::string output_name) {
  ++changes_;
  output_places_[id].push_back(outputs_.size());
  outputs_.push_back({std::move(output_name), id});
}

void Graph::set_output(size_t index, ValueId to) {
  ValueId& from = outputs_.at(index).value;
  if (from == to) return;
  ++changes_;
  std::vector<size_t>& places = output_places_.at(from);
  std::erase(places, index);
  if (places.empty()) output_places_.erase(from);
  output_places_[to].push_back(index);
  from = to;
}

void Graph::clear_outputs() {
  ++changes_;
  outputs_.clear();
  output_places_.clear();
}

const std::vector<NodeId>& Graph::order() const {
  if (has_erased_) {
    std::erase_if(order_, [this](NodeId id) { return nodes_[static_cast<size_t>(id)].dead; });
    has_erased_ = false;
  }
  return order_;
}

Node& Graph::change_node(NodeId id) {
  ++changes_;
  Node& found = nodes_.at(static_cast<size_t>(id));
  if (!is_touched_[static_cast<size_t>(id)]) {
    is_touched_[static_cast<size_t>(id)] = true;
    touched_.push_back(id);
  }
  return found;
}

void Graph::note_uses(NodeId id) const {
  const std::vector<ValueId>& now = nodes_[static_cast<size_t>(id)].inputs;
  std::vector<ValueId>& known = reads_[static_cast<size_t>(id)];
  if (known == now) return;
  const auto each = [this](const std::vector<ValueId>& list, const auto& visit) {
    for (ValueId v : list) {
      if (v >= 0 && static_cast<size_t>(v) < users_.size()) visit(static_cast<size_t>(v));
    }
  };
  each(known, [this](size_t v) { is_stale_[v] = true; });
  each(now, [&](size_t v) {
    if (users_[v].empty() || users_[v].back() != id) users_[v].push_back(id);
  });
  known = now;
}

void Graph::settle() const {
  for (NodeId id : touched_) note_uses(id);
  if (touched_.size() <= kRecent) return;
  const auto recent = touched_.end() - kRecent;
  for (auto it = touched_.begin(); it != recent; ++it) is_touched_[static_cast<size_t>(*it)] = false;
  touched_.erase(touched_.begin(), recent);
}

NodeId Graph::changed_too_late() const {
  for (NodeId id : order()) {
    if (!is_touched_[static_cast<size_t>(id)] && reads_[static_cast<size_t>(id)] != node(id).inputs) return id;
  }
  return kNone;
}

std::vector<NodeId> Graph::users(ValueId id) const {
  settle();
  const auto index = static_cast<size_t>(id);
  std::vector<NodeId> found;
  for (NodeId candidate : users_.at(index)) {
    const Node& n = node(candidate);
    if (!n.dead && (!is_stale_[index] || reads(n, id))) found.push_back(candidate);
  }
  std::sort(found.begin(), found.end(), [this](NodeId a, NodeId b) {
    return std::pair(position_[static_cast<size_t>(a)], a) < std::pair(position_[static_cast<size_t>(b)], b);
  });
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

NodeId Graph::only_user(ValueId id) const {
  settle();
  const auto index = static_cast<size_t>(id);
  NodeId found = kNone;
  for (NodeId candidate : users_.at(index)) {
    const Node& n = node(candidate);
    if (candidate == found || n.dead || (is_stale_[index] && !reads(n, id))) continue;
    if (found != kNone) return kNone;
    found = candidate;
  }
  return found;
}

void Graph::replace_uses(ValueId from, ValueId to) {
  if (from == to) return;
  ++changes_;
  if (const std::string fault = replacement_fault(*this, from, to); !fault.empty())
    fail(ErrorKind::internal, "graph '{}': {}", name, fault);
  TensorType& type = values_[static_cast<size_t>(to)].type;
  const std::optional<DType> stored = values_[static_cast<size_t>(from)].type.layout.stored;
  if (stored && !type.layout.stored && !value(to).constant && !is_output(to) && users(to).empty())
    type.layout.stored = stored;
  std::vector<NodeId>& readers = users_[static_cast<size_t>(to)];
  for (NodeId user : users(from)) {
    Node& n = nodes_[static_cast<size_t>(user)];
    std::replace(n.inputs.begin(), n.inputs.end(), from, to);
    std::vector<ValueId>& known = reads_[static_cast<size_t>(user)];
    std::replace(known.begin(), known.end(), from, to);
    if (readers.empty() || readers.back() != user) readers.push_back(user);
  }
  users_[static_cast<size_t>(from)].clear();
  is_stale_[static_cast<size_t>(from)] = false;
  values_[static_cast<size_t>(from)].replaced_by = to;
  const auto places = output_places_.extract(from);
  if (places.empty()) return;
  std::vector<size_t>& others = output_places_[to];
  for (size_t index : places.mapped()) {
    outputs_[index].value = to;
    others.push_back(index);
  }
}

void Graph::kill(ValueId id) {
  Value& v = values_[static_cast<size_t>(id)];
  if (v.dead) return;
  ++changes_;
  v.dead = true;
  v.constant.reset();
  value_names_.erase(v.name);
}

void Graph::bury(Node& node) {
  ++changes_;
  node.dead = true;
  node_names_.erase(node.name);
  for (ValueId output : node.outputs) {
    if (output != kNone) kill(output);
  }
}

void Graph::erase(NodeId id) {
  Node& n = nodes_.at(static_cast<size_t>(id));
  if (n.dead) return;
  bury(n);
  has_erased_ = true;
}

void Graph::sort() {
  if (sorted_at_ == changes_) return;
  enum class State : uint8_t { fresh, open, done };
  std::vector<State> state(nodes_.size(), State::fresh);
  std::vector<NodeId> sorted;
  order();
  sorted.reserve(order_.size());
  std::vector<std::pair<NodeId, size_t>> stack;  // a node and the index of the next input to visit
  for (NodeId root : order_) {
    if (state[static_cast<size_t>(root)] != State::fresh) continue;
    stack.emplace_back(root, 0);
    state[static_cast<size_t>(root)] = State::open;
    while (!stack.empty()) {
      auto& [id, next] = stack.back();
      const Node& n = nodes_[static_cast<size_t>(id)];
      if (next == n.inputs.size()) {
        state[static_cast<size_t>(id)] = State::done;
        sorted.push_back(id);
        stack.pop_back();
        continue;
      }
      const ValueId input = n.inputs[next++];
      const NodeId producer = input == kNone ? kNone : value(input).producer;
      if (producer == kNone || nodes_.at(static_cast<size_t>(producer)).dead) continue;
      State& seen = state[static_cast<size_t>(producer)];
      if (seen == State::open) {
        fail(ErrorKind::internal, "graph '{}' has a cycle: {} reads '{}', which depends on it", name, label(n),
             value(input).name);
      }
      if (seen == State::fresh) {
        seen = State::open;
        stack.emplace_back(producer, 0);
      }
    }
  }
  order_ = std::move(sorted);
  for (auto& list : users_) list.clear();
  for (auto& list : reads_) list.clear();
  is_stale_.assign(users_.size(), false);
  for (size_t i = 0; i < order_.size(); ++i) {
    position_[static_cast<size_t>(order_[i])] = static_cast<int64_t>(i);
    note_uses(order_[i]);
  }
  for (NodeId id : touched_) is_touched_[static_cast<size_t>(id)] = false;
  touched_.clear();
  sorted_at_ = changes_;
}

int Graph::remove_dead() {
  if (swept_at_ == changes_) return 0;
  std::vector<bool> needed(values_.size(), false);
  std::vector<ValueId> work;
  const auto need = [&](ValueId id) {
    if (id == kNone || needed[static_cast<size_t>(id)]) return;
    needed[static_cast<size_t>(id)] = true;
    work.push_back(id);
  };
  for (const Output& output : outputs_) need(output.value);
  std::vector<bool> keep(nodes_.size(), false);
  while (!work.empty()) {
    const NodeId producer = value(work.back()).producer;
    work.pop_back();
    if (producer == kNone || keep[static_cast<size_t>(producer)]) continue;
    keep[static_cast<size_t>(producer)] = true;
    for (ValueId input : nodes_[static_cast<size_t>(producer)].inputs) need(input);
  }
  std::vector<NodeId> live;
  int gone = 0;
  for (NodeId id : order_) {
    Node& n = nodes_[static_cast<size_t>(id)];
    if (keep[static_cast<size_t>(id)]) {
      live.push_back(id);
      continue;
    }
    if (n.dead) continue;
    bury(n);
    ++gone;
  }
  order_ = std::move(live);
  has_erased_ = false;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].constant && !needed[i]) kill(static_cast<ValueId>(i));
  }
  swept_at_ = changes_;
  return gone;
}

std::string Graph::fresh_name(std::string_view hint) const { return unused(value_names_, value_suffixes_, hint); }

void Graph::rename(ValueId id, std::string_view hint) {
  if (value(id).name == hint) return;
  rename_in(value_names_, value_suffixes_, change_value(id).name, id, hint);
}

void Graph::rename_node(NodeId id, std::string_view hint) {
  ++changes_;
  Node& n = nodes_.at(static_cast<size_t>(id));
  n.named_after = hint;
  rename_in(node_names_, node_suffixes_, n.name, id, hint);
}

void Graph::give_names_back(NodeId first) {
  settle();
  order();
  for (NodeId id : order_) {
    const Node& n = nodes_[static_cast<size_t>(id)];
    if (id >= first && n.name != n.named_after && !node_names_.contains(n.named_after))
      rename_node(id, std::string(n.named_after));
  }
}

ValueId Graph::find_value(std::string_view value_name) const {
  const auto it = value_names_.find(value_name);
  return it == value_names_.end() ? kNone : it->second;
}

}  // namespace kilter
