#include "quantize/plan.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"

namespace kilter::quantize {
namespace {

constexpr std::array kRoles = {
    Role{"Conv", Kind::product, "QLinearConv"},
    Role{"Gemm", Kind::product, "com.microsoft:QGemm", 1, 0, true, true},
    Role{"MatMul", Kind::product, "QLinearMatMul", 2, 0, true, false},
    Role{"Add", Kind::arithmetic, "com.microsoft:QLinearAdd", 2},
    Role{"Mul", Kind::arithmetic, "com.microsoft:QLinearMul", 2},
    Role{"Concat", Kind::concat, "com.microsoft:QLinearConcat", -1},
    Role{"AveragePool", Kind::average, "com.microsoft:QLinearAveragePool"},
    Role{"GlobalAveragePool", Kind::average, "com.microsoft:QLinearGlobalAveragePool"},
    Role{"Sigmoid", Kind::unary, "com.microsoft:QLinearSigmoid"},
    Role{"LeakyRelu", Kind::unary, "com.microsoft:QLinearLeakyRelu"},
    Role{"MaxPool", Kind::movement, "", 1, 12},
    Role{"Reshape", Kind::movement, ""},
    Role{"Flatten", Kind::movement, "", 1, 9},
    Role{"Transpose", Kind::movement, ""},
    Role{"Squeeze", Kind::movement, ""},
    Role{"Unsqueeze", Kind::movement, ""},
    Role{"Identity", Kind::movement, ""},
};

const Role* role_of(const pb::NodeProto& node) {
  const auto found = std::ranges::find(kRoles, std::string_view(op_name(node)), &Role::op);
  return found == kRoles.end() ? nullptr : &*found;
}

class Planner {
 public:
  Planner(Document& document, const Types& types, Format format, const std::set<std::string>& exclude)
      : document_(document), types_(types), format_(format), exclude_(exclude), uses_(document) {}

  Plan make() {
    for (int i = 0; i < document_.nodes().size(); ++i) roles_.push_back(role_of(node(i)));
    for (int i = 0; i < document_.nodes().size(); ++i) {
      if (role(i) != nullptr && role(i)->kind == Kind::product) add_product(i);
    }
    for (int i = 0; i < document_.nodes().size(); ++i) {
      if (role(i) != nullptr && role(i)->kind != Kind::product) add_follower(i);
    }
    std::ranges::sort(plan_.layers, {}, &Layer::node);
    share_scales();
    return std::move(plan_);
  }

 private:
  const pb::NodeProto& node(int i) const { return document_.nodes()[i]; }
  const Role* role(int i) const { return roles_[static_cast<size_t>(i)]; }
  bool excluded(int i) const { return exclude_.contains(node_name(node(i))); }

  bool is_floats(const std::string& value) const { return types_(value) == DType::f32; }
  bool is_constant(const std::string& value) const { return document_.constant(value) != nullptr; }

  /// Returns the operands of a node that are activations.
  std::vector<std::string> activations(int i) const {
    std::vector<std::string> found;
    const int most = role(i)->activations < 0 ? node(i).input_size() : role(i)->activations;
    for (int k = 0; k < std::min(most, node(i).input_size()); ++k) {
      const std::string& value = node(i).input(k);
      if (role(i)->kind == Kind::product && k == 1 && is_constant(value)) continue;  // the weights of a MatMul
      found.push_back(value);
    }
    return found;
  }

  /// Returns why a product stays float; empty if it does not.
  std::string obstacle(int i) const {
    const pb::NodeProto& n = node(i);
    if (excluded(i)) return "--exclude";
    if (n.input_size() < 2 || n.output_size() != 1) return "it has no weights";
    for (const std::string& value : activations(i)) {
      if (is_constant(value)) return "its first operand is constant";
      if (!is_floats(value)) return fmt::format("its operand '{}' is not f32", printable(value));
    }
    const Tensor* weights = document_.constant(n.input(1));
    if (weights == nullptr && role(i)->activations == 1) return "its weights are computed at run time";
    if (weights != nullptr && weights->dtype() != DType::f32) return "its weights are not f32";
    if (weights != nullptr && weights->elems() == 0) return "its weights are empty";
    if (role(i)->activations == 2 && weights != nullptr && weights->rank() != 2)
      return fmt::format("its weights have rank {}, expected 2", weights->rank());
    return bias_obstacle(n, weights);
  }

