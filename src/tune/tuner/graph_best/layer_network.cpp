#include "tune/tuner/graph_best/layer_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "compile/tasks.h"
#include "ops/op.h"
#include "tune/tuner/objective.h"

namespace kilter::tune {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

bool image(const TensorType& type) { return type.dtype == DType::f32 && type.shape.size() == 4; }

/// Whether the layout pass blocks the node's result only if its input is blocked.
bool follows(const Node& node) {
  switch (node.op->family) {
    case Family::pool:
    case Family::resize:
    case Family::reduce:
    case Family::normalize:
    case Family::channels:
      return true;
    case Family::map:
    case Family::movement:
      return node.inputs.size() == 1;
    default:
      return false;
  }
}

/// Whether templates may run all nodes on plain images. Convolutions have templates only for blocked images.
bool may_be_plain(const Graph& graph, const std::vector<NodeId>& nodes) {
  return std::all_of(nodes.begin(), nodes.end(), [&](NodeId id) {
    const Node& node = graph.node(id);
    const Family family = node.op->family;
    const bool runs = family == Family::pool || family == Family::resize || family == Family::reduce ||
                      family == Family::normalize || family == Family::map || node.op->movement == Movement::concat;
    return runs && node.op->movement != Movement::relayout && image(graph.type(node.outputs[0]));
  });
}

double bytes_of(const TensorType& type) { return static_cast<double>(elems(type.shape) * stored_bytes(type)); }

}  // namespace

int64_t LayerNetwork::layer_of(const std::string& node) const {
  const auto it = by_node_.find(node);
  return it == by_node_.end() ? -1 : static_cast<int64_t>(it->second);
}

double LayerNetwork::default_ms() const {
  double sum = 0;
  for (const Layer& layer : layers) sum += layer.alternatives.front().ms;
  return sum;
}

size_t feeder(const LayerNetwork& network, size_t layer) {
  double most = 0;
  size_t from = SIZE_MAX;
  for (const Flow& flow : network.flows) {
    if (flow.to == layer && flow.bytes > most) most = flow.bytes, from = flow.from;
  }
  return from;
}

namespace {

Layer layer_of_unit(const Compiled& compiled, const Unit& unit, const std::map<std::string, const Step*>& steps,
                    const CpuLimits& limits) {
  const Graph& graph = compiled.tasks->graph;
  const Node* first = &graph.node(unit.nodes.front());
  Layer layer;
  if (!compiled.tasks->storage.views.contains(unit.nodes.front())) {
    const Task task = make_task(graph, unit, &compiled.tasks->storage);
    first = &task.node();
    if (const auto step = steps.find(first->name); step != steps.end()) {
      const Step& s = *step->second;
      layer.problem = s.problem, layer.layouts = s.layouts, layer.schedule = s.schedule;
      layer.analytic_cycles = estimate_of(task, parse_schedule(s.schedule), limits).value_or(Estimate{}).cycles;
    }
  }
  layer.node = first->name;
  layer.relayout = first->op->movement == Movement::relayout;
  const TensorType& result = graph.type(first->outputs[0]);
  layer.blocked = image(result) && result.layout.block > 1;
  layer.follows = follows(*first);
  layer.may_be_plain = layer.blocked && may_be_plain(graph, unit.nodes);
  layer.alternatives = {{{}, 0, 0, "by default"}};
  for (const NodeId id : unit.nodes) layer.nodes.push_back(graph.node(id).name);
  return layer;
}

}  // namespace

LayerNetwork layer_network(const Compiled& compiled, const CompileOptions& options) {
  const Graph& graph = compiled.tasks->graph;
  LayerNetwork out;
  out.block = options.target.limits.preferred_block();
  std::map<std::string, const Step*> steps;
  for (const Step& step : compiled.plan.steps) {
    if (step.kind == StepKind::kernel) steps[step.name] = &step;
  }
  for (const Unit& unit : units(graph)) {
    std::map<size_t, double> reads;
    for (const NodeId id : unit.nodes) {
      for (const ValueId in : graph.node(id).inputs) {
        const NodeId producer = in == kNone ? kNone : graph.value(in).producer;
        const auto from = producer == kNone ? out.by_node_.end() : out.by_node_.find(graph.node(producer).name);
        if (from != out.by_node_.end()) reads[from->second] += bytes_of(graph.type(in));
      }
    }
    for (const auto& [from, bytes] : reads) out.flows.push_back({from, out.layers.size(), bytes});
    out.layers.push_back(layer_of_unit(compiled, unit, steps, options.target.limits));
    for (const std::string& node : out.layers.back().nodes) out.by_node_.emplace(node, out.layers.size() - 1);
  }
  return out;
}

std::string transform_kind(int32_t from_block, int32_t to_block) {
  const auto name = [](int32_t block) { return block > 1 ? fmt::format("c{}", block) : std::string("plain"); };
  return name(from_block) + "->" + name(to_block);
}

