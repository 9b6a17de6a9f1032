// Products of quantised matrices with one scale per row or column, compared with results computed by hand; errors for
// parameters that do not fit.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/support/cases.h"
#include "ops/support/evaluate.h"

namespace kilter {
namespace {

OpCase quantised(std::string_view op, CaseText text) { return make_case(*find_op("", op, 21), text); }

std::string error_of(std::string_view op, CaseText text) {
  try {
    quantised(op, text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_model);
    return error.message();
  }
  return "no error";
}

TEST(Quantised, RowsOfAMatrixTimesAVectorKeepTheirScales) {
  const OpCase c = quantised("QLinearMatMul",
                             "u8[2,3]:10,20,30,40,50,60 f32[2]=0.5,0.25 u8[2]=10,20 i8[3]:1,-2,3 f32[]=2 i8[]=1 "
                             "f32[]=4 u8[]=100");
  // (0 10 20) (0 -3 2) * 0.5 * 2 / 4 = 2.5 and (20 30 40) (0 -3 2) * 0.25 * 2 / 4 = -1.25; ties round to even.
  EXPECT_EQ(evaluate(c.graph, c.inputs).at(0).ints(), (std::vector<int64_t>{102, 99}));
  EXPECT_EQ(c.graph.type(c.graph.outputs().at(0).value).shape, (Shape{2}));
}

TEST(Quantised, AVectorTimesColumnsKeepsTheirScales) {
  const OpCase c = quantised(
      "QLinearMatMul", "i8[2]:3,-4 f32[1]=1 i8[1]=0 i8[2,3]:1,2,3,4,5,6 f32[3]=1,2,4 i8[3]=0,1,2 f32[]=2 i8[]=-1");
  // (3-16, 3-16, 3-16) * (1, 2, 4) / 2 = -6.5, -13, -26; ties round to even, and the zero point is -1.
  EXPECT_EQ(evaluate(c.graph, c.inputs).at(0).ints(), (std::vector<int64_t>{-7, -14, -27}));
}

TEST(Quantised, ParametersThatDoNotFitAreErrors) {
  EXPECT_EQ(error_of("QLinearMatMul", "u8[3,7] f32[7] u8[3] u8[7,4] f32[] u8[] f32[] u8[]"),
            "QLinearMatMul 'case': scale or zero point of a has shape 7, expected one element or one per row of 3x7");
  EXPECT_EQ(
      error_of("QLinearMatMul", "u8[3,7] f32[] u8[] u8[7,4] f32[7] u8[] f32[] u8[]"),
      "QLinearMatMul 'case': scale or zero point of b has shape 7, expected one element or one per column of 7x4");
  EXPECT_EQ(error_of("QLinearMatMul", "u8[3,7] f32[] u8[] u8[7] f32[7] u8[7] f32[] u8[]"),
            "QLinearMatMul 'case': scale or zero point of b has shape 7, expected one element or one per column of 7");
  EXPECT_EQ(error_of("QLinearMatMul", "u8[3,7] f32[] u8[] u8[7,4] f32[] u8[] f32[2] u8[]"),
            "QLinearMatMul 'case': y_scale (input 6) has shape 2, expected one element");
  EXPECT_EQ(error_of("MatMulInteger", "u8[2,3,7] u8[7,4] u8[2,1,7]"),
            "MatMulInteger 'case': a_zero_point has shape 2x1x7, expected one element or one per row of 2x3x7");
}

TEST(Quantised, ZeroPointsMustMatchTheTypeOfTheirOperand) {
  EXPECT_EQ(error_of("QLinearMatMul", "u8[3,7] f32[] i8[] u8[7,4] f32[] u8[] f32[] u8[]"),
            "QLinearMatMul 'case': zero point (input 2) has element type i8, expected u8 to match input 0");
  EXPECT_EQ(error_of("QLinearMatMul", "u8[3,7] f32[] u8[] i8[7,4] f32[] f32[] f32[] u8[]"),
            "QLinearMatMul 'case': zero point (input 5) has element type f32, expected i8 to match input 3");
  EXPECT_EQ(error_of("MatMulInteger", "u8[3,7] i8[7,4] ? u8[]"),
            "MatMulInteger 'case': zero point (input 3) has element type u8, expected i8 to match input 1");
  EXPECT_EQ(error_of("ConvInteger", "u8[1,1,4,4] u8[1,1,2,2] i32[]"),
            "ConvInteger 'case': zero point (input 2) has element type i32, expected u8 to match input 0");
  EXPECT_EQ(error_of("QLinearConv", "u8[1,1,4,4] f32[] i8[] u8[1,1,2,2] f32[] u8[] f32[] u8[]"),
            "QLinearConv 'case': zero point (input 2) has element type i8, expected u8 to match input 0");
}

}  // namespace
}  // namespace kilter
