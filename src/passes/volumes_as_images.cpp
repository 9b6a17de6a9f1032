// Computes volumes [n,c,d,h,w] as images of their frames [n*d,c,h,w]. A convolution or pool over the depth becomes one
// over images whose channels are those of several frames.
//
//   %y = Conv(%x, w [k,c,3,r,s])     =>   %f = frames of %x; %p = Concat(0, %f, 0)
//                                         %y = volumes of Conv(Frames(%p, 3), w' [k,3*c,r,s])
//   %z = Relu(%y)                    =>   %z = volumes of Relu(frames of %y)
//   ConvTranspose(%x, w)             =>   one ConvTranspose of images for each phase of the depth
//   MaxPool, AveragePool             =>   the pool of images, then the maximum or mean of frames
//
// With groups or dilated depths, one convolution per kernel frame is computed, and their results are added. Frames stay
// frames through element-wise nodes, concatenations of channels, normalisations, and reductions to one element per
// channel.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "base/align.h"
#include "graph/values.h"
#include "ops/support/builder.h"
#include "ops/support/reduction.h"
#include "ops/support/window.h"
#include "passes/pass.h"
#include "schedule/emit.h"

namespace kilter {
namespace {

using Ints = std::vector<int64_t>;

/// The window without its depth.
Window of_images(Window w) {
  for (auto* all : {&w.kernel, &w.strides, &w.dilations, &w.pads_begin, &w.pads_end, &w.in, &w.out})
    all->erase(all->begin());
  return w;
}

/// The filters at depths `at` of filters [a, b, depth, ...], side by side in dimension 1: [a, at.size() * b, ...]; with
/// `outer` in dimension 0: [at.size() * a, b, ...].
Tensor filters_at(const Tensor& w, const Ints& at, bool outer) {
  const Shape& s = w.shape();
  const int64_t plane = s[3] * s[4], count = static_cast<int64_t>(at.size());
  Tensor all(DType::f32, outer ? Shape{count * s[0], s[1], s[3], s[4]} : Shape{s[0], count * s[1], s[3], s[4]});
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t a = 0; a < s[0]; ++a) {
      for (int64_t b = 0; b < s[1]; ++b) {
        const int64_t to = outer ? (i * s[0] + a) * s[1] + b : (a * count + i) * s[1] + b;
        const int64_t from = (a * s[1] + b) * s[2] + at[static_cast<size_t>(i)];
        std::copy_n(w.data<float>() + from * plane, plane, all.data<float>() + to * plane);
      }
    }
  }
  return all;
}

class Volumes {
 public:
  Volumes(Graph& graph, PassContext& context) : graph_(graph), context_(context), b_(graph) {}

  void run() {
    for (NodeId id : std::vector<NodeId>(graph_.order())) {
      const Node& node = graph_.node(id);
      const auto first = static_cast<NodeId>(graph_.node_count());
      if (node.dead || !node.op->domain.empty() || node.outputs.size() != 1 || !volume(node.outputs[0])) continue;
      const ValueId made = over_frames(node);
      if (made == kNone) continue;
      const ValueId out = node.outputs[0];
      const std::string name = graph_.value(out).name;
      const ValueId whole = whole_of(made, type(out).shape, node.name + ".out");
      frames_[whole] = made;
      graph_.replace_uses(out, whole);
      graph_.erase(id);
      graph_.rename(whole, name);
      name_after(node, first);
    }
    graph_.sort();
    graph_.remove_dead();
  }

 private:
  const TensorType& type(ValueId v) const { return graph_.type(v); }
  const Tensor* constant(ValueId v) const { return constant_of(graph_, v); }
  bool volume(ValueId v) const {
    return v != kNone && type(v).dtype == DType::f32 && type(v).shape.size() == 5 && elems(type(v).shape) > 0;
  }
  bool has_frames(ValueId v) const { return v != kNone && frames_.contains(v); }

