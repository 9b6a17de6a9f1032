// Networks with one spatial axis, as used for speech and sensors: chains of nodes run as images of one row.
#include <gtest/gtest.h>

#include <cmath>

#include "guarded_run.h"
#include "ops/support/evaluate.h"
#include "sweep.h"

namespace kilter {
namespace {

using Ints = std::vector<int64_t>;

ValueId conv(SweepNet& net, ValueId x, int64_t filters, int64_t taps, Attrs attrs = {}) {
  const int64_t groups = attrs.contains("group") ? std::get<int64_t>(attrs.at("group")) : 1;
  const int64_t in = net.shape(x)[1] / groups;
  return net.b.add("Conv", {x, net.constant({filters, in, taps}, 1 / std::sqrt(static_cast<float>(in * taps)))}, attrs);
}
Attrs same(int64_t taps, int64_t dilation = 1) {
  const int64_t reach = (taps - 1) * dilation;
  return {{"pads", Ints{reach / 2, reach - reach / 2}}, {"dilations", Ints{dilation}}};
}

ValueId batch_norm(SweepNet& net, ValueId x) {
  const Shape c{net.shape(x)[1]};
  Tensor variance = net.draw.tensor(c);
  for (float& f : variance.span<float>()) f = 0.5F + f * f;
  return net.b.add("BatchNormalization",
                   {x, net.constant(c), net.constant(c), net.constant(c), net.b.constant(variance)});
}

ValueId conv_bn_relu(SweepNet& net, ValueId x, int64_t filters, int64_t taps, int64_t dilation = 1) {
  return net.b.add("Relu", {batch_norm(net, conv(net, x, filters, taps, same(taps, dilation)))});
}

/// The operators of a network's tasks. Checks that the results are right on every target of this machine.
std::string tasks_in(const SweepNet& net) {
  const std::vector<Tensor> want = evaluate(net.graph(), net.inputs());
  std::string all;
  for (const Target& target : targets_here()) {
    const Compiled compiled = compile_for(net.graph(), target);
    const auto program = std::make_shared<const Program>(compiled.plan);
    EXPECT_EQ(run_guarded(program, net.inputs(), want, {.rtol = 1e-3, .atol = 1e-4}, 0), "") << target.name;
    EXPECT_EQ(check_padding(compiled, program, net.inputs()), "") << target.name;
    std::string ops, last;
    for (const Step& step : compiled.plan.steps) {
      if (step.kind == StepKind::halo || step.name == last) continue;  // a task may have several stages
      last = step.name;
      ops += (ops.empty() ? "" : "; ") + step.ops + (step.kind == StepKind::kernel ? "" : " by the reference");
    }
    if (all.empty()) all = ops;
    EXPECT_EQ(ops, all) << target.name;
  }
  return all;
}

TEST(Signals, ChainRunsOneStepPerConvolutionAndPool) {
  SweepNet net(1);
  ValueId v = net.input({2, 16, 40});
  v = net.b.add("MaxPool", {conv_bn_relu(net, v, 16, 5)}, {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}});
  v = net.b.add("AveragePool", {conv_bn_relu(net, v, 32, 3)}, {{"kernel_shape", Ints{3}}, {"pads", Ints{1, 1}}});
  v = net.b.add("GlobalAveragePool", {conv_bn_relu(net, v, 32, 3)});
  net.output(v);
  EXPECT_EQ(tasks_in(net), "Relayout; Conv+Relu; MaxPool; Conv+Relu; AveragePool; Conv+Relu; ReduceMean; Relayout");
}

TEST(Signals, DilatedBlocksRunOneStepPerConvolution) {
  SweepNet net(2);
  ValueId v = conv_bn_relu(net, net.input({1, 16, 50}), 32, 3);
  for (const int64_t dilation : {1, 2, 4}) {
    const Attrs causal{{"pads", Ints{2 * dilation, 0}}, {"dilations", Ints{dilation}}};
    const ValueId first = net.b.add("Relu", {batch_norm(net, conv(net, v, 32, 3, causal))});
    const ValueId second = batch_norm(net, conv(net, first, 32, 3, causal));
    v = net.b.add("Relu", {net.b.add("Add", {second, v})});
  }
  net.output(v);
  EXPECT_EQ(
      tasks_in(net),
      "Relayout; Conv+Relu; Conv+Relu; Conv+Add+Relu; Conv+Relu; Conv+Add+Relu; Conv+Relu; Conv+Add+Relu; Relayout");
}

TEST(Signals, BranchesAreJoinedInPlace) {
  SweepNet net(3);
  const ValueId x = conv_bn_relu(net, net.input({1, 16, 30}), 32, 1);
  std::vector<ValueId> branches;
  for (const int64_t taps : {3, 9, 19}) branches.push_back(conv(net, x, 32, taps, same(taps)));
  const ValueId pooled = net.b.add("MaxPool", {x}, {{"kernel_shape", Ints{3}}, {"pads", Ints{1, 1}}});
  branches.push_back(conv(net, pooled, 32, 1));
  const ValueId joined = net.b.add("Concat", branches, {{"axis", int64_t{1}}});
  net.output(conv_bn_relu(net, net.b.add("Relu", {batch_norm(net, joined)}), 16, 1));
  EXPECT_EQ(tasks_in(net), "Relayout; Conv+Relu; Conv; Conv; Conv; MaxPool; Conv; Mul+Add+Relu; Conv+Relu; Relayout");
}

TEST(Signals, EncoderAndDecoderWithSkip) {
  SweepNet net(4);
  const ValueId wide = conv_bn_relu(net, net.input({1, 16, 32}), 32, 3);
  const ValueId narrow = net.b.add("MaxPool", {wide}, {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}});
  const ValueId deep = conv_bn_relu(net, narrow, 32, 3);
  const ValueId up =
      net.b.add("ConvTranspose", {deep, net.constant({32, 32, 4}, 0.2F)}, {{"strides", Ints{2}}, {"pads", Ints{1, 1}}});
  const ValueId joined =
      net.b.add("Concat", {wide, net.b.add("LeakyRelu", {batch_norm(net, up)})}, {{"axis", int64_t{1}}});
  net.output(conv_bn_relu(net, joined, 32, 3));
  EXPECT_EQ(tasks_in(net), "Relayout; Conv+Relu; MaxPool; Conv+Relu; ConvTranspose+LeakyRelu; Conv+Relu; Relayout");
}

