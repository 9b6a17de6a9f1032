// The text form of an operator's test case, and the comparison of tensors within a tolerance.
#include "ops/support/cases.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/support/builder.h"
#include "ops/support/evaluate.h"

namespace kilter {
namespace {

void infer_none(InferContext& ctx) { ctx.set(0, DType::f32, {}); }

const OpDef& probe() {
  static const OpDef op{
      .name = "Probe",
      .since = 3,
      .min_inputs = 0,
      .max_inputs = -1,
      .min_outputs = 1,
      .max_outputs = 4,
      .attrs = {{"i", "int", "0"},
                {"f", "float", "0"},
                {"s", "string", ""},
                {"is", "ints", ""},
                {"fs", "floats", ""},
                {"ss", "strings", ""},
                {"t", "tensor", ""},
                {"g", "graph", ""}},
      .summary = "For these tests.",
      .infer = infer_none,
  };
  return op;
}

std::string error_of(CaseText text) {
  try {
    parse_case(probe(), text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.message();
  }
  return "no error";
}

TEST(Cases, OperandsOfEveryKind) {
  const ParsedCase c =
      parse_case(probe(), "f32[2,3] ? i64[3]=1,-2,3 f32[2,2]:nan bool[2]=true,false str[1]=\"a b\" i8[0]= u8[]=255");
  ASSERT_EQ(c.operands.size(), 8U);
  EXPECT_EQ(c.operands[0].kind, CaseOperand::Kind::random);
  EXPECT_EQ(c.operands[0].tensor.shape(), (Shape{2, 3}));
  EXPECT_EQ(c.operands[1].kind, CaseOperand::Kind::absent);
  EXPECT_EQ(c.operands[2].kind, CaseOperand::Kind::constant);
  EXPECT_EQ(c.operands[2].tensor.ints(), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(c.operands[3].kind, CaseOperand::Kind::given);
  for (int64_t i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(c.operands[3].tensor.as_double(i)));
  EXPECT_TRUE(c.operands[4].tensor.same(Tensor::of<bool>({2}, {true, false})));
  EXPECT_EQ(c.operands[5].tensor.strings()[0], "a b");
  EXPECT_EQ(c.operands[6].tensor.elems(), 0);
  EXPECT_EQ(c.operands[7].tensor.as_int(0), 255);
  EXPECT_EQ(c.opset, kNewestOpset);
  EXPECT_EQ(c.outputs, 1U);
}

TEST(Cases, AttributesFollowTheDefinition) {
  const ParsedCase c =
      parse_case(probe(), "| i=2 f=2 s=linear is=[1,-1] fs=[1,2.5] ss=[a,\"b c\"] t=f32[2]=1,2 | 17 | 3");
  EXPECT_TRUE(c.operands.empty());
  EXPECT_EQ(std::get<int64_t>(c.attrs.at("i")), 2);
  EXPECT_EQ(std::get<float>(c.attrs.at("f")), 2.0F);
  EXPECT_EQ(std::get<std::string>(c.attrs.at("s")), "linear");
  EXPECT_EQ(std::get<std::vector<int64_t>>(c.attrs.at("is")), (std::vector<int64_t>{1, -1}));
  EXPECT_EQ(std::get<std::vector<float>>(c.attrs.at("fs")), (std::vector<float>{1, 2.5F}));
  EXPECT_EQ(std::get<std::vector<std::string>>(c.attrs.at("ss")), (std::vector<std::string>{"a", "b c"}));
  EXPECT_TRUE(std::get<Tensor>(c.attrs.at("t")).same(Tensor::of<float>({2}, {1, 2})));
  EXPECT_EQ(c.opset, 17);
  EXPECT_EQ(c.outputs, 3U);
  EXPECT_EQ(parse_case(probe(), "f32[1] | | | 2").outputs, 2U);
  EXPECT_EQ(parse_case(probe(), "f32[1] | | 9").opset, 9);
}

TEST(Cases, RandomValuesAreSeededByTheText) {
  const auto values = [](CaseText text, size_t i) { return parse_case(probe(), text).operands.at(i).tensor; };
  EXPECT_TRUE(values("f32[64] f32[64]", 0).same(values("f32[64] f32[64]", 0)));
  EXPECT_FALSE(values("f32[64] f32[64]", 0).same(values("f32[64] f32[64]", 1)));
  EXPECT_FALSE(values("f32[64] f32[64]", 0).same(values("f32[64] f32[64] ", 0)));
  const Tensor normal = values("f32[4096]", 0);
  double sum = 0;
  double squares = 0;
  for (int64_t i = 0; i < normal.elems(); ++i) {
    sum += normal.as_double(i);
    squares += normal.as_double(i) * normal.as_double(i);
  }
  EXPECT_NEAR(sum / 4096, 0, 0.08);
  EXPECT_NEAR(squares / 4096, 1, 0.12);
  const Tensor ints = values("i8[1000]", 0);
  int64_t least = 200;
  int64_t most = -200;
  for (int64_t i = 0; i < ints.elems(); ++i) {
    least = std::min(least, ints.as_int(i));
    most = std::max(most, ints.as_int(i));
  }
  EXPECT_EQ(least, 0);
  EXPECT_EQ(most, 99);
}

TEST(Cases, MalformedText) {
  EXPECT_EQ(
      error_of("f33[2]"),
      "case \"f33[2]\" of Probe, line 1, column 1: expected an element type (f32, f64, f16, bf16, i8 to i64, u8 to "
      "u64, bool, str, or a narrow type such as i4), got \"f33\"");
  EXPECT_EQ(
      error_of("f32[2]=1,2,3"),
      "case \"f32[2]=1,2,3\" of Probe, line 1, column 11: expected an element type (f32, f64, f16, bf16, i8 to i64, u8 "
      "to u64, bool, str, or a narrow type such as i4), got \",\"");
  EXPECT_EQ(error_of("f32[3]=1,2"),
            "case \"f32[3]=1,2\" of Probe, line 1, column 11: expected ',', got the end of the text");
  EXPECT_EQ(error_of("| x=1"), "case \"| x=1\" of Probe, line 1, column 3: Probe has no attribute 'x'");
  EXPECT_EQ(error_of("| i=a"), "case \"| i=a\" of Probe, line 1, column 5: expected a whole number, got \"a\"");
  EXPECT_EQ(error_of("| g=1"),
            "case \"| g=1\" of Probe, line 1, column 4: attributes of type graph cannot be written in a case");
  EXPECT_EQ(error_of("| | 17 | 1 | 2"),
            "case \"| | 17 | 1 | 2\" of Probe, line 1, column 12: expected the end of the case, got \"|\"");
}

TEST(Cases, ACaseIsAGraphOfOneNode) {
  const OpCase c = make_case(*find_op("", "Add", 17), "f32[2,3] f32[3]=1,2,3 | | 14");
  EXPECT_EQ(c.name, "Add@14: f32[2,3] f32[3]=1,2,3 | | 14");
  ASSERT_EQ(c.graph.order().size(), 1U);
  const Node& node = c.graph.node(c.graph.order()[0]);
  EXPECT_EQ(node.opset, 14);
  EXPECT_EQ(c.graph.inputs().size(), 1U);
  EXPECT_EQ(c.inputs.size(), 1U);
  EXPECT_TRUE(c.graph.value(node.inputs[1]).constant.has_value());
  EXPECT_EQ(c.graph.outputs()[0].name, "out0");
}

TEST(Cases, ACaseOfConstantsIsNotFolded) {
  const OpCase c = make_case(*find_op("", "Add", 17), "i32[2]=1,2 i32[2]=3,4");
  EXPECT_EQ(c.graph.order().size(), 1U);
  EXPECT_EQ(evaluate(c.graph, {})[0].ints(), (std::vector<int64_t>{4, 6}));
}

std::string difference(std::initializer_list<float> got, std::initializer_list<float> want, Tolerance tolerance) {
  const auto n = static_cast<int64_t>(want.size());
  return compare(Tensor::of<float>({n}, got), Tensor::of<float>({n}, want), tolerance).value_or("");
}

TEST(Compare, TolerancesAreAsStated) {
  const Tolerance exact{.rtol = 0, .atol = 0};
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(difference({1, kNan, kInf, -0.0F}, {1, kNan, kInf, 0.0F}, exact), "");
  EXPECT_EQ(difference({1, 2.5F}, {1, 2}, exact),
            "element 1 of 2: got 2.5, want 2; the allowed error is 0 + 0 * |want|");
  EXPECT_EQ(difference({1, kNan}, {1, 2}, {.rtol = 1, .atol = 1}),
            "element 1 of 2: got nan, want 2; the allowed error is 2 + 1 * |want|");
  EXPECT_NE(difference({kInf}, {1}, {.rtol = 1e9, .atol = 1e9}), "");
  EXPECT_NE(difference({1}, {kInf}, {.rtol = 1e9, .atol = 1e9}), "");
  EXPECT_NE(difference({kInf}, {-kInf}, {.rtol = 1e9, .atol = 1e9}), "");
  EXPECT_EQ(difference({1.125F}, {1}, {.rtol = 0.125, .atol = 0}), "");
  EXPECT_NE(difference({1.126F}, {1}, {.rtol = 0.125, .atol = 0}), "");
  EXPECT_EQ(difference({0.5F, 8}, {0, 8}, {.rtol = 0, .atol = 0.0625}), "");
  EXPECT_NE(difference({0.5F, 8}, {0, 8}, {.rtol = 0, .atol = 0.0625, .scaled = false}), "");
}

TEST(Compare, OtherTypesMustBeEqual) {
  const Tolerance loose{.rtol = 1, .atol = 1};
  EXPECT_EQ(compare(Tensor::of<int32_t>({2}, {1, 2}), Tensor::of<int32_t>({2}, {1, 3}), loose),
            "element 1 of 2: got 2, want 3");
  EXPECT_EQ(compare(Tensor::of<int32_t>({1}, {1}), Tensor::of<int64_t>({1}, {1}), loose), "got i32[1], want i64[1]");
  EXPECT_EQ(compare(Tensor::of<int32_t>({1}, {1}), Tensor::of<int32_t>({1, 1}, {1}), loose),
            "got i32[1], want i32[1,1]");
}

}  // namespace
}  // namespace kilter
