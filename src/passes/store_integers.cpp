// Stores values whose elements are known to be integers of at most 256 neighbouring values as u8.
//
//   %r = RoundedSum(...) {low=-3, high=252}      =>      r: f32[1,64,56,56]{u8+3 c16}
//
// Values that are views of one another are stored alike.

#include <algorithm>
#include <optional>
#include <vector>

#include "graph/values.h"
#include "ops/op.h"
#include "ops/support/quantization.h"
#include "passes/match.h"
#include "passes/pass.h"
#include "passes/stored_alike.h"
#include "passes/stored_ports.h"

namespace kilter {
namespace {

struct Range {
  int64_t low = 0, high = 0;
};

class Storage {
 public:
  /// store_ports() must have run, because it adds values.
  Storage(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), alike_(graph.value_count()), ranges_(graph.value_count()) {}

  void run() {
    for (NodeId id : graph_.order()) join_views(graph_.node(id));
    for (NodeId id : graph_.order()) find_ranges(graph_.node(id));
    for (ValueId v : graph_.inputs()) alike_.keep_wide(v);
    for (const auto& output : graph_.outputs()) alike_.keep_wide(output.value);
    for (NodeId id : graph_.order()) find_wide(graph_.node(id));
    std::optional<bool> changes;  // all changes count as one rewrite, because views change together
    for (NodeId id : graph_.order()) {
      for (ValueId v : graph_.node(id).outputs) {
        const auto range = v == kNone || alike_.wide(v) ? std::nullopt : range_of(v);
        if (!range || constant_of(graph_, v) != nullptr || graph_.type(v).layout.stored == DType::u8) continue;
        if (!changes) changes = context_.take();
        if (!*changes) return;
        Layout& layout = graph_.change_value(v).type.layout;
        layout.stored = DType::u8;
        layout.zero = static_cast<uint8_t>(-range->low);
      }
    }
  }

 private:
  /// The integers of the values that are stored as `v` is, 0 included.
  std::optional<Range>& range_of(ValueId v) { return ranges_[static_cast<size_t>(alike_.root(v))]; }

  static bool views(const Node& node) {
    if (node.op->movement == Movement::relayout) return false;
    return node.op->family == Family::reshape || node.op->family == Family::movement;
  }

  void join_views(const Node& node) {
    if (!views(node)) return;
    ValueId first = kNone;
    for (const auto* values : {&node.inputs, &node.outputs}) {
      for (ValueId v : *values) {
        if (v == kNone || graph_.type(v).dtype != DType::f32) continue;
        if (first == kNone) first = v;
        alike_.join(first, v);
      }
    }
  }

  /// The integers that a node computes, if they are known.
  std::optional<Range> made(const Node& node) {
    if (const ValueId out = node.outputs[0]; out != kNone && graph_.type(out).layout.stored == DType::u8) {
      const int64_t zero = graph_.type(out).layout.zero;
      return Range{-zero, 255 - zero};
    }
    const bool passes = node.op->movement == Movement::relayout ||
                        (node.op->family == Family::pool && node.op->combiner == Combiner::max);
    if (passes) return range_of(node.inputs[0]);
    if (is_op(node, "RoundedSum", "kilter")) return Range{node.int_attr("low", 0), node.int_attr("high", 0)};
    if (!is_op(node, "Dequantize", "kilter") || scalar_value(graph_, node.inputs[1]) != 1) return std::nullopt;
    const std::optional<double> zero = node.input(2) == kNone ? 0 : scalar_value(graph_, node.inputs[2]);
    const DType type = graph_.type(node.inputs[0]).dtype;
    if (!zero || size_bytes(type) != 1) return std::nullopt;
    const IntegerRange range = integer_range(type);
    const auto shift = static_cast<int64_t>(*zero);
    return Range{static_cast<int64_t>(range.low) - shift, static_cast<int64_t>(range.high) - shift};
  }

  /// Widens the range of a class by what a node computes. A class stays in f32 if that is not known or does not fit.
  void find_ranges(const Node& node) {
    if (views(node)) {
      for (ValueId in : node.inputs) {
        if (in != kNone && graph_.value(in).producer == kNone) alike_.keep_wide(in);
      }
      return;
    }
    for (ValueId v : node.outputs) {
      if (v == kNone || graph_.type(v).dtype != DType::f32) continue;
      const std::optional<Range> range = made(node);
      if (!range) {
        alike_.keep_wide(v);
        continue;
      }
      std::optional<Range>& all = range_of(v);
      if (!all) all = Range{};
      all = Range{std::min(all->low, range->low), std::max(all->high, range->high)};
      if (all->low < -255 || all->high > 255 + all->low) alike_.keep_wide(v);
    }
  }

  void find_wide(const Node& node) {
    for (const auto* values : {&node.inputs, &node.outputs}) {
      for (ValueId v : *values) {
        if (v != kNone && !converts_elements(node.op->family)) alike_.keep_wide(v);
      }
    }
    // A convolution of a plain image reads each pixel several times, and would convert it each time.
    if (node.op->family == Family::conv && graph_.type(node.inputs[0]).layout.block == 1)
      alike_.keep_wide(node.inputs[0]);
  }

  Graph& graph_;
  PassContext& context_;
  StoredAlike alike_;
  std::vector<std::optional<Range>> ranges_;  ///< by root
};

}  // namespace

void store_integers(Graph& graph, PassContext& context) {
  store_ports(graph, context, DType::u8, [&] { return context.take(); });
  Storage(graph, context).run();
}

}  // namespace kilter
