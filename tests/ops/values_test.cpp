// Results of operators that can be calculated by hand: limits of integers and floats, conversions, equations, losses.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "ops/support/builder.h"
#include "ops/support/evaluate.h"

namespace kilter {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Returns the first output for constant inputs (undefined = left out). The builder folds operators unless
/// OpDef::folds_late is set.
Tensor value_of(std::string_view op, const std::vector<Tensor>& inputs, Attrs attrs = {},
                int32_t opset = kNewestOpset) {
  Graph graph;
  GraphBuilder builder(graph, opset);
  std::vector<ValueId> ids;
  for (const Tensor& input : inputs) ids.push_back(input.defined() ? builder.constant(input) : kNone);
  const ValueId y = builder.add(op, ids, std::move(attrs), "n");
  const Value& made = graph.value(y);
  EXPECT_TRUE(made.constant.has_value() || graph.node(made.producer).op->folds_late);
  graph.add_output(y, "y");
  return evaluate(graph, {})[0];
}

template <class T>
Tensor list(std::vector<T> values) {
  return Tensor::of<T>({static_cast<int64_t>(values.size())}, std::span<const T>(values));
}
Tensor texts(const std::vector<std::string>& values) {
  Tensor tensor(DType::string, {static_cast<int64_t>(values.size())});
  tensor.strings() = values;
  return tensor;
}

template <class T>
void expect_values(const Tensor& got, const std::vector<T>& want) {
  ASSERT_EQ(got.dtype(), DTypeOf<T>::value);
  ASSERT_EQ(got.elems(), static_cast<int64_t>(want.size()));
  for (size_t i = 0; i < want.size(); ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(want[i])) {
        EXPECT_TRUE(std::isnan(got.data<T>()[i])) << "element " << i;
      } else {
        EXPECT_EQ(got.data<T>()[i], want[i]) << "element " << i;
        EXPECT_EQ(std::signbit(got.data<T>()[i]), std::signbit(want[i])) << "element " << i;
      }
    } else {
      EXPECT_EQ(got.data<T>()[i], want[i]) << "element " << i;
    }
  }
}

void expect_error(const std::function<void()>& f, ErrorKind kind, const std::string& part) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(kind)) << error.message();
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    return;
  }
  ADD_FAILURE() << "no error, expected one with: " << part;
}

TEST(Values, IntegersWrapAndDivisionTruncates) {
  expect_values<int8_t>(value_of("Sub", {list<int8_t>({-128, 5}), list<int8_t>({1, 7})}), {127, -2});
  expect_values<int8_t>(value_of("Mul", {list<int8_t>({100}), list<int8_t>({3})}), {44});
  expect_values<int32_t>(value_of("Div", {list<int32_t>({-7, 7, 5}), list<int32_t>({2, -2, 0})}), {-3, -3, 0});
  constexpr int32_t kLowest = std::numeric_limits<int32_t>::min();
  expect_values<int32_t>(value_of("Div", {list<int32_t>({kLowest}), list<int32_t>({-1})}), {kLowest});
  expect_values<int32_t>(value_of("Abs", {list<int32_t>({kLowest, -3})}), {kLowest, 3});
  expect_values<int64_t>(value_of("Pow", {list<int64_t>({3, -2, 7, 0}), list<int64_t>({4, 3, -1, 0})}), {81, -8, 0, 1});
}

TEST(Values, ModuloSignFollowsFmod) {
  const std::vector<Tensor> in = {list<int32_t>({-7, 7, -7, 4}), list<int32_t>({3, -3, -3, 0})};
  expect_values<int32_t>(value_of("Mod", in), {2, -2, -1, 0});
  expect_values<int32_t>(value_of("Mod", in, {{"fmod", int64_t{1}}}), {-1, 1, -1, 0});
  expect_values<float>(value_of("Mod", {list<float>({-5.5F, 1, 0}), list<float>({2, -kInf, -2})}),
                       {0.5F, -kInf, -0.0F});
}

