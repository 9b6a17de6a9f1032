// dot(): generated code compared with the interpreter, on targets with instructions for it and on those that expand it.
#include <cmath>
#include <random>

#include "run.h"

namespace kilter::testing {
namespace {

struct Types {
  DType a, b, sum;
  int32_t group;
};
constexpr Types kTypes[] = {{DType::bf16, DType::bf16, DType::f32, 2}, {DType::u8, DType::i8, DType::i32, 4},
                            {DType::i8, DType::u8, DType::i32, 4},     {DType::i8, DType::i8, DType::i32, 4},
                            {DType::u8, DType::u8, DType::i32, 4},     {DType::i16, DType::i16, DType::i32, 2},
                            {DType::u8, DType::i8, DType::i16, 2}};
constexpr int64_t kSteps = 9;

/// y[l] = sum over steps of the dot products of groups: `a` is read as one group per step, broadcast to all lanes.
LoopFunc product(const Types& t, int32_t lanes) {
  LoopBuilder b("product");
  const Buf a = b.input("a", t.a, kSteps * t.group), w = b.input("w", t.b, kSteps * t.group * lanes);
  const Buf y = b.output("y", t.sum, lanes);
  const int32_t sum = b.reg("sum", imm(t.sum, 3, lanes));
  b.loop("k", 0, kSteps, [&](const Expr& k) {
    const Expr word = bitcast(t.sum == DType::i16 ? DType::i16 : DType::i32, b.load(a, k * Expr(t.group), t.group));
    const Expr spread = bitcast(t.a, broadcast(word, lanes));
    b.set(sum, dot(spread, b.load(w, k * Expr(t.group * lanes), t.group * lanes), b.get(sum)));
  });
  b.store(y, 0, b.get(sum));
  return b.finish();
}

/// Fills a buffer with all values of the bytes, or with integers whose products and sums are exact in f32.
void fill(DType type, GuardedMemory& buffer, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < buffer.bytes() / size_bytes(type); ++i) {
    if (type == DType::bf16) {
      reinterpret_cast<BFloat16*>(buffer.data())[i] =
          BFloat16(static_cast<float>(static_cast<int64_t>(random() % 400) - 200));
    } else {
      buffer.data()[i] = static_cast<std::byte>(random());
    }
  }
}

std::vector<std::byte> run(const LoopFunc& func, const Types& t, const Target* target) {
  std::vector<GuardedMemory> buffers;
  for (const Buffer& b : func.buffers) buffers.emplace_back(b.elems * size_bytes(b.type));
  fill(t.a, buffers[0], 1), fill(t.b, buffers[1], 2);
  std::vector<std::byte*> args;
  for (const GuardedMemory& g : buffers) args.push_back(g.data());
  if (target == nullptr) {
    interpret(func, args, 0, 1);
  } else {
    const LoopFunc lowered = loop_passes::lower(func, target->limits);
    const Mapped code(compile(std::span(&lowered, 1), *target));
    call(func, code.entry(0), args, 0, 1);
  }
  return {args[2], args[2] + buffers[2].bytes()};
}

TEST(Dot, CompiledCodeMatchesInterpreter) {
  for (const Target& target : targets_here()) {
    for (const Types& t : kTypes) {
      for (const int32_t lanes : {1, 4, 8, 16, 32}) {
        SCOPED_TRACE(fmt::format("{}: {} x {}, {} sums", target.name, name(t.a), name(t.b), lanes));
        const LoopFunc func = product(t, lanes);
        EXPECT_EQ(run(func, t, &target), run(func, t, nullptr));
      }
    }
  }
}

TEST(Dot, UsesTheTargetsInstruction) {
  const auto text = [](const char* target, const Types& t, int32_t lanes) {
    return print(loop_passes::lower(product(t, lanes), parse_target(target).limits));
  };
  for (const char* target : {"znver4", "znver5", "sapphirerapids"}) {
    EXPECT_NE(text(target, kTypes[0], 16).find("dot("), std::string::npos) << target;
    EXPECT_NE(text(target, kTypes[1], 16).find("dot("), std::string::npos) << target;
  }
  for (const auto& [target, lanes] : {std::pair("neoverse-n2", 4), std::pair("neoverse-v1", 8)}) {
    EXPECT_NE(text(target, kTypes[0], lanes).find("dot("), std::string::npos) << target;
    EXPECT_NE(text(target, kTypes[1], lanes).find("dot("), std::string::npos) << target;
    EXPECT_EQ(text(target, kTypes[3], lanes).find("dot("), std::string::npos) << target;
  }
  EXPECT_EQ(text("neoverse-n1", kTypes[1], 4).find("dot("), std::string::npos) << "it has no mixed signs";
  for (const auto& [target, lanes] :
       {std::pair("x86-64-v2", 4), std::pair("haswell", 8), std::pair("znver3", 8), std::pair("skylake-avx512", 16)}) {
    EXPECT_NE(text(target, kTypes[5], lanes).find("dot("), std::string::npos) << target;
    EXPECT_NE(text(target, kTypes[6], 2 * lanes).find("dot("), std::string::npos) << target;
    EXPECT_EQ(text(target, kTypes[1], lanes).find("dot("), std::string::npos) << target;
  }
  EXPECT_NE(text("alderlake", kTypes[1], 8).find("dot("), std::string::npos);
  EXPECT_EQ(text("neoverse-n1", kTypes[5], 4).find("dot("), std::string::npos);
  EXPECT_EQ(text("skylake-avx512", kTypes[0], 16).find("dot("), std::string::npos);
  EXPECT_EQ(text("znver5", kTypes[3], 16).find("dot("), std::string::npos) << "no instruction has two signed operands";
  EXPECT_NE(text("llvm -mcpu=skylake-avx512 -mattr=+avx512bf16", kTypes[0], 16).find("dot("), std::string::npos);
  EXPECT_EQ(text("llvm -mcpu=znver5 -mattr=-avx512bf16", kTypes[0], 16).find("dot("), std::string::npos);
}

TEST(Dot, TextRoundTrips) {
  const std::string text = print(product(kTypes[1], 16));
  EXPECT_NE(text.find("dot(bitcast(u8, broadcast(bitcast(i32, a["), std::string::npos) << text;
  for (const Types& t : kTypes) EXPECT_EQ(print(parse_loop_func(print(product(t, 16)))), print(product(t, 16)));
}

TEST(Dot, RefusesOtherTypesAndGroups) {
  const auto zeros = [](DType type, int32_t lanes) { return imm(type, 0, lanes); };
  const auto message = [&](DType a, int32_t lanes, DType sum) {
    try {
      dot(zeros(a, lanes), zeros(a, lanes), zeros(sum, 4));
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  const std::string legal =
      "; expected two products of bf16 for each f32, two of i16 or four of i8 and u8 for each i32, or two of u8 and i8 "
      "for each i16";
  EXPECT_EQ(message(DType::f16, 8, DType::f32), "loop IR: dot of f16x8, f16x8 and f32x4" + legal);
  EXPECT_EQ(message(DType::bf16, 4, DType::f32), "loop IR: dot of bf16x4, bf16x4 and f32x4" + legal);
  EXPECT_EQ(message(DType::u8, 8, DType::i32), "loop IR: dot of u8x8, u8x8 and i32x4" + legal);
  EXPECT_EQ(message(DType::i16, 16, DType::i32), "loop IR: dot of i16x16, i16x16 and i32x4" + legal);
  EXPECT_EQ(message(DType::i16, 8, DType::f32), "loop IR: dot of i16x8, i16x8 and f32x4" + legal);
}

/// y = x * x, where x and y are stored as bf16 and computed as f32.
TEST(ConvertingBuffers, ComputeInTheWiderTypeAndRoundOnce) {
  LoopBuilder b("square");
  const Buf x = b.input("x", DType::bf16, 16), y = b.output("y", DType::bf16, 16);
  b.convert(x, DType::f32), b.convert(y, DType::f32);
  const Expr v = b.load(x, 0, 16);
  EXPECT_EQ(v.type(), (VType{DType::f32, 16}));
  b.store(y, 0, v * v + v);
  const LoopFunc func = b.finish();
  EXPECT_NE(print(func).find("y[0] = bf16("), std::string::npos) << print(func);
  std::vector<BFloat16> in(16), out(16);
  for (int i = 0; i < 16; ++i) in[i] = BFloat16(1.0F + static_cast<float>(i) / 128);
  for (const Target& target : targets_here()) {
    const LoopFunc lowered = loop_passes::lower(func, target.limits);
    const Mapped code(compile(std::span(&lowered, 1), target));
    call(func, code.entry(0), {reinterpret_cast<std::byte*>(in.data()), reinterpret_cast<std::byte*>(out.data())}, 0,
         1);
    for (int i = 0; i < 16; ++i) {
      const auto wide = static_cast<float>(in[i]);
      EXPECT_EQ(out[i].bits, BFloat16(wide * wide + wide).bits) << target.name << " " << wide;
    }
  }
}

TEST(ConvertingBuffers, CopyWithoutConversions) {
  LoopBuilder b("copy");
  const Buf x = b.input("x", DType::bf16, 16), y = b.output("y", DType::bf16, 16);
  b.convert(x, DType::f32), b.convert(y, DType::f32);
  b.store(y, 0, b.load(x, 0, 16));
  EXPECT_EQ(print(b.finish()).find("f32("), std::string::npos);
}

}  // namespace
}  // namespace kilter::testing
