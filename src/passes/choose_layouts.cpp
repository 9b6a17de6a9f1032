// Chooses a layout for every value: blocked channels from the first convolution or pool on, through all nodes that can
// read and write them, so that as few Relayout nodes as possible remain. Convolutions with few output channels write
// plain images where that is faster.
//
//   %y = Conv(%x, %w)          %x1 = Relayout(%x)            x1: {halo1,1,1,1}
//   %z = Relu(%y)        =>    %y = Conv(%x1, %w)            y: {c16}
//   %r = Reshape(%z)           %z = Relu(%y)                 z: {c16}
//                              %z1 = Relayout(%z); %r = Reshape(%z1)

#include <algorithm>
#include <set>
#include <utility>

#include "base/align.h"
#include "graph/values.h"
#include "ops/support/builder.h"
#include "ops/support/reduction.h"
#include "ops/support/relayout.h"
#include "ops/support/take_pixels.h"
#include "ops/support/views.h"
#include "ops/support/window.h"
#include "passes/channel_moves.h"
#include "passes/pass.h"
#include "passes/pixel_moves.h"
#include "schedule/emit.h"
#include "schedule/templates/conv2d_pixels.h"

namespace kilter {
namespace {

class Layouts {
 public:
  Layouts(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), block_(context.limits.preferred_block()) {}

  void run() {
    if (block_ == 1 || !worthwhile() || !context_.take()) return;
    const std::vector<NodeId> order = graph_.order();
    for (NodeId id : order) decide(id);
    graph_.sort();
    graph_.remove_dead();
    for (NodeId id : std::vector<NodeId>(graph_.order())) convert_inputs(id);
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      const ValueId out = graph_.outputs()[i].value;
      if (!graph_.type(out).layout.row_major()) graph_.set_output(i, converted(out, Layout{}, "out"));
    }
    graph_.sort();
    set_halos();
  }

 private:
  /// Whether a convolution or pool starts a blocked region. False if layouts have been chosen already.
  bool worthwhile() const {
    bool any = false;
    for (NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      for (ValueId out : node.outputs) {
        if (out != kNone && !graph_.type(out).layout.row_major()) return false;
      }
      const bool conv = node.op->family == Family::conv || node.op->family == Family::conv_transpose;
      any = any || (conv && conv_blocks(node)) || pool_blocks(node);
    }
    return any;
  }

  /// Whether a value is an image of f32, or of the integer sums of a convolution.
  bool image(ValueId v) const {
    const TensorType& t = graph_.type(v);
    const NodeId producer = graph_.value(v).producer;
    const bool sums = t.dtype == DType::i32 && producer != kNone && graph_.node(producer).op->family == Family::conv;
    return (t.dtype == DType::f32 || sums) && t.shape.size() == 4 && elems(t.shape) > 0;
  }
  bool blocked(ValueId v) const { return v != kNone && graph_.type(v).layout.block > 1; }
  bool constant(ValueId v) const { return constant_of(graph_, v) != nullptr; }

  /// Whether a template can run the convolution in blocked layout.
  bool conv_blocks(const Node& node) const {
    if (!image(node.inputs[0]) || !image(node.outputs[0]) || !constant(node.inputs[1])) return false;
    return node.input(2) == kNone || constant(node.input(2));
  }

  /// Whether a convolution writes a plain image of few channels, because that is faster and no reader wants blocks.
  bool conv_of_few(const Node& node) {
    const ValueId out = node.outputs[0];
    if (node.op->family != Family::conv || !pixels_pay(graph_, node, block_before(node), context_.limits)) return false;
    std::set<ValueId> seen;
    return !wanted_in_blocks(out, seen);
  }

  /// Channels of a block in which a convolution of few output channels reads its input.
  int32_t block_before(const Node& node) const {
    const TensorType& t = graph_.type(node.inputs[0]);
    return t.layout.block == 1 ? plain_block(t) : block_;
  }
  /// The same for a plain image. It stays plain if its channels do not fill a block.
  int32_t plain_block(const TensorType& t) const { return t.shape[1] < block_ ? 1 : block_; }

  /// Whether a template accepts the pool. Pool templates run over blocked images only.
  bool pool_blocks(const Node& node) const {
    const bool indices = node.outputs.size() > 1 && node.outputs[1] != kNone;
    return node.op->family == Family::pool && node.op->combiner != Combiner::none && !indices &&
           !constant(node.inputs[0]) && image(node.inputs[0]) && image(node.outputs[0]);
  }

