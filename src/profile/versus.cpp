#include "profile/versus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/columns.h"
#include "base/error.h"

namespace kilter::profile {

namespace {

/// Returns a row's layer. Gaps, and rows written by an earlier version, have only a name.
std::string layer_of(const nlohmann::json& row) {
  const std::string layer = row.value("layer", "");
  return layer.empty() ? row.at("name").get<std::string>() : layer;
}

}  // namespace

Side side_from_json(const nlohmann::json& json, const std::string& file) {
  const auto bad = [&](const std::string& what) {
    fail(ErrorKind::bad_input, "{}: {}; expected a file that kilter bench or kilter profile wrote with --json", file,
         what);
  };
  if (!json.is_object() || !json.contains("conditions")) bad("no field 'conditions'");
  Side side;
  side.label = file;
  side.conditions = conditions_from_json(json.at("conditions"));
  const char* figure = json.contains("end_to_end_ms") ? "end_to_end_ms" : "estimate_ms";
  if (!json.contains(figure) || !json.at(figure).is_number()) bad("no field 'estimate_ms' or 'end_to_end_ms'");
  side.ms = json.at(figure).get<double>();
  if (const auto rows = json.find("rows"); rows != json.end()) {
    for (const auto& row : *rows) {
      if (!row.is_object() || !row.contains("name") || !row.contains("duration_ms"))
        bad("a row without name or duration_ms");
      side.layers.push_back({layer_of(row), row.value("schedule", ""), row.at("duration_ms").get<double>()});
    }
  }
  return side;
}

double Side::layers_ms() const {
  double sum = 0;
  for (const LayerTime& l : layers) sum += l.ms;
  return sum;
}

std::vector<LayerDifference> layer_differences(const Side& a, const Side& b) {
  std::vector<LayerDifference> all;
  std::map<std::string, size_t> known;
  const auto entry = [&](const std::string& name) -> LayerDifference& {
    const auto [it, fresh] = known.emplace(name, all.size());
    if (fresh) all.push_back({name, 0, 0, {}, {}});
    return all[it->second];
  };
  for (const LayerTime& l : a.layers) {
    LayerDifference& d = entry(l.name);
    d.a_ms += l.ms;
    d.a_detail += (d.a_detail.empty() ? "" : ", ") + l.detail;
  }
  for (const LayerTime& l : b.layers) {
    LayerDifference& d = entry(l.name);
    d.b_ms += l.ms;
    d.b_detail += (d.b_detail.empty() ? "" : ", ") + l.detail;
  }
  std::stable_sort(all.begin(), all.end(), [](const LayerDifference& x, const LayerDifference& y) {
    return std::abs(x.difference()) > std::abs(y.difference());
  });
  return all;
}

namespace {

/// Returns the node whose name, or whose output's name, is the longest prefix of a peer's layer name.
NodeId original_node(const Graph& graph, const std::string& layer) {
  NodeId best = kNone;
  size_t longest = 0;
  const auto consider = [&](NodeId id, const std::string& name) {
    if (name.size() <= longest || !layer.starts_with(name)) return;
    const bool ends = layer.size() == name.size() || std::isalnum(static_cast<unsigned char>(layer[name.size()])) == 0;
    if (!ends) return;
    best = id;
    longest = name.size();
  };
  for (NodeId id : graph.order()) {
    consider(id, graph.node(id).name);
    for (ValueId out : graph.node(id).outputs) {
      if (out != kNone) consider(id, graph.value(out).name);
    }
  }
  return best;
}

}  // namespace

void match_layers(const Graph& original, const Side& ours, Side& peer) {
  std::set<std::string> names;
  for (const LayerTime& l : ours.layers) names.insert(l.name);
  for (LayerTime& l : peer.layers) {
    NodeId at = original_node(original, l.name);
    while (at != kNone && !names.contains(original.node(at).name)) {
      const auto& inputs = original.node(at).inputs;
      at = inputs.empty() || inputs[0] == kNone ? kNone : original.value(inputs[0]).producer;
    }
    if (at == kNone) continue;
    l.detail += " '" + l.name + "'";
    l.name = original.node(at).name;
  }
}

std::string conditions_text(const Side& a, const Side& b) {
  const std::vector<Difference> list = differences(a.conditions, b.conditions);
  std::string out = list.empty() ? "conditions that differ: none\n" : "conditions that differ:\n";
  for (const Difference& d : list) {
    out += fmt::format("  {:<16} A: {}   B: {}\n", d.what, d.a.empty() ? "-" : d.a, d.b.empty() ? "-" : d.b);
  }
  const std::string& records = a.conditions.records;
  if (records == b.conditions.records && records != Conditions().records)
    out += fmt::format("tuning records of both: {}\n", records);
  return out;
}

std::string peer_layers_text(char side, const Side& of) {
  if (of.profiled_ms <= 0 || of.ms <= 0) return {};
  const double longer = 100 * (of.profiled_ms / of.ms - 1);
  return fmt::format(
      "{}'s layers come from the profiler of {}: {:.4f} ms in all, in other runs, which take {:.1f} % {} than "
      "its {:.4f} ms\n",
      side, of.conditions.executor, of.layers_ms(), std::abs(longer), longer < 0 ? "less" : "longer", of.ms);
}

std::string differences_text(const Side& a, const Side& b, size_t most, const TableStyle& style) {
  constexpr size_t kFigures = 35, kName = 44;
  const size_t name = style.width == 0 ? kName : std::clamp(style.width, kFigures + 12, kFigures + kName) - kFigures;
  const std::vector<LayerDifference> all = layer_differences(a, b);
  const std::string head = fmt::format("  {:<{}} {:>10} {:>10} {:>10}", "layer", name, "A ms", "B ms", "B - A");
  std::string out = (style.head ? style.head(head) : head) + "\n";
  double shown = 0, total = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const LayerDifference& d = all[i];
    total += d.difference();
    if (i >= most) continue;
    shown += d.difference();
    out += fmt::format("  {:<{}} {:>10.4f} {:>10.4f} {:>+10.4f}\n", without_middle(d.name, name), name, d.a_ms, d.b_ms,
                       d.difference());
    if (d.a_detail != d.b_detail) {
      out += fmt::format("      A: {}\n      B: {}\n", d.a_detail.empty() ? "no such layer" : d.a_detail,
                         d.b_detail.empty() ? "no such layer" : d.b_detail);
    }
  }
  if (all.size() > most)
    out += fmt::format("  {:<{}} {:>32.4f}\n", fmt::format("({} more)", all.size() - most), name, total - shown);
  const auto sum = [&](const char* what, double a_ms, double b_ms) {
    out += fmt::format("  {:<{}} {:>10.4f} {:>10.4f} {:>+10.4f}\n", what, name, a_ms, b_ms, b_ms - a_ms);
  };
  const double a_layers = a.layers_ms(), b_layers = b.layers_ms();
  sum("all layers", a_layers, b_layers);
  if (a.ms > 0 && b.ms > 0) {
    sum("not in the layers", a.ms - a_layers, b.ms - b_layers);
    sum("whole run", a.ms, b.ms);
  }
  return fit_lines(out, style.width);
}

std::string layers_withheld(const Side& a, const Side& b, const Ratio& b_over_a) {
  if (a.layers.empty() || b.layers.empty()) return "one side's layers are not known";
  if (b_over_a.contains(1)) return "there is no significant difference for the layers to explain";
  double layers = 0;
  for (const LayerDifference& d : layer_differences(a, b)) layers += d.difference();
  if ((layers > 0) == (b_over_a.value > 1)) return {};
  return fmt::format("their sum, {:+.4f} ms, has the opposite sign to the difference, so they do not explain it",
                     layers);
}

std::string layers_text(const Side& a, const Side& b, const Ratio& b_over_a, size_t most, const TableStyle& style) {
  const std::string why_not = layers_withheld(a, b, b_over_a);
  if (!why_not.empty()) return fit_lines(fmt::format("layers: {}\n", why_not), style.width);
  return "layers that make the difference:\n" + differences_text(a, b, most, style);
}

}  // namespace kilter::profile
