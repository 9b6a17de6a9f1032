#include <gtest/gtest.h>

#include "pass_runner.h"

namespace kilter {
namespace {

TEST(WidenFloats, ValuesAreComputedAsF32AndStoredAsDeclared) {
  EXPECT_EQ(after(widen_floats, R"(graph "g" {
    input %x: f16[8]
    const %c: f16[8](1, 2, 3, 4, 5, 6, 7, 0.5)
    %y: f16[8] = Mul@14 "mul"(%x, %c)
    %r: f16[8] = Relu@14 "relu"(%y)
    output "r" %r
  })"),
            "%x.f32: f32[8]{f16} = Cast@28 \"x.f32\" {to=1}(%x)\n"
            "%y: f32[8]{f16} = Mul@14 \"mul\"(%x.f32, %c)\n"
            "%r: f32[8]{f16} = Relu@14 \"relu\"(%y)\n"
            "%r.f16: f16[8] = Cast@28 \"r.f16\" {to=10}(%r)\n"
            "output \"r\" %r.f16\n");
}

TEST(WidenFloats, CastsToF32DisappearAndCastsFromItRoundTheStoredValue) {
  EXPECT_EQ(after(widen_floats, R"(graph "g" {
    input %x: bf16[8]
    %wide: f32[8] = Cast@13 "up" {to=1}(%x)
    %y: f32[8] = Exp@13 "exp"(%wide)
    %s: bf16[8] = Cast@13 "down" {to=16}(%y)
    %z: bf16[8] = Neg@13 "neg"(%s)
    %r: f32[8] = Cast@13 "out" {to=1}(%z)
    output "r" %r
  })"),
            "%x.f32: f32[8]{bf16} = Cast@28 \"x.f32\" {to=1}(%x)\n"
            "%y: f32[8]{bf16} = Exp@13 \"exp\"(%x.f32)\n"
            "%z: f32[8]{bf16} = Neg@13 \"neg\"(%y)\n"
            "output \"r\" %z\n");
}

TEST(WidenFloats, ValueReadInF32IsRoundedInACopy) {
  EXPECT_EQ(after(widen_floats, R"(graph "g" {
    input %x: f32[8]
    %y: f32[8] = Exp@13 "exp"(%x)
    %s: f16[8] = Cast@13 "down" {to=10}(%y)
    %z: f16[8] = Neg@13 "neg"(%s)
    output "y" %y
    output "z" %z
  })"),
            "%y: f32[8] = Exp@13 \"exp\"(%x)\n"
            "%s: f16[8] = Cast@13 \"down\" {to=10}(%y)\n"
            "%s.f32: f32[8]{f16} = Cast@28 \"s.f32\" {to=1}(%s)\n"
            "%z: f32[8]{f16} = Neg@13 \"neg\"(%s.f32)\n"
            "%z.f16: f16[8] = Cast@28 \"z.f16\" {to=10}(%z)\n"
            "output \"y\" %y\n"
            "output \"z\" %z.f16\n");
}

TEST(WidenFloats, NodesThatNeedTheNarrowTypeKeepIt) {
  EXPECT_EQ(after(widen_floats, R"(graph "g" {
    input %x: f16[8]
    %y: f16[8] = Relu@14 "relu"(%x)
    %bits: i16[8] = BitCast@26 "bits" {to=5}(%y)
    %back: f16[8] = BitCast@26 "back" {to=10}(%bits)
    %z: f16[8] = Neg@13 "neg"(%back)
    output "bits" %bits
    output "z" %z
  })"),
            "%x.f32: f32[8]{f16} = Cast@28 \"x.f32\" {to=1}(%x)\n"
            "%y: f32[8]{f16} = Relu@14 \"relu\"(%x.f32)\n"
            "%y.f16: f16[8] = Cast@28 \"y.f16\" {to=10}(%y)\n"
            "%bits: i16[8] = BitCast@26 \"bits\" {to=5}(%y.f16)\n"
            "%back: f16[8] = BitCast@26 \"back\" {to=10}(%bits)\n"
            "%back.f32: f32[8]{f16} = Cast@28 \"back.f32\" {to=1}(%back)\n"
            "%z: f32[8]{f16} = Neg@13 \"neg\"(%back.f32)\n"
            "%z.f16: f16[8] = Cast@28 \"z.f16\" {to=10}(%z)\n"
            "output \"bits\" %bits\n"
            "output \"z\" %z.f16\n");
}

TEST(WidenFloats, NetworksWithoutNarrowFloatsAreUnchanged) {
  EXPECT_EQ(unchanged(widen_floats, R"(graph "g" {
    input %x: f32[8]
    %y: f32[8] = Relu@14 "relu"(%x)
    output "y" %y
  })"),
            "");
}

}  // namespace
}  // namespace kilter
