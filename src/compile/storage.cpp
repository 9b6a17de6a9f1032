#include "compile/storage.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "graph/values.h"
#include "ops/support/builder.h"
#include "ops/support/relayout.h"
#include "ops/support/views.h"
#include "schedule/problem/task.h"

namespace kilter {
namespace {

class Placer {
 public:
  Placer(Graph& graph, const std::set<NodeId>& dense) : graph_(graph), dense_(dense) {}

  StorageMap run() {
    grow();
    std::vector<NodeId> order = graph_.order();
    for (NodeId id : order) {
      if (const int32_t group = graph_.node(id).group; group != kNone) ++group_sizes_[group];
    }
    for (auto it = order.rbegin(); it != order.rend(); ++it) place_in_user(*it);
    graph_.sort();
    order = graph_.order();
    for (ValueId v = 0; v < static_cast<ValueId>(graph_.value_count()); ++v) {
      if (!graph_.value(v).dead && graph_.value(v).producer == kNone) own(v);
    }
    for (NodeId id : order) place_outputs(id);
    for (size_t i = 0; i < graph_.outputs().size(); ++i) place_network_output(i);
    graph_.sort();
    return std::move(map_);
  }

 private:
  void grow() {
    map_.values.resize(graph_.value_count());
    placed_.resize(graph_.value_count(), false);
  }
  void own(ValueId v) {
    if (placed(v)) return;
    set(v, {v, 0, physical(graph_.type(v))});
  }
  void set(ValueId v, Storage storage) {
    grow();
    map_.values[static_cast<size_t>(v)] = std::move(storage);
    placed_[static_cast<size_t>(v)] = true;
  }
  const Storage& of(ValueId v) const { return map_.of(v); }
  bool placed(ValueId v) const { return static_cast<size_t>(v) < placed_.size() && placed_[static_cast<size_t>(v)]; }

  /// Returns whether the node writes its outputs through strides. All nodes do, except views and nodes that write dense
  /// tensors.
  bool kernel(NodeId id) const {
    if (id == kNone || dense_.contains(id) || map_.views.contains(id)) return false;
    const Node& node = graph_.node(id);
    return node.op->family != Family::reshape && node.op->movement != Movement::concat;
  }
  /// Templates of movements, gathers and scatters read and write dense tensors.
  static bool wants_dense(Family family) {
    return family == Family::movement || family == Family::gather || family == Family::scatter;
  }
  bool writes_strided(NodeId id) const {
    if (!kernel(id)) return false;
    return !wants_dense(graph_.node(id).op->family);
  }
  bool read_dense(ValueId v) const {
    const auto users = graph_.users(v);
    return std::any_of(users.begin(), users.end(), [&](NodeId u) { return dense_.contains(u); });
  }

  /// A copy of `v` in its own buffer with the same layout, made by a new node.
  ValueId copy(ValueId v, std::string_view why) {
    const ValueId to = add_relayout(graph_, v, graph_.type(v).layout, why);
    const NodeId id = graph_.value(to).producer;
    graph_.change_node(id).group = id;
    grow();
    return to;
  }

  // --- values written directly to the place where their user needs them, users first ---

  void place_in_user(NodeId id) {
    if (dense_.contains(id)) return;
    const Node& node = graph_.node(id);
    if (node.op->movement == Movement::concat) return place_parts(id);
    if (node.op->movement == Movement::transpose) return place_transposed(id);
  }

  void place_parts(NodeId id) {
    const ValueId out = graph_.node(id).outputs[0];
    map_.views.insert(id);
    if (const auto joined = side_by_side(id)) return set(out, *joined);
    own(out);
    const Storage whole = of(out);
    const TensorType type = graph_.type(out);
    const auto rank = static_cast<int64_t>(type.shape.size());
    const int64_t axis = normal_axis(graph_.node(id), graph_.node(id).int_attr("axis", 1), rank);
    int64_t start = 0;
    std::vector<ValueId> parts = graph_.node(id).inputs;  // replaced in one call, since there may be very many
    for (ValueId& part : parts) {
      const int64_t extent = graph_.type(part).shape[static_cast<size_t>(axis)];
      if (!writable_in_place(part, type.layout, id)) {
        part = copy(part, "part");
        if (graph_.type(part).layout != type.layout) graph_.change_value(part).type.layout = type.layout;
      }
      Storage inside = whole;
      inside.offset_elems += part_offset(type, axis, start, whole);
      inside.phys.dims = physical(graph_.type(part)).dims;
      inside.phys.elems = whole.phys.elems - (inside.offset_elems - whole.offset_elems);
      set(part, inside);
      start += extent;
    }
    graph_.change_node(id).inputs = std::move(parts);
  }