  std::string bias_obstacle(const pb::NodeProto& n, const Tensor* weights) const {
    const bool transposed = int_attribute(n, "transB", 0) != 0;
    if (find_attribute(n, "alpha") != nullptr || find_attribute(n, "beta") != nullptr) {
      if (float_attribute(n, "alpha", 1) != 1 || float_attribute(n, "beta", 1) != 1) return "alpha or beta is not 1";
    }
    if (int_attribute(n, "transA", 0) != 0) return "transA is set";
    if (n.input_size() < 3 || n.input(2).empty()) return {};
    const Tensor* bias = document_.constant(n.input(2));
    if (bias == nullptr || bias->dtype() != DType::f32) return "its bias is not constant, or not f32";
    const int64_t outputs = weights->rank() > 2 || transposed ? weights->shape()[0] : weights->shape().back();
    if (bias->rank() == 0 || bias->elems() != outputs || bias->shape().back() != outputs)
      return fmt::format("its bias has shape {}, expected {}", text(bias->shape()), outputs);
    return {};
  }

  /// Whether a node may become a layer whose operands are quantised, as far as its own form decides.
  bool may_be_layer(int i) const {
    if (role(i) == nullptr || excluded(i)) return false;
    if (role(i)->kind == Kind::product) return obstacle(i).empty();
    const std::vector<std::string> all = activations(i);
    const bool movable = format_ != Format::qoperator || document_.opset() >= role(i)->integers_since;
    return movable && node(i).output_size() == 1 && !uses_.read_elsewhere(node(i).output(0)) && !all.empty() &&
           std::ranges::all_of(all, [&](const std::string& v) { return !is_constant(v) && is_floats(v); });
  }

  /// Returns a Clip or Relu that alone reads the value and that saturation of its result can replace, or -1.
  int clip_after(const std::string& value) const {
    const int next = uses_.only_reader(value);
    if (next < 0 || excluded(next)) return -1;
    const pb::NodeProto& n = node(next);
    const std::string op = op_name(n);
    if (op == "Relu") return next;
    if (op != "Clip" || n.input(0) != value) return -1;
    // The range of a result never leaves the Clip's own. So only its lower limit decides whether saturation clips
    // exactly: the zero point is then the smallest integer.
    if (document_.opset() < 11) return float_attribute(n, "min", -1) == 0 ? next : -1;
    const Tensor* low = n.input_size() > 1 && !n.input(1).empty() ? document_.constant(n.input(1)) : nullptr;
    return low != nullptr && low->dtype() == DType::f32 && low->as_double(0) == 0 ? next : -1;
  }

  /// Whether the result of a product that may be float is worth quantising: something computes on it as integers, or
  /// adds a bias. (ONNX Runtime joins a product with float results and the Add of a bias to a Gemm on floats, before it
  /// looks for products on integers.)
  bool feeds_integers(const std::string& value) const {
    const auto reads_integers = [&](int i) { return may_be_layer(i) || adds_bias(i); };
    return !uses_.read_elsewhere(value) && std::ranges::any_of(uses_.readers(value), reads_integers);
  }
  bool adds_bias(int i) const {
    const pb::NodeProto& n = node(i);
    return op_name(n) == "Add" && !uses_.read_elsewhere(n.output(0)) &&
           std::any_of(n.input().begin(), n.input().end(), [&](const std::string& v) { return is_constant(v); });
  }