TEST(Values, NanSpreadsThroughMaxMinAndClip) {
  const std::vector<Tensor> in = {list<float>({1, kNan, 3}), list<float>({2, 2, kNan})};
  expect_values<float>(value_of("Max", in), {2, kNan, kNan});
  expect_values<float>(value_of("Min", in), {1, kNan, kNan});
  const Tensor x = list<float>({kNan, -kInf, 3, kInf});
  expect_values<float>(value_of("Clip", {x, Tensor::scalar(0.0F), Tensor::scalar(6.0F)}), {kNan, 0, 3, 6});
  expect_values<float>(value_of("Clip", {x, {}, Tensor::scalar(6.0F)}), {kNan, -kInf, 3, 6});
  expect_values<float>(value_of("Clip", {x}, {{"min", 0.0F}, {"max", 6.0F}}, 7), {kNan, 0, 3, 6});
}

TEST(Values, ShiftsPastTheWidthLeaveTheSign) {
  const std::vector<Tensor> in = {list<int8_t>({-128, -1, 5, -5}), list<int8_t>({1, 9, 8, -1})};
  expect_values<int8_t>(value_of("BitShift", in, {{"direction", std::string("RIGHT")}}), {-64, -1, 0, -1});
  expect_values<int8_t>(value_of("BitShift", in, {{"direction", std::string("LEFT")}}), {0, 0, 0, 0});
}

TEST(Values, RoundingIsToEvenAndSignKeepsNan) {
  expect_values<float>(value_of("Round", {list<float>({0.5F, 1.5F, -2.5F, -0.4F})}), {0, 2, -2, -0.0F});
  expect_values<float>(value_of("Sign", {list<float>({-kInf, -0.0F, 7, kNan})}), {-1, -0.0F, 1, kNan});
}

TEST(Values, ActivationsStayFiniteForLargeArguments) {
  const Tensor x = list<float>({-1000, 1000});
  expect_values<float>(value_of("Sigmoid", {x}), {0, 1});
  expect_values<float>(value_of("Softplus", {x}), {0, 1000});
  expect_values<float>(value_of("Mish", {x}), {-0.0F, 1000});
  expect_values<float>(value_of("Elu", {x}), {-1, 1000});
}

TEST(Values, CastTruncatesSaturatesAndWraps) {
  const auto cast = [](const Tensor& x, int64_t to) { return value_of("Cast", {x}, {{"to", to}}); };
  expect_values<uint8_t>(cast(list<float>({-1.5F, 1.9F, 300, kNan}), 2), {0, 1, 255, 0});
  expect_values<int8_t>(cast(list<int32_t>({200, -129}), 3), {-56, 127});
  expect_values<bool>(cast(list<float>({-0.0F, kNan, 0.1F}), 9), {false, true, true});
  EXPECT_EQ(cast(list<double>({1 + 0x1p-11 + 0x1p-40}), 10).data<Half>()[0].bits, 0x3c01);  // one rounding, not two
  EXPECT_EQ(cast(list<float>({1, 0.1F, -kInf}), 8).strings(), (std::vector<std::string>{"1.0", "0.1", "-inf"}));
  expect_values<float>(cast(texts({"3.14", "1e-5", "+INF", "-inf", "NaN"}), 1), {3.14F, 1e-5F, kInf, -kInf, kNan});
  expect_values<int64_t>(cast(texts({"9223372036854775807", "-7"}), 7), {std::numeric_limits<int64_t>::max(), -7});
  expect_error([&] { cast(texts({"hello"}), 1); }, ErrorKind::bad_input, "'hello' is not a number");
  expect_error([&] { cast(list<float>({1}), 27); }, ErrorKind::unsupported,
               "names element type 27; supported are 1 (f32)");
}