  /// The offset, in elements, of the part that begins at `start` on `axis` of a concatenation of `type`.
  static int64_t part_offset(const TensorType& type, int64_t axis, int64_t start, const Storage& whole) {
    const int64_t at = type.layout.block > 1 && axis == 1 ? start / type.layout.block : start;
    return at * whole.phys.strides[static_cast<size_t>(axis)];
  }

  /// The place of a concatenation whose parts are already adjacent in a larger one, as in DenseNet.
  std::optional<Storage> side_by_side(NodeId id) const {
    const Node& node = graph_.node(id);
    const ValueId out = node.outputs[0];
    const TensorType& type = graph_.type(out);
    const int64_t axis = normal_axis(node, node.int_attr("axis", 1), static_cast<int64_t>(type.shape.size()));
    if (placed(out) || graph_.is_output(out) || read_dense(out)) return std::nullopt;
    std::optional<Storage> first;
    int64_t start = 0;
    for (const ValueId part : node.inputs) {
      if (!placed(part)) return std::nullopt;
      const Storage& s = of(part);
      if (!first) first = s;
      const int64_t offset = first->offset_elems + part_offset(type, axis, start, *first);
      if (s.root != first->root || s.offset_elems != offset || s.phys.strides != first->phys.strides ||
          graph_.type(part).layout != type.layout)
        return std::nullopt;
      start += graph_.type(part).shape[static_cast<size_t>(axis)];
    }
    if (first) first->phys.dims = physical(type).dims;
    return first;
  }

  bool writable_in_place(ValueId part, const Layout& layout, NodeId user) const {
    const Value& v = graph_.value(part);
    return !placed(part) && writes_strided(v.producer) && v.type.layout == layout && !graph_.is_output(part) &&
           !read_dense(part) && !wanted_dense(part, user);
  }

  /// Returns whether a reshape, or a movement or gather kernel other than `user`, reads the value: these need it dense.
  bool wanted_dense(ValueId part, NodeId user) const {
    const auto users = graph_.users(part);
    return std::any_of(users.begin(), users.end(), [&](NodeId u) {
      const OpDef& op = *graph_.node(u).op;
      const bool moves = op.family == Family::movement && op.movement != Movement::concat && u != user &&
                         graph_.type(part).layout.block == 1;  // parts of blocked images are views
      return op.family == Family::reshape || (op.family != Family::movement && wants_dense(op.family)) || moves;
    });
  }

  void place_transposed(NodeId id) {
    const Node& node = graph_.node(id);
    const ValueId from = node.inputs[0], to = node.outputs[0];
    const auto rank = static_cast<int64_t>(graph_.type(from).shape.size());
    const std::vector<int64_t> perm = transpose_perm(node, rank);
    const bool keeps_last = rank > 0 && perm.back() == rank - 1;
    if (!keeps_last || !writable_in_place(from, Layout{.stored = graph_.type(to).layout.stored}, id) ||
        graph_.users(from).size() != 1 || graph_.type(to).layout.block != 1)
      return;
    own(to);
    map_.views.insert(id);
    Storage storage = of(to);
    const Shape strides = storage.phys.strides;
    for (size_t i = 0; i < perm.size(); ++i) storage.phys.strides[static_cast<size_t>(perm[i])] = strides[i];
    storage.phys.dims = graph_.type(from).shape;
    set(from, storage);
  }

  // --- values read in the place where they are, producers first ---

  void place_outputs(NodeId id) {
    if (map_.views.contains(id)) return;
    if (dense_.contains(id)) dense_inputs(id);
    const Node& node = graph_.node(id);
    if (!dense_.contains(id) && node.outputs[0] != kNone && !placed(node.outputs[0])) {
      if (node.op->family == Family::reshape) return place_reshape(id);
      if (node.op->movement == Movement::frames && place_frames_view(id)) return;
      if (node.op->family == Family::movement && (place_channel_views(id) || place_region_views(id))) return;
      if (node.op->movement == Movement::relayout && place_relayout_view(id)) return;
    }
    if (node.op->family == Family::reshape && !dense_.contains(id)) {
      // The node's output already has a place, so the node becomes a copy.
      graph_.change_node(id).op = find_op("kilter", "Relayout", 1);
    }
    for (ValueId v : graph_.node(id).outputs) {
      if (v != kNone) own(v);
    }
  }