  void add_product(int i) {
    if (const std::string why = obstacle(i); !why.empty()) {
      plan_.left_out.push_back({node_name(node(i)), op_name(node(i)), why});
      return;
    }
    Layer layer = start(i);
    const bool may_be_float = format_ == Format::qoperator ? role(i)->op_float_result : role(i)->float_result;
    layer.writes_integers = !may_be_float || feeds_integers(layer.output);
    if (!layer.writes_integers && layer.clip >= 0) layer.clip = -1, layer.output = node(i).output(0);
    add(std::move(layer));
  }

  void add_follower(int i) {
    if (!may_be_layer(i)) return;
    Layer layer = start(i);
    if (layer.clip >= 0 && uses_.read_elsewhere(layer.output)) return;
    if (!std::ranges::all_of(layer.activations, [&](const std::string& v) { return plan_.quantised(v); })) return;
    add(std::move(layer));
  }

  Layer start(int i) const {
    Layer layer;
    layer.node = i, layer.role = role(i), layer.output = node(i).output(0), layer.activations = activations(i);
    if (role(i)->kind == Kind::product || role(i)->kind == Kind::arithmetic) layer.clip = clip_after(layer.output);
    if (layer.clip >= 0) layer.output = node(layer.clip).output(0);
    return layer;
  }

  void add(Layer layer) {
    for (const std::string& value : layer.activations) plan_.values.emplace(value, value);
    if (layer.writes_integers) plan_.values.emplace(layer.output, layer.output);
    plan_.layers.push_back(std::move(layer));
  }

  /// Gives the results of movements the scales of their operands. Layers are in the order of the nodes, so an operand's
  /// own scale is final when a movement takes it.
  void share_scales() {
    for (const Layer& layer : plan_.layers) {
      if (layer.role->kind == Kind::movement) plan_.values[layer.output] = plan_.values.at(layer.activations.front());
    }
  }

  Document& document_;
  const Types& types_;
  Format format_;
  const std::set<std::string>& exclude_;
  Uses uses_;
  std::vector<const Role*> roles_;
  Plan plan_;
};

[[noreturn]] void fail_empty(const Document& document, const Plan& plan) {
  for (const auto& node : document.nodes()) {
    if (node.op_type() == "QuantizeLinear" || node.op_type() == "DequantizeLinear" || node.op_type() == "QLinearConv") {
      fail(ErrorKind::bad_model, "{}: the model is already quantised: it contains {} '{}'; give the float model",
           document.file(), op_name(node), printable(node_name(node)));
    }
  }
  std::string list;
  for (size_t i = 0; i < plan.left_out.size() && i < 5; ++i) {
    const LeftOut& left = plan.left_out[i];
    list += fmt::format("\n  {} '{}': {}", left.op, printable(left.node), left.reason);
  }
  fail(ErrorKind::bad_model,
       "{}: nothing to quantise: expected at least one Conv, Gemm or MatMul on f32 with constant weights, found {}{}",
       document.file(), plan.left_out.empty() ? "none" : fmt::format("{} that cannot be:", plan.left_out.size()), list);
}

}  // namespace

const Layer* Plan::layer_of(int node) const {
  const auto at = std::ranges::lower_bound(layers, node, {}, &Layer::node);
  return at != layers.end() && at->node == node ? &*at : nullptr;
}

void check_nodes_exist(const Document& document, const std::set<std::string>& names) {
  for (const std::string& name : names) {
    const auto is_it = [&](const pb::NodeProto& n) { return node_name(n) == name; };
    if (std::any_of(document.nodes().begin(), document.nodes().end(), is_it)) continue;
    fail(ErrorKind::usage,
         "--exclude {}: {} has no node of this name; legal values are the names in the table that quantize prints, and "
         "those that `kilter inspect` lists; a node without a name is named after its first output",
         name, document.file());
  }
}

Plan make_plan(Document& document, const Types& types, Format format, const std::set<std::string>& exclude) {
  Plan plan = Planner(document, types, format, exclude).make();
  const auto is_product = [](const Layer& layer) { return layer.role->kind == Kind::product; };
  if (std::ranges::none_of(plan.layers, is_product)) fail_empty(document, plan);
  return plan;
}

}  // namespace kilter::quantize
