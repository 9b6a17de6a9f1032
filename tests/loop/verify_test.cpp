// The verifier's messages, and functions that it must accept.
#include <gtest/gtest.h>

#include "verify_message.h"

namespace kilter {
namespace {

std::string wrap(const std::string& head, const std::string& statements) {
  return "func \"f\" {\n  input x: f32[100]\n  input k: i64[10]\n  output y: f32[100]\n  scratch s: f32[16]\n" + head +
         statements + "}\n";
}

std::string check(const std::string& statements, const std::string& head = "") {
  return message(parse_loop_func(wrap(head, statements)));
}

TEST(Verify, BoundsOfAffineIndices) {
  EXPECT_EQ(check("for i in [0, 116) { y[0] = x[i] }"),
            "verify 'f': load out of bounds: buffer 'x' has 100 elements, index i in [0, 115]");
  EXPECT_EQ(check("for i in [0, 10) { for j in [0, 10) { y[i * 10 + j - 1] = 0:f32 } }"),
            "verify 'f': store out of bounds: buffer 'y' has 100 elements, index i * 10 + j + -1 in [-1, 98]");
  EXPECT_EQ(check("for i in [0, 10) { for j in [0, 10) { y[i * 10 + j] = 0:f32 } }"), "");
  EXPECT_EQ(check("y[96] = x[0, lanes 8]"),
            "verify 'f': store out of bounds: buffer 'y' has 100 elements, index 96 in [96, 103]");
  EXPECT_EQ(check("y[0] = x[90, lanes 4, stride 4]"),
            "verify 'f': load out of bounds: buffer 'x' has 100 elements, index 90 in [90, 102]");
  EXPECT_EQ(check("y[0] = x[8, lanes 4, stride -3]"),
            "verify 'f': load out of bounds: buffer 'x' has 100 elements, index 8 in [-1, 8]");
  EXPECT_EQ(check("scatter y[ramp(95, 2, 4)] = 0:f32x4"),
            "verify 'f': scatter out of bounds: buffer 'y' has 100 elements, index 95 in [95, 101]");
}

TEST(Verify, ChecksTakeOneBoolean) {
  EXPECT_EQ(check("check k[0] < 3"), "");
  EXPECT_EQ(check("check k[0]"), "verify 'f': the condition of a check is not a scalar boolean");
  EXPECT_EQ(check("check k[0, lanes 4] < 3:i64x4"), "verify 'f': the condition of a check is not a scalar boolean");
  EXPECT_EQ(check("check reduce_and(k[0, lanes 4] < 3:i64x4)"), "");
}

TEST(Verify, BoundsThatDependOnOtherLoops) {
  // Tiles of 16 over 100 elements, the last one short.
  EXPECT_EQ(check("for t in [0, 7) { for j in [0, min(16, 100 - t * 16)) { y[t * 16 + j] = 0:f32 } }"), "");
  EXPECT_EQ(check("for t in [0, 7) { let n = min(16, 100 - t * 16)  for j in [0, n) { y[t * 16 + j] = 0:f32 } }"), "");
  EXPECT_EQ(check("for t in [0, 7) { for j in [0, 16) { y[t * 16 + j] = 0:f32 } }"),
            "verify 'f': store out of bounds: buffer 'y' has 100 elements, index t * 16 + j in [0, 111]");
  EXPECT_EQ(check("for i in [0, 100) { for j in [0, 100 - i) { y[i + j] = 0:f32 } }"), "");
  EXPECT_EQ(check("for i in [0, 100) { for j in [i, 50) { y[i + j] = 0:f32 } }"), "")
      << "i < 50 where the inner loop runs";
  EXPECT_EQ(check("for i in [0, 100) step 8 { y[i] = x[i, lanes 4] }"), "");
  EXPECT_EQ(check("for i in [0, 100) step 8 { y[i] = x[i, lanes 8] }"),
            "verify 'f': load out of bounds: buffer 'x' has 100 elements, index i in [0, 103]");
  EXPECT_EQ(check("for i in [0, 0) { y[200] = 0:f32 }"), "") << "never runs";
}

TEST(Verify, ConditionsLimitIndices) {
  EXPECT_EQ(check("for i in [0, 128) { if i < 100 { y[i] = 0:f32 } else { y[i - 100] = 0:f32 } }"), "");
  EXPECT_EQ(check("for i in [0, 128) { if i < 101 { y[i] = 0:f32 } }"),
            "verify 'f': store out of bounds: buffer 'y' has 100 elements, index i in [0, 100]");
  EXPECT_EQ(check("for i in [0, 128) { if and(i >= 14, i < 100) { y[i - 14] = x[i] } }"), "");
  EXPECT_EQ(check("for i in [0, 128) { if x[0] < 1:f32 { y[i] = 0:f32 } }"), "") << "cannot be decided";
  EXPECT_EQ(check("for i in [0, 10) { y[k[i]] = x[k[i] + 1000] }"), "") << "loaded indices are not decided";
}

TEST(Verify, MasksLimitLanes) {
  const std::string mask = "ramp(0:i32, 1:i32, 16) < broadcast(i32(min(100 - t * 16, 16)), 16)";
  EXPECT_EQ(check("for t in [0, 7) { y[t * 16, mask " + mask + "] = x[t * 16, lanes 16, mask " + mask + "] }"), "");
  EXPECT_EQ(check("for t in [0, 8) { y[t * 16 + 1, mask " + mask + "] = 0:f32x16 }"),
            "verify 'f': store out of bounds: buffer 'y' has 100 elements, index t * 16 + 1 in [1, 100]");
  EXPECT_EQ(check("y[92, mask ramp(0:i32, 1:i32, 16) < 8:i32x16] = 0:f32x16"), "");
  EXPECT_EQ(check("y[92, mask ramp(0:i32, 1:i32, 16) < 9:i32x16] = 0:f32x16"),
            "verify 'f': store out of bounds: buffer 'y' has 100 elements, index 92 in [92, 100]");
}

TEST(Verify, QuotientsAndRemainders) {
  EXPECT_EQ(check("for t in [0, 100) { y[t / 10 * 10 + t % 10] = x[t % 10 * 10 + t / 10] }"), "");
  EXPECT_EQ(check("for t in [0, 97) { y[t / 10 * 10 + t % 10] = 0:f32 }"), "");
  EXPECT_EQ(check("for t in [0, 120) { y[t % 10 * 10 + t / 10] = 0:f32 }"),
            "verify 'f': store out of bounds: buffer 'y' has 100 elements, index t % 10 * 10 + t / 10 in [0, 101]");
}

TEST(Verify, RacesBetweenParallelIterations) {
  const std::string p = "parallel p: 4\n";
  EXPECT_EQ(
      check("y[0] = 0:f32", p),
      "verify 'f': two parallel iterations store to the same element of 'y': index 0, which does not depend on 'p' of "
      "extent 4");
  EXPECT_EQ(
      check("for j in [0, 9) { y[p * 8 + j] = 0:f32 }", p),
      "verify 'f': two parallel iterations store to the same element of 'y': index p * 8 + j, whose spans overlap (1 "
      "lanes a store)");
  EXPECT_EQ(check("y[p * 8] = 0:f32x16", p),
            "verify 'f': two parallel iterations store to the same element of 'y': index p * 8, whose spans overlap "
            "(16 lanes "
            "a store)");
  EXPECT_EQ(check("for j in [0, 8) { y[p * 8 + j] = 0:f32 }", p), "");
  EXPECT_EQ(check("for j in [0, 8) { y[p + j * 4] = 0:f32 }", p), "");
  EXPECT_EQ(check("for j in [0, 8) { y[p + j * 3] = 0:f32 }", p).substr(0, 46),
            "verify 'f': two parallel iterations store to t");
  EXPECT_EQ(check("if p == 0 { y[0] = 0:f32 }", p), "") << "under a condition on it";
  EXPECT_EQ(check("s[0] = 0:f32", p), "") << "scratch is private";
  EXPECT_EQ(check("y[0] = 0:f32", "parallel p: 1\n"), "");
  EXPECT_EQ(check("y[k[p]] = 0:f32", p), "") << "not decidable";
}

TEST(Verify, Structure) {
  EXPECT_EQ(check("x[0] = 0:f32"), "verify 'f': store to input 'x'");
  EXPECT_EQ(check("y[0] = 1:f64"), "verify 'f': store of f64 to 'y' of f32");
  EXPECT_EQ(check("y[k[0, lanes 4]] = 0:f32x4"), "verify 'f': store to 'y': the index has type i64x4, expected i64");
  EXPECT_EQ(check("y[0, mask 1:boolx4] = 0:f32x8"), "verify 'f': store of f32x8 to 'y' with a mask of boolx4");
  EXPECT_EQ(check("for i in [0, k[0]) vector { y[i] = 0:f32 }"), "");
  EXPECT_EQ(check("for i in [0, k[0]) step 2 vector { y[i] = 0:f32 }"),
            "verify 'f': vector loop 'i' has step 2 and no constant extent");
  EXPECT_EQ(check("for i in [0, k[0]) unrolled { y[i] = 0:f32 }"),
            "verify 'f': unrolled loop 'i' has no constant extent");
  EXPECT_EQ(check("if x[0] { y[0] = 0:f32 }"), "verify 'f': the condition of an if is not a scalar bool");
  EXPECT_EQ(check("reg r = 0:f32x4 set r = 1:f32"), "verify 'f': register 'r' has type f32x4, its value f32");
  EXPECT_EQ(check("for i in [0, 4) { let a = x[i] } y[0] = a"),
            "verify 'f': variable 'a' is used outside of its scope");
  EXPECT_EQ(check("for i in [0, 4) { } y[i] = 0:f32"), "verify 'f': variable 'i' is used outside of its scope");
  EXPECT_EQ(check("{ reg r = 0:f32 } set r = 1:f32"), "verify 'f': register 'r' is used outside of its scope");
}

TEST(Verify, HandMadeFaults) {
  LoopFunc f = parse_loop_func(wrap("", "let a = x[0]  y[0] = a"));
  f.body.push_back(f.body[0]);
  EXPECT_EQ(message(f), "verify 'f': variable 'a' is bound twice");
  f.body = {std::make_shared<const StmtNode>(
      StmtNode{.kind = StmtKind::store, .id = 2, .a = 0, .b = var_expr({DType::f32, 1}, 0)})};
  EXPECT_EQ(message(f), "verify 'f': variable 'a' is used before it is bound");
  f.body = {std::make_shared<const StmtNode>(StmtNode{.kind = StmtKind::store, .id = 9, .a = 0, .b = 0})};
  EXPECT_EQ(message(f), "verify 'f': buffer number 9 does not exist");
  f.body = {std::make_shared<const StmtNode>(
      StmtNode{.kind = StmtKind::store, .id = 2, .a = 0, .b = load_expr(DType::f32, 1, 0)})};
  EXPECT_EQ(message(f), "verify 'f': load of f32 from 'k' of i64");
}

}  // namespace
}  // namespace kilter