namespace {

/// Assembles the costs of a network.
class Builder {
 public:
  Builder(const LayerNetwork& network, const TransformModel* transforms, int threads, double byte_ms)
      : network_(network), transforms_(transforms), threads_(threads), byte_ms_(byte_ms) {}

  ChoiceProblem run(const std::vector<size_t>& keep) {
    for (size_t l = 0; l < network_.layers.size(); ++l) {
      const auto& all = network_.layers[l].alternatives;
      problem_.nodes.emplace_back();
      for (size_t a = 0; a < all.size(); ++a) problem_.nodes.back().push_back(cost(all, a, a == keep[l]));
    }
    for (const Flow& flow : network_.flows) layouts(flow);
    for (const ChoiceEdge& edge : network_.together) add(edge);
    return std::move(problem_);
  }

 private:
  double cost(const std::vector<Alternative>& all, size_t a, bool kept) const {
    const double ms = all[a].ms + (kept ? 0 : all[a].error_ms);
    if (byte_ms_ == 0) return ms;
    if (!kept && a > 0 && all[a].ms > kMostTime * all.front().ms) return kNever;
    return ms + byte_ms_ * static_cast<double>(all[a].bytes);
  }

  void layouts(const Flow& flow) {
    const Layer& from = network_.layers[flow.from];
    const Layer& to = network_.layers[flow.to];
    ChoiceEdge edge{flow.from, flow.to, {}};
    for (const Alternative& a : from.alternatives) {
      for (const Alternative& b : to.alternatives) edge.ms.push_back(change(flow, from, a, to, b));
    }
    add(edge);
  }

  /// Cost of one value's layout in excess of the default: that of an added layout change, or minus that of a removed
  /// one.
  double change(const Flow& flow, const Layer& from, const Alternative& a, const Layer& to,
                const Alternative& b) const {
    if (!a.choice.plain && !b.choice.plain) return 0;
    // A copy into a layout that the value already has disappears.
    if (to.relayout && a.choice.plain && !to.blocked) return -to.alternatives.front().ms;
    if (from.relayout && b.choice.plain && from.blocked) return -from.alternatives.front().ms;
    const bool now_plain = a.choice.plain || !from.blocked, then_plain = b.choice.plain || !to.blocked;
    if (now_plain == then_plain) return 0;
    if (now_plain && to.follows) return kNever;
    require(transforms_ != nullptr, "graph tuner: '{}' may be plain, but there is no model of layout changes",
            from.node);
    const int32_t from_block = now_plain ? 1 : network_.block, to_block = then_plain ? 1 : network_.block;
    const auto cost = transforms_->predict(transform_kind(from_block, to_block), threads_, 2 * flow.bytes);
    require(cost.has_value(), "graph tuner: the model of layout changes has no samples");
    return cost->ms;
  }

  /// Adds an edge, or adds its costs to the other end if one end has no choice.
  void add(const ChoiceEdge& edge) {
    const size_t rows = problem_.nodes[edge.from].size(), columns = problem_.nodes[edge.to].size();
    if (rows == 1) {
      for (size_t b = 0; b < columns; ++b) problem_.nodes[edge.to][b] += edge.ms[b];
    } else if (columns == 1) {
      for (size_t a = 0; a < rows; ++a) problem_.nodes[edge.from][a] += edge.ms[a];
    } else if (std::any_of(edge.ms.begin(), edge.ms.end(), [](double ms) { return ms != 0; })) {
      problem_.edges.push_back(edge);
    }
  }

  const LayerNetwork& network_;
  const TransformModel* transforms_;
  int threads_;
  double byte_ms_;
  ChoiceProblem problem_;
};

}  // namespace

ChoiceProblem choice_problem(const LayerNetwork& network, const TransformModel* transforms, int threads,
                             const std::vector<size_t>& keep, double byte_ms) {
  ChoiceProblem problem = Builder(network, transforms, threads, byte_ms).run(keep);
  check(problem);
  return problem;
}

std::vector<size_t> indices(const LayerNetwork& network, const Choices& choices) {
  std::vector<size_t> out;
  for (const Layer& layer : network.layers) {
    const auto wanted = choices.find(layer.node);
    size_t at = 0;
    for (size_t a = 0; wanted != choices.end() && a < layer.alternatives.size(); ++a) {
      if (layer.alternatives[a].choice == wanted->second) at = a;
    }
    out.push_back(at);
  }
  return out;
}

Choices choices(const LayerNetwork& network, const std::vector<size_t>& indices) {
  Choices out;
  for (size_t l = 0; l < network.layers.size(); ++l) {
    const Layer& layer = network.layers[l];
    const LayerChoice& choice = layer.alternatives[indices[l]].choice;
    if (choice == LayerChoice{}) continue;
    out[layer.node] = choice;
    if (!choice.plain) continue;
    for (const std::string& node : layer.nodes) out[node].plain = true;
  }
  return out;
}

}  // namespace kilter::tune
