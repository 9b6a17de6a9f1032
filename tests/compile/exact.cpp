#include "exact.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "base/random.h"
#include "ops/support/builder.h"
#include "ops/support/evaluate.h"
#include "ops/support/iterate.h"

namespace kilter {
namespace {

constexpr double kUnit = 0x1p-24;
constexpr int kFewRuns = 2, kMostRuns = 24;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool adds_up(const Node& node) {
  static const std::set<std::string_view> kNames = {
      "Conv",     "ConvTranspose", "MatMul", "Gemm",   "ReduceSum",  "ReduceMean", "AveragePool", "GlobalAveragePool",
      "ReduceL1", "Mean",          "Sum",    "Resize", "MatMulNBits"};
  return kNames.contains(node.op->name);
}

/// The bias that a normalisation adds to element `i` of its result; 0 if it has none.
double added_bias(const Node& node, const std::vector<Tensor>& operands, size_t i) {
  if (operands.size() < 3 || !operands[2].defined() || operands[2].elems() == 0) return 0;
  const Shape& x = operands[0].shape();
  const auto at = static_cast<int64_t>(i);
  const int64_t count = operands[2].elems();
  if (node.op->name == "LayerNormalization") return operands[2].as_double(at % count);
  const int64_t channel = at / (elems(x) / (x[0] * x[1])) % x[1];
  return operands[2].as_double(channel / (x[1] / count));
}

/// The magnitude of a sum that an operator's definition computes on the way to element `i` of its result, if it may be
/// larger than the result; otherwise 0. These sums are: 1 and the other terms under the logarithm of a sum, x and x
/// erf(x / sqrt 2) in Gelu, and the scaled value and the bias in a normalisation.
double inner_sum(const Node& node, const std::vector<Tensor>& operands, size_t i, double result) {
  if (node.op->name == "LogSoftmax" || node.op->name == "ReduceLogSumExp") return 1;
  if (node.op->name == "Gelu") return std::abs(operands[0].as_double(static_cast<int64_t>(i)));
  if (node.op->family == Family::normalize) {
    const double bias = added_bias(node, operands, i);
    return std::abs(result - bias) + std::abs(bias);
  }
  return 0;
}

/// The rounding error of the mean that a normalisation subtracts from each element; 0 for other operators.
double mean_rounding(const Node& node, const Tensor& x) {
  if (node.op->family != Family::normalize || x.elems() == 0) return 0;
  double sum = 0;
  for (const double v : load_doubles(x)) sum += std::abs(v);
  return 16 * kUnit * sum / static_cast<double>(x.elems());
}

bool winograd_may_take(const Graph& graph, const Node& node) {
  if (node.op->name != "Conv") return false;
  const Shape& w = graph.type(node.inputs[1]).shape;
  const auto ones = [&](std::string_view key) {
    const std::vector<int64_t> v = node.ints_attr(key);
    return std::all_of(v.begin(), v.end(), [](int64_t e) { return e == 1; });
  };
  constexpr std::array<std::pair<int64_t, int64_t>, 5> kKernels{{{3, 3}, {1, 3}, {3, 1}, {1, 7}, {7, 1}}};
  return w.size() == 4 && std::count(kKernels.begin(), kKernels.end(), std::pair(w[2], w[3])) > 0 && ones("strides") &&
         ones("dilations") && node.int_attr("group", 1) == 1;
}

Tensor changed(const Tensor& t, const std::function<double(double, size_t)>& by) {
  if (!t.defined() || t.dtype() != DType::f64) return t;
  Tensor out(DType::f64, t.shape());
  for (size_t i = 0; i < static_cast<size_t>(t.elems()); ++i) out.data<double>()[i] = by(t.data<double>()[i], i);
  return out;
}

/// Runs a node on other operands and returns its outputs.
std::vector<Tensor> again(const Node& node, std::vector<Tensor> operands, const std::vector<Tensor>& like) {
  std::vector<TensorType> types;
  for (const Tensor& t : like) types.push_back(t.defined() ? TensorType{t.dtype(), t.shape(), {}} : TensorType{});
  return run_reference(node, std::move(operands), types);
}

bool recurrent(const Node& node) { return node.op->name == "LSTM" || node.op->name == "GRU" || node.op->name == "RNN"; }

double largest(const Tensor& t, double most) {
  if (!t.defined()) return most;
  for (const double v : load_doubles(t)) most = std::isfinite(v) ? std::max(most, std::abs(v)) : most;
  return most;
}

/// The largest state of a recurrent node, or 1 if that is larger. Gates are at most 1 (a coupled gate is 1 - i) and
/// multiply states, so their rounding errors are relative to this.
double largest_state(const std::vector<Tensor>& operands, const std::vector<Tensor>& results) {
  double most = 1;
  for (size_t i = 5; i < std::min<size_t>(operands.size(), 7); ++i) most = largest(operands[i], most);
  for (const Tensor& t : results) most = largest(t, most);
  return most;
}

/// A recurrent node's bias, with each element moved up or down by the possible rounding error of its gate's sum.
Tensor rounded_bias(const std::vector<Tensor>& operands, const std::vector<Tensor>& results, const Random& random) {
  const Tensor &w = operands[1], &r = operands[2];
  const int64_t directions = w.shape()[0], rows = w.shape()[1], inputs = w.shape()[2], hidden = r.shape()[2];
  const double x = largest(operands[0], 0);
  const double h = largest_state(operands, results);
  Tensor bias(DType::f64, {directions, 2 * rows});
  std::fill_n(bias.data<double>(), bias.elems(), 0.0);
  if (operands.size() > 3 && operands[3].defined()) bias = changed(operands[3], [](double v, size_t) { return v; });
  for (int64_t row = 0; row < directions * rows; ++row) {
    double& b = bias.data<double>()[row / rows * 2 * rows + row % rows];
    double sum = std::abs(b);
    for (int64_t k = 0; k < inputs; ++k) sum += std::abs(w.data<double>()[row * inputs + k]) * x;
    for (int64_t k = 0; k < hidden; ++k) sum += std::abs(r.data<double>()[row * hidden + k]) * h;
    const double off = (16 + std::sqrt(static_cast<double>(inputs + hidden))) * kUnit * sum;
    b += (random.bits(static_cast<size_t>(row)) & 1) != 0 ? off : -off;
  }
  return bias;
}

/// The sums of the terms' magnitudes of a product with packed weights. The product with the identity gives the weights.
Tensor packed_magnitudes(Node node, std::vector<Tensor> operands, const Tensor& like) {
  node.attrs.erase("accuracy_level");
  const Tensor rows = operands[0];
  const int64_t k = node.int_attr("K", 0), n = node.int_attr("N", 0);
  operands[0] = Tensor(DType::f64, {k, k});
  for (int64_t i = 0; i < k; ++i) operands[0].data<double>()[i * k + i] = 1;
  const Tensor weights = again(node, std::move(operands), {Tensor(DType::f64, {k, n})}).at(0);
  Tensor out(DType::f64, like.shape());
  for (int64_t i = 0; i < out.elems(); ++i) {
    for (int64_t p = 0; p < k; ++p)
      out.data<double>()[i] += std::abs(rows.as_double(i / n * k + p) * weights.as_double(p * n + i % n));
  }
  return out;
}

/// The result of a node for the magnitudes of its operands and factors: the sums of the terms' magnitudes.
Tensor magnitudes(Node node, const std::vector<Tensor>& operands, const Tensor& like) {
  if (node.op->family == Family::matmul_bits) return packed_magnitudes(std::move(node), operands, like);
  for (auto& [key, attr] : node.attrs) {
    if (auto* factor = std::get_if<float>(&attr); factor != nullptr && (key == "alpha" || key == "beta"))
      *factor = std::abs(*factor);
  }
  std::vector<Tensor> positive;
  for (const Tensor& t : operands) positive.push_back(changed(t, [](double v, size_t) { return std::abs(v); }));
  return again(node, std::move(positive), {like}).at(0);
}

/// Roughly how many terms are summed for one element of the result.
double terms(const Graph& graph, const Node& node, const std::vector<Tensor>& operands, const Tensor& result) {
  const auto out = static_cast<double>(std::max<int64_t>(result.elems(), 1));
  if (node.op->flops != nullptr) return std::max(1.0, static_cast<double>(node.op->flops(view(graph, node))) / 2 / out);
  return std::max(1.0, static_cast<double>(operands.at(0).elems()) / out);
}

double difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double d = std::abs(a - b);
  return std::isnan(d) ? kInfinity : d;
}

/// Increases the rounding error of each element to at least the effect of small changes of the operands.
void widen_by_operands(const Node& node, const std::vector<Tensor>& operands, const std::vector<Tensor>& results,
                       std::vector<std::vector<double>>& scale) {
  for (uint64_t turn = 0; turn < 2; ++turn) {
    std::vector<Tensor> near;
    for (size_t o = 0; o < operands.size(); ++o) {
      const Random random(hash_combine(turn, o));
      const double least = o == 0 ? mean_rounding(node, operands[o]) : 0;
      near.push_back(changed(operands[o], [&](double v, size_t i) {
        return v + std::max(std::abs(v) * 4 * kUnit, least) * ((random.bits(i) & 1) != 0 ? 1 : -1);
      }));
    }
    if (recurrent(node)) {
      near.resize(std::max<size_t>(near.size(), 4));
      near[3] = rounded_bias(operands, results, Random(hash_combine(turn, 3)));
    }
    const std::vector<Tensor> moved = again(node, std::move(near), results);
    for (size_t o = 0; o < scale.size(); ++o) {
      for (size_t i = 0; i < scale[o].size(); ++i) {
        const double d = difference(moved[o].data<double>()[i], results[o].data<double>()[i]);
        if (std::isfinite(d)) scale[o][i] = std::max(scale[o][i], d);
      }
    }
  }
}

}  // namespace

