// Channels of blocked images in any order: shuffles assemble each vector of the result from the vectors of the images
// that contain its channels.

#include <algorithm>

#include "ops/support/channels.h"
#include "schedule/emit.h"
#include "schedule/model/loop_model.h"
#include "schedule/templates/pick_lanes.h"
#include "schedule/templates/rows.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

/// A vector of one of the inputs.
struct Source {
  size_t input;
  int64_t block;
  bool operator==(const Source&) const = default;
};

/// How one vector of the result is assembled.
struct Made {
  std::vector<Source> sources;
  std::vector<LaneOf> lanes;
};

std::optional<Rejected> check(const Task& task, const CpuLimits& limits) {
  const Node& node = task.node();
  if (node.op->family != Family::channels) return not_for("operator", "TakeChannels", node.op->name);
  if (!task.prologue.empty()) return Rejected{"prologue", "none", std::to_string(task.prologue.size()) + " nodes"};
  const int32_t lanes = lanes_of(limits);
  const auto fits = [&](const TensorType& t) { return t.dtype == DType::f32 && t.layout.block == lanes; };
  for (const ValueId v : node.inputs) {
    const TensorType& type = task.operand(v).type;
    if (!fits(type)) return Rejected{"f32 images in blocks of", std::to_string(lanes), text(type)};
  }
  const TensorType& y = task.graph->type(node.outputs[0]);
  if (!fits(y)) return Rejected{"f32 images in blocks of", std::to_string(lanes), text(y)};
  return check_elementwise(task);
}

/// One entry per block of the result.
std::vector<Made> plan(const Task& task, int32_t lanes) {
  const Node& node = task.node();
  const std::vector<ChannelOf> channels = channels_of(*task.graph, node.inputs);
  const std::vector<int64_t> taken = node.ints_attr("channels");
  std::vector<Made> all;
  for (size_t k = 0; k < taken.size(); k += static_cast<size_t>(lanes)) {
    Made made;
    for (size_t at = k; at < k + static_cast<size_t>(lanes); ++at) {
      LaneOf& lane = made.lanes.emplace_back();
      if (at >= taken.size()) continue;
      const auto& [image, channel] = channels[static_cast<size_t>(taken[at])];
      const Source source{image, channel / lanes};
      auto it = std::ranges::find(made.sources, source);
      if (it == made.sources.end()) it = made.sources.insert(it, source);
      lane = {static_cast<int32_t>(it - made.sources.begin()), static_cast<int32_t>(channel % lanes)};
    }
    all.push_back(std::move(made));
  }
  return all;
}

class ChannelsEmitter {
 public:
  ChannelsEmitter(const Task& task, int32_t lanes)
      : e_(task, "take_channels"),
        b_(e_.b),
        lanes_(lanes),
        domain_(domain_of(task.graph->type(task.node().outputs[0]))),
        all_(plan(task, lanes)) {}

  Lowered emit() {
    n_ = b_.parallel("n", domain_.dims[0]);
    h_ = b_.parallel("h", domain_.dims[2]);
    parallel_parts(b_, "chunk", domain_.dims[3], kRowPixels,
                   [&](const Expr& first, int64_t count) { row(first, count); });
    return e_.finish();
  }

 private:
  /// Emits pixels [base, base + extent) of a row, for all channels.
  void row(const Expr& base, int64_t extent) {
    for (size_t block = 0; block < all_.size(); ++block) {
      b_.loop("w", 0, extent, [&](const Expr& w) {
        Site site{{n_, Expr(static_cast<int64_t>(block)), h_, base + w, Expr(0)}, 4, lanes_, {}};
        const Expr value = b_.let("v", vector(all_[block], site));
        e_.epilogue({{e_.task().node().outputs[0], value}}, domain_, site);
      });
    }
  }

  Expr vector(const Made& made, const Site& at) {
    std::vector<Expr> loaded;
    for (const Source& source : made.sources) {
      Site site = at;
      site.index[1] = Expr(source.block);
      const ValueId input = e_.task().node().inputs[source.input];
      const Operand& operand = e_.task().operand(input);
      // Images differ only in channels: each has its own strides over the same pixels.
      const Expr index = e_.index(operand, domain_of(operand.type), site);
      loaded.push_back(b_.let("x", b_.load(e_.input(input), index, lanes_)));
    }
    return pick_lanes(loaded, made.lanes);
  }

  Emitter e_;
  LoopBuilder& b_;
  int32_t lanes_;
  Domain domain_;
  std::vector<Made> all_;
  Expr n_, h_;
};

class TakeChannels final : public LoopModel {
 public:
  using LoopModel::LoopModel;

 private:
  Schedule usual() const override { return {"take_channels", {}}; }
  Lowered emit(const Schedule&) const override { return ChannelsEmitter(task(), lanes_of(limits())).emit(); }
};

}  // namespace

const Template take_channels{"take_channels", "channels of blocked images in any order",
                             analyse_as<TakeChannels, check>};

}  // namespace kilter
