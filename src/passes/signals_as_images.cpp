// Keeps the signals [n,c,w] between convolutions as the images [n,c,1,w] that the convolutions read and write, so that
// factors and shifts fold into them, activations join them, and no layout changes remain between them.
//
//   %a: [n,c,1,w] = Conv(%x, %w)          %a: [n,c,1,w] = Conv(%x, %w)
//   %s: [n,c,w] = Reshape(%a)             %b: [n,c,1,w] = Relu(%a)
//   %b: [n,c,w] = Relu(%s)          =>    %c: [n,c,1,w] = Conv(%b, %v)
//   %t: [n,c,1,w] = Reshape(%b)
//   %c: [n,c,1,w] = Conv(%t, %v)
//
// This covers element-wise nodes, concatenations, runs of channels, reductions over w, and normalisations of channels.
// Signals that no convolution or pool computes stay as they are.

#include <algorithm>
#include <map>
#include <set>

#include "graph/values.h"
#include "ops/support/builder.h"
#include "ops/support/reduction.h"
#include "passes/pass.h"
#include "schedule/emit.h"

namespace kilter {
namespace {

/// The image shape for the shape of a signal, or of an operand that broadcasts to one.
Shape with_row(Shape shape) {
  shape.insert(shape.end() - 1, 1);
  return shape;
}

class Signals {
 public:
  Signals(Graph& graph, PassContext& context) : graph_(graph), context_(context), b_(graph) {}

  void run() {
    for (NodeId id : std::vector<NodeId>(graph_.order())) {
      const Node& node = graph_.node(id);
      const bool all = std::none_of(node.outputs.begin(), node.outputs.end(), [](ValueId v) { return v == kNone; });
      const bool known = node.op->domain.empty() || node.op->family == Family::map || node.op->family == Family::conv;
      if (node.dead || !all || !known || (node.outputs.size() > 1 && node.op->movement != Movement::split)) continue;
      if (type(node.outputs[0]).dtype != DType::f32 && node.op->family != Family::conv) continue;
      note_image(node);
      if (type(node.outputs[0]).shape.size() == 3) lift(id, node);
      if (node.op->family == Family::reshape) cancel(id, node);
    }
    graph_.sort();
    graph_.remove_dead();
    for (const auto& [image, name] : lifted_) {
      if (!graph_.value(image).dead && graph_.find_value(name) == kNone) graph_.rename(image, name);
    }
  }

 private:
  const TensorType& type(ValueId v) const { return graph_.type(v); }

  /// Records one-row images that a convolution or pool computes, and those computed from them.
  void note_image(const Node& node) {
    const Shape& shape = type(node.outputs[0]).shape;
    if (shape.size() != 4 || shape[2] != 1) return;
    const Family family = node.op->family;
    const bool makes = family == Family::conv || family == Family::conv_transpose || family == Family::pool;
    const bool passes_on = family == Family::map || family == Family::reduce || family == Family::normalize;
    const bool of_images =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return images_.contains(v); });
    const Movement movement = node.op->movement;
    const bool moves = movement == Movement::concat || movement == Movement::split || movement == Movement::slice;
    if (makes || (of_images && (passes_on || moves))) images_.insert(node.outputs.begin(), node.outputs.end());
  }

  /// The image that a signal is a view of; kNone if there is none.
  ValueId image_of(ValueId v) const {
    if (v == kNone || graph_.value(v).producer == kNone) return kNone;
    const Node& node = graph_.node(graph_.value(v).producer);
    if (node.op->family != Family::reshape || !images_.contains(node.inputs[0]) || type(v).shape.size() != 3)
      return kNone;
    return type(node.inputs[0]).shape == with_row(type(v).shape) ? node.inputs[0] : kNone;
  }

  void cancel(NodeId id, const Node& node) {
    const ValueId image = image_of(node.inputs[0]);
    if (image == kNone || type(image) != type(node.outputs[0]) || !context_.take()) return;
    graph_.replace_uses(node.outputs[0], image);
    graph_.erase(id);
  }

