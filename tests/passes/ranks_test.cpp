// Every pattern that passes look for, with each constant in ranks from 0 to two more than the operand's, and with the
// operands of commutative nodes in either order. Rewrites must keep types and results, even if the rank of a constant
// with one element adds dimensions to the result.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>

#include "base/random.h"
#include "compile/compile.h"
#include "ops/support/builder.h"
#include "ops/support/evaluate.h"
#include "pass_runner.h"

namespace kilter {
namespace {

constexpr Tolerance kTolerance{.rtol = 1e-4, .atol = 1e-5};

/// Builds one form of a pattern. Constants and commutative nodes are numbered in the order in which they are added.
class Form {
 public:
  /// Constant `which` has at least rank `rank`; the others have the lowest rank possible. Bit k of `orders` swaps the
  /// operands of commutative node k.
  Form(size_t which, size_t rank, uint32_t orders) : which_(which), rank_(rank), orders_(orders) {}

  ValueId input(const Shape& shape) { return b.input("in", DType::f32, shape); }
  ValueId node(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return b.add(op, std::move(inputs), std::move(attrs));
  }
  ValueId both(std::string_view op, ValueId a, ValueId c) {
    if ((orders_ >> commuted++ & 1) != 0) std::swap(a, c);
    return node(op, {a, c});
  }
  /// Adds a one-element constant of the lowest rank, 0.
  ValueId one(double value) { return k(value, {}); }
  /// Adds a constant whose elements increase from `value`. Its shape is `shape`, with ones prepended if it is constant
  /// `which`.
  ValueId k(double value, Shape shape) {
    if (constants++ == which_ && rank_ > shape.size()) shape.insert(shape.begin(), rank_ - shape.size(), 1);
    Tensor t(DType::f32, shape);
    for (int64_t i = 0; i < t.elems(); ++i)
      t.data<float>()[i] = static_cast<float>(value + 0.25 * static_cast<double>(i));
    return b.constant(t);
  }
  ValueId last_mean(ValueId x) { return node("ReduceMean", {x, b.list(std::vector<int64_t>{-1})}); }
  int64_t extent(ValueId x, size_t d) const { return graph.type(x).shape.at(d); }
  size_t rank(ValueId x) const { return graph.type(x).shape.size(); }

  Graph graph;
  GraphBuilder b{graph};
  size_t constants = 0;
  uint32_t commuted = 0;