  bool reduces_space(const Node& node) const {
    if (!image(node.inputs[0]) || node.int_attr("keepdims", 1) == 0) return false;
    const auto axes = reduced_axes(view(graph_, node));
    return !axes.empty() && std::all_of(axes.begin(), axes.end(), [](int64_t a) { return a >= 2; });
  }

  /// Whether the node normalises the pixels of channels or channel groups of a blocked image. Scale and bias stay
  /// plain.
  bool normalize_blocks(const Node& node) const {
    return over_pixels(node.op->statistics) && image(node.inputs[0]) && blocked(node.inputs[0]) &&
           image(node.outputs[0]);
  }

  /// Whether an element-wise node can be blocked: each operand is a blocked image, a constant, or an image of one
  /// channel, and at least one is blocked.
  bool map_blocks(const Node& node) const {
    const Shape& out = graph_.type(node.outputs[0]).shape;
    if (!image(node.outputs[0]) || !has_loop_form(graph_, node)) return false;
    bool any = false;
    for (ValueId in : node.inputs) {
      if (in == kNone) return false;
      const TensorType& t = graph_.type(in);
      if (elems(t.shape) == 1) continue;
      if (t.shape.size() == 4 && t.shape[1] == 1 && out[1] != 1) continue;
      if (constant(in) && t.shape.size() <= 4) continue;
      if (t.shape.size() != 4 || !image(in)) return false;
      any = any || blocked(in);
    }
    return any;
  }

