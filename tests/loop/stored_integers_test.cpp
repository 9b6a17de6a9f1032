// Buffers of bytes whose loads and stores convert integers: the stored zero, masks, gathers.
#include <gtest/gtest.h>

#include "../base/error_of.h"
#include "loop/loop.h"
#include "loop/passes/passes.h"
#include "target/target.h"

namespace kilter {
namespace {

constexpr int64_t kCount = 37;

/// Runs a function of one parallel iteration as it is, and lowered for targets of all vector widths, on `in`. Expects
/// `want` each time.
template <class In, class Out>
void expect_results(const LoopFunc& plain, std::vector<In> in, const std::vector<Out>& want) {
  verify(plain);
  const auto run = [&](const LoopFunc& func, std::string_view where) {
    std::vector<Out> out(want.size(), Out{77});
    const std::vector<std::byte*> args{reinterpret_cast<std::byte*>(in.data()),
                                       reinterpret_cast<std::byte*>(out.data())};
    EXPECT_EQ(interpret(func, args, 0, 1), 0);
    EXPECT_EQ(out, want) << where;
  };
  run(plain, "as written");
  for (const std::string_view target : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "neoverse-n1"})
    run(loop_passes::lower(plain, parse_target(target).limits), target);
}

/// All bytes that occur, including both ends of the range.
std::vector<uint8_t> some_bytes() {
  std::vector<uint8_t> bytes;
  for (int64_t i = 0; i < kCount; ++i) bytes.push_back(static_cast<uint8_t>(i * 255 / (kCount - 1)));
  return bytes;
}

TEST(StoredIntegers, LoadsSubtractTheZeroPoint) {
  for (const uint8_t zero : std::initializer_list<uint8_t>{0, 1, 128, 255}) {
    LoopBuilder b("load");
    const Buf x = b.input("x", DType::u8, kCount), y = b.output("y", DType::f32, kCount);
    b.convert(x, DType::f32, zero);
    EXPECT_EQ(b.value_type(x), DType::f32);
    b.vector_loop("v", kCount, [&](const Expr& v) { b.store(y, v, b.load(x, v)); });
    std::vector<float> want;
    for (const uint8_t byte : some_bytes()) want.push_back(static_cast<float>(byte - zero));
    expect_results(b.finish(), some_bytes(), want);
  }
}

TEST(StoredIntegers, MaskedLanesAreZero) {
  for (const bool gathered : {false, true}) {
    LoopBuilder b("masked");
    constexpr int32_t kLanes = 8;
    const Buf x = b.input("x", DType::u8, kLanes), y = b.output("y", DType::f32, kLanes);
    b.convert(x, DType::f32, 200);
    const Expr lane = ramp(Expr(0), Expr(1), kLanes), mask = first_lanes(Expr(3), kLanes);
    b.store(y, 0, gathered ? b.gather(x, lane, mask) : b.load(x, 0, kLanes, 1, mask));
    expect_results<uint8_t, float>(b.finish(), {0, 100, 255, 4, 5, 6, 7, 8}, {-200, -100, 55, 0, 0, 0, 0, 0});
  }
}

TEST(StoredIntegers, StoresAddTheZeroPoint) {
  for (const uint8_t zero : std::initializer_list<uint8_t>{0, 1, 128, 255}) {
    for (const bool integer : {false, true}) {
      LoopBuilder b("store");
      const Buf x = b.input("x", integer ? DType::i32 : DType::f32, kCount), y = b.output("y", DType::u8, kCount);
      b.convert(y, DType::f32, zero);
      // A float converted from an integer is stored without rounding.
      b.vector_loop("v", kCount, [&](const Expr& v) { b.store(y, v, cast(DType::f32, b.load(x, v))); });
      const LoopFunc func = b.finish();
      std::vector<float> floats;
      std::vector<int32_t> integers;
      for (const uint8_t byte : some_bytes())
        integers.push_back(byte - zero), floats.push_back(static_cast<float>(byte - zero));
      if (integer)
        expect_results(func, integers, some_bytes());
      else
        expect_results(func, floats, some_bytes());
    }
  }
}

TEST(StoredIntegers, OnlyBytesHaveAZeroPoint) {
  LoopBuilder b("wrong");
  const Buf half = b.input("half", DType::bf16, 4), byte = b.input("byte", DType::u8, 4);
  EXPECT_EQ(error_of([&] { b.convert(half, DType::f32, 1); }),
            "loop function 'wrong': buffer 'half' of bf16 with zero 1 cannot convert to f32");
  EXPECT_EQ(error_of([&] { b.convert(byte, DType::i32, 1); }),
            "loop function 'wrong': buffer 'byte' of u8 with zero 1 cannot convert to i32");
}

}  // namespace
}  // namespace kilter
