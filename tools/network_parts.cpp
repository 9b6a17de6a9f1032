#include "network_parts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "graph/maker.h"
#include "graph/unite.h"
#include "ops/support/builder.h"
#include "tuning.h"

namespace kilter::tool {
namespace {

using Tensors = std::map<std::string, Tensor>;

/// A set of inputs to tune for.
struct Case {
  std::string label;
  Tensors inputs;
};

/// The sizes of inputs whose declared ranges leave a choice: "1x3x320x320", or with names if there are several inputs.
std::string label_of(const ShapeRanges& ranges, const ShapeRanges::Shapes& shapes) {
  std::vector<std::string> texts;
  for (const auto& [name, shape] : shapes) {
    const std::string text = fmt::format("{}", fmt::join(shape, "x"));
    texts.push_back(ranges.inputs().size() == 1 ? text : name + "=" + text);
  }
  return fmt::format("{}", fmt::join(texts, ","));
}

/// Inputs for each declared shape, or for the only one. Inputs that --input gives have that shape only.
std::vector<Case> cases_of(const ModelOptions& options, const Session& session, PartShapes which) {
  const ShapeRanges& ranges = session.ranges();
  const auto given = [&](const ShapeRanges::Input& input) { return session.options().shapes.contains(input.name); };
  const bool open = which == PartShapes::all && !ranges.empty() && ranges.count() > 1 &&
                    std::ranges::none_of(ranges.inputs(), [&](const auto& i) {
                      const bool varies =
                          std::ranges::any_of(i.dims, [](const DimRange& dim) { return dim.count() > 1; });
                      return varies && given(i);
                    });
  if (!open) return {{"", options.all_inputs(session)}};
  std::vector<Case> cases;
  for (const ShapeRanges::Shapes& shapes : ranges.spread(kTunedShapes)) {
    cases.push_back({label_of(ranges, shapes), options.all_inputs(session, shapes)});
  }
  return cases;
}

/// A graph with inputs to run it on.
struct Piece {
  std::string label;
  Graph graph;
  std::vector<Tensor> inputs;
};

/// Throws NeedsProgram if the network is not one static graph.
std::vector<Piece> static_pieces(const Session& session, const std::vector<Case>& cases) {
  std::vector<Piece> pieces;
  for (const Case& one : cases) {
    Piece& piece = pieces.emplace_back(one.label, session.bind(one.inputs).graph);
    for (const ValueId v : piece.graph.inputs()) piece.inputs.push_back(one.inputs.at(piece.graph.value(v).name));
  }
  return pieces;
}

/// Runs the program and returns the parts of it that are compiled, with the inputs that they have in the last run.
std::vector<Piece> program_pieces(Session& session, const std::vector<Case>& cases) {
  using Key = std::pair<int32_t, std::vector<TensorType>>;
  std::vector<std::pair<Key, std::vector<Tensor>>> seen;
  const auto watch = [&](int32_t segment, const std::vector<Tensor>& inputs) {
    Key key{segment, {}};
    for (const Tensor& tensor : inputs) key.second.push_back({tensor.dtype(), tensor.shape(), {}});
    const auto same = [&](const auto& one) { return one.first.first == segment && one.first.second == key.second; };
    if (std::ranges::any_of(seen, same)) return;
    std::vector<Tensor> copies;
    for (const Tensor& tensor : inputs) copies.push_back(tensor.clone());
    seen.emplace_back(std::move(key), std::move(copies));
  };
  ProgramRunner& runner = session.program();
  for (const Case& one : cases) {
    const std::map<std::string, AnyValue> values{one.inputs.begin(), one.inputs.end()};
    for (int run = 0; run < ProgramRunner::kRunsUntilCompiled; ++run) {
      if (run + 1 == ProgramRunner::kRunsUntilCompiled) runner.watch_segments(watch);
      session.run_values(values);
    }
    runner.watch_segments({});
  }
  std::vector<Piece> pieces;
  std::map<int32_t, int> forms;
  for (const ProgramRunner::FormState& form : runner.forms()) {
    if (form.plan == nullptr) continue;
    const auto at = std::ranges::find_if(
        seen, [&](const auto& one) { return one.first.first == form.segment && one.first.second == form.inputs; });
    auto graph = at != seen.end() ? runner.graph_of(form.segment, form.inputs) : std::nullopt;
    if (!graph) continue;
    const int number = ++forms[form.segment];
    pieces.push_back({fmt::format("segment{}{}", form.segment, number > 1 ? fmt::format(".{}", number) : ""),
                      std::move(*graph), std::move(at->second)});
  }
  if (pieces.empty()) {
    fail(ErrorKind::unsupported,
         "{} runs as a program of which no part is compiled, so nothing can be tuned; `kilter inspect` shows the "
         "program",
         session.name());
  }
  return pieces;
}

NetworkParts united(std::vector<Piece> pieces) {
  NetworkParts out;
  std::vector<LabelledGraph> graphs;
  for (Piece& piece : pieces) {
    out.inputs.insert(out.inputs.end(), piece.inputs.begin(), piece.inputs.end());
    graphs.push_back({piece.label, std::move(piece.graph)});
  }
  UnitedGraph all = unite(graphs);
  for (size_t i = 0; i < graphs.size(); ++i) out.parts.push_back({std::move(graphs[i].graph), std::move(all.names[i])});
  out.whole = out.single() ? out.parts.front().graph : std::move(all.graph);
  return out;
}

/// Returns what `names` contains for a node, or for the node for which a pass created it, and the length of that name;
/// nullopt if it contains neither.
template <class T>
std::optional<std::pair<size_t, T>> find_maker(const std::map<std::string, T, std::less<>>& names,
                                               std::string_view node) {
  const size_t length = maker_length(node, [&](std::string_view name) { return names.contains(name); });
  if (length == 0) return std::nullopt;
  return std::pair(length, names.find(node.substr(0, length))->second);
}

}  // namespace

Choices NetworkParts::in_whole(const Choices& choices, const Part& part) const {
  if (single()) return choices;
  Choices out;
  for (const auto& [node, choice] : choices) {
    if (const auto maker = find_maker(part.names, node)) out[maker->second + node.substr(maker->first)] = choice;
  }
  return out;
}

NetworkParts::Owners NetworkParts::owners() const {
  Owners out;
  for (const Part& part : parts) {
    for (const auto& [own, name] : part.names) out.emplace(name, std::pair(&part, own));
  }
  return out;
}

std::string NetworkParts::own_name(const std::string& node) const {
  if (single()) return node;
  const auto maker = find_maker(owners(), node);
  return maker ? maker->second.second + node.substr(maker->first) : node;
}

Choices NetworkParts::of_part(const Choices& choices, const Part& part) const {
  if (single()) return choices;
  const Owners owners = this->owners();
  Choices out;
  for (const auto& [node, choice] : choices) {
    const auto maker = find_maker(owners, node);
    if (maker && maker->second.first == &part) out[maker->second.second + node.substr(maker->first)] = choice;
  }
  return out;
}

void NetworkParts::spread(CompileOptions& options) const {
  if (single()) return;
  for (const Part& part : parts) {
    for (const auto& [own, name] : part.names) {
      if (name == own) continue;
      if (const auto choice = options.choices.find(own); choice != options.choices.end())
        options.choices.emplace(name, choice->second);
      if (options.keep_float.contains(own)) options.keep_float.insert(name);
      for (size_t i = 0, count = options.forbidden.size(); i < count; ++i) {
        if (options.forbidden[i].node == own) options.forbidden.push_back({options.forbidden[i].schedule, name});
      }
    }
  }
}

NetworkParts parts_of(const ModelOptions& options, Session& session, PartShapes shapes) {
  const std::vector<Case> cases = cases_of(options, session, shapes);
  try {
    NetworkParts out = united(static_pieces(session, cases));
    if (!out.single()) {
      std::vector<std::string> labels;
      for (const Case& one : cases) labels.push_back(one.label);
      out.text = fmt::format("{} shapes: {}", cases.size(), fmt::join(labels, " "));
    }
    return out;
  } catch (const NeedsProgram&) {
    NetworkParts out = united(program_pieces(session, cases));
    const size_t count = out.parts.size();
    out.text = fmt::format("{} part{} of a program", count, count == 1 ? "" : "s");
    return out;
  }
}

}  // namespace kilter::tool
