// Explains the difference between two runs, layer by layer.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/text_table.h"
#include "graph/graph.h"
#include "measure/conditions.h"
#include "measure/stats.h"

namespace kilter::profile {

struct LayerTime {
  std::string name, detail;  ///< detail: operators, schedule, threads, which may explain a difference
  double ms = 0;
};

/// One side of a comparison: a figure, its conditions, and its layers if they are known.
struct Side {
  std::string label;
  Conditions conditions;
  double ms = 0;
  std::vector<LayerTime> layers;
  double profiled_ms = 0;  ///< of a run with another runtime's profiler, which the layers come from; 0: Kilter's

  /// The time of all layers together.
  double layers_ms() const;
};

/// Reads a side from the JSON of `kilter bench` or `kilter profile`. Throws bad_input naming the file and the field.
Side side_from_json(const nlohmann::json& json, const std::string& file);

struct LayerDifference {
  std::string name;
  double a_ms = 0, b_ms = 0;  ///< 0 on a side that has no layer of this name
  std::string a_detail, b_detail;
  double difference() const { return b_ms - a_ms; }
};
/// Pairs layers of the same name (adding up several of one name) and sorts by the largest difference.
std::vector<LayerDifference> layer_differences(const Side& a, const Side& b);

/// Renames the layers of another runtime to the layers of Kilter that do the same work. Starts at the node of the
/// original graph whose name is a prefix of the peer's layer name, then follows the data inputs until it meets a layer
/// of `ours` (peers name a fused layer after its last node, Kilter after its anchor). Layers without a match keep their
/// names.
void match_layers(const Graph& original, const Side& ours, Side& peer);

/// Lists the conditions that differ, one per line, those that affect times most first; "none" if none differ.
std::string conditions_text(const Side& a, const Side& b);
/// Returns how the layers of another runtime relate to its time: "B's layers come from the profiler of openvino
/// 2026.4.1: 12.3 ms in all, in other runs, which take 18 % longer than its 10.4 ms". `side`: 'A' or 'B'. Empty for
/// Kilter's layers.
std::string peer_layers_text(char side, const Side& of);
/// Shows the `most` largest differences as a table, and the sum of all layers. If both sides have a time, also shows
/// the part of it that is not in their layers, which is negative if profiling slows them, so that the table adds up to
/// the times.
std::string differences_text(const Side& a, const Side& b, size_t most, const TableStyle& style = {});

/// Returns why the layers do not explain a difference of this ratio: it is not significant, or the sum of the layers'
/// differences has the opposite sign. Empty if they do explain it.
std::string layers_withheld(const Side& a, const Side& b, const Ratio& b_over_a);
/// Returns differences_text() under its heading, or one line that gives the reason if there are none.
std::string layers_text(const Side& a, const Side& b, const Ratio& b_over_a, size_t most, const TableStyle& style = {});

}  // namespace kilter::profile
