#include "quantize/fold.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

namespace kilter::quantize {
namespace {

/// y[c] = x[c] * factor[c] + offset[c] for every channel c.
struct ChannelMap {
  std::vector<double> factor;
  std::vector<double> offset;
};

bool is_floats(const Tensor* tensor) { return tensor != nullptr && tensor->dtype() == DType::f32; }

/// Returns the map of a BatchNormalization in inference form with constant parameters.
std::optional<ChannelMap> of_batch_norm(const Document& document, const pb::NodeProto& node, int64_t channels) {
  if (node.input_size() != 5 || int_attribute(node, "training_mode", 0) != 0 || int_attribute(node, "spatial", 1) == 0)
    return std::nullopt;
  for (int i = 1; i < node.output_size(); ++i) {
    if (!node.output(i).empty()) return std::nullopt;
  }
  const Tensor* of[4];  // scale, bias, mean, variance
  for (int i = 0; i < 4; ++i) {
    of[i] = document.constant(node.input(i + 1));
    if (!is_floats(of[i]) || of[i]->elems() != channels) return std::nullopt;
  }
  const auto epsilon = static_cast<double>(float_attribute(node, "epsilon", 1e-5F));
  ChannelMap map;
  for (int64_t c = 0; c < channels; ++c) {
    const double factor = of[0]->as_double(c) / std::sqrt(of[3]->as_double(c) + epsilon);
    map.factor.push_back(factor);
    map.offset.push_back(of[1]->as_double(c) - of[2]->as_double(c) * factor);
  }
  return map;
}

/// Whether a constant broadcasts to values of `rank` dimensions as one element for each channel, or as one in all.
bool is_per_channel(const Tensor& constant, int64_t channels, int64_t rank) {
  if (constant.elems() == 1) return constant.rank() <= rank;
  const int64_t channel_axis = constant.rank() - rank + 1;
  return constant.elems() == channels && channel_axis >= 0 &&
         constant.shape()[static_cast<size_t>(channel_axis)] == channels;
}

/// Returns the map of an Add or a Mul of `value` with a constant.
std::optional<ChannelMap> of_constant(const Document& document, const pb::NodeProto& node, const std::string& value,
                                      int64_t channels, int64_t rank) {
  if (node.input_size() != 2) return std::nullopt;
  const Tensor* constant = document.constant(node.input(node.input(0) == value ? 1 : 0));
  if (!is_floats(constant) || !is_per_channel(*constant, channels, rank)) return std::nullopt;
  const bool adds = node.op_type() == "Add";
  ChannelMap map;
  for (int64_t c = 0; c < channels; ++c) {
    const double v = constant->as_double(constant->elems() == 1 ? 0 : c);
    map.factor.push_back(adds ? 1 : v);
    map.offset.push_back(adds ? v : 0);
  }
  return map;
}

std::optional<ChannelMap> map_of(const Document& document, const pb::NodeProto& conv, const pb::NodeProto& next) {
  if (!onnx::normal_domain(next.domain()).empty()) return std::nullopt;
  const Tensor& weights = *document.constant(conv.input(1));
  const int64_t channels = weights.shape()[0];
  if (next.op_type() == "BatchNormalization") return of_batch_norm(document, next, channels);
  if (next.op_type() == "Add" || next.op_type() == "Mul")
    return of_constant(document, next, conv.output(0), channels, weights.rank());
  return std::nullopt;
}

bool can_change(const Document& document, const pb::NodeProto& node) {
  if (op_name(node) != "Conv" || node.input_size() < 2) return false;
  const Tensor* weights = document.constant(node.input(1));
  if (!is_floats(weights) || weights->rank() < 3 || weights->elems() == 0) return false;
  return node.input_size() < 3 || node.input(2).empty() || is_floats(document.constant(node.input(2)));
}

void apply(Document& document, pb::NodeProto& conv, const ChannelMap& map) {
  const Tensor& old = *document.constant(conv.input(1));
  const int64_t channels = old.shape()[0], each = old.elems() / channels;
  const Tensor* old_bias = conv.input_size() > 2 && !conv.input(2).empty() ? document.constant(conv.input(2)) : nullptr;
  Tensor weights(DType::f32, old.shape()), bias(DType::f32, {channels});
  for (int64_t c = 0; c < channels; ++c) {
    const auto at = static_cast<size_t>(c);
    for (int64_t i = c * each; i < (c + 1) * each; ++i)
      weights.data<float>()[i] = static_cast<float>(old.as_double(i) * map.factor[at]);
    const double before = old_bias != nullptr ? old_bias->as_double(c) : 0;
    bias.data<float>()[c] = static_cast<float>(before * map.factor[at] + map.offset[at]);
  }
  const std::string name = node_name(conv);
  const std::string folded = document.add(conv.input(1) + "_folded", std::move(weights));
  const std::string folded_bias = document.add(name + "_bias_folded", std::move(bias));
  if (conv.input_size() < 3) conv.add_input();
  conv.set_input(1, folded);
  conv.set_input(2, folded_bias);
}

/// Removes the marked nodes, and what only they read. Returns their number.
int remove(Document& document, const std::vector<bool>& removed) {
  Nodes& nodes = document.nodes();
  Nodes kept;
  for (int i = 0; i < nodes.size(); ++i) {
    if (!removed[static_cast<size_t>(i)]) *kept.Add() = std::move(*nodes.Mutable(i));
  }
  nodes.Swap(&kept);
  document.remove_unused();
  return static_cast<int>(std::ranges::count(removed, true));
}

/// Returns the operand of an Add that is a constant row of as many f32 as the weights have columns; empty if there is
/// none.
std::string row_of(const Document& document, const pb::NodeProto& add, const Tensor& weights) {
  if (op_name(add) != "Add") return {};
  for (const std::string& operand : add.input()) {
    const Tensor* row = document.constant(operand);
    const bool fits = is_floats(row) && (row->rank() == 1 || (row->rank() == 2 && row->shape()[0] == 1));
    if (fits && row->shape().back() == weights.shape()[1]) return operand;
  }
  return {};
}

}  // namespace

int fold_into_convolutions(Document& document) {
  Nodes& nodes = document.nodes();
  const Uses uses(document);
  std::vector<bool> removed(static_cast<size_t>(nodes.size()));
  for (int i = 0; i < nodes.size(); ++i) {
    pb::NodeProto& conv = *nodes.Mutable(i);
    if (!can_change(document, conv)) continue;
    for (int next = uses.only_reader(conv.output(0)); next >= 0; next = uses.only_reader(conv.output(0))) {
      const auto map = map_of(document, conv, nodes[next]);
      if (!map) break;
      if (conv.name().empty()) conv.set_name(document.fresh(conv.output(0) + "_conv"));
      apply(document, conv, *map);
      conv.set_output(0, nodes[next].output(0));
      removed[static_cast<size_t>(next)] = true;
    }
  }
  return remove(document, removed);
}

int fold_into_gemms(Document& document, const std::function<bool(const std::string& value)>& is_matrix) {
  Nodes& nodes = document.nodes();
  const Uses uses(document);
  std::vector<bool> removed(static_cast<size_t>(nodes.size()));
  for (int i = 0; i < nodes.size(); ++i) {
    pb::NodeProto& product = *nodes.Mutable(i);
    if (op_name(product) != "MatMul" || !is_matrix(product.input(0))) continue;
    const Tensor* weights = document.constant(product.input(1));
    const int next = uses.only_reader(product.output(0));
    if (!is_floats(weights) || weights->rank() != 2 || next < 0) continue;
    const std::string row = row_of(document, nodes[next], *weights);
    if (row.empty()) continue;
    if (product.name().empty()) product.set_name(document.fresh(product.output(0) + "_gemm"));
    product.set_op_type("Gemm");
    product.add_input(document.add(row + "_bias", document.constant(row)->reshaped({weights->shape()[1]})));
    product.set_output(0, nodes[next].output(0));
    removed[static_cast<size_t>(next)] = true;
  }
  return remove(document, removed);
}

}  // namespace kilter::quantize
