#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "graph/equal.h"
#include "ops/op.h"
#include "ops/support/builder.h"
#include "vm/merge_nodes.h"
#include "vm/program.h"

namespace kilter::vm {
namespace {

/// Shapes of outputs of the node follow from the shapes of its operands, given which operands are known without
/// running anything.
bool shapes_follow(const OpenNode& node, const std::vector<bool>& known);

/// Returns whether the results of a node in a segment are also known without running anything: shapes, and what is
/// computed from known operands alone.
bool results_are_known(const OpenNode& node, const std::vector<bool>& known) {
  const auto is_known = [&](ValueId v) { return v == kNone || known[static_cast<size_t>(v)]; };
  return node.op->control == Control::none && node.op->deterministic &&
         (node.op->shape_only || std::ranges::all_of(node.inputs, is_known));
}

/// Finds the values of a graph that are known once the shapes of its inputs are known: constants, shapes, and what is
/// computed from these alone. `known` has those of the inputs set. Returns whether all nodes can be in a segment.
bool find_known(const OpenGraph& graph, std::vector<bool>& known) {
  for (size_t v = 0; v < graph.values.size(); ++v) known[v] = known[v] || graph.values[v].constant.has_value();
  for (const OpenNode& node : graph.nodes) {
    if (!shapes_follow(node, known)) return false;
    const bool result = results_are_known(node, known);
    for (const ValueId v : node.outputs) {
      if (v != kNone) known[static_cast<size_t>(v)] = result;
    }
  }
  return true;
}

bool shapes_follow(const OpenNode& node, const std::vector<bool>& known) {
  if (node.op == nullptr || node.op->run != nullptr) return false;
  const auto is_known = [&](ValueId v) { return v == kNone || known[static_cast<size_t>(v)]; };
  if (node.op->control != Control::none) {
    if (node.op->control != Control::branch || node.inputs.size() != 1 || !is_known(node.inputs[0])) return false;
    return std::ranges::all_of(node.regions, [&](const Region& region) {
      std::vector<bool> inner(region.graph->values.size());
      for (size_t i = 0; i < region.captures.size(); ++i) {
        inner[static_cast<size_t>(region.graph->inputs[region.graph->own_inputs + i])] = is_known(region.captures[i]);
      }
      return find_known(*region.graph, inner);
    });
  }
  return std::ranges::all_of(node.op->shape_operands,
                             [&](int32_t i) { return is_known(node.input(static_cast<size_t>(i))); });
}

/// Returns all values that a node reads, those that its regions capture included.
std::vector<ValueId> reads(const OpenNode& node) {
  std::vector<ValueId> all;
  std::ranges::copy_if(node.inputs, std::back_inserter(all), [](ValueId v) { return v != kNone; });
  for (const Region& region : node.regions) all.insert(all.end(), region.captures.begin(), region.captures.end());
  return all;
}

/// Makes instructions with equal segments refer to the first of them.
void merge_equal_segments(Program& program) {
  std::vector<int32_t> first;
  for (size_t i = 0; i < program.segments.size(); ++i) {
    const auto same = std::ranges::find_if(
        first, [&](int32_t j) { return same_graph(program.segments[static_cast<size_t>(j)], program.segments[i]); });
    first.push_back(same != first.end() ? *same : static_cast<int32_t>(i));
  }
  for (Function& function : program.functions) {
    for (Instr& instr : function.code) {
      if (instr.kind == Instr::Kind::segment) instr.segment = first[static_cast<size_t>(instr.segment)];
    }
  }
}

/// A segment that is not in the program yet.
struct Cut {
  Instr instr;
  OpenGraph graph;
};

class Partition {
 public:
  /// `varying`: by value; empty if segments need not be divided by it.
  Partition(const OpenGraph& graph, Program& program, const std::vector<bool>& varying = {})
      : graph_(graph), program_(program), varying_(varying) {}

