// LSTM, GRU and RNN with every size, tail, direction, operand and output that their template distinguishes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "guarded_run.h"
#include "ops/support/evaluate.h"
#include "sweep.h"

namespace kilter {
namespace {

struct Cell {
  std::string_view op;
  int64_t gates;
  size_t functions;
};
constexpr Cell kLstm{"LSTM", 4, 3}, kGru{"GRU", 3, 2}, kRnn{"RNN", 1, 1};

struct Extents {
  int64_t steps, batch, input, hidden, directions;
  bool batch_first;

  Shape with(int64_t first, int64_t second, int64_t last) const {
    return batch_first ? Shape{second, first, last} : Shape{first, second, last};
  }
  Shape states() const { return with(directions, batch, hidden); }
};

Extents draw_extents(Draw& draw) {
  Extents e{};
  e.steps = draw.pick({1, 1, 2, 3, 7});
  e.batch = draw.pick({1, 1, 2, 3, 6, 7, 13});
  e.input = draw.pick({1, 3, 8, 17});
  e.hidden = draw.pick({1, 2, 3, 5, 8, 15, 16, 17, 24, 33, 40, 48, 65, 80});
  e.directions = draw.between(1, 2);
  e.batch_first = draw.chance(25);
  return e;
}

Attrs draw_attrs(Draw& draw, const Cell& cell, const Extents& e) {
  Attrs attrs{{"hidden_size", e.hidden}};
  if (e.batch_first) attrs["layout"] = int64_t{1};
  if (e.directions == 2) attrs["direction"] = std::string("bidirectional");
  if (e.directions == 1 && draw.chance(40)) attrs["direction"] = std::string("reverse");
  if (draw.chance(20)) attrs["clip"] = 0.75F;
  if (cell.op == "LSTM" && draw.chance(20)) attrs["input_forget"] = int64_t{1};
  if (cell.op == "GRU" && draw.chance(50)) attrs["linear_before_reset"] = int64_t{1};
  if (!draw.chance(25)) return attrs;
  std::vector<std::string> names;
  for (size_t i = 0; i < cell.functions; ++i) {
    // Gates multiply states, so their functions are bounded. No ThresholdedRelu: near its jump, rounding decides.
    const bool gate = i == 0 && cell.functions > 1;
    names.emplace_back(gate ? draw.pick({"Sigmoid", "HardSigmoid", "Tanh", "Softsign"})
                            : draw.pick({"Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ScaledTanh", "HardSigmoid",
                                         "Elu", "Softsign", "Softplus"}));
  }
  for (size_t i = 0; e.directions == 2 && i < cell.functions; ++i) names.push_back(std::string(names[i]));
  attrs["activations"] = names;
  return attrs;
}

/// The lengths of the sequences: omitted, constant, or given at run time.
ValueId draw_lengths(SweepNet& net, const Extents& e) {
  Draw& draw = net.draw;
  if (draw.chance(50)) return kNone;
  Tensor lengths(DType::i32, {e.batch});
  for (int64_t b = 0; b < e.batch; ++b)
    lengths.data<int32_t>()[b] = static_cast<int32_t>(draw.chance(25) ? e.steps : draw.between(0, e.steps));
  return draw.chance(25) ? net.b.constant(std::move(lengths)) : net.input(std::move(lengths));
}

/// The names of the requested outputs; at least one is requested.
std::vector<std::string> draw_outputs(Draw& draw, size_t count) {
  std::vector<std::string> names(count);
  for (size_t i = 0; i < count; ++i) names[i] = draw.chance(60) ? "o" + std::to_string(i) : "";
  if (std::all_of(names.begin(), names.end(), [](const std::string& n) { return n.empty(); }))
    names[static_cast<size_t>(draw.between(0, static_cast<int64_t>(count) - 1))] = "o";
  return names;
}

void make_recurrent(SweepNet& net, const Cell& cell) {
  Draw& draw = net.draw;
  const Extents e = draw_extents(draw);
  const int64_t rows = cell.gates * e.hidden;
  const auto state = [&] {
    if (draw.chance(40)) return ValueId{kNone};
    return draw.chance(30) ? net.constant(e.states()) : net.input(e.states());
  };
  const float damped = 0.5F / std::sqrt(static_cast<float>(e.hidden));  // keeps errors from growing from step to step
  const bool turned = draw.chance(30);
  ValueId x = net.input(turned ? e.with(e.batch, e.steps, e.input) : e.with(e.steps, e.batch, e.input));
  if (turned) x = net.b.add("Transpose", {x}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
  std::vector<ValueId> inputs{x, net.constant({e.directions, rows, e.input}, 0.5F),
                              net.constant({e.directions, rows, e.hidden}, damped),
                              draw.chance(70) ? net.constant({e.directions, 2 * rows}, 0.5F) : kNone};
  inputs.push_back(draw_lengths(net, e));
  inputs.push_back(state());
  if (cell.op == "LSTM") {
    inputs.push_back(state());
    if (draw.chance(40)) inputs.push_back(net.constant({e.directions, 3 * e.hidden}, 0.5F));
  }
  const Attrs attrs = draw_attrs(draw, cell, e);
  GraphBuilder::Options options;
  options.output_names = draw_outputs(draw, cell.op == "LSTM" ? 3 : 2);
  const auto outputs = net.b.add(cell.op, inputs, attrs, options);
  bool alone = true;
  for (size_t i = 1; i < outputs.size(); ++i) {
    if (outputs[i] != kNone) net.output(outputs[i]), alone = false;
  }
  if (outputs[0] == kNone) return;
  ValueId y = outputs[0];
  if (!e.batch_first && draw.chance(30)) y = net.b.add("Transpose", {y}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  net.output(alone ? net.elementwise(y) : y);
}

class RecurrentSweep : public testing::TestWithParam<NetKind> {};

TEST_P(RecurrentSweep, AgreesWithTheReference) { sweep(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Recurrent, RecurrentSweep,
                         testing::Values(NetKind{"LSTM", [](SweepNet& net) { make_recurrent(net, kLstm); }, 60},
                                         NetKind{"GRU", [](SweepNet& net) { make_recurrent(net, kGru); }, 60},
                                         NetKind{"RNN", [](SweepNet& net) { make_recurrent(net, kRnn); }, 40}),
                         [](const auto& family) { return std::string(family.param.name); });

TEST(RecurrentSweep, NoNetworkUsesReferenceKernels) {
  for (const Cell& cell : {kLstm, kGru, kRnn}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      SweepNet net(seed);
      make_recurrent(net, cell);
      for (const Target& target : targets_here()) {
        const Compiled compiled = compile_for(net.graph(), target);
        for (const Step& step : compiled.plan.steps)
          EXPECT_NE(step.schedule, "reference") << cell.op << " " << seed << " on " << target.name << ": " << step.ops;
      }
    }
  }
}

TEST(RecurrentSweep, DoesNotDependOnThreadCount) {
  for (const Cell& cell : {kLstm, kGru, kRnn}) {
    for (uint64_t seed = 100; seed < 110; ++seed) {
      SweepNet net(seed);
      make_recurrent(net, cell);
      for (const Target& target : targets_here()) {
        const auto program = std::make_shared<const Program>(compile_for(net.graph(), target).plan);
        const std::vector<Tensor> one = run_on(program, net.inputs(), 1);
        for (const int threads : {2, 5}) {
          const std::vector<Tensor> many = run_on(program, net.inputs(), threads);
          for (size_t i = 0; i < one.size(); ++i)
            EXPECT_TRUE(one[i].same(many[i])) << cell.op << " " << seed << " on " << target.name << ", output " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace kilter
