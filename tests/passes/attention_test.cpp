// Attention in the forms that exporters write: each becomes one node with the same results; near misses stay unchanged.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "compile/session.h"
#include "ops/support/builder.h"
#include "ops/support/cases.h"
#include "ops/support/evaluate.h"
#include "passes/pass.h"

namespace kilter {
namespace {

using Ints = std::vector<int64_t>;

/// A network under construction. Values are named after the operators that make them.
struct Net {
  explicit Net(int32_t opset = 17) : b(graph, opset) {}

  Graph graph;
  GraphBuilder b;

  ValueId in(const std::string& name, Shape shape) { return b.input(name, DType::f32, std::move(shape)); }
  ValueId op(std::string_view name, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return b.add(name, std::move(inputs), std::move(attrs));
  }
  ValueId floats(Shape shape, std::vector<float> values) {
    return b.constant(Tensor::of<float>(std::move(shape), std::span<const float>(values)));
  }
  ValueId ints(const Ints& values, bool scalar = false) {
    const Shape shape = scalar ? Shape{} : Shape{static_cast<int64_t>(values.size())};
    return b.constant(Tensor::of<int64_t>(shape, std::span<const int64_t>(values)));
  }
  ValueId number(float value) { return floats({}, {value}); }
  ValueId turned(ValueId x, Ints perm) { return op("Transpose", {x}, {{"perm", std::move(perm)}}); }
  ValueId last_two_swapped(ValueId x) { return turned(x, {0, 1, 3, 2}); }
  ValueId shaped(ValueId x, const Ints& shape) { return op("Reshape", {x, ints(shape)}); }
  ValueId softmax(ValueId x, int64_t axis = -1) { return op("Softmax", {x}, {{"axis", axis}}); }
  void out(ValueId v) { graph.add_output(v, "y" + std::to_string(graph.outputs().size())); }
};

constexpr int64_t kHeads = 3, kQueries = 5, kKeys = 7, kSize = 8;

/// The inputs q, k (not transposed) and v of plain attention.
struct Operands {
  explicit Operands(Net& net)
      : q(net.in("q", {2, kHeads, kQueries, kSize})),
        k(net.in("k", {2, kHeads, kKeys, kSize})),
        v(net.in("v", {2, kHeads, kKeys, 6})) {}
  ValueId q, k, v;
};

std::map<std::string, int> operators(const Graph& graph) {
  std::map<std::string, int> count;
  for (const NodeId id : graph.order()) ++count[std::string(graph.node(id).op->name)];
  return count;
}

std::vector<Tensor> seeded(const Graph& graph) {
  std::vector<Tensor> inputs;
  for (const ValueId v : graph.inputs()) {
    inputs.push_back(random_input(graph.value(v).name, graph.type(v).dtype, graph.type(v).shape));
  }
  return inputs;
}

void expect_same(const std::vector<Tensor>& got, const std::vector<Tensor>& want, const std::string& where) {
  ASSERT_EQ(got.size(), want.size()) << where;
  for (size_t i = 0; i < got.size(); ++i) {
    const auto difference = compare(got[i], want[i], {1e-4, 1e-5, true});
    EXPECT_FALSE(difference.has_value()) << where << ", output " << i << ": " << *difference;
  }
}

/// Runs the passes before recognise_attention, then that pass.
Graph recognised(Graph graph) {
  PassContext context;
  for (const PassFunction pass : {simplify, fold_constants, canonicalise, recognise_patterns, recognise_attention}) {
    pass(graph, context);
    verify(graph);
  }
  verify_types(graph);
  return graph;
}

struct Form {
  std::string name;
  std::function<void(Net&)> make;
  int32_t opset = 17;
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }
std::string form_name(const testing::TestParamInfo<Form>& info) { return info.param.name; }

Graph made(const Form& form) {
  Net net(form.opset);
  form.make(net);
  return std::move(net.graph);
}

/// The network softmax(score(q, k)) v.
Form simple(const std::string& name, std::function<ValueId(Net&, const Operands&)> score) {
  return {name, [score = std::move(score)](Net& net) {
            const Operands in(net);
            net.out(net.op("MatMul", {net.softmax(score(net, in)), in.v}));
          }};
}

ValueId product(Net& net, const Operands& in) { return net.op("MatMul", {in.q, net.last_two_swapped(in.k)}); }

/// Attention over queries, keys and values that are packed in one tensor; `part(net, x, i)` extracts one of the three
/// as [2, heads, n, size].
Form packed(const std::string& name, std::function<ValueId(Net&, ValueId, int64_t)> part) {
  return {name, [part = std::move(part)](Net& net) {
            const ValueId x = net.in("x", {2, kKeys, 3 * kHeads * kSize});
            const ValueId biased = net.op("Relu", {x});
            const ValueId q = part(net, biased, 0), k = part(net, biased, 1), v = part(net, biased, 2);
            const ValueId scores = net.op("Mul", {net.op("MatMul", {q, net.last_two_swapped(k)}), net.number(0.35F)});
            const ValueId y = net.op("MatMul", {net.softmax(scores), v});
            net.out(net.shaped(net.turned(y, {0, 2, 1, 3}), {2, kKeys, kHeads * kSize}));
          }};
}

ValueId five(Net& net, ValueId x) { return net.turned(net.shaped(x, {2, kKeys, 3, kHeads, kSize}), {2, 0, 3, 1, 4}); }

std::vector<Form> packed_forms() {
  return {
      packed("SplitOfTransposed",
             [](Net& net, ValueId x, int64_t i) {
               GraphBuilder::Options options;
               options.output_count = 3;
               const auto parts =
                   net.b.add("Split", {five(net, x), net.ints({1, 1, 1})}, {{"axis", int64_t{0}}}, options);
               return net.op("Squeeze", {parts.at(static_cast<size_t>(i)), net.ints({0})});
             }),
      packed("GatherOfTransposed",
             [](Net& net, ValueId x, int64_t i) {
               return net.op("Gather", {five(net, x), net.ints({i}, true)}, {{"axis", int64_t{0}}});
             }),
      packed("SliceOfTransposed",
             [](Net& net, ValueId x, int64_t i) {
               const ValueId cut = net.op("Slice", {five(net, x), net.ints({i}), net.ints({i + 1}), net.ints({0})});
               return net.op("Squeeze", {cut, net.ints({0})});
             }),
      packed("SliceOfColumns",
             [](Net& net, ValueId x, int64_t i) {
               const int64_t width = kHeads * kSize;
               const ValueId cut =
                   net.op("Slice", {x, net.ints({i * width}), net.ints({(i + 1) * width}), net.ints({2})});
               return net.turned(net.shaped(cut, {2, kKeys, kHeads, kSize}), {0, 2, 1, 3});
             }),
  };
}

std::vector<Form> scaled_forms() {
  return {
      simple("NoScale", product),
      simple("MulAfter", [](Net& n, const Operands& in) { return n.op("Mul", {product(n, in), n.number(0.3F)}); }),
      simple("MulBefore", [](Net& n, const Operands& in) { return n.op("Mul", {n.number(0.3F), product(n, in)}); }),
      simple("DivAfter", [](Net& n, const Operands& in) { return n.op("Div", {product(n, in), n.number(2.8F)}); }),
      simple("ScaledQueries",
             [](Net& n, const Operands& in) {
               const ValueId q = n.op("Mul", {in.q, n.floats({1}, {0.3F})});
               return n.op("MatMul", {q, n.last_two_swapped(in.k)});
             }),
      simple("ScaledKeysBeforeTheTranspose",
             [](Net& n, const Operands& in) {
               const ValueId k = n.op("Div", {in.k, n.number(3)});
               return n.op("MatMul", {in.q, n.last_two_swapped(k)});
             }),
      simple("RootOnBothSides",
             [](Net& n, const Operands& in) {
               const ValueId root = n.op("Sqrt", {n.number(0.3F)});
               const ValueId k = n.op("Mul", {n.last_two_swapped(in.k), root});
               return n.op("MatMul", {n.op("Mul", {in.q, root}), k});
             }),
  };
}

/// Attention that adds a mask of this shape to the scaled product. `constant`: the mask is a constant, not an input.
/// `first`: the mask is the first operand of the addition.
Form masked(const std::string& name, const Shape& shape, bool constant, bool first = false) {
  return simple(name, [=](Net& n, const Operands& in) {
    const ValueId scaled = n.op("Div", {product(n, in), n.number(2)});
    std::vector<float> values(static_cast<size_t>(elems(shape)), 0.25F);
    for (size_t i = 0; i < values.size(); i += 3) values[i] = -std::numeric_limits<float>::infinity();
    const ValueId mask = constant ? n.floats(shape, values) : n.in("mask", shape);
    return n.op("Add", first ? std::vector{mask, scaled} : std::vector{scaled, mask});
  });
}

std::vector<Form> masked_forms() {
  return {
      masked("MaskOfKeys", {2, 1, 1, kKeys}, false),
      masked("MaskFirst", {2, 1, 1, kKeys}, false, true),
      masked("MaskOfQueriesAndKeys", {kQueries, kKeys}, false),
      masked("MaskOfAll", {2, kHeads, kQueries, kKeys}, false),
      masked("MaskOfQueries", {kQueries, 1}, false),
      masked("ConstantMask", {kQueries, kKeys}, true),
      masked("ConstantMaskOfHeads", {kHeads, kQueries, kKeys}, true),
      masked("ConstantMaskOfKeys", {kKeys}, true),
  };
}

/// Attention masked by Where(condition, scores, never), optionally also by an added mask, and optionally with a guard
/// that turns rows of NaN into zeros.
Form chosen(const std::string& name, float never, bool added, bool guarded) {
  return {name, [=](Net& n) {
            const Operands in(n);
            const ValueId seen = n.b.input("seen", DType::boolean, {2, 1, kQueries, kKeys});
            ValueId scores = n.op("Div", {product(n, in), n.number(2)});
            scores = n.op("Where", {seen, scores, n.number(never)});
            if (added) scores = n.op("Add", {scores, n.in("mask", {kHeads, 1, kKeys})});
            ValueId shares = n.softmax(scores);
            if (guarded) shares = n.op("Where", {n.op("IsNaN", {shares}), n.number(0), shares});
            n.out(n.op("MatMul", {shares, in.v}));
          }};
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<Form> chosen_forms() {
  return {
      chosen("ChosenByWhere", -kInfinity, false, false),
      chosen("ChosenByWhereLowest", std::numeric_limits<float>::lowest(), false, false),
      chosen("ChosenAndAdded", -kInfinity, true, false),
      chosen("ChosenAndGuarded", -kInfinity, false, true),
      simple("TwoMasks",
             [](Net& n, const Operands& in) {
               const ValueId first = n.op("Add", {product(n, in), n.in("m1", {2, 1, 1, kKeys})});
               return n.op("Add", {n.in("m2", {kHeads, kQueries, kKeys}), first});
             }),
  };
}

/// Attention within windows of `images` images, as Swin computes it: a bias of the heads is added to scores
/// [images * windows, heads, n, n]; with `mask`, one mask for each window is added to them as [images, windows, heads,
/// n, n].
Form windows(const std::string& name, int64_t images, bool constant) {
  return {name, [=](Net& n) {
            constexpr int64_t kWindows = 4;
            const auto part = [&](const std::string& which) {
              const ValueId x = n.in(which, {images * kWindows, kQueries, kHeads * kSize});
              return n.turned(n.shaped(x, {images * kWindows, kQueries, kHeads, kSize}), {0, 2, 1, 3});
            };
            const auto mask = [&](const std::string& which, const Shape& shape) {
              return constant ? n.b.constant(random_input(which, DType::f32, shape)) : n.in(which, shape);
            };
            ValueId scores = n.op("MatMul", {n.op("Mul", {part("q"), n.number(0.3F)}), n.last_two_swapped(part("k"))});
            scores = n.op("Add", {scores, mask("bias", {1, kHeads, kQueries, kQueries})});
            scores = n.shaped(scores, {images, kWindows, kHeads, kQueries, kQueries});
            scores = n.op("Add", {scores, mask("mask", {1, kWindows, 1, kQueries, kQueries})});
            scores = n.shaped(scores, {images * kWindows, kHeads, kQueries, kQueries});
            const ValueId y = n.op("MatMul", {n.softmax(scores), part("v")});
            n.out(n.shaped(n.turned(y, {0, 2, 1, 3}), {images * kWindows, kQueries, kHeads * kSize}));
          }};
}

std::vector<Form> window_forms() {
  return {
      windows("WindowsOfOneImage", 1, true),
      windows("WindowsOfSeveralImages", 2, true),
      windows("WindowsWithComputedMasks", 2, false),
      {"MatricesWithoutBatch",
       [](Net& n) {
         const ValueId q = n.in("q", {5, 8}), k = n.in("k", {8, 7}), v = n.in("v", {7, 4});
         const ValueId scores = n.shaped(n.op("MatMul", {q, k}), {1, 1, 5, 7});
         n.out(n.op("MatMul", {n.softmax(n.shaped(n.op("Add", {scores, n.in("m", {1, 1, 1, 7})}), {5, 7})), v}));
       }},
      {"ConditionOfMergedHeads",
       [](Net& n) {
         const Operands in(n);
         const ValueId seen = n.b.input("seen", DType::boolean, {1, kQueries, kKeys});
         const ValueId scores = n.shaped(product(n, in), {2 * kHeads, kQueries, kKeys});
         const ValueId kept = n.op("Where", {seen, scores, n.number(-kInfinity)});
         n.out(n.op("MatMul", {n.softmax(n.shaped(kept, {2, kHeads, kQueries, kKeys})), in.v}));
       }},
  };
}

/// ONNX's Attention operator, which is expanded into other operators.
Form standard(const std::string& name, const Shape& mask, Attrs attrs) {
  return {name,
          [=](Net& n) {
            const Operands in(n);
            std::vector<ValueId> inputs = {in.q, in.k, in.v};
            if (!mask.empty()) inputs.push_back(n.in("mask", mask));
            n.out(n.op("Attention", inputs, attrs));
          },
          23};
}

std::vector<Form> other_forms() {
  return {
      {"KeysAlreadyTransposed",
       [](Net& n) {
         const ValueId q = n.in("q", {2, kQueries, kSize}), k = n.in("k", {2, kSize, kKeys}), v = n.in("v", {kKeys, 4});
         n.out(n.op("MatMul", {n.softmax(n.op("MatMul", {q, k})), v}));
       }},
      {"OneMatrix",
       [](Net& n) {
         const ValueId q = n.in("q", {20, 3}), k = n.in("k", {9, 3}), v = n.in("v", {9, 33});
         n.out(n.op("MatMul", {n.softmax(n.op("MatMul", {q, n.turned(k, {1, 0})}), 1), v}));
       }},
      {"LearnedQueries",
       [](Net& n) {
         const ValueId q = n.b.constant(random_input("learned", DType::f32, {1, 1, 130, 40}));
         const ValueId k = n.in("k", {2, 3, 7, 40}), v = n.in("v", {2, 3, 7, 8});
         n.out(n.op("MatMul", {n.softmax(n.op("MatMul", {q, n.last_two_swapped(k)})), v}));
       }},
      {"SoftmaxBeforeOpset13",
       [](Net& n) {
         const Operands in(n);
         n.out(n.op("MatMul", {n.softmax(product(n, in), 3), in.v}));
       },
       12},
      {"ReadByOthersToo",
       [](Net& n) {
         const Operands in(n);
         const ValueId q = n.op("Relu", {in.q}), k = n.op("Relu", {in.k});
         const ValueId kt = n.last_two_swapped(k);
         n.out(n.op("Tanh", {n.op("MatMul", {n.softmax(n.op("MatMul", {q, kt})), in.v})}));
         n.out(n.op("Concat", {q, k}, {{"axis", int64_t{2}}}));
         n.out(n.op("Relu", {kt}));
       }},
      standard("OfTheStandard", {}, {}),
      standard("OfTheStandardCausal", {}, {{"is_causal", int64_t{1}}}),
      standard("OfTheStandardMasked", {kQueries, kKeys}, {{"scale", 0.5F}}),
  };
}

std::vector<Form> accepted() {
  std::vector<Form> all;
  for (const auto& forms :
       {scaled_forms(), masked_forms(), chosen_forms(), window_forms(), packed_forms(), other_forms()}) {
    all.insert(all.end(), forms.begin(), forms.end());
  }
  return all;
}

class Recognised : public testing::TestWithParam<Form> {};

TEST_P(Recognised, BecomesOneOperatorWithTheSameResult) {
  const Graph before = made(GetParam());
  const Graph after = recognised(before);
  std::map<std::string, int> count = operators(after);
  EXPECT_EQ(count["FusedAttention"], 1) << print(after);
  EXPECT_EQ(count["MatMul"] + count["Softmax"] + count["Mul"] + count["Div"] + count["IsNaN"], 0) << print(after);
  const std::vector<Tensor> inputs = seeded(before);
  expect_same(evaluate(after, inputs), evaluate(before, inputs), print(after));
}

TEST_P(Recognised, CompiledResultsMatchOnOneAndTwoThreads) {
  const Graph before = made(GetParam());
  const std::vector<Tensor> inputs = seeded(before);
  const std::vector<Tensor> want = evaluate(before, inputs);
  for (const std::string_view target : {"x86-64-v2", "x86-64-v3", "native"}) {
    CompileOptions options;
    options.target = parse_target(target);
    if (!runs_here(options.target)) continue;
    Compiled compiled = compile_graph(before, options);
    size_t attentions = 0;
    for (const Step& step : compiled.plan.steps) attentions += step.schedule.starts_with("attention_rows") ? 1U : 0U;
    EXPECT_EQ(attentions, 1U) << target;
    const auto program = std::make_shared<const Program>(std::move(compiled.plan));
    std::vector<std::vector<Tensor>> answers;
    for (const int threads : {1, 2}) {
      Loaded loaded{program, std::make_unique<Instance>(program, std::make_shared<ThreadPool>(threads)), {}};
      answers.push_back(run_plan(loaded, inputs));
    }
    expect_same(answers[0], want, std::string(target));
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(std::equal(answers[0][i].raw(), answers[0][i].raw() + answers[0][i].bytes(), answers[1][i].raw()))
          << target << ": output " << i << " depends on the number of threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, Recognised, testing::ValuesIn(accepted()), form_name);

class PackedForm : public testing::TestWithParam<Form> {};

TEST_P(PackedForm, CopiesNothing) {
  const Graph before = made(GetParam());
  CompileOptions options;
  options.target = parse_target("x86-64-v3");
  std::vector<std::string> steps;
  for (const Step& step : compile_graph(before, options).plan.steps) steps.push_back(step.ops);
  EXPECT_EQ(steps, (std::vector<std::string>{"Relu", "FusedAttention"}));
}

INSTANTIATE_TEST_SUITE_P(Forms, PackedForm, testing::ValuesIn(packed_forms()), form_name);

std::vector<Form> rejected() {
  return {
      simple("ScaleOfKeys",
             [](Net& n, const Operands& in) {
               return n.op("Mul", {product(n, in), n.floats({kKeys}, std::vector<float>(kKeys, 0.5F))});
             }),
      simple("ScaleOfAnInput",
             [](Net& n, const Operands& in) { return n.op("Mul", {product(n, in), n.in("s", {1})}); }),
      simple("Reciprocal", [](Net& n, const Operands& in) { return n.op("Div", {n.number(1), product(n, in)}); }),
      simple("ScaleAfterTheMask",
             [](Net& n, const Operands& in) {
               return n.op("Mul", {n.op("Add", {product(n, in), n.in("m", {kKeys})}), n.number(0.5F)});
             }),
      simple("ChosenSmall",
             [](Net& n, const Operands& in) {
               const ValueId seen = n.b.input("seen", DType::boolean, {kQueries, kKeys});
               return n.op("Where", {seen, product(n, in), n.number(-10000)});
             }),
      simple("Capped", [](Net& n, const Operands& in) { return n.op("Tanh", {product(n, in)}); }),
      simple("ScoresReadTwice",
             [](Net& n, const Operands& in) {
               const ValueId scores = product(n, in);
               n.out(n.op("Relu", {scores}));
               return scores;
             }),
      simple("ScoresAnswered",
             [](Net& n, const Operands& in) {
               const ValueId scores = n.op("Mul", {product(n, in), n.number(0.5F)});
               n.out(scores);
               return scores;
             }),
      {"SharesAnswered",
       [](Net& n) {
         const Operands in(n);
         const ValueId shares = n.softmax(product(n, in));
         n.out(n.op("MatMul", {shares, in.v}));
         n.out(shares);
       }},
      {"SharesGuardedByOthers",
       [](Net& n) {
         const Operands in(n);
         const ValueId shares = n.softmax(product(n, in));
         const ValueId other = n.b.input("other", DType::boolean, {kQueries, kKeys});
         n.out(n.op("MatMul", {n.op("Where", {other, n.number(0), shares}), in.v}));
       }},
      {"SoftmaxOverQueries",
       [](Net& n) {
         const Operands in(n);
         n.out(n.op("MatMul", {n.softmax(product(n, in), 2), in.v}));
       }},
      {"SoftmaxOverQueriesAndKeys",
       [](Net& n) {
         const Operands in(n);
         n.out(n.op("MatMul", {n.softmax(product(n, in), 2), in.v}));
       },
       12},
      {"SharesOnTheRight",
       [](Net& n) {
         const Operands in(n);
         n.out(n.op("MatMul", {n.in("u", {2, kHeads, 4, kQueries}), n.softmax(product(n, in))}));
       }},
      {"MaskMakesMoreScores",
       [](Net& n) {
         const ValueId q = n.in("q", {1, 5, 8}), k = n.in("k", {1, 7, 8}), v = n.in("v", {4, 7, 8});
         const ValueId scores = n.op("MatMul", {q, n.turned(k, {0, 2, 1})});
         n.out(n.op("MatMul", {n.softmax(n.op("Add", {scores, n.in("m", {4, 5, 7})})), v}));
       }},
      {"Doubles",
       [](Net& n) {
         const ValueId q = n.b.input("q", DType::f64, {5, 8}), k = n.b.input("k", DType::f64, {8, 7});
         const ValueId v = n.b.input("v", DType::f64, {7, 3});
         n.out(n.op("MatMul", {n.softmax(n.op("MatMul", {q, k})), v}));
       }},
  };
}

std::vector<Form> rejected_reshapes() {
  return {
      {"MatricesReshaped",
       [](Net& n) {
         const ValueId q = n.in("q", {2, 4, 8}), k = n.in("k", {2, 8, 6}), v = n.in("v", {2, 6, 3});
         const ValueId scores = n.shaped(n.op("MatMul", {q, k}), {2, 6, 4});
         n.out(n.op("MatMul", {n.softmax(n.shaped(n.op("Add", {scores, n.in("m", {4})}), {2, 4, 6})), v}));
       }},
      {"ShapesThatDoNotNest",
       [](Net& n) {
         const ValueId q = n.in("q", {4, 6, 5, 8}), k = n.in("k", {4, 6, 8, 7}), v = n.in("v", {4, 6, 7, 3});
         const ValueId scores = n.shaped(n.op("MatMul", {q, k}), {3, 8, 5, 7});
         const ValueId masked = n.op("Add", {scores, n.in("m", {3, 1, 5, 7})});
         n.out(n.op("MatMul", {n.softmax(n.shaped(masked, {4, 6, 5, 7})), v}));
       }},
  };
}

class NearMiss : public testing::TestWithParam<Form> {};

TEST_P(NearMiss, IsUnchanged) {
  const Graph before = made(GetParam());
  const Graph after = recognised(before);
  std::map<std::string, int> count = operators(after);
  EXPECT_EQ(count["FusedAttention"], 0) << print(after);
  EXPECT_EQ(count["MatMul"], 2) << print(after);
  const std::vector<Tensor> inputs = seeded(before);
  expect_same(evaluate(after, inputs), evaluate(before, inputs), print(after));
}

INSTANTIATE_TEST_SUITE_P(Forms, NearMiss, testing::ValuesIn(rejected()), form_name);
INSTANTIATE_TEST_SUITE_P(Reshapes, NearMiss, testing::ValuesIn(rejected_reshapes()), form_name);

TEST(RecogniseAttention, TextBeforeAndAfter) {
  const Graph before = parse_graph(R"(graph "g" {
  input %q: f32[1,4,6]
  input %k: f32[1,5,6]
  input %v: f32[1,5,3]
  %kt: f32[1,6,5] = Transpose@17 "kt" {perm=[0,2,1]}(%k)
  %s: f32[1,4,5] = MatMul@17 "s"(%q, %kt)
  %p: f32[1,4,5] = Softmax@17 "p" {axis=-1}(%s)
  %y: f32[1,4,3] = MatMul@17 "y"(%p, %v)
  output "y" %y
}
)");
  EXPECT_EQ(print(recognised(before)), R"(graph "g" {
  input %q: f32[1,4,6]
  input %k: f32[1,5,6]
  input %v: f32[1,5,3]
  %y: f32[1,4,3] = kilter::FusedAttention@1 "y" {scale=1.0}(%q, %k, %v)
  output "y" %y
}
)");
}

TEST(RecogniseAttention, CountsAsOneRewriteAndStopsAtTheLimit) {
  Net net;
  const Operands in(net);
  net.out(net.op("MatMul", {net.softmax(product(net, in)), in.v}));
  PassContext none;
  none.rewrites_left = 0;
  recognise_attention(net.graph, none);
  EXPECT_EQ(operators(net.graph)["FusedAttention"], 0);
  PassContext one;
  one.rewrites_left = 1;
  recognise_attention(net.graph, one);
  EXPECT_EQ(operators(net.graph)["FusedAttention"], 1);
  EXPECT_EQ(one.rewrites_done, 1);
}

}  // namespace
}  // namespace kilter