  Function run() {
    const size_t count = graph_.values.size();
    level_.assign(count, 0);
    known_.assign(count, false);
    producer_.assign(count, nullptr);
    needed_.assign(count, false);
    for (size_t v = 0; v < count; ++v) known_[v] = graph_.values[v].constant.has_value();
    for (const OpenNode& node : graph_.nodes) place(node);
    mark_needed();
    for (const OpenGraph::Output& output : graph_.outputs) {
      if (output.value != kNone) demanded_.insert(output.value);
    }
    for (const OpenNode& node : graph_.nodes) {
      if (!is_host(node) || !is_needed(node)) continue;
      for (const ValueId v : reads(node)) demanded_.insert(v);
    }
    std::vector<std::optional<Cut>> segments(static_cast<size_t>(last_level_) + 1);
    for (int32_t level = last_level_; level >= 0; --level) segments[static_cast<size_t>(level)] = segment_of(level);
    std::vector<std::vector<const OpenNode*>> hosts(segments.size());
    for (const OpenNode& node : graph_.nodes) {
      if (is_host(node) && is_needed(node)) hosts[static_cast<size_t>(level_of(node))].push_back(&node);
    }
    Function function{&graph_};
    for (const ValueId v : demanded_) {
      if (graph_.values[index(v)].constant) function.constants.push_back(v);
    }
    for (int32_t level = 0; level <= last_level_; ++level) {
      if (std::optional<Cut>& segment = segments[static_cast<size_t>(level)]) {
        segment->instr.segment = static_cast<int32_t>(program_.segments.size());
        program_.segments.push_back(std::move(segment->graph));
        function.code.push_back(std::move(segment->instr));
      }
      for (const OpenNode* node : hosts[static_cast<size_t>(level)]) function.code.push_back(host_instr(*node));
    }
    mark_dead(function);
    return function;
  }

 private:
  size_t index(ValueId v) const { return static_cast<size_t>(v); }
  bool is_host(const OpenNode& node) const { return host_.contains(&node); }
  bool is_needed(const OpenNode& node) const {
    return std::ranges::any_of(node.outputs, [&](ValueId v) { return v != kNone && needed_[index(v)]; });
  }
  /// The highest level among the operands: the segment of that level can contain the node, or precedes it.
  int32_t level_of(const OpenNode& node) const {
    int32_t level = 0;
    for (const ValueId v : reads(node)) level = std::max(level, level_[index(v)]);
    return level;
  }

  bool varies(const OpenNode& node) const {
    const auto any = [&](const std::vector<ValueId>& values) {
      return std::ranges::any_of(values, [&](ValueId v) { return v != kNone && varying_[index(v)]; });
    };
    return any(reads(node)) || any(node.outputs);
  }
  /// The level of the segment for a node. If segments are divided, varying nodes have the odd levels.
  int32_t level_for(const OpenNode& node) const {
    const int32_t level = level_of(node);
    if (varying_.empty()) return level;
    return level % 2 == (varies(node) ? 1 : 0) ? level : level + 1;
  }

  void place(const OpenNode& node) {
    const bool host = !shapes_follow(node, known_);
    if (host) host_.insert(&node);
    const bool known = !host && results_are_known(node, known_);
    const int32_t level = host ? level_of(node) + 1 : level_for(node);
    last_level_ = std::max(last_level_, level);
    for (const ValueId v : node.outputs) {
      if (v == kNone) continue;
      level_[index(v)] = level;
      producer_[index(v)] = &node;
      known_[index(v)] = known;
    }
  }

  void mark_needed() {
    for (const OpenGraph::Output& output : graph_.outputs) {
      if (output.value != kNone) needed_[index(output.value)] = true;
    }
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      if (!is_needed(*node)) continue;
      for (const ValueId v : reads(*node)) needed_[index(v)] = true;
    }
  }

  /// Returns whether the segment of a level computes a value itself. Known values are computed again by each segment
  /// that reads them, so that shapes may depend on them there.
  bool makes(int32_t level, ValueId v) const {
    const OpenNode* node = producer_[index(v)];
    return node != nullptr && !is_host(*node) && (level_[index(v)] == level || known_[index(v)]);
  }

