// The text form: its appearance, and errors with line and column.
#include <gtest/gtest.h>

#include "loop/loop.h"

namespace kilter {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_loop_func(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_input);
    return e.message();
  }
  return "no error";
}

TEST(LoopText, EveryStatementAndExpressionRoundTrips) {
  const std::string text = R"(func "a \"quoted\" name\x01" {
  input x: f32[1000] align 16
  input b: bool[10]
  input h: f16[10]
  output y: f32[1000]
  output u: u64[4]
  scratch work: bf16[64]
  parallel p: 4
  for i in [0, min(p * 4 + 3, 10)) step 2 {
    let q = i * 2 + (p - i) * (i - 3 % p)
    reg acc = 0.1:f32x16
    set acc = fma(broadcast(x[q], 16), x[q + 1, lanes 16, stride 2, mask ramp(0:i32, 1:i32, 16) < 5:i32x16], acc)
    y[i, mask ramp(0:i32, 1:i32, 16) < broadcast(i32(min(p, 16)), 16)] = max(acc, -0:f32x16)
    scatter y[ramp(i, 3, 4)] = gather(x, ramp(i, p, 4), b[0, lanes 4])
    prefetch x[i + 64]
    check i < p
    check reduce_and(b[0, lanes 4])
    {
      work[0] = bf16(exp(f32(h[0]))) * inf:bf16
    }
  }
  for k in [0, 4) unrolled {
    if and(x[k] < 1.5e-07:f32, not(b[k])) {
      u[k] = bit_xor(bitcast(u64, f64(reduce_max(x[k, lanes 8]))), 18446744073709551615:u64)
    } else {
      y[k] = select(b[k] == b[1], nan:f32, -inf:f32)
    }
  }
  for v in [0, 8) vector {
    y[v] = x[v] / (x[v] / x[v + 1]) - (x[0] - x[1])
  }
}
)";
  EXPECT_EQ(print(parse_loop_func(text)), text);
}

TEST(LoopText, SharedExpressionsStayShared) {
  LoopBuilder b("shared");
  const Buf x = b.input("x", DType::f32, 4);
  const Buf y = b.output("y", DType::f32, 4);
  Expr e = b.load(x, 0);
  for (int i = 0; i < 60; ++i) e = e * e + e;  // a tree of 3^60 nodes
  b.store(y, 0, e);
  const LoopFunc f = b.finish();
  const std::string text = print(f);
  EXPECT_LT(text.size(), 5000U);
  const LoopFunc back = parse_loop_func(text);
  EXPECT_EQ(print(back), text);
  verify(back);
}

TEST(LoopText, EqualNamesAreDisambiguated) {
  LoopBuilder b("names");
  const Buf x = b.input("in", DType::f32, 4);
  const Buf y = b.output("i", DType::f32, 4);
  b.loop("i", 0, 4, [&](Expr i) { b.store(y, i, b.load(x, i)); });
  b.loop("i", 0, 4, [&](Expr i) { b.store(y, i, b.load(x, b.let("7/x", i + 0))); });
  const std::string text = print(b.finish());
  EXPECT_EQ(
      text,
      "func \"names\" {\n  input in_: f32[4]\n  output i: f32[4]\n  for i.0 in [0, 4) {\n    i[i.0] = in_[i.0]\n  }\n"
      "  for i.1 in [0, 4) {\n    let _7_x = i.1\n    i[i.1] = in_[_7_x]\n  }\n}\n");
  EXPECT_EQ(print(parse_loop_func(text)), text);
}

TEST(LoopText, ErrorsNameLineAndColumn) {
  const std::string head = "func \"f\" {\n  input x: f32[4]\n  output y: f32[4]\n";
  EXPECT_EQ(error_of("fun"), "loop IR text, line 1, column 1: expected 'func', got 'fun'");
  EXPECT_EQ(error_of(head), "loop IR text, line 4, column 1: expected a statement, got the end of the text");
  EXPECT_EQ(error_of(head + "  y[0] = z\n}"), "loop IR text, line 5, column 1: 'z' is not declared");
  EXPECT_EQ(error_of(head + "  y[0] = x[0] +\n}"), "loop IR text, line 5, column 1: expected an expression, got '}'");
  EXPECT_EQ(error_of(head + "  y[0] = x[0] + 1\n}"),
            "loop IR text, line 5, column 1: loop IR: add of f32 and i64: the element types differ");
  EXPECT_EQ(error_of(head + "  y[0] = frob(1)\n}"), "loop IR text, line 4, column 15: there is no operation 'frob'");
  EXPECT_EQ(error_of(head + "  y[0] = 1:f33\n}"), "loop IR text, line 5, column 1: 'f33' is not a type");
  EXPECT_EQ(error_of(head + "  y[0] = 99999999999999999999\n}"),
            "loop IR text, line 5, column 1: '99999999999999999999' is not a constant of type i64");
  EXPECT_EQ(error_of(head + "  y[0] = $0\n}"),
            "loop IR text, line 5, column 1: a shared expression is used before its definition");
  EXPECT_EQ(error_of(head + "  let x = 1\n}"), "loop IR text, line 5, column 1: 'x' is declared twice");
  EXPECT_EQ(error_of(head + "  set x = 1\n}"), "loop IR text, line 4, column 7: expected a register, got 'x'");
  EXPECT_EQ(error_of(head + "} more"), "loop IR text, line 4, column 3: expected the end of the text, got 'more'");
  EXPECT_EQ(error_of(head + "  y[" + std::string(100000, '(') + "0"),
            "loop IR text, line 4, column 504: the text is nested more than 500 deep");
}

}  // namespace
}  // namespace kilter