TEST(Values, CastToNarrowTypesFollowsItsAttributes) {
  const auto codes = [](const Tensor& x, Attrs attrs) {
    const Tensor y = value_of("Cast", {x}, std::move(attrs));
    return std::vector<int>(y.data<uint8_t>(), y.data<uint8_t>() + y.elems());
  };
  const Tensor x = list<float>({0.3F, 1.5F, 1e6F, -kInf});
  const Attr rough = int64_t{0};
  EXPECT_EQ(codes(x, {{"to", int64_t{19}}}), (std::vector{0x35, 0x3e, 0x7b, 0xfb}));
  EXPECT_EQ(codes(x, {{"to", int64_t{19}}, {"saturate", rough}}), (std::vector{0x35, 0x3e, 0x7c, 0xfc}));
  const Tensor scales = list<float>({0, 0.3F, 1.5F, kInf});
  EXPECT_EQ(codes(scales, {{"to", int64_t{24}}}), (std::vector{0, 126, 128, 254}));
  for (const auto& [mode, third] : {std::pair("up", 126), {"down", 125}, {"nearest", 125}}) {
    const Attrs attrs = {{"to", int64_t{24}}, {"saturate", rough}, {"round_mode", std::string(mode)}};
    EXPECT_EQ(codes(scales, attrs), (std::vector{255, third, third == 125 && mode[0] == 'd' ? 127 : 128, 255})) << mode;
  }
  EXPECT_EQ(codes(list<int64_t>({-9, std::numeric_limits<int64_t>::max()}), {{"to", int64_t{22}}}),
            (std::vector{7, 15}));
  EXPECT_EQ(codes(texts({"-3", "7.9", "nan"}), {{"to", int64_t{23}}}), (std::vector{13, 7, 8}));
  EXPECT_EQ(codes(texts({"-3", "12"}), {{"to", int64_t{22}}}), (std::vector{13, 12}));
  expect_error([&] { codes(x, {{"to", int64_t{24}}, {"round_mode", std::string("off")}}); }, ErrorKind::bad_model,
               "round_mode 'off' is unknown; legal values are up, down, nearest");
}

TEST(Values, ZeroPointsMustHaveTheTypeOfTheValues) {
  const Tensor x(DType::i4, {2}), scale = Tensor::scalar(1.0F);
  expect_error([&] { value_of("DequantizeLinear", {x, scale, Tensor(DType::i2, {})}); }, ErrorKind::bad_model,
               "zero point has element type i2, expected i4 to match input 0");
  expect_error([&] { value_of("DequantizeLinear", {Tensor(DType::f8e8m0, {2}), scale}); }, ErrorKind::bad_model,
               "input 0 has element type f8e8m0, expected one of u8, i8, u16, i16, f8e4m3fn");
  expect_error([&] { value_of("QuantizeLinear", {Tensor(DType::f32, {2}), scale}, {{"output_dtype", int64_t{24}}}); },
               ErrorKind::unsupported, "element type f8e8m0 is not supported; legal values are u8, i8, u16");
}

TEST(Values, CastFromNarrowTypesIsExact) {
  const auto narrow = [](DType type, std::vector<uint8_t> codes) {
    Tensor t(type, {static_cast<int64_t>(codes.size())});
    std::copy(codes.begin(), codes.end(), t.data<uint8_t>());
    return t;
  };
  const auto cast = [](const Tensor& x, int64_t to) { return value_of("Cast", {x}, {{"to", to}}); };
  expect_values<float>(cast(narrow(DType::f8e4m3fn, {0x7e, 0x01, 0xff}), 1), {448, 0x1p-9F, kNan});
  expect_values<double>(cast(narrow(DType::f8e8m0, {0, 254}), 11), {0x1p-127, 0x1p127});
  expect_values<uint8_t>(cast(narrow(DType::i4, {0xf, 7}), 2), {255, 7});
  expect_values<bool>(cast(narrow(DType::f4e2m1, {0, 8, 1}), 9), {false, false, true});
  EXPECT_TRUE(cast(narrow(DType::i4, {0xd, 6}), 25).same(narrow(DType::u2, {1, 2})));
  EXPECT_TRUE(cast(narrow(DType::f8e5m2, {0x3e, 0xc4}), 22).same(narrow(DType::i4, {1, 0xc})));
  EXPECT_EQ(cast(narrow(DType::f8e4m3fn, {0x3c, 0x7f}), 8).strings(), (std::vector<std::string>{"1.5", "nan"}));
}

TEST(Values, QuantisationRoundsToEvenAndSaturates) {
  const Tensor x = list<float>({0.5F, 1.5F, -300, 300});
  const Tensor one = Tensor::scalar(1.0F);
  expect_values<uint8_t>(value_of("QuantizeLinear", {x, one, Tensor::scalar<uint8_t>(1)}), {1, 3, 0, 255});
  expect_values<int8_t>(value_of("QuantizeLinear", {x, one, Tensor::scalar<int8_t>(0)}), {0, 2, -128, 127});
  const Tensor q = Tensor::of<uint8_t>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor scales = Tensor::of<float>({2, 2}, {1, 10, 100, 1000});
  const Attrs blocks = {{"axis", int64_t{1}}, {"block_size", int64_t{3}}};
  expect_values<float>(value_of("DequantizeLinear", {q, scales}, blocks), {1, 2, 3, 40, 500, 600, 700, 8000});
  expect_error([&] { value_of("DequantizeLinear", {q, list<float>({1, 2, 3})}); }, ErrorKind::bad_model,
               "expected a scalar or 4");
}

