#include "quantize/measure.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace kilter::quantize {
namespace {

/// A model that contains the float network, the quantised network, and a copy of each quantised layer whose operands
/// come from the float network. It returns only sums of squares, and the outputs of both networks, so that it needs
/// little memory.
class Contrast {
 public:
  Contrast(const Document& document, const Plan& plan, const Scales& scales)
      : original_(document),
        document_(document),
        near_(document.fresh_prefix("alone")),
        writer_(document_, plan, scales, document.fresh_prefix("quantised")) {
    nodes_ = writer_.write();
    nodes_.MergeFrom(document.nodes());
    for (const auto& [value, owner] : plan.values) writer_.add_pair(nodes_, value, value, near_ + value);
    for (const Layer& layer : plan.layers) {
      if (layer.role->kind != Kind::movement) add_layer(layer);
    }
    document_.proto().mutable_graph()->clear_value_info();
    add_outputs();
    document_.nodes().Swap(&nodes_);
  }

  const Document& document() const { return document_; }
  struct Sums {
    const Layer* layer;
    std::string signal, alone, in_network;
  };
  const std::vector<Sums>& sums() const { return sums_; }
  std::string quantised_name(const std::string& value) const { return writer_.name_of(value); }

 private:
  std::string squares(const std::string& value, const std::string& minus) {
    const std::string sum = document_.fresh(near_ + value + "_squares");
    std::string from = value;
    if (!minus.empty()) {
      from = document_.fresh(near_ + value + "_error");
      *nodes_.Add() = make_node("Sub", from, {minus, value}, {from});
    }
    pb::NodeProto node = make_node("ReduceSumSquare", sum, {from}, {sum});
    set_attribute(node, "keepdims", int64_t{0});
    *nodes_.Add() = std::move(node);
    return sum;
  }

  void add_layer(const Layer& layer) {
    pb::NodeProto copy = original_.nodes()[layer.node];
    const auto inputs = writer_.inputs_of(layer, [&](const std::string& value) { return near_ + value; });
    std::copy(inputs.begin(), inputs.end(), copy.mutable_input()->begin());
    std::string made = document_.fresh(near_ + layer.output + "_made");
    copy.set_name(document_.fresh(near_ + node_name(copy)));
    copy.set_output(0, made);
    *nodes_.Add() = std::move(copy);
    if (layer.clip >= 0) {
      pb::NodeProto clip = original_.nodes()[layer.clip];
      clip.set_name(document_.fresh(near_ + node_name(clip)));
      clip.set_input(0, made);
      made = document_.fresh(near_ + layer.output + "_clipped");
      clip.set_output(0, made);
      *nodes_.Add() = std::move(clip);
    }
    if (layer.writes_integers) {
      const std::string result = document_.fresh(near_ + layer.output + "_result");
      writer_.add_pair(nodes_, layer.output, made, result);
      made = result;
    }
    const std::string& value = layer.output;
    sums_.push_back({&layer, squares(value, {}), squares(value, made), squares(value, quantised_name(value))});
  }

  void add_outputs() {
    for (const auto& output : original_.graph().output()) {
      if (document_.constant(output.name()) != nullptr || document_.is_input(output.name())) continue;
      auto& made = *document_.proto().mutable_graph()->add_output();
      made = output;
      made.set_name(quantised_name(output.name()));
    }
    for (const Sums& s : sums_) {
      for (const std::string& name : {s.signal, s.alone, s.in_network}) add_output(document_, name);
    }
  }

  const Document& original_;
  Document document_;
  std::string near_;  ///< prefix of the names of values of the copies
  QdqWriter writer_;
  Nodes nodes_;
  std::vector<Sums> sums_;
};

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
  const Contrast contrast(document, plan, scales);
  Measured measured;
  for (const auto& sums : contrast.sums()) {
    const Layer& layer = *sums.layer;
    const pb::NodeProto& node = document.nodes()[layer.node];
    LayerError error{node_name(node), op_name(node), layer.output, layer.writes_integers, {}, {}, {}, {}};
    if (layer.writes_integers) {
      error.range = ranges.at(plan.values.at(layer.output));
      error.affine = scales.at(plan, layer.output);
    }
    measured.layers.push_back(std::move(error));
  }
  for (const auto& output : document.graph().output()) measured.outputs.push_back({output.name(), {}});
  Runs unfused = runs;
  // The sums read values of three networks side by side, and fusing nodes of one with sums of another saves little.
  unfused.compile.debug.disable.insert("fuse");
  const auto session = open(contrast.document(), unfused);
  for (size_t i = 0; i < samples.size(); ++i) {
    if (runs.progress) runs.progress(fmt::format("errors: sample {} of {}", i + 1, samples.size()));
    const std::vector<Tensor> outputs = session->run(samples.load(i));
    std::map<std::string, const Tensor*> named;
    const std::vector<onnx::Port> ports = session->outputs();
    for (size_t k = 0; k < outputs.size(); ++k) named[ports[k].name] = &outputs[k];
    for (size_t k = 0; k < measured.layers.size(); ++k) {
      const auto& sums = contrast.sums()[k];
      const double signal = named.at(sums.signal)->as_double(0);
      measured.layers[k].alone.signal += signal, measured.layers[k].in_network.signal += signal;
      measured.layers[k].alone.noise += named.at(sums.alone)->as_double(0);
      measured.layers[k].in_network.noise += named.at(sums.in_network)->as_double(0);
    }
    for (OutputError& output : measured.outputs) {
      const auto got = named.find(contrast.quantised_name(output.name));
      if (got != named.end()) add_error(*named.at(output.name), *got->second, output);
    }
  }
  std::ranges::stable_sort(measured.layers, {}, [](const LayerError& e) { return e.alone.db(); });
  return measured;
}

}  // namespace kilter::quantize
