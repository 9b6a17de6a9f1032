// What explains the difference between two runs, layer by layer.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "measure/conditions.h"
#include "measure/stats.h"

namespace kilter::profile {

struct LayerTime {
  std::string name, detail;  ///< detail: operators, schedule, threads: what may explain a difference
  double ms = 0;
};

/// One side of a comparison: a figure, its conditions, and its layers where they are known.
struct Side {
  std::string label;
  Conditions conditions;
  double ms = 0;
  std::vector<LayerTime> layers;
};

/// A side from the JSON of `kilter bench` or `kilter profile`. Throws bad_input naming the file and the field.
Side side_from_json(const nlohmann::json& json, const std::string& file);

struct LayerDifference {
  std::string name;
  double a_ms = 0, b_ms = 0;  ///< 0 where the other side has no layer of this name
  std::string a_detail, b_detail;
  double difference() const { return b_ms - a_ms; }
};
/// Layers of one name face each other (those of the same name are added up); largest difference first.
std::vector<LayerDifference> layer_differences(const Side& a, const Side& b);

/// Renames the layers of another runtime to the layers of Kilter that do the same work: the node of the original graph
/// that the peer's name begins with, then up the data inputs until a layer of `ours` is met (peers name a fused layer
/// by its last node, Kilter by its anchor). What finds no such layer keeps its name.
void match_layers(const Graph& original, const Side& ours, Side& peer);

/// The conditions that differ, a line each, those that change times most first; "none" when nothing does.
std::string conditions_text(const Side& a, const Side& b);
/// The `most` largest differences as a table, what they sum up to, and the rest.
std::string differences_text(const Side& a, const Side& b, size_t most);

/// Why the layers do not tell what makes a difference of this ratio: none shows, or theirs has the other sign; empty
/// where they do.
std::string layers_withheld(const Side& a, const Side& b, const Ratio& b_over_a);
/// differences_text() under its heading, or one line that says why not.
std::string layers_text(const Side& a, const Side& b, const Ratio& b_over_a, size_t most);

}  // namespace kilter::profile