Tensor to_f64(const Tensor& tensor) {
  if (!tensor.defined() || tensor.dtype() != DType::f32) return tensor;
  Tensor out(DType::f64, tensor.shape());
  const auto from = tensor.span<float>();
  std::copy(from.begin(), from.end(), out.data<double>());
  return out;
}

Graph in_f64(Graph graph) {
  constexpr int64_t kFloat = 1, kDouble = 11;  // ONNX's codes for the element types
  for (size_t i = 0; i < graph.value_count(); ++i) {
    Value& value = graph.change_value(static_cast<ValueId>(i));
    if (value.type.dtype != DType::f32) continue;
    value.type.dtype = DType::f64;
    if (value.constant) value.constant = to_f64(*value.constant);
  }
  const std::vector<NodeId> order = graph.order();
  for (NodeId id : order) {
    for (auto& [key, attr] : graph.change_node(id).attrs) {
      if (auto* tensor = std::get_if<Tensor>(&attr)) *tensor = to_f64(*tensor);
      if (auto* type = std::get_if<int64_t>(&attr); type != nullptr && (key == "to" || key == "dtype"))
        *type = *type == kFloat ? kDouble : *type;
    }
  }
  graph.sort();
  return graph;
}

Exact::Exact(const Graph& graph, const std::vector<Tensor>& inputs) : graph_(in_f64(graph)) {
  for (const Tensor& t : inputs) inputs_.push_back(to_f64(t));
  std::map<ValueId, Tensor> values;
  for (size_t i = 0; i < inputs_.size(); ++i) values[graph_.inputs()[i]] = inputs_[i];
  want_ = evaluate(graph_, inputs_, [&](NodeId id, const std::vector<Tensor>& results) {
    const Node& node = graph_.node(id);
    std::vector<Tensor> operands;
    for (ValueId in : node.inputs) {
      if (in == kNone) {
        operands.emplace_back();
      } else {
        const Value& v = graph_.value(in);
        operands.push_back(v.constant ? *v.constant : values.at(in));
      }
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (node.outputs[i] != kNone) values[node.outputs[i]] = results[i];
    }
    note_scale(node, id, operands, results);
  });
}