  /// Gives the name of `node`, which has been erased, to the first node from `first` on that was named after it: tasks,
  /// schedules and other runtimes' profiles use that name.
  void name_after(const Node& node, NodeId first) {
    for (auto id = first; id < static_cast<NodeId>(graph_.node_count()); ++id) {
      const std::string& name = graph_.node(id).name;
      const bool after = name.starts_with(node.name + "_") &&
                         name.find_first_not_of("0123456789", node.name.size() + 1) == std::string::npos;
      if (after) return graph_.rename_node(id, node.name);
    }
  }

  /// The value of the node computed over frames; kNone if the node stays as it is.
  ValueId over_frames(const Node& node) {
    if (node.op->movement == Movement::concat) return concat(node);
    switch (node.op->family) {
      case Family::conv:
        return conv(node);
      case Family::conv_transpose:
        return conv_transpose(node);
      case Family::pool:
        return node.op->combiner != Combiner::none ? pool(node) : kNone;
      case Family::reduce:
        return reduce(node);
      case Family::normalize:
        return normalize(node);
      case Family::map:
        return elementwise(node);
      default:
        return kNone;
    }
  }

  // --- volumes and their frames ---

  ValueId reshaped(ValueId v, const Shape& shape, const std::string& name) {
    if (type(v).shape == shape) return v;
    return b_.add("Reshape", {v, b_.list(shape)}, {{"allowzero", int64_t{1}}}, name);
  }

  /// Exchanges depth and channels, if both exceed one.
  ValueId swapped(ValueId v, const std::string& name) {
    const Shape& s = type(v).shape;
    return s[1] == 1 || s[2] == 1 ? v : b_.add("Transpose", {v}, {{"perm", Ints{0, 2, 1, 3, 4}}}, name);
  }

  ValueId frames_of(ValueId v) {
    if (const auto it = frames_.find(v); it != frames_.end()) return it->second;
    const Shape s = type(v).shape;
    const std::string name = graph_.value(v).name + ".frames";
    return frames_[v] = reshaped(swapped(v, name), {s[0] * s[2], s[1], s[3], s[4]}, name);
  }

  ValueId whole_of(ValueId frames, const Shape& shape, const std::string& name) {
    const bool turns = shape[1] != 1 && shape[2] != 1;
    if (!turns) return reshaped(frames, shape, name);
    return swapped(reshaped(frames, {shape[0], shape[2], shape[1], shape[3], shape[4]}, name), name);
  }

  /// The frames of `volumes` volumes, with frames filled with `value` before and after those of each volume.
  ValueId padded(ValueId frames, int64_t volumes, int64_t before, int64_t after, float value) {
    if (before == 0 && after == 0) return frames;
    const auto key = std::make_tuple(frames, before, after, std::bit_cast<uint32_t>(value));
    if (const auto it = padded_.find(key); it != padded_.end()) return it->second;
    const Shape s = type(frames).shape;
    const std::string name = graph_.value(frames).name + ".padded";
    const bool one = volumes == 1;
    const auto border = [&](int64_t count) {
      Tensor t(DType::f32, one ? Shape{count, s[1], s[2], s[3]} : Shape{volumes, count, s[1] * s[2] * s[3]});
      std::fill_n(t.data<float>(), t.elems(), value);
      return b_.constant(t, name);
    };
    const int64_t depth = s[0] / volumes;
    std::vector<ValueId> parts{one ? frames : reshaped(frames, {volumes, depth, s[1] * s[2] * s[3]}, name)};
    if (before > 0) parts.insert(parts.begin(), border(before));
    if (after > 0) parts.push_back(border(after));
    const ValueId joined = b_.add("Concat", parts, {{"axis", int64_t{one ? 0 : 1}}}, name);
    return padded_[key] = reshaped(joined, {volumes * (depth + before + after), s[1], s[2], s[3]}, name);
  }

  /// The padded frames that a window reads along the depth.
  ValueId padded(ValueId frames, int64_t volumes, const Window& win, float value) {
    const int64_t reach = (win.out[0] - 1) * win.strides[0] + win.span(0);
    const int64_t after = std::max<int64_t>(reach - win.pads_begin[0] - win.in[0], 0);
    return padded(frames, volumes, win.pads_begin[0], after, value);
  }