/// Per-channel gates, slopes and normalisations between convolutions.
TEST(Signals, GatesSlopesAndNormalisationsBetweenConvolutions) {
  SweepNet net(5);
  ValueId v = conv(net, net.input({1, 16, 24}), 32, 3, same(3));
  v = net.b.add("PRelu", {v, net.constant({32, 1})});
  v = net.b.add("InstanceNormalization", {v, net.constant({32}), net.constant({32})});
  ValueId gate = net.b.add("GlobalAveragePool", {v});
  gate = net.b.add("Sigmoid", {conv(net, gate, 32, 1)});
  v = net.b.add("Mul", {v, gate});
  net.output(net.b.add("Tanh", {conv(net, v, 32, 3, same(3))}));
  EXPECT_EQ(tasks_in(net),
            "Relayout; Conv+PRelu; InstanceNormalization; ReduceMean; Conv+Sigmoid; Mul; Conv+Tanh; Relayout");
}

/// As in WaveNet: one half of the channels gates the other.
TEST(Signals, ChannelHalvesAreReadInPlace) {
  SweepNet net(6);
  const ValueId x = conv_bn_relu(net, net.input({1, 16, 24}), 32, 3);
  GraphBuilder::Options two;
  two.output_count = 2;
  const auto halves =
      net.b.add("Split", {conv(net, x, 64, 3, same(3))}, {{"axis", int64_t{1}}, {"num_outputs", int64_t{2}}}, two);
  const ValueId gated = net.b.add("Mul", {net.b.add("Tanh", {halves[0]}), net.b.add("Sigmoid", {halves[1]})});
  net.output(net.b.add("Add", {conv(net, gated, 32, 1), x}));
  EXPECT_EQ(tasks_in(net), "Relayout; Conv+Relu; Conv; Sigmoid; Tanh+Mul; Conv+Add; Relayout");
}