 private:
  size_t which_, rank_;
  uint32_t orders_;
};

struct Pattern {
  std::string_view name;
  std::string_view becomes;  ///< an operator that the plain form is rewritten to; empty: no specific operator
  size_t least, most;        ///< range of the operand's rank
  std::function<ValueId(Form&, ValueId)> make;
};

ValueId clipped(Form& f, ValueId x) { return f.node("Clip", {f.both("Add", x, f.one(3)), f.one(0), f.one(6)}); }
ValueId erf_term(Form& f, ValueId x, bool divides) {
  const ValueId inner =
      divides ? f.node("Div", {x, f.one(std::numbers::sqrt2)}) : f.both("Mul", x, f.one(1 / std::numbers::sqrt2));
  return f.both("Add", f.node("Erf", {inner}), f.one(1));
}
ValueId root_mean_square(Form& f, ValueId x, bool power) {
  const ValueId square = power ? f.node("Pow", {x, f.one(2)}) : f.node("Mul", {x, x});
  return f.node("Sqrt", {f.both("Add", f.last_mean(square), f.one(1e-3))});
}
ValueId row(Form& f, ValueId x, double value) { return f.k(value, {f.extent(x, f.rank(x) - 1)}); }
ValueId by_channel(Form& f, ValueId x, double value) {
  Shape shape(f.rank(x) - 1, 1);
  shape[0] = f.extent(x, 1);
  return f.k(value, shape);
}
ValueId layer_norm(Form& f, ValueId x, bool power) {
  const ValueId centred = f.node("Sub", {x, f.last_mean(x)});
  const ValueId y = f.node("Div", {centred, root_mean_square(f, centred, power)});
  return f.both("Add", f.both("Mul", y, row(f, x, 0.5)), row(f, x, -1));
}
ValueId rms_norm(Form& f, ValueId x, int way, bool before) {
  const ValueId scale = row(f, x, 0.5);
  const ValueId over = before ? f.both("Mul", x, scale) : x;
  const ValueId root = root_mean_square(f, x, false);
  ValueId y = kNone;
  if (way == 0) y = f.node("Div", {over, root});
  if (way == 1) y = f.both("Mul", over, f.node("Reciprocal", {root}));
  if (way == 2) y = f.both("Mul", over, f.node("Div", {f.one(1), root}));
  return before ? y : f.both("Mul", y, scale);
}
ValueId reshaped(Form& f, ValueId x, const Shape& shape) { return f.node("Reshape", {x, f.b.list(shape)}); }
ValueId group_norm(Form& f, ValueId x) {
  const Shape shape = f.graph.type(x).shape;
  const ValueId groups = reshaped(f, x, {shape[0], 2, -1});
  const ValueId two = f.b.constant(Tensor::of<float>({2}, {0.5F, 2}));
  const ValueId y = reshaped(f, f.node("InstanceNormalization", {groups, two, two}), shape);
  return f.both("Add", f.both("Mul", y, by_channel(f, x, 0.5)), by_channel(f, x, -1));
}
ValueId attention(Form& f, ValueId x, bool divides, int mask) {
  const ValueId k = f.node("Relu", {x}), v = f.node("Sigmoid", {x});
  std::vector<int64_t> perm(f.rank(x));
  for (size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<int64_t>(d);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  const ValueId scores = f.node("MatMul", {f.both("Mul", x, f.one(0.5)), f.node("Transpose", {k}, {{"perm", perm}})});
  ValueId y = divides ? f.node("Div", {scores, f.one(2)}) : f.both("Mul", scores, f.one(0.5));
  if (mask == 1) y = f.both("Add", y, row(f, y, -1));
  if (mask == 2) {
    const ValueId condition = f.node("Greater", {row(f, y, -0.3), f.one(0)});
    y = f.node("Where", {condition, y, f.one(-1e30)});
  }
  ValueId shares = f.node("Softmax", {y});
  if (mask == 3) shares = f.node("Where", {f.node("IsNaN", {shares}), f.one(0), shares});
  return f.node("MatMul", {shares, v});
}
ValueId conv(Form& f, ValueId x) {
  Shape w(f.rank(x), 1);
  w[0] = 4, w[1] = f.extent(x, 1);
  Tensor t(DType::f32, w);
  for (int64_t i = 0; i < t.elems(); ++i) t.data<float>()[i] = 0.5F - 0.125F * static_cast<float>(i % 7);
  return f.node("Conv", {x, f.b.constant(t)});
}
ValueId conv_scaled(Form& f, ValueId x, bool channels) {
  ValueId y = conv(f, x);
  const auto c = [&](double value) { return channels ? by_channel(f, y, value) : f.one(value); };
  y = f.both("Mul", y, c(0.5));
  y = f.node("Div", {f.node("Sub", {y, c(0.25)}), c(2)});
  return f.node("Relu", {f.both("Add", y, c(-1))});
}
ValueId padded(Form& f, ValueId x, std::string_view op) {
  std::vector<int64_t> pads(2 * f.rank(x), 0);
  pads[f.rank(x) - 1] = pads.back() = 1;
  const ValueId y = f.node("Pad", {f.node("Relu", {x}), f.b.list(pads), f.one(0)});
  if (op == "Conv") return conv(f, y);
  return f.node(op, {y}, {{"kernel_shape", std::vector<int64_t>(f.rank(x) - 2, 2)}});
}
ValueId shuffled(Form& f, ValueId x) {
  const Shape s = f.graph.type(x).shape;
  const ValueId y = f.node("Transpose", {reshaped(f, x, {s[0], 2, s[1] / 2, s[2], s[3]})},
                           {{"perm", std::vector<int64_t>{0, 2, 1, 3, 4}}});
  return f.both("Mul", reshaped(f, y, s), f.one(2));
}
/// Attention over parts of a projection that one-element indices select.
ValueId picked(Form& f, ValueId x) {
  Shape shape = f.graph.type(x).shape;
  shape.insert(shape.begin(), 3);
  const ValueId all = f.node("Expand", {x, f.b.list(shape)});
  const auto part = [&](double i) {
    return f.node("Gather", {all, f.node("Cast", {f.one(i)}, {{"to", int64_t{7}}})}, {{"axis", int64_t{0}}});
  };
  const ValueId q = part(0), k = part(1), v = part(2);
  std::vector<int64_t> perm(f.rank(k));
  for (size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<int64_t>(d);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  const ValueId scores = f.node("MatMul", {q, f.node("Transpose", {k}, {{"perm", perm}})});
  return f.node("MatMul", {f.node("Softmax", {f.both("Mul", scores, f.one(0.5))}), v});
}

std::vector<Pattern> patterns() {
  std::vector<Pattern> all = {
      {"Swish", "Swish", 0, 4, [](Form& f, ValueId x) { return f.both("Mul", x, f.node("Sigmoid", {x})); }},
      {"HardSwishOfAQuotient", "HardSwish", 0, 4,
       [](Form& f, ValueId x) { return f.node("Div", {f.both("Mul", x, clipped(f, x)), f.one(6)}); }},
      {"HardSwishTimesAQuotient", "HardSwish", 0, 4,
       [](Form& f, ValueId x) { return f.both("Mul", x, f.node("Div", {clipped(f, x), f.one(6)})); }},
      {"HardSwishOfHardSigmoid", "HardSwish", 0, 4,
       [](Form& f, ValueId x) {
         return f.both("Mul", x, f.node("HardSigmoid", {x}, {{"alpha", 1.0F / 6}, {"beta", 0.5F}}));
       }},
      {"ChannelShuffle", "Gather", 4, 4, shuffled},
      {"GroupNormalization", "GroupNormalization", 3, 4, group_norm},
      {"NothingToDo", "", 0, 4,
       [](Form& f, ValueId x) {
         const ValueId y = f.both("Add", f.both("Mul", f.node("Relu", {x}), f.one(1)), f.one(0));
         return f.node("Sub", {f.node("Div", {y, f.one(1)}), f.one(0)});
       }},
      {"Square", "Mul", 0, 4, [](Form& f, ValueId x) { return f.node("Pow", {x, f.one(2)}); }},
      {"Picked", "FusedAttention", 2, 3, picked},
  };
  for (const bool divides : {false, true}) {
    const auto add = [&](std::string_view name, auto make) { all.push_back({name, "Gelu", 0, 4, make}); };
    add(divides ? "GeluHalfLastDiv" : "GeluHalfLast",
        [=](Form& f, ValueId x) { return f.both("Mul", f.both("Mul", x, erf_term(f, x, divides)), f.one(0.5)); });
    add(divides ? "GeluHalfFirstDiv" : "GeluHalfFirst",
        [=](Form& f, ValueId x) { return f.both("Mul", f.both("Mul", x, f.one(0.5)), erf_term(f, x, divides)); });
    add(divides ? "GeluHalfTermDiv" : "GeluHalfTerm",
        [=](Form& f, ValueId x) { return f.both("Mul", x, f.both("Mul", erf_term(f, x, divides), f.one(0.5))); });
    all.push_back({divides ? "LayerNormPow" : "LayerNorm", "LayerNormalization", 1, 4,
                   [=](Form& f, ValueId x) { return layer_norm(f, x, divides); }});
    all.push_back({divides ? "ConvTimesChannels" : "ConvTimesScalars", "Conv", 3, 5,
                   [=](Form& f, ValueId x) { return conv_scaled(f, x, divides); }});
  }
  constexpr std::string_view kRms[] = {"RmsDiv", "RmsReciprocal", "RmsOneOver"};
  constexpr std::string_view kRmsBefore[] = {"RmsScaledDiv", "RmsScaledReciprocal", "RmsScaledOneOver"};
  for (int way = 0; way < 3; ++way) {
    for (const bool before : {false, true}) {
      all.push_back({before ? kRmsBefore[way] : kRms[way], "RMSNormalization", 1, 4,
                     [=](Form& f, ValueId x) { return rms_norm(f, x, way, before); }});
    }
  }
  constexpr std::string_view kAttention[] = {"Attention", "AttentionMasked", "AttentionChosen", "AttentionNan"};
  for (int mask = 0; mask < 4; ++mask) {
    all.push_back({kAttention[mask], "FusedAttention", 2, 4,
                   [=](Form& f, ValueId x) { return attention(f, x, mask % 2 == 0, mask); }});
  }
  for (const std::string_view op : {"Conv", "MaxPool", "AveragePool"})
    all.push_back({op, op, 3, 5, [=](Form& f, ValueId x) { return padded(f, x, op); }});
  return all;
}

Shape operand_shape(size_t rank) {
  constexpr std::array<int64_t, 5> kExtents = {2, 4, 3, 2, 5};
  return {kExtents.begin(), kExtents.begin() + static_cast<int64_t>(rank)};
}

Tensor operand(const Shape& shape) {
  Tensor t(DType::f32, shape);
  Random(7).fill_normal({t.data<float>(), static_cast<size_t>(t.elems())});
  return t;
}

bool holds(const Graph& graph, std::string_view op) {
  return std::ranges::any_of(graph.order(), [&](NodeId id) { return graph.node(id).op->name == op; });
}

class PatternOfRanks : public testing::TestWithParam<Pattern> {
 protected:
  /// Runs all passes over one form and returns its graph; nullopt if its operands do not fit together.
  std::optional<Graph> passed(Form& form, const Shape& shape) {
    const ValueId x = form.input(shape);
    ValueId y = kNone;
    try {
      y = GetParam().make(form, x);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_model) << error.message();
      return std::nullopt;
    }
    form.graph.add_output(y, "y");
    const Tensor given = operand(shape);
    const std::vector<Tensor> want = evaluate(form.graph, {given});
    CompileOptions options;
    options.target = parse_target("x86-64-v3");
    const PassedGraph result = run_passes(form.graph, options);
    verify_types(result.graph);
    EXPECT_EQ(compare(evaluate(result.graph, {given}).at(0), want[0], kTolerance).value_or(""), "")
        << "before: " << print(form.graph) << "after: " << print(result.graph);
    return result.graph;
  }
};

TEST_P(PatternOfRanks, KeepsTypesAndResults) {
  const Pattern& pattern = GetParam();
  for (size_t rank = pattern.least; rank <= pattern.most && !HasFailure(); ++rank) {
    Form plain(0, 0, 0);
    const auto rewritten = passed(plain, operand_shape(rank));
    ASSERT_TRUE(rewritten) << "rank " << rank;
    EXPECT_TRUE(pattern.becomes.empty() || holds(*rewritten, pattern.becomes)) << "rank " << rank << print(*rewritten);
    const uint32_t orders = 1U << std::min(plain.commuted, 4U);
    for (size_t which = 0; which < std::max<size_t>(plain.constants, 1); ++which) {
      for (size_t of = 0; of <= rank + 2; ++of) {
        for (uint32_t order = 0; order < orders && !HasFailure(); ++order) {
          SCOPED_TRACE(fmt::format("operand of rank {}, constant {} of rank {}, order {}", rank, which, of, order));
          Form form(which, of, order);
          passed(form, operand_shape(rank));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Patterns, PatternOfRanks, testing::ValuesIn(patterns()),
                         [](const auto& setup) { return std::string(setup.param.name); });

}  // namespace
}  // namespace kilter