  bool dense(ValueId v) const {
    const Storage& s = of(v);
    return constant_of(graph_, v) != nullptr ||
           (graph_.type(v).layout.row_major() && is_dense(graph_.type(v).shape, s.phys.strides) && s.phys.offset == 0);
  }

  void dense_inputs(NodeId id) {
    for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      const ValueId v = graph_.node(id).inputs[i];
      if (v != kNone && !dense(v)) graph_.change_node(id).inputs[i] = dense_copy(v);
    }
  }

  ValueId dense_copy(ValueId v) {
    const ValueId made = copy(v, "dense");
    graph_.change_value(made).type.layout = Layout{.stored = graph_.type(v).layout.stored};
    own(made);
    return made;
  }

  void place_reshape(NodeId id) {
    const ValueId from = graph_.node(id).inputs[0], to = graph_.node(id).outputs[0];
    const TensorType& type = graph_.type(to);
    map_.views.insert(id);
    if (constant_of(graph_, from) == nullptr) {
      const Storage& s = of(from);
      const auto strides = view_strides(graph_.type(from).shape, s.phys.strides, type.shape);
      if (strides) {
        Storage view = s;
        view.phys.dims = type.shape;
        view.phys.strides = *strides;
        return set(to, view);
      }
    }
    const ValueId source = dense_copy(from);
    graph_.change_node(id).inputs[0] = source;
    Storage view = of(source);
    view.phys.dims = type.shape;
    view.phys.strides = dense_strides(type.shape);
    set(to, view);
  }

  bool readers_take_strides(ValueId v, bool last_contiguous) const {
    if (graph_.is_output(v)) return false;
    for (NodeId user : graph_.users(v)) {
      const Node& node = graph_.node(user);
      if (!kernel(user) || wants_dense(node.op->family)) return false;
      if (!last_contiguous && !is_product(node.op->family)) return false;
    }
    return true;
  }

  /// Makes equally spaced frames of one volume a view, if each frame's channels are contiguous: readers then skip
  /// frames by a stride.
  bool place_frames_view(NodeId id) {
    const Node node = graph_.node(id);  // a copy, since copying values adds nodes
    ValueId from = node.inputs[0];
    const ValueId to = node.outputs[0];
    const TensorType type = graph_.type(to);
    const bool blocked = type.layout.block > 1;
    if (node.int_attr("volumes", 1) != 1 || constant_of(graph_, from) != nullptr ||
        type.layout != graph_.type(from).layout)
      return false;
    const int64_t channels = physical(graph_.type(from)).dims[1];
    const auto runs_on = [&] { return channels * of(from).phys.strides[1] == of(from).phys.strides[0]; };
    if (node.int_attr("frames", 1) > 1 && !runs_on()) {
      if (!blocked) return false;
      from = copy(from, "frames");
      own(from);
      graph_.change_node(id).inputs[0] = from;
    }
    Storage view = of(from);
    const int64_t frame = view.phys.strides[0];
    if (!blocked && !readers_take_strides(to, view.phys.strides.back() == 1)) return false;
    const int64_t offset = node.int_attr("first", 0) * frame;
    view.offset_elems += offset;
    view.phys.elems -= offset;
    view.phys.dims = physical(type).dims;
    view.phys.strides[0] = node.int_attr("stride", 1) * frame;
    map_.views.insert(id);
    set(to, view);
    return true;
  }

  /// Turns Slice and Split along a blocked image's channels into views. Each output is a run of blocks with the image's
  /// halo.
  bool place_channel_views(NodeId id) {
    const Node& node = graph_.node(id);
    const TensorType& from = graph_.type(node.inputs[0]);
    if (from.layout.block == 1) return false;
    map_.views.insert(id);
    const Storage whole = of(node.inputs[0]);
    const OpView v = view(graph_, node);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const TensorType& type = graph_.type(node.outputs[i]);
      const auto first = first_channel(graph_, v, i);
      require(first && *first % from.layout.block == 0 && type.layout == from.layout,
              "{} of {} into {} is not a run of blocks with its halo", label(node), text(from), text(type));
      Storage part = whole;
      const int64_t offset = *first / from.layout.block * whole.phys.strides[1];
      part.offset_elems += offset;
      part.phys.elems -= offset;
      part.phys.dims = physical(type).dims;
      set(node.outputs[i], part);
    }
    return true;
  }

