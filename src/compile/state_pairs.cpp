#include "compile/state_pairs.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/shape_ranges.h"
#include "graph/op_def.h"
#include "vm/host_op.h"

namespace kilter {
namespace {

/// A part of an input's name, and what exporters write in its place in the name of the output.
struct Replaced {
  std::string_view from, to;
};
/// Caches of decoders: a part of the name, where it occurs first.
constexpr std::array kCacheParts = {Replaced{"past_key_values", "present"}, Replaced{"past", "present"}};
/// Recurrent networks: the end or the beginning of a name. An empty part means that the other one is added.
constexpr std::array kStateEnds = {Replaced{"", "N"},       Replaced{"", "n"},    Replaced{"0", "n"},
                                   Replaced{"_in", "_out"}, Replaced{"", "_out"}, Replaced{"", "_next"},
                                   Replaced{"", "_new"}};
constexpr std::array kStateBegins = {Replaced{"", "new_"},    Replaced{"", "next_"},      Replaced{"", "out_"},
                                     Replaced{"in_", "out_"}, Replaced{"prev_", "next_"}, Replaced{"prev_", "new_"},
                                     Replaced{"old_", "new_"}};

/// Whether an output has the name that exporters give to the next value of a cache.
bool are_cache_names(std::string_view input, std::string_view output) {
  return std::ranges::any_of(kCacheParts, [&](const Replaced& part) {
    const size_t at = input.find(part.from);
    return at != std::string_view::npos && std::string(input).replace(at, part.from.size(), part.to) == output;
  });
}

/// Whether an output has a name that exporters give to the next value of an input that need not be a cache.
bool are_state_names(std::string_view input, std::string_view output) {
  const auto ends = [&](const Replaced& end) {
    return input.ends_with(end.from) &&
           std::string(input.substr(0, input.size() - end.from.size())).append(end.to) == output;
  };
  const auto begins = [&](const Replaced& begin) {
    return input.starts_with(begin.from) && std::string(begin.to).append(input.substr(begin.from.size())) == output;
  };
  return std::ranges::any_of(kStateEnds, ends) || std::ranges::any_of(kStateBegins, begins);
}

/// The producers of the values of a graph.
class Makers {
 public:
  explicit Makers(const OpenGraph& graph) : graph_(graph), makers_(graph.values.size(), nullptr) {
    for (const OpenNode& node : graph.nodes) {
      for (const ValueId v : node.outputs) {
        if (v != kNone) makers_[static_cast<size_t>(v)] = &node;
      }
    }
  }
  const OpenNode* of(ValueId v) const { return makers_[static_cast<size_t>(v)]; }
  /// The value that a chain of Identity nodes passes on as `v`.
  ValueId source(ValueId v) const {
    for (const OpenNode* node = of(v); node != nullptr && node->op != nullptr && vm::passes_on(*node->op); node = of(v))
      v = node->input(0);
    return v;
  }
  /// The Concat that produces an output; null if another operator does.
  const OpenNode* concat(const std::string& output) const {
    const auto place = std::ranges::find(graph_.outputs, output, &OpenGraph::Output::name);
    if (place == graph_.outputs.end() || place->value == kNone) return nullptr;
    const OpenNode* node = of(source(place->value));
    return node != nullptr && node->op != nullptr && node->op->movement == Movement::concat ? node : nullptr;
  }
  /// Whether exactly one of the operands of a node is the input of this name.
  bool reads_once(const OpenNode& node, const std::string& input) const {
    return std::ranges::count_if(node.inputs, [&](ValueId v) {
             const ValueId from = source(v);
             return std::ranges::find(graph_.inputs, from) != graph_.inputs.end() &&
                    graph_.values[static_cast<size_t>(from)].name == input;
           }) == 1;
  }

 private:
  const OpenGraph& graph_;
  std::vector<const OpenNode*> makers_;
};

std::optional<int64_t> axis_of(const Makers& makers, const onnx::Port& input, const std::string& output) {
  const OpenNode* concat = makers.concat(output);
  if (concat == nullptr || !input.dims || !makers.reads_once(*concat, input.name)) return std::nullopt;
  const auto rank = static_cast<int64_t>(input.dims->size());
  const int64_t axis = concat->int_attr("axis", 1), from_start = axis < 0 ? axis + rank : axis;
  return from_start >= 0 && from_start < rank ? std::optional(from_start) : std::nullopt;
}

/// Whether an output is an input of open size with something appended.
bool appends(const Makers& makers, const onnx::Port& input, const onnx::Port& output) {
  const auto axis = axis_of(makers, input, output.name);
  return axis && !(*input.dims)[static_cast<size_t>(*axis)].size && state_mismatch(input, output).empty();
}

/// Adds the pairs for which `fits(input, output)`, if the input fits no other output and the output no other input.
/// Ports with a pair are left out.
template <class Fits>
void add_unique(StatePairs& pairs, const std::vector<onnx::Port>& inputs, const std::vector<onnx::Port>& outputs,
                Fits fits) {
  const auto is_bound = [bound = pairs](const std::string& output) {
    return std::ranges::any_of(bound, [&](const auto& pair) { return pair.second == output; });
  };
  const StatePairs before = pairs;
  std::vector<std::pair<const onnx::Port*, const onnx::Port*>> found;
  for (const onnx::Port& input : inputs) {
    for (const onnx::Port& output : outputs) {
      if (!before.contains(input.name) && !is_bound(output.name) && fits(input, output))
        found.emplace_back(&input, &output);
    }
  }
  for (const auto& [input, output] : found) {
    const auto alone = [&, in = input, out = output](const auto& other) {
      return (other.first == in) == (other.second == out);
    };
    if (std::ranges::all_of(found, alone)) pairs.emplace(input->name, output->name);
  }
}

}  // namespace

StatePairs find_state_pairs(const std::vector<onnx::Port>& inputs, const std::vector<onnx::Port>& outputs,
                            const OpenGraph* graph) {
  StatePairs pairs;
  if (graph != nullptr) {
    const Makers makers(*graph);
    add_unique(pairs, inputs, outputs,
               [&](const onnx::Port& in, const onnx::Port& out) { return appends(makers, in, out); });
  }
  add_unique(pairs, inputs, outputs, [](const onnx::Port& in, const onnx::Port& out) {
    if (are_cache_names(in.name, out.name)) return true;
    return are_state_names(in.name, out.name) && state_mismatch(in, out).empty();
  });
  return pairs;
}

std::optional<int64_t> appended_axis(const OpenGraph& graph, const onnx::Port& input, const std::string& output) {
  return axis_of(Makers(graph), input, output);
}

std::string state_mismatch(const onnx::Port& input, const onnx::Port& output) {
  const bool optional = input.kind == DeclaredType::Kind::optional;
  const bool same_kind = input.kind == output.kind || (optional && input.is_sequence() == output.is_sequence());
  if (!same_kind || input.key != output.key) return "their kinds differ";
  if (input.type != output.type) return "their element types differ";
  if (!input.dims || !output.dims || input.dims->empty() || output.dims->empty()) return "";
  if (input.dims->size() != output.dims->size()) return "their ranks differ";
  for (size_t i = 0; i < input.dims->size(); ++i) {
    const onnx::Dim &in = (*input.dims)[i], &out = (*output.dims)[i];
    if (in.size && out.size && *in.size != *out.size) return dimension_text(i, in.symbol) + " differs";
  }
  return "";
}

}  // namespace kilter
