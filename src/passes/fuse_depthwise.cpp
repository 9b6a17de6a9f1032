// Joins the group of a depthwise convolution with that of the convolution before it. One task then runs both, and the
// values between them stay in the nearest caches.
//
//   group 1 { %a = Conv(%x, %w)             group 2 { %a = Conv(%x, %w)
//             %b = Relu(%a) }         =>              %b = Relu(%a)
//   group 2 { %c = Conv(%b, %d) }                     %c = Conv(%b, %d) }      group of %d = channels
//
// Nothing else may read %b or any other value of the first group, and the model must predict a gain (or `--fuse`
// request it).

#include <algorithm>
#include <map>

#include "ops/op.h"
#include "passes/pass.h"
#include "schedule/templates/conv2d_then_depthwise.h"

namespace kilter {
namespace {

constexpr double kWorthwhile = 0.97;  ///< share of two tasks' cycles: smaller gains are within the model's error

class DepthwiseFuser {
 public:
  DepthwiseFuser(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  void run() {
    for (NodeId id : graph_.order()) members_[graph_.node(id).group].push_back(id);
    for (NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      const auto asked = context_.fuse.find(node.name);
      if (asked != context_.fuse.end() && !grouped(node)) refuse(asked->second, "it is not a depthwise convolution");
      if (node.group == id && grouped(node) && (depthwise(node) || context_.fuse.contains(node.name))) join(id);
    }
    for (NodeId id : graph_.order()) report_pointwise(graph_.node(id));
  }

 private:
  static bool grouped(const Node& node) { return node.op->family == Family::conv && node.int_attr("group", 1) > 1; }

  [[noreturn]] static void refuse(const std::string& option, const std::string& why) {
    fail(ErrorKind::usage, "{}: this node cannot join a preceding convolution's kernel: {}", option, why);
  }

  /// Whether a grouped convolution has one input and one output channel per group.
  bool depthwise(const Node& node) const {
    const Shape& w = graph_.type(node.inputs[1]).shape;
    return w[0] == node.int_attr("group", 1) && w[1] == 1;
  }

  /// Reports a 1x1 convolution after a depthwise one: no template runs the two in one kernel.
  void report_pointwise(const Node& node) {
    if (node.op->family != Family::conv || grouped(node)) return;
    const Shape& w = graph_.type(node.inputs[1]).shape;
    const NodeId feeder = feeder_of(node);
    if (feeder == kNone || !grouped(graph_.node(feeder)) || !depthwise(graph_.node(feeder))) return;
    if (!std::all_of(w.begin() + 2, w.end(), [](int64_t extent) { return extent == 1; })) return;
    context_.unfused.push_back({Unfused::cycles, node.name, graph_.node(feeder).name,
                                "no template runs a pointwise convolution in one kernel with the depthwise one before "
                                "it: the values between them stay in L2, which costs a few percent at most"});
  }

  void join(NodeId id) {
    const Node& anchor = graph_.node(id);
    const bool asked = context_.fuse.contains(anchor.name) || schedule_of(anchor.name) == "conv2d_then_depthwise";
    const NodeId feeder = feeder_of(anchor);
    if (feeder == id) return;  // already joined
    std::optional<Unfused> refused;
    if (feeder == kNone) {
      refused = Unfused{Unfused::form, anchor.name, anchor.name, "it does not read a convolution's result"};
    } else {
      refused = refusal(graph_.node(feeder), anchor, asked);
    }
    if (!refused) {
      for (NodeId member : members_.at(feeder)) graph_.change_node(member).group = id;
      return;
    }
    if (const auto by = context_.fuse.find(anchor.name); by != context_.fuse.end()) refuse(by->second, refused->reason);
    if (feeder != kNone) context_.unfused.push_back(std::move(*refused));
  }

  std::string schedule_of(const std::string& node) const {
    const auto own = context_.own.find(node);
    return own == context_.own.end() ? "" : own->second;
  }

  /// The anchor of the group that computes the input of `node`, if that is a convolution; kNone otherwise.
  NodeId feeder_of(const Node& node) const {
    const NodeId producer = graph_.value(node.inputs[0]).producer;
    if (producer == kNone) return kNone;
    const int32_t group = graph_.node(producer).group;
    return group != kNone && graph_.node(group).op->family == Family::conv ? group : kNone;
  }

  /// Returns why the group of `feeder` does not join that of `anchor`; nullopt if it joins, which counts as a rewrite.
  std::optional<Unfused> refusal(const Node& feeder, const Node& anchor, bool asked) {
    const auto no = [&](Unfused::Why why, std::string reason) {
      return Unfused{why, anchor.name, feeder.name, std::move(reason)};
    };
    for (const Node* node : {&feeder, &anchor}) {
      if (context_.no_fuse.contains(node->name)) return no(Unfused::option, "--no-fuse " + node->name);
    }
    if (context_.apart.contains(anchor.name)) return no(Unfused::option, "fuse=apart in a layer plan");
    if (const Forbidden* barred = forbids(context_.forbidden, anchor.name, {"conv2d_then_depthwise", {}}))
      return no(Unfused::option, "--forbid " + barred->text());
    if (context_.own.contains(feeder.name))
      return no(Unfused::option, fmt::format("'{}' has a schedule or threads of its own", feeder.name));
    if (!asked && !schedule_of(anchor.name).empty())
      return no(Unfused::option, fmt::format("its schedule is forced to {}", schedule_of(anchor.name)));
    if (const std::string name = other_reader(feeder, anchor); !name.empty())
      return no(Unfused::order, fmt::format("'{}' has other readers", name));
    const auto weighed = weigh_pair(graph_, feeder, anchor, context_.limits);
    if (!weighed) return no(Unfused::form, weighed.rejected().text());
    const PairCycles& cycles = *weighed;
    if (!asked && !cycles.direct)
      return no(Unfused::cycles,
                fmt::format("'{}' may run faster with a kernel other than direct convolution", feeder.name));
    if (!asked && cycles.together > kWorthwhile * cycles.apart) {
      return no(Unfused::cycles, fmt::format("the analytic model expects {:.0f} cycles together and {:.0f} apart; a "
                                             "gain below {:.0f} % does not count",
                                             cycles.together, cycles.apart, 100 * (1 - kWorthwhile)));
    }
    if (!context_.take()) return no(Unfused::option, "--max-rewrites");
    return std::nullopt;
  }

  /// A value of the feeder's group that is read by anything other than the group and the anchor's first input; empty if
  /// there is none.
  std::string other_reader(const Node& feeder, const Node& anchor) const {
    for (NodeId id : members_.at(feeder.group)) {
      for (ValueId v : graph_.node(id).outputs) {
        if (v == kNone) continue;
        const auto users = graph_.users(v);
        const bool inside = std::all_of(users.begin(), users.end(), [&](NodeId user) {
          const bool reads_first =
              &graph_.node(user) == &anchor && std::count(anchor.inputs.begin() + 1, anchor.inputs.end(), v) == 0;
          return graph_.node(user).group == feeder.group || reads_first;
        });
        if (!inside || graph_.is_output(v)) return graph_.value(v).name;
      }
    }
    return "";
  }

  Graph& graph_;
  PassContext& context_;
  std::map<int32_t, std::vector<NodeId>> members_;
};

}  // namespace

void fuse_depthwise(Graph& graph, PassContext& context) { DepthwiseFuser(graph, context).run(); }

}  // namespace kilter
