#include "quantize/measure.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace kilter::quantize {
namespace {

/// The float network, the quantised network, and the quantised layers side by side, each with operands of its own.
class Networks {
 public:
  Networks(const Document& document, const Plan& plan, const Scales& scales, const Runs& runs)
      : plan_(plan), quantised_document_(document), writer_(quantised_document_, plan, scales) {
    Document floats = document;
    for (const Layer& layer : plan.layers) {
      if (layer.role->kind == Kind::movement) continue;
      layers_.push_back(&layer);
      floats.add_output(layer.output);
      for (const std::string& value : layer.activations) activations_.insert(value);
    }
    for (const std::string& value : activations_) {
      if (!floats.is_input(value)) floats.add_output(value);
    }
    floats_ = open(floats, runs);
    Nodes nodes = writer_.write();
    alone_ = open(side_by_side(document), runs);
    quantised_document_.nodes().Swap(&nodes);
    for (const Layer* layer : layers_) quantised_document_.add_output(writer_.name_of(layer->output));
    quantised_ = open(quantised_document_, runs);
  }

  const std::vector<const Layer*>& layers() const { return layers_; }

  /// The values of the layers of one sample, in the order of layers(), and the outputs of the networks by name.
  struct Values {
    std::vector<Tensor> exact, alone, in_network;
    std::map<std::string, Tensor> outputs, quantised_outputs;
  };
  Values run(const std::map<std::string, Tensor>& sample) {
    Values values;
    values.outputs = quantize::run(*floats_, sample);
    values.quantised_outputs = quantize::run(*quantised_, sample);
    std::map<std::string, Tensor> operands;
    for (const std::string& value : activations_)
      operands[value] = sample.contains(value) ? sample.at(value) : values.outputs.at(value);
    const std::map<std::string, Tensor> alone = quantize::run(*alone_, operands);
    for (size_t i = 0; i < layers_.size(); ++i) {
      values.exact.push_back(values.outputs.at(layers_[i]->output));
      values.in_network.push_back(values.quantised_outputs.at(writer_.name_of(layers_[i]->output)));
      values.alone.push_back(alone.at(results_[i]));
    }
    return values;
  }

 private:
  /// Builds a model of the layers, whose inputs are all their operands. Call it after the writer has written its nodes.
  Document side_by_side(const Document& document) {
    Document made = quantised_document_;
    made.clear_ports();
    Nodes nodes = writer_.constant_nodes();
    for (const auto& node : document.nodes()) {
      if (document.makes_constant(node)) *nodes.Add() = node;
    }
    for (const std::string& value : activations_) {
      made.add_input(value);
      operands_[value] = quantised_document_.fresh(value + "_operand");
    }
    for (const auto& [value, operand] : operands_) writer_.add_pair(nodes, value, value, operand);
    for (const Layer* layer : layers_) add_layer(nodes, document, *layer);
    for (const std::string& result : results_) made.add_output(result);
    made.nodes().Swap(&nodes);
    return made;
  }

  void add_layer(Nodes& nodes, const Document& document, const Layer& layer) {
    pb::NodeProto copy = document.nodes()[layer.node];
    const auto inputs = writer_.inputs_of(layer, [&](const std::string& value) { return operands_.at(value); });
    std::copy(inputs.begin(), inputs.end(), copy.mutable_input()->begin());
    std::string result = quantised_document_.fresh(layer.output + "_made");
    copy.set_output(0, result);
    *nodes.Add() = std::move(copy);
    if (layer.clip >= 0) {
      pb::NodeProto clip = document.nodes()[layer.clip];
      clip.set_input(0, result);
      result = quantised_document_.fresh(layer.output + "_clipped");
      clip.set_output(0, result);
      *nodes.Add() = std::move(clip);
    }
    if (layer.writes_integers) {
      const std::string rounded = quantised_document_.fresh(layer.output + "_result");
      writer_.add_pair(nodes, layer.output, result, rounded);
      result = rounded;
    }
    results_.push_back(result);
  }

  const Plan& plan_;
  Document quantised_document_;
  QdqWriter writer_;
  std::vector<const Layer*> layers_;  ///< those that compute
  std::set<std::string> activations_;
  std::map<std::string, std::string> operands_;  ///< in the model side by side: names of the dequantised activations
  std::vector<std::string> results_;             ///< in that model: names of the results of layers_
  std::unique_ptr<Session> floats_, quantised_, alone_;
};

void add_squares(const Tensor& want, const Tensor& got, Error2& error) {
  const auto exact = want.span<float>(), other = got.span<float>();
  double signal = 0, noise = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const auto a = static_cast<double>(exact[i]), difference = a - static_cast<double>(other[i]);
    signal += a * a, noise += difference * difference;
  }
  error.signal += signal, error.noise += noise;
}

void add_error(const Tensor& want, const Tensor& got, OutputError& error) {
  for (int64_t i = 0; i < want.elems(); ++i) {
    const double a = want.as_double(i), b = got.as_double(i);
    error.error.signal += a * a, error.error.noise += (a - b) * (a - b);
  }
  if (want.rank() != 2 || want.shape()[1] < 2 || !is_float(want.dtype())) return;
  const int64_t classes = want.shape()[1];
  const auto largest = [&](const Tensor& t, int64_t row) {
    int64_t best = 0;
    for (int64_t c = 1; c < classes; ++c) {
      if (t.as_double(row * classes + c) > t.as_double(row * classes + best)) best = c;
    }
    return best;
  };
  for (int64_t row = 0; row < want.shape()[0]; ++row) {
    ++error.rows;
    error.same_class += largest(want, row) == largest(got, row) ? 1 : 0;
  }
}

}  // namespace

double Error2::db() const { return noise > 0 ? 10 * std::log10(signal / noise) : INFINITY; }

Measured measure(const Document& document, const Plan& plan, const Scales& scales,
                 const std::map<std::string, Range>& ranges, const Samples& samples, const Runs& runs) {
  Networks networks(document, plan, scales, runs);
  Measured measured;
  for (const Layer* layer : networks.layers()) {
    const pb::NodeProto& node = document.nodes()[layer->node];
    LayerError error{node_name(node), op_name(node), layer->output, layer->writes_integers, {}, {}, {}, {}};
    if (layer->writes_integers) {
      error.range = ranges.at(plan.values.at(layer->output));
      error.affine = scales.at(plan, layer->output);
    }
    measured.layers.push_back(std::move(error));
  }
  for (const auto& output : document.graph().output()) measured.outputs.push_back({output.name(), {}});
  for (size_t i = 0; i < samples.size(); ++i) {
    if (runs.progress) runs.progress(fmt::format("errors: sample {} of {}", i + 1, samples.size()));
    const Networks::Values values = networks.run(samples.load(i));
    for (size_t k = 0; k < measured.layers.size(); ++k) {
      add_squares(values.exact[k], values.alone[k], measured.layers[k].alone);
      add_squares(values.exact[k], values.in_network[k], measured.layers[k].in_network);
    }
    for (OutputError& output : measured.outputs)
      add_error(values.outputs.at(output.name), values.quantised_outputs.at(output.name), output);
  }
  std::ranges::stable_sort(measured.layers, {}, [](const LayerError& e) { return e.alone.db(); });
  return measured;
}

}  // namespace kilter::quantize