/// Convolutions, pools, sums, concatenations, and nodes that cannot run on images of one row, in any order.
class Drawn {
 public:
  explicit Drawn(SweepNet& net) : net_(net), draw_(net.draw) {}

  void run() {
    const int64_t c = draw_.pick({3, 8, 16, 17, 32});
    values_.push_back(net_.input({draw_.between(1, 2), c, draw_.between(5, 40)}));
    for (int64_t i = draw_.between(3, 9); i > 0; --i) values_.push_back(next(values_.back()));
    net_.output(values_.back());
    if (draw_.chance(40)) net_.output(any());
  }

 private:
  const Shape& shape(ValueId v) const { return net_.shape(v); }
  ValueId any() { return values_[static_cast<size_t>(draw_.between(0, static_cast<int64_t>(values_.size()) - 1))]; }
  int64_t filters() { return draw_.pick({1, 8, 16, 17, 32, 48}); }

  ValueId next(ValueId v) {
    switch (draw_.between(0, 12)) {
      case 0:
      case 1:
      case 2:
        return convolution(v);
      case 3:
        return batch_norm(net_, v);
      case 4:
        return pool(v);
      case 5:
        return with_constant(v);
      case 6:
      case 7:
        return with_value(v);
      case 8:
        return upsampled(v);
      case 9:
        return gated(v);
      case 10:
        return turned(v);
      case 11:
        return part(v);
      default:
        return net_.b.add(draw_.pick<std::string_view>({"Relu", "Sigmoid", "Gelu", "LeakyRelu", "Softplus"}), {v});
    }
  }

  ValueId convolution(ValueId v) {
    const int64_t taps = draw_.pick({1, 2, 3, 3, 5, 9}), dilation = draw_.pick({1, 1, 2, 3});
    Attrs attrs = same(taps, dilation);
    if (draw_.chance(25)) attrs["strides"] = Ints{2};
    if (draw_.chance(20)) attrs["pads"] = Ints{(taps - 1) * dilation, draw_.between(0, 2)};
    const bool depthwise = draw_.chance(25);
    if (depthwise) attrs["group"] = shape(v)[1];
    const ValueId out = conv(net_, v, depthwise ? shape(v)[1] : filters(), taps, attrs);
    return draw_.chance(60) ? batch_norm(net_, out) : out;
  }

  ValueId pool(ValueId v) {
    const int64_t taps = std::min(shape(v)[2], draw_.pick<int64_t>({1, 2, 3, 5, 12, 20}));
    Attrs attrs{{"kernel_shape", Ints{taps}}, {"strides", Ints{draw_.between(1, 2)}}};
    if (draw_.chance(30)) {
      attrs["auto_pad"] = draw_.pick<std::string>({"SAME_UPPER", "SAME_LOWER", "VALID"});
    } else {
      attrs["pads"] = Ints{draw_.between(0, taps / 2), draw_.between(0, taps / 2)};
    }
    if (draw_.chance(30)) attrs["ceil_mode"] = int64_t{1};
    if (draw_.chance(50)) return net_.b.add("MaxPool", {v}, attrs);
    if (draw_.chance(50)) attrs["count_include_pad"] = int64_t{1};
    return net_.b.add("AveragePool", {v}, attrs);
  }