  struct Run {
    int64_t volumes, first, count, stride, frames;
  };
  ValueId runs(ValueId frames, const Run& r, const std::string& name) {
    if (r.first == 0 && r.stride == 1 && r.frames == 1 && r.volumes * r.count == type(frames).shape[0]) return frames;
    return b_.add_kilter(
        "Frames", {frames},
        {{"volumes", r.volumes}, {"first", r.first}, {"count", r.count}, {"stride", r.stride}, {"frames", r.frames}},
        name);
  }

  ValueId weights(const Node& node, const Tensor& w, const Ints& at, bool outer) {
    return b_.constant(filters_at(w, at, outer), graph_.value(node.inputs[1]).name + ".frames");
  }

  // --- operators ---

  /// The weights, if they are constant and the bias is constant or absent; null otherwise.
  const Tensor* weights_of(const Node& node) const {
    if (!volume(node.inputs[0]) || constant(node.inputs[0]) != nullptr) return nullptr;
    return node.input(2) == kNone || constant(node.input(2)) != nullptr ? constant(node.inputs[1]) : nullptr;
  }

  ValueId conv(const Node& node) {
    const Tensor* w = weights_of(node);
    if (w == nullptr || !context_.take()) return kNone;
    const Shape x = type(node.inputs[0]).shape;
    const Window win = conv_window(node, x, w->shape());
    const int64_t groups = node.int_attr("group", 1), depth = win.kernel[0], step = win.dilations[0];
    Attrs attrs = window_attrs(of_images(win));
    attrs["group"] = groups;
    const ValueId all = padded(frames_of(node.inputs[0]), x[0], win, 0);
    const bool at_once = depth == 1 || (groups == 1 && step == 1);
    ValueId sum = kNone;
    for (int64_t first = 0; first < depth; first += at_once ? depth : 1) {
      Ints at(static_cast<size_t>(at_once ? depth : 1));
      std::iota(at.begin(), at.end(), first);
      const auto frames = static_cast<int64_t>(at.size());
      const ValueId read = runs(all, {x[0], first * step, win.out[0], win.strides[0], frames}, node.name + ".read");
      std::vector<ValueId> inputs{read, weights(node, *w, at, false)};
      if (first == 0 && node.input(2) != kNone) inputs.push_back(node.input(2));
      const ValueId part = b_.add("Conv", inputs, attrs, node.name);
      sum = sum == kNone ? part : b_.add("Add", {sum, part}, {}, node.name + ".sum");
    }
    return sum;
  }

