// Quantised operators, most of domain com.microsoft: rounding of the exact quotient, results computed by hand, and the
// errors for operands that do not fit.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/support/cases.h"
#include "ops/support/evaluate.h"
#include "ops/support/exact_quotient.h"
#include "ops/support/iterate.h"

namespace kilter {
namespace {

OpCase microsoft(std::string_view op, CaseText text) { return make_case(*find_op("com.microsoft", op, 1), text); }

std::vector<int64_t> ints_of(std::string_view op, CaseText text) {
  const OpCase c = microsoft(op, text);
  return evaluate(c.graph, c.inputs).at(0).ints();
}

std::vector<double> floats_of(std::string_view op, CaseText text) {
  const OpCase c = microsoft(op, text);
  return load_doubles(evaluate(c.graph, c.inputs).at(0));
}

std::string error_of(std::string_view op, CaseText text, ErrorKind kind = ErrorKind::bad_model) {
  try {
    const OpCase c = microsoft(op, text);
    evaluate(c.graph, c.inputs);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.message();
  }
  return "no error";
}

TEST(ExactQuotient, IsRoundedOnceWithTiesToEven) {
  EXPECT_EQ(rounded_quotient({5, 0}, 2), 2);
  EXPECT_EQ(rounded_quotient({7, 0}, 2), 4);
  EXPECT_EQ(rounded_quotient({-5, 0}, 2), -2);
  EXPECT_EQ(rounded_quotient({-7, 0}, 2), -4);
  EXPECT_EQ(rounded_quotient({1, 0}, 2), 0);
  EXPECT_EQ(rounded_quotient({-1, 0}, 2), 0);
  EXPECT_EQ(rounded_quotient({5, 0}, -2), -2);
  EXPECT_EQ(rounded_quotient({8, 0}, 2), 4);
}

TEST(ExactQuotient, RoundsCorrectlyNextToTies) {
  // In f64, all of these quotients are 2.5.
  EXPECT_EQ(rounded_quotient(wide_sum(5, 1e-30), 2), 3);
  EXPECT_EQ(rounded_quotient(wide_sum(5, -1e-30), 2), 2);
  EXPECT_EQ(rounded_quotient(wide_sum(5, 1e-30), -2), -3);
  EXPECT_EQ(rounded_quotient(wide_sum(5, -1e-30), -2), -2);
  EXPECT_EQ(rounded_quotient(wide_product(2.5, 1.1), 1.1), 2);
}

TEST(ExactQuotient, IsExactWhereF64IsNot) {
  // In f64, 49 * (1 / 49) is below 1.
  EXPECT_EQ(rounded_quotient(wide_product(3, 0.1), 0.1), 3);
  EXPECT_EQ(rounded_quotient(wide_product(49, 1.0 / 49), 1), 1);
}

TEST(ExactQuotient, KeepsNanInfinityAndLargeValues) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isnan(rounded_quotient({0, 0}, 0)));
  EXPECT_TRUE(std::isnan(rounded_quotient({std::nan(""), 0}, 1)));
  EXPECT_EQ(rounded_quotient({3, 0}, 0), infinity);
  EXPECT_EQ(rounded_quotient({-3, 0}, 0), -infinity);
  EXPECT_EQ(rounded_quotient({3, 0}, infinity), 0);
  EXPECT_EQ(rounded_quotient({1e12, 0}, 2), 5e11);
}

TEST(ExactQuotient, RoundsToF32Once) {
  const float ulp = std::numeric_limits<float>::epsilon();  // of 1
  const double tie = 1 + static_cast<double>(ulp) / 2;
  EXPECT_EQ(rounded_f32({tie, 0}), 1.0F);
  EXPECT_EQ(rounded_f32(wide_sum(tie, 1e-30)), 1.0F + ulp);
  EXPECT_EQ(rounded_f32(wide_sum(tie + static_cast<double>(ulp), -1e-30)), 1.0F + ulp);
  EXPECT_EQ(rounded_f32(wide_sum(-tie, -1e-30)), -1.0F - ulp);
  EXPECT_EQ(rounded_f32({std::numeric_limits<double>::infinity(), std::nan("")}),
            std::numeric_limits<float>::infinity());
}

