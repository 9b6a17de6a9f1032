// One small function before and after each pass, as text.
#include "loop/passes/passes.h"

#include <gtest/gtest.h>

#include "../base/error_of.h"

namespace kilter {
namespace {

using loop_passes::hoist;
using loop_passes::simplify;
using loop_passes::unroll;
using loop_passes::vectorise;

/// Wraps statements in a function over x (input), y (output) and k (scalars), with two parallel dimensions.
std::string func(const std::string& statements) {
  return "func \"f\" {\n  input x: f32[4096]\n  input k: i64[64]\n  output y: f32[4096]\n  scratch s: f32[64]\n"
         "  parallel p: 4\n  parallel q: 8\n" +
         statements + "}\n";
}

CpuLimits limits(int32_t vector_bytes, bool masks) {
  CpuLimits l;
  l.vector_bytes = vector_bytes;
  l.masks = masks;
  return l;
}

void expect_pass(const std::string& before, const std::string& after,
                 const std::function<LoopFunc(const LoopFunc&)>& pass) {
  const LoopFunc in = parse_loop_func(func(before));
  EXPECT_EQ(print(in), func(before)) << "the text before is not in printed form";
  verify(in);
  const LoopFunc out = pass(in);
  verify(out);
  EXPECT_EQ(print(out), func(after));
}

TEST(Simplify, SumsHaveACanonicalOrder) {
  expect_pass(
      "  for i in [0, 8) {\n"
      "    let a = i * 2 + 1\n"
      "    y[i + (q + 3) * 16 + p * 1024] = x[(a + p * 4) * 2 - i * 4 + q]\n"
      "  }\n",
      "  for i in [0, 8) {\n"
      "    y[p * 1024 + q * 16 + i + 48] = x[p * 8 + q + 2]\n"
      "  }\n",
      simplify);
}

TEST(Simplify, ConstantsLoopsAndBranches) {
  expect_pass(
      "  let unused = x[3]\n"
      "  for i in [p, p + 1) {\n"
      "    if i < 4 {\n"
      "      y[p * 1024 + q * 8] = x[i]\n"
      "    } else {\n"
      "      y[0] = 0:f32\n"
      "    }\n"
      "  }\n"
      "  for i.1 in [5, 5) {\n"
      "    y[i.1] = 1:f32\n"
      "  }\n"
      "  for i.2 in [0, 8) {\n"
      "    let also_unused = x[i.2]\n"
      "  }\n",
      "  y[p * 1024 + q * 8] = x[p]\n", simplify);
}

TEST(Simplify, RangesDecideMinAndComparisons) {
  expect_pass(
      "  for i in [0, min(64 - q * 8, 16)) {\n"
      "    y[p * 1024 + q * 16 + min(i, 20)] = select(i + q * 16 < 128, x[max(i, -1)], x[min(i, 7)])\n"
      "  }\n",
      "  for i in [0, min(q * -8 + 64, 16)) {\n"
      "    y[p * 1024 + q * 16 + i] = x[i]\n"
      "  }\n",
      simplify);
}

TEST(Simplify, DivisionsOfSums) {
  expect_pass(
      "  for i in [0, 8) {\n"
      "    let t = p * 64 + q * 8 + i\n"
      "    y[t / 8 * 8 + t % 8] = x[t / 8] + x[t % 8] + x[t / 2 / 4] + x[t % 16]\n"
      "  }\n",
      "  for i in [0, 8) {\n"
      "    let t = p * 64 + q * 8 + i\n"
      "    y[p * 64 + q * 8 + i] = x[p * 8 + q] + x[i] + x[p * 8 + q] + x[t % 16]\n"
      "  }\n",
      simplify);
}

TEST(Simplify, EqualExpressionsBecomeOneNode) {
  const LoopFunc f = simplify(parse_loop_func(func("  y[p * 8 + q] = exp(x[q * 3 + p]) * exp(x[p + 3 * q])\n")));
  const ExprNode& product = *f.body.at(0)->b;
  EXPECT_EQ(product.args[0].get(), product.args[1].get());
}

TEST(Unroll, CopiesBindTheirOwnNames) {
  expect_pass(
      "  reg acc = 0:f32\n"
      "  for i in [1, 7) step 3 unrolled {\n"
      "    let a = x[i]\n"
      "    reg r = a\n"
      "    for j in [0, 4) {\n"
      "      set r = r + x[j + i]\n"
      "    }\n"
      "    set acc = acc + r\n"
      "  }\n"
      "  y[p * 8 + q] = acc\n",
      "  reg acc = 0:f32\n"
      "  let a = x[1]\n"
      "  reg r = a\n"
      "  for j in [0, 4) {\n"
      "    set r = r + x[j + 1]\n"
      "  }\n"
      "  set acc = acc + r\n"
      "  let a.5 = x[4]\n"
      "  reg r.2 = a.5\n"
      "  for j.6 in [0, 4) {\n"
      "    set r.2 = r.2 + x[j.6 + 4]\n"
      "  }\n"
      "  set acc = acc + r.2\n"
      "  y[p * 8 + q] = acc\n",
      unroll);
}

TEST(Unroll, NestedAndEmpty) {
  expect_pass(
      "  for i in [0, 2) unrolled {\n"
      "    for j in [i, i + 2) unrolled {\n"
      "      y[p * 1024 + q * 64 + i * 8 + j] = x[i + j]\n"
      "    }\n"
      "    for k.1 in [0, 0) unrolled {\n"
      "      y[0] = 0:f32\n"
      "    }\n"
      "  }\n",
      "  y[p * 1024 + q * 64] = x[0]\n"
      "  y[p * 1024 + q * 64 + 1] = x[1]\n"
      "  y[p * 1024 + q * 64 + 9] = x[2]\n"
      "  y[p * 1024 + q * 64 + 10] = x[3]\n",
      unroll);
}

TEST(Vectorise, WholeVectorsAndMaskedRest) {
  expect_pass(
      "  for v in [0, 40) vector {\n"
      "    y[p * 1024 + q * 64 + v] = x[v] * x[q] + x[v * 3]\n"
      "  }\n",
      "  y[p * 1024 + q * 64] = x[0, lanes 16] * broadcast(x[q], 16) + x[0, lanes 16, stride 3]\n"
      "  y[p * 1024 + q * 64 + 16] = x[16, lanes 16] * broadcast(x[q], 16) + x[48, lanes 16, stride 3]\n"
      "  y[p * 1024 + q * 64 + 32, mask ramp(0:i32, 1:i32, 16) < 8:i32x16] = "
      "x[32, lanes 16, mask ramp(0:i32, 1:i32, 16) < 8:i32x16] * broadcast(x[q], 16) + "
      "x[96, lanes 16, stride 3, mask ramp(0:i32, 1:i32, 16) < 8:i32x16]\n",
      [](const LoopFunc& f) { return vectorise(f, limits(64, true)); });
}

TEST(Vectorise, RestInPowersOfTwoWithoutMasks) {
  expect_pass(
      "  for v in [0, 7) vector {\n"
      "    y[p * 64 + q * 8 + v] = x[v]\n"
      "  }\n",
      "  y[p * 64 + q * 8] = x[0, lanes 4]\n"
      "  y[p * 64 + q * 8 + 4] = x[4, lanes 2]\n"
      "  y[p * 64 + q * 8 + 6] = x[6]\n",
      [](const LoopFunc& f) { return vectorise(f, limits(16, false)); });
}

TEST(Vectorise, MainLoopInterleavesCopies) {
  expect_pass(
      "  for v in [0, 64) vector {\n"
      "    reg m = 0:f32\n"
      "    for j in [0, 5) {\n"
      "      set m = max(m, x[j * 64 + v])\n"
      "    }\n"
      "    y[p * 1024 + q * 64 + v] = m\n"
      "  }\n",
      "  for v in [0, 64) step 32 {\n"
      "    reg m = 0:f32x8\n"
      "    reg m.2 = 0:f32x8\n"
      "    reg m.3 = 0:f32x8\n"
      "    reg m.4 = 0:f32x8\n"
      "    for j in [0, 5) {\n"
      "      set m = max(m, x[j * 64 + v, lanes 8])\n"
      "      set m.2 = max(m.2, x[j * 64 + v + 8, lanes 8])\n"
      "      set m.3 = max(m.3, x[j * 64 + v + 16, lanes 8])\n"
      "      set m.4 = max(m.4, x[j * 64 + v + 24, lanes 8])\n"
      "    }\n"
      "    y[p * 1024 + q * 64 + v] = m\n"
      "    y[p * 1024 + q * 64 + v + 8] = m.2\n"
      "    y[p * 1024 + q * 64 + v + 16] = m.3\n"
      "    y[p * 1024 + q * 64 + v + 24] = m.4\n"
      "  }\n",
      [](const LoopFunc& f) { return vectorise(f, limits(32, false)); });
}

TEST(Vectorise, BranchesBecomeMasks) {
  expect_pass(
      "  for v in [0, 4) vector {\n"
      "    reg r = 0:f32\n"
      "    if x[v] < 1:f32 {\n"
      "      set r = x[q]\n"
      "      y[p * 32 + q * 4 + v] = r\n"
      "    } else {\n"
      "      y[p * 32 + q * 4 + v] = x[k[v]]\n"
      "    }\n"
      "  }\n",
      "  reg r = 0:f32x4\n"
      "  let taken = x[0, lanes 4] < 1:f32x4\n"
      "  set r = select(taken, x[q, lanes 4, stride 0, mask taken], r)\n"
      "  y[p * 32 + q * 4, mask taken] = r\n"
      "  y[p * 32 + q * 4, mask not(taken)] = gather(x, k[0, lanes 4, mask not(taken)], not(taken))\n",
      [](const LoopFunc& f) { return vectorise(f, limits(16, true)); });
}

TEST(Vectorise, StridedStoresScatterAndLetsStayScalar) {
  expect_pass(
      "  for v in [0, 4) vector {\n"
      "    let at = v * 2 + q * 8\n"
      "    y[at + p * 64] = f32(v)\n"
      "  }\n",
      "  let at = q * 8\n"
      "  scatter y[ramp(at + p * 64, 2, 4)] = f32(ramp(0, 1, 4))\n",
      [](const LoopFunc& f) { return vectorise(f, limits(16, true)); });
}

TEST(Vectorise, RefusesDependentIterations) {
  const auto refuse = [](const std::string& statements) {
    return error_of([&] { vectorise(parse_loop_func(func(statements)), limits(16, true)); });
  };
  EXPECT_EQ(refuse("reg acc = 0:f32  for v in [0, 8) vector { set acc = acc + x[v] }"),
            "vectorise 'f': loop 'v' sets register 'acc', which is declared outside of it");
  EXPECT_EQ(refuse("for v in [0, 8) vector { y[q] = x[v] }"),
            "vectorise 'f': loop 'v' stores to one element of 'y' from several iterations");
  EXPECT_EQ(refuse("for v in [0, 8) vector { for j in [0, v) { y[v] = x[j] } }"),
            "vectorise 'f': loop 'v' contains loop 'j', whose bounds differ between its iterations");
  EXPECT_EQ(refuse("for v in [0, q) step 2 vector { y[v] = x[v] }"),
            "vectorise 'f': loop 'v' has step 2 and no constant extent");
}

TEST(Hoist, InvariantsMoveOutAsFarAsPossible) {
  expect_pass(
      "  for i in [0, 8) {\n"
      "    for j in [0, 8) {\n"
      "      y[p * 1024 + q * 64 + i * 8 + j] = exp(x[p]) * x[i * 8 + j + 1]\n"
      "    }\n"
      "  }\n",
      "  let h = p * 1024 + q * 64\n"
      "  let h.6 = exp(x[p])\n"
      "  for i in [0, 8) {\n"
      "    let h.5 = h + i * 8\n"
      "    let h.7 = i * 8\n"
      "    for j in [0, 8) {\n"
      "      y[h.5 + j] = h.6 * x[h.7 + j + 1]\n"
      "    }\n"
      "  }\n",
      hoist);
}

TEST(Hoist, KeepsExpressionsThatMustNotMove) {
  const std::string same =
      "  for i in [0, q) {\n"  // this loop may not run at all, so its loads stay inside
      "    y[p * 1024 + q * 64 + i] = x[p]\n"
      "  }\n"
      "  reg r = 0:f32\n"
      "  for i.1 in [0, 8) {\n"
      "    if i.1 < q {\n"
      "      set r = r + x[q]\n"  // under a condition
      "    }\n"
      "    y[i.1] = r + s[0]\n"  // registers and scratch may change
      "  }\n";
  const LoopFunc out = hoist(parse_loop_func(func(same)));
  const std::string text = print(out);
  EXPECT_NE(text.find("= x[p]\n  }"), std::string::npos) << text;
  EXPECT_NE(text.find("      set r = r + x[q]\n"), std::string::npos) << text;
  EXPECT_NE(text.find("    y[i.1] = r + s[0]\n"), std::string::npos) << text;
}

TEST(Lower, KeepsLikelyMarksOfBranches) {
  const LoopFunc in = parse_loop_func(
      func("  for i in [0, 4) unrolled {\n    if likely x[p + i] < 0:f32 {\n      y[p * 8 + q + i] = exp(x[q + i])\n"
           "    } else {\n      y[p * 8 + q + i] = x[q]\n    }\n  }\n"));
  const std::string text = print(loop_passes::lower(in, limits(64, true)));
  size_t likely = 0;
  for (size_t at = text.find("if likely "); at != std::string::npos; at = text.find("if likely ", at + 1)) ++likely;
  EXPECT_EQ(likely, 4) << text;
}

TEST(Simplify, TheOtherSideOfALikelyBranchIsNotLikely) {
  const LoopFunc f = simplify(parse_loop_func(
      func("  if likely x[p] < 0:f32 {\n    let unused = x[q]\n  } else {\n    y[p * 8 + q] = x[q]\n  }\n")));
  const std::string text = print(f);
  EXPECT_NE(text.find("  if not(x[p] < 0:f32) {\n    y[p * 8 + q] = x[q]\n"), std::string::npos) << text;
}

TEST(Lower, VerifiesItsInput) {
  const LoopFunc bad = parse_loop_func(func("  y[p * 8 + q] = x[p + 5000]\n"));
  EXPECT_NE(error_of([&] { loop_passes::lower(bad, limits(64, true)); }).find("out of bounds"), std::string::npos);
}

}  // namespace
}  // namespace kilter