void Exact::note_scale(const Node& node, NodeId id, const std::vector<Tensor>& operands,
                       const std::vector<Tensor>& results) {
  if (node.op->family == Family::movement || node.op->family == Family::reshape || node.op->family == Family::gather)
    return;  // only moves values
  std::vector<std::vector<double>> scale(results.size());
  for (size_t o = 0; o < results.size(); ++o) {
    if (results[o].defined() && results[o].dtype() == DType::f64)
      scale[o].resize(static_cast<size_t>(results[o].elems()), 0);
  }
  if (adds_up(node) && !scale[0].empty()) {
    scale[0] = sum_scale(node, id, operands, results[0]);
  } else if (!adds_up(node)) {
    widen_by_operands(node, operands, results, scale);
    const double state = recurrent(node) ? largest_state(operands, results) : 0;
    for (size_t o = 0; o < results.size(); ++o) {
      for (size_t i = 0; i < scale[o].size(); ++i) {
        const double y = results[o].data<double>()[i];
        const double from = std::max({std::abs(y), inner_sum(node, operands, i, y), state});
        scale[o][i] += std::isfinite(y) ? 16 * kUnit * from : 0;
      }
    }
  }
  scale_[id] = std::move(scale);
}

std::vector<double> Exact::sum_scale(const Node& node, NodeId id, const std::vector<Tensor>& operands,
                                     const Tensor& result) {
  const Tensor all = magnitudes(node, operands, result);
  const double count = terms(graph_, node, operands, result);
  const auto sums = all.span<double>();
  std::vector<double> scale;
  for (const double sum : sums) scale.push_back((16 + std::sqrt(count)) * kUnit * std::abs(sum));
  if (winograd_may_take(graph_, node)) {
    const auto channels = static_cast<double>(operands[0].shape()[1]);
    winograd_[id] = (64 + std::sqrt(channels)) * kUnit * *std::max_element(sums.begin(), sums.end());
  }
  return scale;
}