  /// Whether a concatenation joins images in whole blocks of channels, or one image after another.
  bool concat_blocks(const Node& node) const {
    if (!image(node.outputs[0])) return false;
    const int64_t axis = normal_axis(node, node.int_attr("axis", 1), 4);
    const auto fits = [&](ValueId in) {
      return image(in) && (axis == 0 || (axis == 1 && !constant(in) && graph_.type(in).shape[1] % block_ == 0));
    };
    return std::all_of(node.inputs.begin(), node.inputs.end(), fits) &&
           std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId in) { return blocked(in); });
  }

  /// Whether a Frames node can be a view of a blocked image: its blocks lie one after another.
  bool frames_block(const Node& node) const {
    const bool whole = node.int_attr("frames", 1) == 1 || graph_.type(node.inputs[0]).shape[1] % block_ == 0;
    return blocked(node.inputs[0]) && whole && node.int_attr("volumes", 1) == 1;
  }

  /// Whether a Slice or Split cuts a blocked image into runs of channels that begin and end at a block or image
  /// boundary.
  bool parts_block(const Node& node) const {
    if (!blocked(node.inputs[0]) || constant(node.inputs[0])) return false;
    const int64_t channels = graph_.type(node.inputs[0]).shape[1];
    const OpView of = view(graph_, node);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNone || !image(node.outputs[i])) return false;
      const auto first = first_channel(graph_, of, i);
      if (!first || *first % block_ != 0) return false;
      const int64_t end = *first + graph_.type(node.outputs[i]).shape[1];
      if (end % block_ != 0 && end != channels) return false;
    }
    return true;
  }

  /// Whether a reader of `v` wants blocks, directly or after element-wise nodes and moves of channels or pixels.
  bool wanted_in_blocks(ValueId v, std::set<ValueId>& seen) const {
    if (!image(v) || !seen.insert(v).second) return false;
    const auto users = graph_.users(v);
    return std::any_of(users.begin(), users.end(), [&](NodeId id) {
      const Node& user = graph_.node(id);
      const bool conv = user.op->family == Family::conv || user.op->family == Family::conv_transpose;
      if (conv && user.inputs[0] == v && conv_blocks(user)) {
        const bool dense = user.op->family == Family::conv && user.int_attr("group", 1) == 1;
        if (!dense) return true;
        if (graph_.type(v).shape[1] <= context_.limits.planar_channels) return false;
        const bool few = pixels_pay(graph_, user, plain_block(graph_.type(v)), context_.limits);
        return !few || wanted_in_blocks(user.outputs[0], seen);
      }
      if (pool_blocks(user)) return true;
      const bool passes = user.op->family == Family::map || user.op->family == Family::resize ||
                          user.op->family == Family::channels || channel_move(graph_, user, 0) ||
                          pixel_move(graph_, user);
      return passes && std::any_of(user.outputs.begin(), user.outputs.end(),
                                   [&](ValueId out) { return out != kNone && wanted_in_blocks(out, seen); });
    });
  }

  /// Rewrites a move of channels that crosses block boundaries and is surrounded by blocked images. Each output becomes
  /// one TakeChannels of the images in which its channels were computed.
  bool take_channels(NodeId id) {
    const Node& node = graph_.node(id);
    if (context_.plain_layout.contains(node.name)) return false;
    std::vector<ChannelMove> moves;
    bool from_blocks = false;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      auto move = channel_move(graph_, node, i);
      if (!move) return false;
      from_blocks =
          from_blocks || std::any_of(move->images.begin(), move->images.end(), [&](ValueId v) { return blocked(v); });
      moves.push_back(std::move(*move));
    }
    std::set<ValueId> seen;
    const auto wanted = [&](ValueId v) { return wanted_in_blocks(v, seen); };
    if (!from_blocks || std::none_of(node.outputs.begin(), node.outputs.end(), wanted)) return false;
    std::vector<std::pair<ValueId, std::string>> renamed;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ChannelMove move = through_producers(graph_, moves[i], block_);
      TensorType type = graph_.type(node.outputs[i]);
      type.layout.block = block_;
      const std::string name = node.name + (node.outputs.size() > 1 ? "." + std::to_string(i) : "");
      const NodeId made = graph_.add_node(find_op("kilter", "TakeChannels", 1), name, 1, {{"channels", move.channels}},
                                          move.images, {type}, {name});
      renamed.emplace_back(graph_.node(made).outputs[0], graph_.value(node.outputs[i]).name);
      graph_.replace_uses(node.outputs[i], renamed.back().first);
    }
    graph_.erase(id);
    for (const auto& [value, name] : renamed) graph_.rename(value, name);
    return true;
  }

  /// Rewrites a move of pixels that is surrounded by blocked images into a TakePixels.
  bool take_pixels(NodeId id) {
    const Node& node = graph_.node(id);
    if (context_.plain_layout.contains(node.name) || !blocked(node.inputs[0])) return false;
    const auto move = pixel_move(graph_, node);
    std::set<ValueId> seen;
    const ValueId out = node.outputs[0];
    if (!move || graph_.is_output(out) || !wanted_in_blocks(out, seen)) return false;
    TensorType type = graph_.type(out);
    type.layout.block = block_;
    const NodeId made = graph_.add_node(find_op("kilter", "TakePixels", 1), node.name, 1,
                                        {{"rows", runs_of(move->rows)}, {"columns", runs_of(move->columns)}},
                                        {node.inputs[0]}, {type}, {node.name});
    const std::string name = graph_.value(out).name;
    graph_.replace_uses(out, graph_.node(made).outputs[0]);
    const ValueId fresh = graph_.node(made).outputs[0];
    graph_.erase(id);
    graph_.rename(fresh, name);
    graph_.rename_node(made, node.name);
    return true;
  }

  void decide(NodeId id) {
    const Node& node = graph_.node(id);
    bool block = false;
    switch (node.op->family) {
      case Family::conv:
      case Family::conv_transpose:
        block = conv_blocks(node);
        if (block && !context_.plain_layout.contains(node.name) && conv_of_few(node)) {
          of_few_.insert(id);
          return;
        }
        break;
      case Family::pool:
        block = pool_blocks(node) || (blocked(node.inputs[0]) && image(node.outputs[0]) &&
                                      (node.outputs.size() < 2 || node.outputs[1] == kNone));
        break;
      case Family::resize:
        block = image(node.inputs[0]) && blocked(node.inputs[0]) && image(node.outputs[0]) &&
                graph_.type(node.outputs[0]).shape[1] == graph_.type(node.inputs[0]).shape[1];
        break;
      case Family::reduce:
        block = blocked(node.inputs[0]) && reduces_space(node);
        break;
      case Family::normalize:
        block = normalize_blocks(node);
        break;
      case Family::map:
        block = map_blocks(node);
        break;
      case Family::movement:
        block = node.op->movement == Movement::concat   ? concat_blocks(node)
                : node.op->movement == Movement::frames ? frames_block(node)
                                                        : parts_block(node);
        if (!block && (take_channels(id) || take_pixels(id))) return;
        break;
      case Family::gather:
        if (take_channels(id)) return;
        break;
      default:
        break;
    }
    if (!block || context_.plain_layout.contains(node.name)) return;
    for (ValueId out : node.outputs) {
      if (out != kNone) graph_.change_value(out).type.layout.block = block_;
    }
  }

  /// `value` in another layout. Creates at most one Relayout per value and layout, unless the layout has a halo.
  ValueId converted(ValueId value, const Layout& layout, const std::string& why) {
    const auto key = std::make_pair(value, layout.block);
    if (auto it = made_.find(key); it != made_.end() && !layout.has_halo()) return it->second;
    const ValueId out = add_relayout(graph_, value, layout, why);
    if (!layout.has_halo()) made_[key] = out;
    return out;
  }

  /// A constant operand of a blocked node, blocked too if it has channels.
  ValueId constant_for(ValueId value, const Shape& out) {
    const Tensor tensor = *constant_of(graph_, value);
    Shape shape(out.size() - tensor.shape().size(), 1);
    shape.insert(shape.end(), tensor.shape().begin(), tensor.shape().end());
    if (shape[1] == 1) return value;
    const ValueId copy = graph_.add_constant(graph_.fresh_name(graph_.value(value).name), tensor.reshaped(shape));
    graph_.change_value(copy).type.layout.block = block_;
    return copy;
  }

  void convert_inputs(NodeId id) {
    const Node& node = graph_.node(id);
    const Family family = node.op->family;
    const bool out_blocked = blocked(node.outputs[0]);
    std::vector<ValueId> inputs = node.inputs;  // replaced in one call, since there may be very many
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId in = inputs[i];
      if (in == kNone) continue;
      ValueId to = in;
      const TensorType& t = graph_.type(in);
      if (of_few_.contains(id)) {
        if (i > 0) continue;
        if (block_before(node) == 1)
          to = planar_input(id, in);
        else if (t.layout.block == 1)
          to = converted(in, Layout{block_, {}}, "blocked");
      } else if (!out_blocked) {
        if (t.layout.block > 1) to = converted(in, Layout{}, "plain");
      } else if (family == Family::map) {
        const Shape out = graph_.type(node.outputs[0]).shape;
        const bool channels = elems(t.shape) > 1 && !(t.shape.size() == 4 && t.shape[1] == 1 && out[1] != 1);
        if (constant(in)) {
          to = elems(t.shape) > 1 ? constant_for(in, out) : in;
        } else if (channels && t.layout.block == 1) {
          to = converted(in, Layout{block_, {}}, "blocked");
        } else if (!channels && t.layout.block > 1) {
          to = converted(in, Layout{}, "plain");
        }
      } else if (i == 0 || family == Family::channels || node.op->movement == Movement::concat) {
        const bool planar = family == Family::conv && t.layout.block == 1 &&
                            t.shape[1] <= context_.limits.planar_channels && node.int_attr("group", 1) == 1;
        if (t.layout.block == 1 && !planar) to = converted(in, Layout{block_, {}}, "blocked");
        if (planar) to = planar_input(id, in);
      }
      inputs[i] = to;
    }
    if (inputs != node.inputs) graph_.change_node(id).inputs = std::move(inputs);
  }

  /// Channels of a block of an image that a convolution of few channels reads: a word of bytes for integers.
  int32_t planar_block(const Node& node) const {
    constexpr int32_t kWord = 4;
    const bool integers = graph_.type(node.outputs[0]).dtype == DType::i32;
    return integers && graph_.type(node.inputs[0]).shape[1] <= kWord ? kWord : 1;
  }

  /// The plain image, with the convolution's padding around it.
  ValueId planar_input(NodeId id, ValueId in) {
    const Layout layout{planar_block(graph_.node(id)), pads(graph_.node(id))};
    if (layout.row_major() || (layout.block > 1 && made_in(layout, in))) return in;
    return converted(in, layout, "padded");
  }

  /// Lets the element-wise nodes that compute a value write it in `layout` if each has one operand that is not a
  /// scalar, so that one kernel converts the first operand and computes the value. Returns false if there are none.
  bool made_in(const Layout& layout, ValueId value) {
    const Layout inside{layout.block, {}};
    ValueId first = value;
    NodeId reader = kNone;
    for (NodeId id = graph_.value(value).producer; id != kNone; id = graph_.value(first).producer) {
      const Node& node = graph_.node(id);
      const bool maps =
          node.op->family == Family::map && node.op->movement != Movement::relayout && node.outputs.size() == 1;
      if (!maps || !has_loop_form(graph_, node) || graph_.only_user(first) == kNone || graph_.is_output(first)) break;
      const auto whole = [&](ValueId in) { return in == kNone || elems(graph_.type(in).shape) > 1; };
      const auto operand = std::ranges::find_if(node.inputs, whole);
      const bool one = std::ranges::count_if(node.inputs, whole) == 1 && *operand != kNone && !constant(*operand);
      if (!one || graph_.type(*operand).shape != graph_.type(value).shape || blocked(*operand)) break;
      graph_.change_value(first).type.layout = first == value ? layout : inside;
      first = *operand;
      reader = id;
    }
    if (first == value) return false;
    std::vector<ValueId> inputs = graph_.node(reader).inputs;
    std::ranges::replace(inputs, first, converted(first, inside, "blocked"));
    graph_.change_node(reader).inputs = std::move(inputs);
    return true;
  }

  std::array<int32_t, 4> pads(const Node& node) const {
    if (node.op->family == Family::conv) {
      const Window w = conv_window(node, graph_.type(node.inputs[0]).shape, graph_.type(node.inputs[1]).shape);
      return {static_cast<int32_t>(w.pads_begin[0]), static_cast<int32_t>(w.pads_end[0]),
              static_cast<int32_t>(w.pads_begin[1]), static_cast<int32_t>(w.pads_end[1])};
    }
    return conv_transpose_halo(node);
  }

  /// A transposed convolution reads up to (kernel - 1) / stride pixels beyond each edge.
  std::array<int32_t, 4> conv_transpose_halo(const Node& node) const {
    const Window w = conv_transpose_window(node, graph_.type(node.inputs[0]).shape, graph_.type(node.inputs[1]).shape);
    std::array<int32_t, 4> halo{};
    for (size_t d = 0; d < 2; ++d) {
      const int64_t reach = ceil_div(w.span(d) - 1, w.strides[d]);
      halo[2 * d] = halo[2 * d + 1] = static_cast<int32_t>(reach);
    }
    return halo;
  }

  void set_halos() {
    for (NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      if (node.op->family != Family::conv && node.op->family != Family::conv_transpose) continue;
      if ((!blocked(node.outputs[0]) && !of_few_.contains(id)) || !blocked(node.inputs[0])) continue;
      merge_halo(node.inputs[0], pads(node));
    }
    // Parts share one halo with their concatenation, or with the image that they are cut from, since they lie inside
    // it.
    std::vector<NodeId> order = graph_.order();
    bool changed = true;
    while (changed) {
      changed = false;
      std::ranges::reverse(order);  // halos spread both ways, through chains of any length
      for (NodeId id : order) {
        const Node& node = graph_.node(id);
        if (node.op->family != Family::movement || !blocked(node.outputs[0])) continue;
        const bool joins = node.op->movement == Movement::concat;
        const ValueId whole = joins ? node.outputs[0] : node.inputs[0];
        const std::vector<ValueId>& parts = joins ? node.inputs : node.outputs;
        for (ValueId part : parts) changed |= merge_halo(whole, graph_.type(part).layout.halo);
        for (ValueId part : parts) changed |= merge_halo(part, graph_.type(whole).layout.halo);
      }
    }
  }

  bool merge_halo(ValueId value, const std::array<int32_t, 4>& halo) {
    const auto& own = graph_.type(value).layout.halo;
    std::array<int32_t, 4> both = own;
    for (size_t i = 0; i < 4; ++i) both[i] = std::max(own[i], halo[i]);
    if (both == own) return false;
    graph_.change_value(value).type.layout.halo = both;
    return true;
  }

  Graph& graph_;
  PassContext& context_;
  int32_t block_;
  std::map<std::pair<ValueId, int32_t>, ValueId> made_;
  std::set<NodeId> of_few_;  ///< convolutions with few output channels, which write plain images
};

}  // namespace

void choose_layouts(Graph& graph, PassContext& context) { Layouts(graph, context).run(); }

}  // namespace kilter