  /// Output frame q * stride + phase is a sum over input frames from q + offset on, one for each depth of the kernel
  /// that falls on it.
  ValueId conv_transpose(const Node& node) {
    const Tensor* w = weights_of(node);
    if (w == nullptr) return kNone;
    const Shape x = type(node.inputs[0]).shape;
    const Window win = conv_transpose_window(node, x, w->shape());
    const int64_t groups = node.int_attr("group", 1), stride = win.strides[0];
    const bool one_tap = win.kernel[0] == stride;  // per phase
    const bool dilated = std::any_of(win.dilations.begin(), win.dilations.end(), [](int64_t d) { return d != 1; });
    if (dilated || win.kernel[0] < stride || (groups > 1 && !one_tap) || !context_.take()) return kNone;
    Attrs attrs = window_attrs(of_images(win));
    attrs["group"] = groups;
    attrs["output_padding"] = output_padding(of_images(win));
    const int64_t count = ceil_div(win.out[0], stride);
    const int64_t before = (win.kernel[0] - 1) / stride;
    const int64_t after = std::max<int64_t>(count + (stride - 1 + win.pads_begin[0]) / stride - x[2], 0);
    const ValueId all = padded(frames_of(node.inputs[0]), x[0], before, after, 0);
    std::vector<ValueId> phases;
    for (int64_t phase = 0; phase < stride; ++phase) {
      Ints at;  // deepest first: these read the earliest frames
      for (int64_t k = win.kernel[0]; k-- > 0;) {
        if ((phase + win.pads_begin[0] - k) % stride == 0) at.push_back(k);
      }
      const int64_t offset = (phase + win.pads_begin[0] - at.front()) / stride;
      const auto frames = static_cast<int64_t>(at.size());
      std::vector<ValueId> inputs{runs(all, {x[0], before + offset, count, 1, frames}, node.name + ".read"),
                                  weights(node, *w, at, true)};
      if (node.input(2) != kNone) inputs.push_back(node.input(2));
      phases.push_back(b_.add("ConvTranspose", inputs, attrs, node.name));
    }
    if (stride == 1) return runs(phases[0], {x[0], 0, win.out[0], 1, 1}, node.name + ".depth");
    const ValueId joined = b_.add("Concat", phases, {{"axis", int64_t{1}}}, node.name + ".phases");
    const Shape y = type(phases[0]).shape;
    const ValueId frames = reshaped(joined, {y[0] * stride, y[1], y[2], y[3]}, node.name + ".phases");
    return runs(frames, {x[0], 0, win.out[0], 1, 1}, node.name + ".depth");
  }

  ValueId pool(const Node& node) {
    if (!volume(node.inputs[0]) || !context_.take()) return kNone;
    const Shape x = type(node.inputs[0]).shape;
    const Window win = pool_window(node, x);
    const bool mean = node.op->combiner == Combiner::mean;
    const ValueId flat =
        b_.add(node.op->name, {frames_of(node.inputs[0])}, pool_attrs(node, of_images(win)), node.name);
    const ValueId all = padded(flat, x[0], win, mean ? 0 : -std::numeric_limits<float>::infinity());
    std::vector<ValueId> frames;
    for (int64_t k = 0; k < win.kernel[0]; ++k)
      frames.push_back(runs(all, {x[0], k * win.dilations[0], win.out[0], win.strides[0], 1}, node.name + ".read"));
    ValueId y = frames[0];
    for (size_t k = 1; k < frames.size(); ++k)
      y = b_.add(mean ? "Add" : "Max", {y, frames[k]}, {}, node.name + ".depth");
    if (!mean || frames.size() == 1) return y;
    return b_.add("Mul", {y, shares(node, win, x[0])}, {}, node.name + ".mean");
  }

  /// The factors that turn each output frame's sum over its depth into a mean: [volumes * frames, 1, 1, 1].
  ValueId shares(const Node& node, const Window& win, int64_t volumes) {
    const bool padding = node.int_attr("count_include_pad", 0) != 0;
    const int64_t low = padding ? -win.pads_begin[0] : 0, high = win.in[0] + (padding ? win.pads_end[0] : 0);
    Tensor all(DType::f32, {volumes * win.out[0], 1, 1, 1});
    for (int64_t o = 0; o < all.elems(); ++o) {
      int64_t count = 0;
      for (int64_t k = 0; k < win.kernel[0]; ++k) {
        const int64_t at = win.source(0, o % win.out[0], k);
        if (at >= low && at < high) ++count;
      }
      all.data<float>()[o] = count == 0 ? 0 : 1 / static_cast<float>(count);
    }
    return b_.constant(all, node.name + ".shares");
  }

  /// Joins channels, frame by frame.
  ValueId concat(const Node& node) {
    const auto known = [&](ValueId v) { return has_frames(v); };
    if (normal_axis(node, node.int_attr("axis", 1), 5) != 1 ||
        std::none_of(node.inputs.begin(), node.inputs.end(), known) || !context_.take())
      return kNone;
    std::vector<ValueId> inputs;
    for (const ValueId v : node.inputs) inputs.push_back(frames_of(v));
    return b_.add("Concat", inputs, {{"axis", int64_t{1}}}, node.name);
  }

