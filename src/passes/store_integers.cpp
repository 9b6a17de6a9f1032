// Stores values whose elements are known to be integers of at most 256 neighbouring values as u8.
//
//   %r = RoundedSum(...) {low=-3, high=252}      =>      r: f32[1,64,56,56]{u8+3 c16}
//
// Values that are views of one another are stored alike.

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "graph/values.h"
#include "ops/op.h"
#include "ops/support/quantization.h"
#include "passes/match.h"
#include "passes/pass.h"

namespace kilter {
namespace {

struct Range {
  int64_t low = 0, high = 0;
};

class Storage {
 public:
  Storage(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  void run() {
    classes_.resize(graph_.value_count());
    std::iota(classes_.begin(), classes_.end(), 0);
    ranges_.resize(graph_.value_count());
    for (NodeId id : graph_.order()) join_views(graph_.node(id));
    wide_.resize(graph_.value_count());
    for (NodeId id : graph_.order()) find_ranges(graph_.node(id));
    for (ValueId v : graph_.inputs()) keep_wide(v);
    for (const auto& output : graph_.outputs()) keep_wide(output.value);
    for (NodeId id : graph_.order()) find_wide(graph_.node(id));
    std::optional<bool> changes;  // all changes count as one rewrite, because views change together
    for (NodeId id : graph_.order()) {
      for (ValueId v : graph_.node(id).outputs) {
        const auto range = v == kNone || wide_[root(v)] ? std::nullopt : ranges_[root(v)];
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
  size_t root(ValueId v) {
    while (classes_[static_cast<size_t>(v)] != v) {
      ValueId& parent = classes_[static_cast<size_t>(v)];
      parent = classes_[static_cast<size_t>(parent)];
      v = parent;
    }
    return static_cast<size_t>(v);
  }
  void keep_wide(ValueId v) { wide_[root(v)] = true; }

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
        classes_[root(v)] = static_cast<ValueId>(root(first));
      }
    }
  }

  /// The integers that a node makes, if they are known.
  std::optional<Range> made(const Node& node) {
    const bool passes = node.op->movement == Movement::relayout ||
                        (node.op->family == Family::pool && node.op->combiner == Combiner::max);
    if (passes) return ranges_[root(node.inputs[0])];
    if (is_op(node, "RoundedSum", "kilter")) return Range{node.int_attr("low", 0), node.int_attr("high", 0)};
    if (!is_op(node, "Dequantize", "kilter") || scalar_value(graph_, node.inputs[1]) != 1) return std::nullopt;
    const std::optional<double> zero = node.input(2) == kNone ? 0 : scalar_value(graph_, node.inputs[2]);
    const DType type = graph_.type(node.inputs[0]).dtype;
    if (!zero || size_bytes(type) != 1) return std::nullopt;
    const IntegerRange range = integer_range(type);
    const auto shift = static_cast<int64_t>(*zero);
    return Range{static_cast<int64_t>(range.low) - shift, static_cast<int64_t>(range.high) - shift};
  }

  /// Widens the range of a class by what a node makes. A class stays in f32 if that is not known or does not fit.
  void find_ranges(const Node& node) {
    if (views(node)) {
      for (ValueId in : node.inputs) {
        if (in != kNone && graph_.value(in).producer == kNone) keep_wide(in);
      }
      return;
    }
    for (ValueId v : node.outputs) {
      if (v == kNone || graph_.type(v).dtype != DType::f32) continue;
      const std::optional<Range> range = made(node);
      if (!range) {
        keep_wide(v);
        continue;
      }
      std::optional<Range>& all = ranges_[root(v)];
      if (!all) all = Range{};
      all = Range{std::min(all->low, range->low), std::max(all->high, range->high)};
      if (all->low < -255 || all->high > 255 + all->low) keep_wide(v);
    }
  }

  /// Kernels of these families convert what they load and store.
  static bool converts(Family family) {
    return family != Family::reference && family != Family::recurrent && family != Family::gemm;
  }

  void find_wide(const Node& node) {
    for (const auto* values : {&node.inputs, &node.outputs}) {
      for (ValueId v : *values) {
        if (v != kNone && !converts(node.op->family)) keep_wide(v);
      }
    }
    // A convolution of a plain image reads each pixel several times, and would convert it each time.
    if (node.op->family == Family::conv && graph_.type(node.inputs[0]).layout.block == 1) keep_wide(node.inputs[0]);
  }

  Graph& graph_;
  PassContext& context_;
  std::vector<ValueId> classes_;              ///< by value: its parent in the tree of the values that are stored alike
  std::vector<std::optional<Range>> ranges_;  ///< by root: the integers of the values, 0 included
  std::vector<bool> wide_;                    ///< by root: the values stay in f32
};

}  // namespace

void store_integers(Graph& graph, PassContext& context) { Storage(graph, context).run(); }

}  // namespace kilter