  /// Computes a node over images, if possible.
  void lift(NodeId id, const Node& node) {
    const bool any =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return image_of(v) != kNone; });
    const bool can = any && ((node.op->family == Family::map && elementwise(node)) || joins(node) || reduces(node) ||
                             normalises(node) || parts(node));
    if (!can || !context_.take()) return;
    const std::vector<ValueId> images = over_images(node);
    std::vector<std::pair<ValueId, std::string>> signals;
    for (size_t i = 0; i < images.size(); ++i) {
      const std::string name = graph_.value(node.outputs[i]).name;
      signals.emplace_back(reshaped(images[i], type(node.outputs[i]).shape, node.name + ".out"), name);
      graph_.replace_uses(node.outputs[i], signals[i].first);
      images_.insert(images[i]);
      lifted_.emplace_back(images[i], name);
    }
    graph_.erase(id);
    for (const auto& [signal, name] : signals) graph_.rename(signal, name);
  }

  /// Whether all operands broadcast to the signal and are f32, images, constants, or have one element, and one is an
  /// image of the whole shape.
  bool elementwise(const Node& node) const {
    if (!has_loop_form(graph_, node) || node.has_attr("axis")) return false;
    const Shape& out = type(node.outputs[0]).shape;
    const auto fits = [&](ValueId v) {
      if (v == kNone) return true;
      const bool reads = type(v).dtype == DType::f32 || image_of(v) != kNone || constant_of(graph_, v) != nullptr;
      return type(v).shape.size() <= 3 && (reads || elems(type(v).shape) == 1);
    };
    const auto whole = [&](ValueId v) { return image_of(v) != kNone && type(v).shape == out; };
    return std::all_of(node.inputs.begin(), node.inputs.end(), fits) &&
           std::any_of(node.inputs.begin(), node.inputs.end(), whole);
  }

  /// Whether a Concat joins only images, constants and network inputs; values from other nodes are written in place
  /// anyway.
  bool joins(const Node& node) const {
    if (node.op->movement != Movement::concat) return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId v) { return image_of(v) != kNone || graph_.value(v).producer == kNone; });
  }

  bool reduces(const Node& node) const {
    return node.op->family == Family::reduce && node.int_attr("keepdims", 1) != 0 &&
           reduced_axes(view(graph_, node)) == std::vector<int64_t>{2};
  }

  bool normalises(const Node& node) const {
    return over_pixels(node.op->statistics) && image_of(node.inputs[0]) != kNone;
  }

  /// Whether the node is a Split, or a Slice, along the channels.
  bool parts(const Node& node) const {
    if (node.op->movement == Movement::split) return normal_axis(node, node.int_attr("axis", 0), 3) == 1;
    if (node.op->movement != Movement::slice) return false;
    const Tensor* axes = constant_of(graph_, node.input(3));
    return axes != nullptr && axes->elems() == 1 && normal_axis(node, axes->ints()[0], 3) == 1;
  }

  std::vector<ValueId> over_images(const Node& node) {
    GraphBuilder::Options options;
    options.name = node.name;
    options.opset = node.opset;
    options.domain = node.op->domain;
    options.expand = false;
    options.output_count = node.outputs.size();
    Attrs attrs = node.attrs;
    if (node.op->family == Family::reduce) {
      const ValueId list = b_.list(std::vector<int64_t>{2, 3}, node.name + ".axes");
      return {b_.add(node.op->name, {image_of(node.inputs[0]), list}, {{"keepdims", int64_t{1}}}, node.name)};
    }
    if (node.op->movement == Movement::concat) {
      const int64_t axis = normal_axis(node, node.int_attr("axis", 1), 3);
      attrs["axis"] = axis == 2 ? int64_t{3} : axis;
    }
    std::vector<ValueId> inputs = node.inputs;
    if (node.op->movement == Movement::split) attrs["axis"] = int64_t{1};
    if (node.op->movement == Movement::slice)
      inputs[3] = b_.constant(Tensor::of<int64_t>({1}, {1}), node.name + ".axes");
    const bool all = node.op->family == Family::map || node.op->movement == Movement::concat;
    for (size_t i = 0; i < (all ? inputs.size() : 1); ++i) inputs[i] = as_image(inputs[i]);
    return b_.add(node.op->name, inputs, attrs, options);
  }

  /// Turns an operand that broadcasts to signals into one that broadcasts to images.
  ValueId as_image(ValueId v) {
    if (v == kNone || type(v).shape.size() < 2) return v;
    if (const ValueId image = image_of(v); image != kNone) return image;
    const auto [it, fresh] = as_images_.try_emplace(v, kNone);
    if (!fresh) return it->second;
    const Shape shape = with_row(type(v).shape);
    const std::string name = graph_.value(v).name;
    it->second = constant_of(graph_, v) != nullptr ? b_.constant(constant_of(graph_, v)->reshaped(shape), name)
                                                   : reshaped(v, shape, name + ".image");
    return it->second;
  }

  ValueId reshaped(ValueId v, const Shape& shape, const std::string& name) {
    return b_.add("Reshape", {v, b_.list(shape)}, {{"allowzero", int64_t{1}}}, name);
  }

  Graph& graph_;
  PassContext& context_;
  GraphBuilder b_;
  std::set<ValueId> images_;
  std::map<ValueId, ValueId> as_images_;                 ///< operands that are not images
  std::vector<std::pair<ValueId, std::string>> lifted_;  ///< images and the names of their signals
};

}  // namespace

void signals_as_images(Graph& graph, PassContext& context) { Signals(graph, context).run(); }

}  // namespace kilter