  /// Applies a constant with one element, one per channel, one per time step or one per element, of rank 0 to 3.
  ValueId with_constant(ValueId v) {
    const Shape& s = shape(v);
    const Shape operand = draw_.pick<Shape>({{}, {1, 1, 1}, {s[1], 1}, {1, s[1], 1}, {s[2]}, {s[1], s[2]}, s});
    const auto op = draw_.pick<std::string_view>({"Mul", "Add", "Sub", "Max"});
    return draw_.chance(30) ? net_.b.add(op, {net_.constant(operand), v}) : net_.b.add(op, {v, net_.constant(operand)});
  }

  /// Adds or concatenates an equally shaped value or a new input.
  ValueId with_value(ValueId v) {
    std::vector<ValueId> alike{v};
    if (draw_.chance(20)) alike.push_back(net_.input(shape(v)));
    for (ValueId other : values_) {
      if (shape(other) == shape(v)) alike.push_back(other);
    }
    const ValueId other = alike[static_cast<size_t>(draw_.between(0, static_cast<int64_t>(alike.size()) - 1))];
    if (draw_.chance(50)) return net_.b.add("Add", {v, other});
    return net_.b.add("Concat", {v, other}, {{"axis", draw_.pick<int64_t>({1, 1, 1, 2})}});
  }

  ValueId upsampled(ValueId v) {
    if (shape(v)[2] > 60) return v;
    const int64_t taps = draw_.between(1, 5), stride = draw_.between(1, 3);
    const bool depthwise = draw_.chance(30);
    Attrs attrs{{"strides", Ints{stride}}, {"pads", Ints{(taps - 1) / 2, (taps - 1) / 2}}};
    if (draw_.chance(30)) attrs["output_padding"] = Ints{stride - 1};
    if (depthwise) attrs["group"] = shape(v)[1];
    return net_.b.add("ConvTranspose", {v, net_.constant({shape(v)[1], depthwise ? 1 : filters(), taps}, 0.2F)}, attrs);
  }

  ValueId gated(ValueId v) {
    const ValueId mean = net_.b.add(draw_.chance(50) ? "GlobalAveragePool" : "GlobalMaxPool", {v});
    return net_.b.add("Mul", {v, net_.b.add("Sigmoid", {mean})});
  }

  /// Selects some of the channels or time steps, or multiplies two such parts.
  ValueId part(ValueId v) {
    const int64_t axis = draw_.chance(80) ? 1 : 2, extent = shape(v)[static_cast<size_t>(axis)];
    if (extent < 2) return v;
    const int64_t first = draw_.chance(60) ? (extent + 1) / 2 : draw_.between(1, extent - 1);
    if (draw_.chance(30))
      return net_.b.add("Slice", {v, net_.list({first}), net_.list({extent}), net_.list({axis - 3})});
    GraphBuilder::Options two;
    two.output_count = 2;
    const auto parts = net_.b.add("Split", {v, net_.list({first, extent - first})}, {{"axis", axis}}, two);
    values_.push_back(parts[0]);
    return 2 * first == extent ? net_.b.add("Mul", {parts[0], net_.b.add("Sigmoid", {parts[1]})}) : parts[1];
  }

  /// Adds nodes over other axes.
  ValueId turned(ValueId v) {
    if (draw_.chance(40)) return net_.b.add("Softmax", {v}, {{"axis", draw_.between(1, 2)}});
    if (draw_.chance(50)) return net_.b.add("Transpose", {v}, {{"perm", Ints{0, 2, 1}}});
    return net_.b.add("InstanceNormalization", {v, net_.constant({shape(v)[1]}), net_.constant({shape(v)[1]})});
  }

  SweepNet& net_;
  Draw& draw_;
  std::vector<ValueId> values_;
};

TEST(Signals, SweepAgreesWithTheReference) {
  sweep({"Signals", [](SweepNet& net) { Drawn(net).run(); }, 30});
}

}  // namespace
}  // namespace kilter