TEST(ExactQuotient, ProductsOfThreeNumbersKeepTheirLowParts) {
  const double next = 1 + std::ldexp(1, -52);
  const Wide product = wide_product(next, next) * 3.0;
  EXPECT_EQ(product.high, 3 + std::ldexp(3, -51));
  EXPECT_EQ(product.low, std::ldexp(3, -104));
  EXPECT_EQ((wide_sum(1, 1e-20) + -1.0).high, 1e-20);
}

TEST(Microsoft, ElementwiseResultsAreExactTiesToEven) {
  EXPECT_EQ(ints_of("QLinearAdd", "u8[3]:11,12,13 f32[]=0.5 u8[]=10 u8[1]:6 f32[]=0.25 u8[]=4 f32[]=0.5 u8[]=7"),
            (std::vector<int64_t>{9, 10, 11}));
  EXPECT_EQ(ints_of("QLinearAdd", "i8[2]:1,3 f32[]=1 i8[]=0 i8[1]:0 f32[]=1 i8[]=0 f32[]=2 i8[]=0"),
            (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(ints_of("QLinearMul", "i8[4]:3,5,-100,100 f32[]=0.5 i8[]=0 i8[1]:1 f32[]=1 i8[]=0 f32[]=0.25 i8[]=1"),
            (std::vector<int64_t>{7, 11, -128, 127}));
  EXPECT_EQ(ints_of("QLinearLeakyRelu", "i8[3]:-6,-2,5 f32[]=1 i8[]=0 f32[]=1 i8[]=3 | alpha=0.25"),
            (std::vector<int64_t>{1, 3, 8}));
  // 1 / (1 + exp(0)) = 128 / 256.
  EXPECT_EQ(ints_of("QLinearSigmoid", "u8[3]:0,7,255 f32[]=10 u8[]=7 f32[]=0.00390625 u8[]=0"),
            (std::vector<int64_t>{0, 128, 255}));
}

TEST(Microsoft, ScalarsMayHaveParametersOfOneDimension) {
  const OpCase c = microsoft("QLinearAdd", "u8[]:30 f32[1]=0.5 u8[1]=10 u8[]:40 f32[]=0.25 u8[]=0 f32[1]=1 u8[1]=5");
  EXPECT_EQ(evaluate(c.graph, c.inputs).at(0).ints(), (std::vector<int64_t>{25}));
  EXPECT_EQ(c.graph.type(c.graph.outputs().at(0).value).shape, Shape{});
}

TEST(Microsoft, PoolsRoundIntegerSumsOnce) {
  // (1 + 2 + 3) / 4 = 1.5, which is 3 with scale 1/2; the same values as two channels [1 3] and [2 0].
  EXPECT_EQ(ints_of("QLinearGlobalAveragePool", "u8[1,1,2,2]:11,12,13,10 f32[]=1 u8[]=10 f32[]=0.5 u8[]=1"),
            (std::vector<int64_t>{4}));
  EXPECT_EQ(
      ints_of("QLinearGlobalAveragePool", "u8[1,1,2,2]:11,12,13,10 f32[]=1 u8[]=10 f32[]=0.5 u8[]=1 | channels_last=1"),
      (std::vector<int64_t>{5, 3}));
  EXPECT_EQ(ints_of("QLinearAveragePool",
                    "i8[1,1,3]:4,8,-5 f32[]=1 i8[]=0 f32[]=1 i8[]=0 | kernel_shape=[2] pads=[1,0] count_include_pad=1"),
            (std::vector<int64_t>{2, 6, 2}));
  EXPECT_EQ(
      ints_of("QLinearAveragePool", "i8[1,1,3]:4,8,-5 f32[]=1 i8[]=0 f32[]=1 i8[]=0 | kernel_shape=[2] pads=[1,0]"),
      (std::vector<int64_t>{4, 6, 2}));
}

TEST(Microsoft, ConcatRescalesOperandsToTheOutput) {
  EXPECT_EQ(ints_of("QLinearConcat", "f32[]=1 u8[]=10 u8[2]:1,3 f32[]=0.5 u8[]=0 u8[1]:7 f32[]=2 u8[]=5 | axis=0"),
            (std::vector<int64_t>{10, 12, 14}));
}

TEST(Microsoft, WhereRescalesOperandsToTheOutput) {
  EXPECT_EQ(
      ints_of("QLinearWhere", "bool[2]:true,false u8[]:3 f32[]=0.5 u8[]=0 u8[2]:9,7 f32[]=2 u8[]=5 f32[]=1 u8[]=10"),
      (std::vector<int64_t>{12, 14}));
  EXPECT_EQ(error_of("QLinearWhere", "bool[2] u8[3] f32[] u8[] u8[] f32[] u8[] f32[] u8[]"),
            "QLinearWhere 'case': condition, x and y of shapes 2, 3 and scalar do not broadcast");
  EXPECT_EQ(error_of("QLinearWhere", "bool[2] u8[2] f32[] u8[] i8[] f32[] u8[] f32[] u8[]"),
            "QLinearWhere 'case': input 4 has element type i8, expected u8 to match input 1");
}

TEST(Microsoft, SoftmaxBeforeOpset13CountsTrailingDimensionsAsOne) {
  const std::string_view x = "u8[1,2,2]:9,9,9,9 f32[]=1 u8[]=0 f32[]=0.00390625 u8[]=0";
  EXPECT_EQ(ints_of("QLinearSoftmax", fmt::format("{} | axis=1 opset=13", x)),
            (std::vector<int64_t>{128, 128, 128, 128}));
  EXPECT_EQ(ints_of("QLinearSoftmax", fmt::format("{} | axis=1 opset=12", x)), (std::vector<int64_t>{64, 64, 64, 64}));
}

TEST(Microsoft, GemmAddsTheBiasBeforeItScales) {
  // ((1 2) (3 4)' + 5) * 0.5 * 0.5 = 4, then * alpha 0.5 / 0.25 + 1 = 9; without y_scale, it is 2.
  const std::string_view operands = "u8[1,2]:11,12 f32[]=0.5 u8[]=10 i8[2,1]:2,3 f32[]=0.5 i8[]=-1 i32[1]=5";
  EXPECT_EQ(ints_of("QGemm", fmt::format("{} f32[]=0.25 u8[]=1 | alpha=0.5", operands)), (std::vector<int64_t>{9}));
  EXPECT_EQ(floats_of("QGemm", fmt::format("{} | alpha=0.5", operands)), (std::vector<double>{2}));
}

TEST(Microsoft, WeightsOfFewBitsAreUnpackedFromTheLowestBits) {
  // 0x21, 0x43, ... are 1, 2, 3, 4, ...; a selects rows 0, 1 and 15.
  const std::string_view packed = "u8[1,1,8]:33,67,101,135,169,203,237,15 f32[1,1]:0.5";
  const std::string a =
      "f32[3,16]:1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"
      "0,0,0,0,1";
  EXPECT_EQ(floats_of("MatMulNBits", fmt::format("{} {} | K=16 N=1 block_size=16", a, packed)),
            (std::vector<double>{-3.5, -3, -4}));
  EXPECT_EQ(floats_of("MatMulNBits", fmt::format("{} {} u8[1,1]:241 | K=16 N=1 block_size=16", a, packed)),
            (std::vector<double>{0, 0.5, -0.5}));
  EXPECT_EQ(floats_of("MatMulNBits", fmt::format("{} {} f32[1,1]:0.5 ? f32[1]:2 | K=16 N=1 block_size=16", a, packed)),
            (std::vector<double>{2.25, 2.75, 1.75}));
}

TEST(Microsoft, GatherOfBlocksGivesZerosOutOfRange) {
  const OpCase c =
      microsoft("GatherBlockQuantized",
                "u8[2,8]:0,0,0,0,0,0,0,0,33,0,0,0,0,0,0,250 i64[3]:-1,2,-3 f32[2,1]:1,0.5 | block_size=16");
  const Tensor y = evaluate(c.graph, c.inputs).at(0);
  EXPECT_EQ(y.shape(), (Shape{3, 16}));
  EXPECT_EQ(y.as_double(0), -3.5);
  EXPECT_EQ(y.as_double(1), -3);
  EXPECT_EQ(y.as_double(15), 3.5);
  for (int64_t i = 16; i < 48; ++i) EXPECT_EQ(y.as_double(i), 0);
}

TEST(MicrosoftErrors, ElementwiseOperandsThatDoNotFit) {
  EXPECT_EQ(error_of("QLinearAdd", "u8[3] f32[] u8[] i8[3] f32[] u8[] f32[] u8[]"),
            "QLinearAdd 'case': input 3 has element type i8, expected u8 to match input 0");
  EXPECT_EQ(error_of("QLinearAdd", "u8[3] f32[] i8[] u8[3] f32[] u8[] f32[] u8[]"),
            "QLinearAdd 'case': a_zero_point (input 2) has element type i8, expected u8");
  EXPECT_EQ(error_of("QLinearMul", "u8[3] f32[] u8[] u8[3] f32[3] u8[] f32[] u8[]"),
            "QLinearMul 'case': b_scale (input 4) has shape 3, expected one element");
  EXPECT_EQ(error_of("QLinearMul", "u8[3] f32[] u8[] u8[3] f32[] u8[]"),
            "QLinearMul 'case': c_scale (input 6) is left out but required");
  EXPECT_EQ(error_of("QLinearAdd", "u8[3] f32[] u8[] u8[4] f32[] u8[] f32[] u8[]"),
            "QLinearAdd 'case': inputs 0 and 3 of shapes 3 and 4 do not broadcast");
  EXPECT_EQ(error_of("QLinearSigmoid", "u8[3] f32[] ? f32[] i8[]"),
            "QLinearSigmoid 'case': y_zero_point (input 4) has element type i8, expected u8");
}

TEST(MicrosoftErrors, ProductsThatDoNotFit) {
  EXPECT_EQ(error_of("QGemm", "u8[2,3] f32[] u8[] u8[3,4] f32[3] u8[4]"),
            "QGemm 'case': b_scale (input 4) has shape 3, expected one element or one per column, 4");
  EXPECT_EQ(error_of("QGemm", "u8[2,3] f32[] u8[] u8[3,4] f32[] u8[] i32[3]"),
            "QGemm 'case': c has shape 3, which does not broadcast to 2x4");
  EXPECT_EQ(error_of("QGemm", "u8[2,3] f32[] u8[] u8[3,4] f32[] u8[] ? f32[]"),
            "QGemm 'case': has y_scale but not y_zero_point; give both for a quantised output, or neither for an "
            "output of f32");
  EXPECT_EQ(error_of("MatMulIntegerToFloat", "u8[2,3] u8[3,4] f32[2] f32[]"),
            "MatMulIntegerToFloat 'case': a_scale (input 2) has shape 2, expected one element");
  EXPECT_EQ(error_of("MatMulIntegerToFloat", "u8[2,3] u8[3,4] f32[] f32[3]"),
            "MatMulIntegerToFloat 'case': b_scale has shape 3, expected one element or one per column of 3x4");
  EXPECT_EQ(error_of("MatMulIntegerToFloat", "u8[2,3] u8[3,4] f32[] f32[] ? ? f32[3]"),
            "MatMulIntegerToFloat 'case': bias has shape 3, expected 4, one element per column of b");
  EXPECT_EQ(error_of("QLinearConcat", "f32[] u8[] u8[2] f32[] u8[] u8[2] | axis=0"),
            "QLinearConcat 'case': has 6 inputs, expected y_scale, y_zero_point, and then a tensor, its scale and its "
            "zero point for each operand");
}

TEST(MicrosoftErrors, WeightsOfFewBitsThatDoNotFit) {
  EXPECT_EQ(error_of("MatMulNBits", "f32[3,32] u8[4,1,16] f32[4,1] | K=32 N=4 block_size=32 bits=3"),
            "MatMulNBits 'case': attribute bits is 3; legal values are 2, 4 and 8");
  EXPECT_EQ(error_of("MatMulNBits", "f32[3,32] u8[4,1,16] f32[4,1] | K=32 N=4 block_size=24"),
            "MatMulNBits 'case': attribute block_size is 24; legal values are powers of two from 16");
  EXPECT_EQ(error_of("MatMulNBits", "f32[3,32] u8[4,1,16] f32[4,1] | K=0 N=4 block_size=32"),
            "MatMulNBits 'case': attribute K is 0; legal values are 1 to 2147483648");
  EXPECT_EQ(error_of("MatMulNBits", "f32[3,40] u8[4,1,16] f32[4,1] | K=40 N=4 block_size=32"),
            "MatMulNBits 'case': packed weights (input 1) have shape 4x1x16, expected 4x2x16: N, blocks of K, bytes of "
            "a block");
  EXPECT_EQ(error_of("MatMulNBits", "f32[3,32] u8[4,1,16] f32[4] u8[4,2] | K=32 N=4 block_size=32"),
            "MatMulNBits 'case': zero_points (input 3) has shape 4x2, expected 4x1");
  EXPECT_EQ(
      error_of("MatMulNBits", "f32[1,32] u8[1,1,16] f32[1] ? i32[32]:1 | K=32 N=1 block_size=32", ErrorKind::bad_input),
      "MatMulNBits 'case': g_idx[0] is 1; legal values are 0 to 0");
  EXPECT_EQ(
      error_of("MatMulNBits", "f32[1,32] u8[1,1,16] f32[1] | K=32 N=1 block_size=32 weight_prepacked=1",
               ErrorKind::unsupported),
      "MatMulNBits 'case': attribute weight_prepacked is 1: the weights are arranged for one GPU; export the model "
      "without it");
  EXPECT_EQ(error_of("GatherBlockQuantized", "u8[4,8] i64[1]:0 f32[4,2] | block_size=16"),
            "GatherBlockQuantized 'case': scales have shape 4x2, expected 4x1 for data 4x8 in blocks of 16");
  EXPECT_EQ(error_of("GatherBlockQuantized", "u8[4,8] i64[1]:0 f32[4,1] | block_size=16 gather_axis=1"),
            "GatherBlockQuantized 'case': gathers along axis 1 of data 4x8 with blocks along axis 1; packed data must "
            "have at least two dimensions, be gathered along the first and have blocks along the last");
}

TEST(MicrosoftErrors, LayersThatDoNotFit) {
  EXPECT_EQ(error_of("DynamicQuantizeLSTM", "f32[2,1,3] i8[1,3,8] i8[1,2,8] ? ? ? ? ? f32[8] i8[1] f32[1] i8[1]"),
            "DynamicQuantizeLSTM 'case': the scale of w (input 8) has shape 8, expected 1 or 1x8: one element per "
            "direction or per column of the weights");
  EXPECT_EQ(error_of("QAttention", "u8[1,2,8] i8[8,20] f32[20] f32[] f32[] | num_heads=2"),
            "QAttention 'case': has input 1x2x8, weights 8x20 and num_heads 2; expected [batch, sequence, inputs] and "
            "[inputs, 3 * num_heads * head_size]");
  EXPECT_EQ(error_of("QAttention", "u8[2,3,8] i8[8,24] f32[24] f32[] f32[] i32[3] | num_heads=2"),
            "QAttention 'case': mask_index (input 5) has shape 3, expected 2, 4 (ends, then starts) or 8 (ends, then "
            "offsets), "
            "2x3, 2x3x3 or 2x1xNxN with N of at least 3");
  EXPECT_EQ(error_of("QAttention", "u8[2,3,8] i8[8,24] f32[24] f32[] f32[] | num_heads=2 do_rotary=1",
                     ErrorKind::unsupported),
            "QAttention 'case': attribute do_rotary is not supported; export the model without it");
  EXPECT_EQ(error_of("QEmbedLayerNormalization", "i32[2,3] ? u8[5,8] u8[2,8]"),
            "QEmbedLayerNormalization 'case': input 5 is left out but required");
  EXPECT_EQ(error_of("QEmbedLayerNormalization",
                     "i32[2,3] ? u8[5,8] u8[2,8] ? u8[8] u8[8] ? f32[] f32[] ? f32[] f32[] u8[] u8[] ? u8[] u8[]"),
            "QEmbedLayerNormalization 'case': the position embedding has shape 2x8, too few rows for a sequence of 3");
}

}  // namespace
}  // namespace kilter