  /// Rewrites normalisations with one scale and one bias per channel.
  ValueId normalize(const Node& node) {
    const bool instance = node.op->statistics == Statistics::channel;
    const bool groups = node.op->statistics == Statistics::group && node.opset >= 21;
    if ((!instance && !groups) || !has_frames(node.inputs[0]) || !context_.take()) return kNone;
    const Shape x = type(node.inputs[0]).shape;
    return b_.add_kilter("FrameNormalization", {frames_of(node.inputs[0]), node.inputs[1], node.inputs[2]},
                         {{"volumes", x[0]},
                          {"num_groups", instance ? x[1] : node.int_attr("num_groups", 1)},
                          {"epsilon", node.float_attr("epsilon", 1e-5F)}},
                         node.name);
  }

  /// Rewrites reductions to one element per channel: reduces within frames first, then over them.
  ValueId reduce(const Node& node) {
    const Combiner combiner = node.op->combiner;
    const bool parts = combiner != Combiner::none && combiner != Combiner::product;
    if (!parts || !has_frames(node.inputs[0]) || node.int_attr("keepdims", 1) == 0 ||
        reduced_axes(view(graph_, node)) != Ints{2, 3, 4} || !context_.take())
      return kNone;
    const Shape x = type(node.inputs[0]).shape;
    const auto reduced = [&](ValueId v, const Ints& axes) {
      return b_.add(node.op->name, {v, b_.list(axes, node.name + ".axes")}, {{"keepdims", int64_t{1}}}, node.name);
    };
    const ValueId flat = reduced(frames_of(node.inputs[0]), {2, 3});
    const ValueId deep = reduced(reshaped(flat, {x[0], x[2], x[1]}, node.name + ".flat"), {1});
    return reshaped(deep, {x[0], x[1], 1, 1}, node.name + ".deep");
  }

  ValueId elementwise(const Node& node) {
    const Shape out = type(node.outputs[0]).shape;
    if (!has_loop_form(graph_, node) || node.has_attr("axis")) return kNone;
    const auto whole = [&](ValueId v) { return has_frames(v) && type(v).shape == out; };
    const auto fits = [&](ValueId v) { return v == kNone || operand_shape(v, out).has_value(); };
    if (std::none_of(node.inputs.begin(), node.inputs.end(), whole) ||
        !std::all_of(node.inputs.begin(), node.inputs.end(), fits) || !context_.take())
      return kNone;
    std::vector<ValueId> inputs = node.inputs;
    for (ValueId& v : inputs) {
      if (v == kNone) continue;
      if (type(v).shape == out) {
        v = frames_of(v);
      } else {
        v = reshaped(v, *operand_shape(v, out), graph_.value(v).name + ".frames");
      }
    }
    GraphBuilder::Options options;
    options.name = node.name;
    options.opset = node.opset;
    options.expand = false;
    return b_.add(node.op->name, inputs, node.attrs, options)[0];
  }

  /// The shape in which an operand of volumes of shape `out` broadcasts to their frames; nullopt if it varies between
  /// frames in a way that they do not.
  std::optional<Shape> operand_shape(ValueId v, const Shape& out) const {
    const Shape& s = type(v).shape;
    if (elems(s) == 1) return Shape{1};
    if (type(v).dtype != DType::f32) return std::nullopt;
    if (s == out) return Shape{out[0] * out[2], out[1], out[3], out[4]};
    Shape all(5 - s.size(), 1);
    all.insert(all.end(), s.begin(), s.end());
    if (all[0] != 1 || all[2] != 1) return std::nullopt;
    return Shape{1, all[1], all[3], all[4]};
  }

  Graph& graph_;
  PassContext& context_;
  GraphBuilder b_;
  std::map<ValueId, ValueId> frames_;  ///< by volume
  std::map<std::tuple<ValueId, int64_t, int64_t, uint32_t>, ValueId> padded_;
};

}  // namespace

void volumes_as_images(Graph& graph, PassContext& context) { Volumes(graph, context).run(); }

}  // namespace kilter