void Exact::sample(Spread& spread, Rounding rounding, int runs) {
  if (spread.most.empty()) {
    for (const Tensor& t : want_) spread.most.emplace_back(static_cast<size_t>(t.elems()), 0.0);
  }
  for (; spread.runs < runs; ++spread.runs) {
    const auto change = [&](NodeId id, const std::vector<Tensor>& results) {
      const auto scale = scale_.find(id);
      if (scale == scale_.end()) return;
      const auto all = winograd_.find(id);
      const double floor = rounding == Rounding::winograd && all != winograd_.end() ? all->second : 0;
      const Random random(hash_combine(static_cast<uint64_t>(spread.runs), static_cast<uint64_t>(id)));
      for (size_t o = 0; o < scale->second.size(); ++o) {
        const std::vector<double>& by = scale->second[o];
        for (size_t i = 0; i < by.size(); ++i) {
          results[o].data<double>()[i] +=
              std::max(by[i], floor) * (2.0 * static_cast<double>(random.uniform(i + o * by.size())) - 1);
        }
      }
    };
    const std::vector<Tensor> got = evaluate(graph_, inputs_, change);
    for (size_t o = 0; o < got.size(); ++o) {
      const std::vector<double> g = load_doubles(got[o]), w = load_doubles(want_[o]);
      for (size_t i = 0; i < g.size(); ++i) spread.most[o][i] = std::max(spread.most[o][i], difference(g[i], w[i]));
    }
  }
}

std::string Exact::worst(size_t index, const Tensor& got, const Spread& spread) const {
  const Tensor& want = want_[index];
  const std::vector<double> g = load_doubles(got), w = load_doubles(want);
  double excess = 0;
  std::string text;
  for (size_t i = 0; i < w.size(); ++i) {
    // One rounding of the result, plus the smallest normal number, below which kernels may flush to 0.
    const bool real = want.dtype() == DType::f64;
    const double allowed = 2 * spread.most[index][i] + (real ? 2 * kUnit * std::abs(w[i]) + 0x1p-126 : 0);
    const bool too_large = real && std::abs(w[i]) + allowed > double{std::numeric_limits<float>::max()};
    const double d = difference(g[i], w[i]);
    if (d <= allowed || (too_large && !std::isfinite(g[i]))) continue;
    const double beyond = std::isfinite(d) ? d / allowed : kInfinity;
    if (beyond <= excess) continue;
    excess = beyond;
    text = fmt::format("element {} of {}: got {:.9g}, expected {:.9g}; off by {:.3g}, allowed {:.3g}", i,
                       kilter::text(want.shape()), g[i], w[i], d, allowed);
  }
  return text;
}

std::string Exact::judge(size_t index, const Tensor& got, Rounding rounding) {
  if (got.shape() != want_.at(index).shape() || to_f64(got).dtype() != want_[index].dtype()) {
    return fmt::format("it is {}[{}], expected {}[{}] in f32", name(got.dtype()), text(got.shape()),
                       name(want_[index].dtype()), text(want_[index].shape()));
  }
  Spread& spread = spreads_[rounding];
  // With more runs, the largest observed change approaches the largest possible one. Only hard cases pay for many runs.
  for (const int runs : {kFewRuns, kMostRuns}) {
    sample(spread, rounding, runs);
    if (worst(index, got, spread).empty()) return "";
  }
  return worst(index, got, spread);
}

}  // namespace kilter