  /// Returns the instruction for the nodes of a level that anything outside the segment needs; nullopt if there are
  /// none. Segments of higher levels come first: what they read is in demanded_.
  std::optional<Cut> segment_of(int32_t level) {
    std::vector<ValueId> outputs;
    for (const ValueId v : demanded_) {
      if (makes(level, v) && level_[index(v)] == level) outputs.push_back(v);
    }
    if (outputs.empty()) return std::nullopt;
    std::set<const OpenNode*> nodes;  // in the order of the graph
    std::vector<ValueId> open = outputs;
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      if (!makes(level, v) || !nodes.insert(producer_[index(v)]).second) continue;
      for (const ValueId read : reads(*producer_[index(v)])) open.push_back(read);
    }
    Cut made = cut(nodes, std::move(outputs), level);
    demanded_.insert(made.instr.inputs.begin(), made.instr.inputs.end());
    return made;
  }

  /// Copies nodes into a graph of their own.
  Cut cut(const std::set<const OpenNode*>& nodes, std::vector<ValueId> outputs, int32_t level) {
    Cut made;
    OpenGraph& segment = made.graph;
    segment.name = graph_.name;
    std::unordered_map<ValueId, ValueId> ids;
    const auto local = [&](ValueId v) {
      if (v == kNone) return kNone;
      const auto [id, fresh] = ids.emplace(v, static_cast<ValueId>(segment.values.size()));
      if (!fresh) return id->second;
      segment.values.push_back(graph_.values[index(v)]);
      if (!graph_.values[index(v)].constant && !makes(level, v)) {
        segment.inputs.push_back(id->second);
        made.instr.inputs.push_back(v);
      }
      return id->second;
    };
    for (const OpenNode* node : nodes) {
      OpenNode& copy = segment.nodes.emplace_back(*node);
      std::ranges::transform(copy.inputs, copy.inputs.begin(), local);
      std::ranges::transform(copy.outputs, copy.outputs.begin(), local);
      for (Region& region : copy.regions) std::ranges::transform(region.captures, region.captures.begin(), local);
    }
    segment.own_inputs = segment.inputs.size();
    for (const ValueId v : outputs) segment.outputs.push_back({graph_.values[index(v)].name, local(v), {}});
    made.instr.outputs = std::move(outputs);
    return made;
  }

  Instr host_instr(const OpenNode& node) {
    Instr instr{.kind = node.regions.empty() ? Instr::Kind::op : Instr::Kind::control, .node = &node};
    if (node.op != nullptr) check_node(node);
    instr.inputs = node.inputs;
    instr.outputs = node.outputs;
    for (const Region& region : node.regions) {
      const auto at = program_.functions.size();
      program_.functions.emplace_back();
      program_.functions[at] = Partition(*region.graph, program_).run();
      instr.functions.push_back(static_cast<int32_t>(at));
    }
    return instr;
  }

  void mark_dead(Function& function) const {
    std::vector<bool> live(graph_.values.size());
    for (const OpenGraph::Output& output : graph_.outputs) {
      if (output.value != kNone) live[index(output.value)] = true;
    }
    for (auto instr = function.code.rbegin(); instr != function.code.rend(); ++instr) {
      std::vector<ValueId> all = instr->node != nullptr ? reads(*instr->node) : instr->inputs;
      all.insert(all.end(), instr->outputs.begin(), instr->outputs.end());
      for (const ValueId v : all) {
        if (v == kNone || live[index(v)] || graph_.values[index(v)].constant) continue;
        live[index(v)] = true;
        instr->dead.push_back(v);
      }
    }
  }

  const OpenGraph& graph_;
  Program& program_;
  const std::vector<bool>& varying_;
  std::vector<int32_t> level_;             ///< by value
  std::vector<bool> known_;                ///< by value: see find_known()
  std::vector<const OpenNode*> producer_;  ///< by value; null for inputs and constants
  std::vector<bool> needed_;               ///< by value
  std::set<const OpenNode*> host_;         ///< nodes that run on the host
  std::set<ValueId> demanded_;  ///< values that are read by instructions other than the one that computes them
  int32_t last_level_ = 0;
};

}  // namespace

Program make_program(std::shared_ptr<const OpenGraph> graph, const std::vector<bool>& varying) {
  Program program{merge_nodes(std::move(graph)), {}, {}};
  program.functions.emplace_back();
  program.functions[0] = Partition(*program.graph, program, varying).run();
  if (!varying.empty()) merge_equal_segments(program);
  return program;
}

}  // namespace kilter::vm