TEST(Values, EinsumReadsItsEquation) {
  const Tensor a = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto einsum = [](const std::vector<Tensor>& in, const std::string& equation) {
    return value_of("Einsum", in, {{"equation", equation}});
  };
  expect_values<float>(einsum({a}, "ij->ji"), {1, 4, 2, 5, 3, 6});
  expect_values<float>(einsum({a}, "ba"), {1, 4, 2, 5, 3, 6});
  expect_values<float>(einsum({a, list<float>({1, 0, 2})}, "ij, j -> i"), {7, 16});
  expect_values<float>(einsum({Tensor::of<float>({2, 2}, {1, 2, 3, 4})}, "ii"), {5});
  expect_values<float>(einsum({a, a}, "...j,...j"), {14, 77});
  expect_error([&] { einsum({a}, "ij->ik"); }, ErrorKind::bad_model, "has the label 'k' only on the right");
  expect_error([&] { einsum({a}, "ii"); }, ErrorKind::bad_model, "diagonal over unequal dimensions of shape 2x3");
  expect_error([&] { einsum({a, a}, "ij,jk"); }, ErrorKind::bad_model,
               "gives one label to dimensions of sizes 3 and 2");
  expect_error([&] { einsum({a}, "i1"); }, ErrorKind::bad_model, "has '1' where only letters");
}

TEST(Values, LossesSupportIgnoreIndexAndWeights) {
  const Tensor x = Tensor::of<float>({3, 2}, {-1, -2, -3, -4, -5, -6});
  const Tensor target = list<int64_t>({1, 0, 9});
  const Attrs ignore = {{"ignore_index", int64_t{9}}};
  expect_values<float>(value_of("NegativeLogLikelihoodLoss", {x, target}, ignore), {2.5F});
  expect_values<float>(value_of("NegativeLogLikelihoodLoss", {x, target, list<float>({1, 3})}, ignore), {2.25F});
  expect_error([&] { value_of("NegativeLogLikelihoodLoss", {x, target}); }, ErrorKind::bad_input,
               "target 9 at element 2 is outside [0, 2)");
}

TEST(Values, RoiAlignLimitsSamplesPerBin) {
  const Tensor x(DType::f32, {1, 1, 2, 2}), region = Tensor::of<float>({1, 4}, {0, 0, 2, 2});
  expect_error([&] { value_of("RoiAlign", {x, region, list<int64_t>({0})}, {{"sampling_ratio", int64_t{4096}}}); },
               ErrorKind::bad_input,
               "RoiAlign 'n': bins of region 0 have 4096 x 4096 samples each; the limit is 4194304 per bin");
}

TEST(Values, NormOfZerosLeavesZeros) {
  const Tensor x = Tensor::of<float>({2, 2}, {0, 0, 3, 4});
  expect_values<float>(value_of("LpNormalization", {x}), {0, 0, 0.6F, 0.8F});
}

TEST(Values, SeededRandomNumbersRepeatAndLieInTheirRange) {
  Graph graph;
  GraphBuilder builder(graph);
  const Attrs attrs = {{"shape", std::vector<int64_t>{1000}}, {"seed", 3.0F}, {"low", -1.0F}, {"high", 2.0F}};
  const ValueId y = builder.add("RandomUniform", {}, attrs, "r");
  const Node& node = graph.node(graph.value(y).producer);
  const Tensor first = run_reference(node, {}, {graph.type(y)}).at(0);
  EXPECT_TRUE(first.same(run_reference(node, {}, {graph.type(y)}).at(0)));
  double sum = 0;
  for (float v : first.span<float>()) {
    EXPECT_GE(v, -1.0F);
    EXPECT_LT(v, 2.0F);
    sum += static_cast<double>(v);
  }
  EXPECT_NEAR(sum / 1000, 0.5, 0.1);
}

}  // namespace
}  // namespace kilter
