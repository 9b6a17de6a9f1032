// The static graphs that a network consists of, side by side as one graph, for commands that tune.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/unite.h"
#include "tool.h"

namespace kilter::tool {

struct NetworkParts {
  /// A network for one of its shapes, or a part of a program that runs compiled.
  struct Part {
    Graph graph;               ///< as a session compiles it
    UnitedGraph::Names names;  ///< of nodes and values: in the whole, by those in `graph`
  };
  std::vector<Part> parts;
  Graph whole;                 ///< the graph of the only part, or all of them side by side
  std::vector<Tensor> inputs;  ///< of `whole`, in its order
  std::string text;            ///< what the parts are: "4 shapes: ..."; empty if there is one

  bool single() const { return parts.size() == 1; }
  /// Returns the choices for the nodes of one part, under the names that they have there.
  Choices of_part(const Choices& choices, const Part& part) const;
  /// Returns choices for the nodes of one part under their names in the whole.
  Choices in_whole(const Choices& choices, const Part& part) const;
  /// Returns the name of a node in its part.
  std::string own_name(const std::string& node) const;
  /// Makes options for a node apply to the node of this name in each part.
  void spread(CompileOptions& options) const;

 private:
  using Owners = std::map<std::string, std::pair<const Part*, std::string>, std::less<>>;
  /// The part and the name in it of each node and value, by its name in the whole.
  Owners owners() const;
};

/// The most shapes of --shapes for which a network is tuned at once; if there are more, this many, spread over the
/// ranges.
constexpr int64_t kTunedShapes = 8;

enum class PartShapes : uint8_t { first, all };
/// Returns the parts of a network: the network itself if it is one static graph; with --shapes and PartShapes::all, one
/// for each shape; for a program, the parts that run compiled, found by running it. The session must have a graph, so
/// it cannot be that of a compiled file.
NetworkParts parts_of(const ModelOptions& options, Session& session, PartShapes shapes = PartShapes::all);

}  // namespace kilter::tool