  /// Makes Transpose, Slice, Split and Expand views if each output is one region of the source.
  bool place_region_views(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.op->regions == nullptr || constant_of(graph_, node.inputs[0]) != nullptr || !dense(node.inputs[0]))
      return false;
    const OpView v = view(graph_, node);
    std::vector<std::pair<ValueId, Storage>> views;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNone) continue;
      const TensorType& type = graph_.type(node.outputs[i]);
      const auto regions = node.op->regions(v, static_cast<int32_t>(i));
      if (!regions || regions->size() != 1 || regions->front().input != 0) return false;
      const CopyRegion& region = regions->front();
      if (elems(region.extent) != elems(type.shape) || !is_dense(region.extent, region.out_strides)) return false;
      if (std::any_of(region.in_strides.begin(), region.in_strides.end(), [](int64_t s) { return s < 0; }))
        return false;
      const auto strides = view_strides(region.extent, region.in_strides, type.shape);
      if (!strides) return false;
      const bool contiguous = type.shape.empty() || type.shape.back() == 1 || strides->back() == 1;
      if (type.layout.block != 1 || type.layout.stored != graph_.type(node.inputs[0]).layout.stored) return false;
      if (!readers_take_strides(node.outputs[i], contiguous)) return false;
      Storage s = of(node.inputs[0]);
      s.offset_elems += region.in_offset;
      s.phys.dims = type.shape;
      s.phys.strides = *strides;
      s.phys.elems -= region.in_offset;
      views.emplace_back(node.outputs[i], s);
    }
    map_.views.insert(id);
    for (auto& [value, storage] : views) set(value, storage);
    return true;
  }

  /// Makes a Relayout between blocked and plain a view if the image has one pixel, because the two layouts are then
  /// identical.
  bool place_relayout_view(NodeId id) {
    const Node& node = graph_.node(id);
    const TensorType& from = graph_.type(node.inputs[0]);
    const TensorType& to = graph_.type(node.outputs[0]);
    const int64_t block = std::max(from.layout.block, to.layout.block);
    if (from.layout.stored != to.layout.stored) return false;
    if (block == 1 || from.shape.size() != 4 || from.shape[2] != 1 || from.shape[3] != 1) return false;
    if (from.layout.has_halo() || to.layout.has_halo() || users_share_group(id) || graph_.is_output(node.outputs[0]))
      return false;
    if (constant_of(graph_, node.inputs[0]) != nullptr) return false;
    const bool whole = from.shape[1] % block == 0;
    if (!whole && (to.layout.block > 1 || from.shape[0] != 1)) return false;
    Storage s = of(node.inputs[0]);
    const int64_t batch = s.phys.strides[0];
    if (to.layout.block == 1) {
      if (s.phys.strides[1] != block) return false;
      s.phys.dims = to.shape;
      s.phys.strides = {batch, 1, 1, 1};
    } else {
      if (s.phys.strides[1] != 1) return false;
      s.phys.dims = physical(to).dims;
      s.phys.strides = {batch, block, block, block, 1};
    }
    map_.views.insert(id);
    set(node.outputs[0], s);
    return true;
  }

  /// Returns whether the node is fused with others, in which case it is computed rather than a view.
  bool users_share_group(NodeId id) const {
    const int32_t group = graph_.node(id).group;
    const auto size = group_sizes_.find(group);
    return size != group_sizes_.end() && size->second > 1;
  }

  void place_network_output(size_t index) {
    const ValueId v = graph_.outputs()[index].value;
    const Storage& s = of(v);
    const NodeId producer = graph_.value(s.root).producer;
    const bool whole = producer != kNone && s.offset_elems == 0 && dense(v) && graph_.type(v).layout.plain() &&
                       graph_.type(s.root).layout.plain() &&
                       elems(graph_.type(s.root).shape) == elems(graph_.type(v).shape);
    if (whole && taken_.insert(s.root).second) return;
    const ValueId made = copy(v, "output");
    graph_.change_value(made).type.layout = Layout{};
    own(made);
    taken_.insert(made);
    graph_.set_output(index, made);
  }

  Graph& graph_;
  const std::set<NodeId>& dense_;
  StorageMap map_;
  std::vector<bool> placed_;
  std::unordered_map<int32_t, int64_t> group_sizes_;  ///< nodes by group; copies are added later and run on their own
  std::set<ValueId> taken_;
};

}  // namespace

StorageMap place(Graph& graph, const std::set<NodeId>& dense) { return Placer(graph, dense).run(); }

}  // namespace kilter
