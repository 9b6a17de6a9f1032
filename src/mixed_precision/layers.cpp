#include "mixed_precision/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "compile/difference.h"
#include "compile/run_values.h"
#include "measure/clock.h"
#include "measure/stats.h"

namespace kilter::mixed {
namespace {

std::vector<Tensor> in_order(const Plan& plan, const Sample& sample) {
  std::vector<Tensor> inputs;
  for (const PlanTensor& t : plan.inputs) inputs.push_back(sample.at(t.name));
  return inputs;
}

using Values = std::map<std::string, Tensor>;

Tensor sum(const Tensor& exact, const Tensor& rounded, const Tensor& unrounded) {
  Tensor out(DType::f32, exact.shape());
  for (int64_t i = 0; i < out.elems(); ++i)
    out.data<float>()[i] = static_cast<float>(exact.as_double(i) + rounded.as_double(i) - unrounded.as_double(i));
  return out;
}

/// The results of layers of the wide network, each with the error of that layer in the narrow one, which is its
/// difference from the wide layer on the narrow layer's operands. By layer of the narrow network; those without error
/// are left out.
std::map<std::string, Values> results_of_layers(Loaded& wide, Loaded& narrow, const std::vector<Tensor>& inputs,
                                                const Values& exact) {
  const RunValues run = values_of(narrow, inputs, &exact);
  const Values rounded(run.made.begin(), run.made.end());
  const Values unrounded = values_of_layers_alone(wide, inputs, rounded);
  std::map<std::string, Values> results;
  for (const PlacedValue& value : narrow.compiled.values) {
    const auto got = rounded.find(value.name);
    if (got == rounded.end() || !is_float(got->second.dtype())) continue;
    const Tensor &want = unrounded.at(value.name), &own = exact.at(value.name);
    if (!comparable(got->second, want)) continue;
    const Tensor same_shape = got->second.reshaped(want.shape());
    if (difference(same_shape, want, true).relative() > 0)
      results[narrow.plan().steps[value.step].name].insert_or_assign(value.name, sum(own, same_shape, want));
  }
  return results;
}

/// The outputs of a network in which some values are replaced.
std::vector<Tensor> outputs_with(Loaded& network, const std::vector<Tensor>& inputs, const Values& replaced) {
  return run_visiting(network, inputs, [&](const PlacedValue& value, std::byte* buffer) {
    const auto found = replaced.find(value.name);
    if (found != replaced.end()) insert(value, found->second, buffer);
  });
}

/// Milliseconds by layer.
using Times = std::map<std::string, double>;

/// Returns the times of each network's layers.
std::vector<Times> times_of_layers(std::span<Loaded* const> networks, const Sample& sample) {
  constexpr int kWarmUp = 3, kLeast = 11, kMost = 201;
  constexpr double kBudgetMs = 2000;
  std::vector<std::vector<std::vector<double>>> taken;  // by network, step and round
  for (const Loaded* network : networks) taken.emplace_back(network->plan().steps.size());
  const double begin = now_ms();
  for (int round = 0; round < kMost && (round < kLeast || now_ms() < begin + kBudgetMs); ++round) {
    for (size_t n = 0; n < networks.size(); ++n) {
      double started = 0;
      StepObserver observer;
      observer.before = [&](size_t) { started = now_ms(); };
      observer.after = [&](size_t step) {
        if (round >= kWarmUp) taken[n][step].push_back(now_ms() - started);
      };
      run_plan(*networks[n], in_order(networks[n]->plan(), sample), &observer);
    }
  }
  std::vector<Times> times(networks.size());
  for (size_t n = 0; n < networks.size(); ++n) {
    for (size_t step = 0; step < taken[n].size(); ++step)
      times[n][networks[n]->plan().steps[step].name] += median(taken[n][step]);
  }
  return times;
}

/// The layers that run each node of the model.
std::map<std::string, std::vector<std::string>> layers_by_node(const Graph& model, const Compiled& compiled) {
  std::map<std::string, std::vector<std::string>> layers;
  for (const NodeId id : model.order()) {
    const std::string& node = model.node(id).name;
    const auto found = compiled.layers_of_nodes.find(node);
    layers[node] = found == compiled.layers_of_nodes.end() ? std::vector{node} : found->second;
  }
  return layers;
}

/// The nodes of the model that each layer runs: those that passes left unchanged, or otherwise those from which the
/// layer's nodes were created.
std::map<std::string, std::vector<std::string>> nodes_of_layers(
    const std::map<std::string, std::vector<std::string>>& layers_of_nodes, const Compiled& compiled) {
  std::map<std::string, std::vector<std::string>> made, left;
  for (size_t step = 0; step < compiled.notes.size(); ++step) {
    std::vector<std::string>& nodes = left[compiled.plan.steps[step].name];
    for (const std::string& node : compiled.notes[step].nodes) {
      if (layers_of_nodes.contains(node) && std::ranges::find(nodes, node) == nodes.end()) nodes.push_back(node);
    }
  }
  for (const auto& [node, layers] : layers_of_nodes) {
    for (const std::string& layer : layers) made[layer].push_back(node);
  }
  for (auto& [layer, nodes] : left) {
    if (!nodes.empty()) made[layer] = std::move(nodes);
  }
  return made;
}

/// Adds the times of the wide network's layers, each to the narrow network's layer that runs the same nodes.
void add_wide_times(const Times& times, const std::map<std::string, std::vector<std::string>>& wide,
                    const std::map<std::string, std::vector<std::string>>& narrow,
                    std::map<std::string, LayerCost>& costs) {
  std::map<std::string, std::string> owners;
  for (const auto& [node, layers] : wide) {
    for (const std::string& layer : layers) {
      for (const std::string& owner : narrow.at(node)) {
        if (costs.contains(owner)) owners.emplace(layer, owner);
      }
    }
  }
  for (const auto& [layer, ms] : times) {
    const auto owner = owners.find(layer);
    const auto cost = costs.find(owner == owners.end() || costs.contains(layer) ? layer : owner->second);
    if (cost != costs.end()) cost->second.wide_ms += ms;
  }
}

}  // namespace

double error(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  double worst = 0;
  for (size_t o = 0; o < want.size(); ++o) {
    if (!is_float(want[o].dtype())) continue;
    const ReferenceDifference d = difference(got[o], want[o], true);
    double largest = 0;
    for (int64_t i = 0; i < want[o].elems(); ++i) {
      const double magnitude = std::abs(want[o].as_double(i));
      if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
    }
    worst = std::max(worst, d.unlike ? INFINITY : largest > 0 ? d.most / largest : d.most);
  }
  return worst;
}

std::vector<LayerCost> layer_costs(Session& wide, Session& narrow, std::span<const Sample> samples,
                                   const std::function<void(const std::string& doing)>& progress) {
  std::map<std::string, double> errors;
  for (size_t i = 0; i < samples.size(); ++i) {
    Loaded& exact = wide.prepare_for(samples[i]);
    Loaded& rounded = narrow.prepare_for(samples[i]);
    const std::vector<Tensor> inputs = in_order(exact.plan(), samples[i]);
    const RunValues run = values_of(exact, inputs);
    const auto results = results_of_layers(exact, rounded, inputs, {run.made.begin(), run.made.end()});
    size_t done = 0;
    for (const auto& [layer, replaced] : results) {
      progress(fmt::format("errors of layers: sample {} of {}, layer {} of {}", i + 1, samples.size(), ++done,
                           results.size()));
      double& worst = errors[layer];
      worst = std::max(worst, error(outputs_with(exact, inputs, replaced), run.outputs));
    }
  }
  progress("times of layers");
  Loaded& exact = wide.prepare_for(samples.front());
  Loaded& rounded = narrow.prepare_for(samples.front());
  const std::vector<Times> times = times_of_layers(std::vector<Loaded*>{&exact, &rounded}, samples.front());
  std::map<std::string, LayerCost> costs;
  for (const Step& step : rounded.plan().steps)
    costs.try_emplace(step.name, LayerCost{step.name, step.ops, {}, errors[step.name], 0, times[1].at(step.name)});
  const Graph model = narrow.bind(samples.front()).graph;
  const auto layers = layers_by_node(model, rounded.compiled);
  for (auto& [layer, nodes] : nodes_of_layers(layers, rounded.compiled)) {
    if (costs.contains(layer)) costs.at(layer).nodes = std::move(nodes);
  }
  add_wide_times(times[0], layers_by_node(model, exact.compiled), layers, costs);
  std::vector<LayerCost> in_order_of_steps;
  for (const Step& step : rounded.plan().steps) {
    const auto found = costs.find(step.name);
    if (found == costs.end()) continue;
    in_order_of_steps.push_back(std::move(found->second));
    costs.erase(found);
  }
  return in_order_of_steps;
}

}  // namespace kilter::mixed
