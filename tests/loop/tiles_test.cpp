// Tile registers: text, the verifier's rules, the interpreter, and the passes.
#include <gtest/gtest.h>

#include <numeric>

#include "loop/passes/passes.h"
#include "verify_message.h"

namespace kilter {
namespace {

std::string wrap(const std::string& statements) {
  return "func \"f\" {\n  input a: u8[4096]\n  input w: i8[4096]\n  output y: i32[4096]\n  scratch s: i32[64]\n"
         "  parallel p: 2\n" +
         statements + "}\n";
}
std::string check(const std::string& statements) { return message(parse_loop_func(wrap(statements))); }

/// `statements` inside a 'tiles' with a sum, both factors and a spare sum.
std::string with_tiles(const std::string& statements) {
  return "tiles c: i32[16, 16], x: u8[16, 64], v: i8[16, 64], d: i32[4, 8] {\n" + statements + "}\n";
}

const std::string kProduct = with_tiles(R"(tile_zero c
tile_load x = a[p * 1024, stride 64]
tile_load v = w[0, stride 64]
tile_dot c, x, v
tile_store y[p * 256, stride 16] = c
)");

TEST(Tiles, TextRoundTrips) {
  const LoopFunc func = parse_loop_func(wrap(kProduct));
  verify(func);
  const std::string text = print(func);
  EXPECT_NE(text.find("  tiles c: i32[16, 16], x: u8[16, 64], v: i8[16, 64], d: i32[4, 8] {\n    tile_zero c\n"
                      "    tile_load x = a[p * 1024, stride 64]\n    tile_load v = w[0, stride 64]\n"
                      "    tile_dot c, x, v\n    tile_store y[p * 256, stride 16] = c\n  }\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(print(parse_loop_func(text)), text);
}

TEST(Tiles, CannotBeUsedAsValues) {
  try {
    parse_loop_func(wrap(with_tiles("y[0] = c\n")));
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "loop IR text, line 8, column 8: tile register 'c' is used as a value");
  }
}

TEST(Tiles, ShapesMustFitTheProcessor) {
  const auto shape = [](const std::string& t) { return check("tiles t: " + t + " { tile_zero t }\n"); };
  EXPECT_EQ(shape("f32[16, 16]"), "");
  EXPECT_EQ(shape("bf16[1, 2]"), "");
  const std::string legal = "; expected 1 to 16 rows of a multiple of 4, up to 64 bytes";
  EXPECT_EQ(shape("f32[17, 16]"), "verify 'f': tile register 't' is f32[17, 16]: 17 rows of 64 bytes" + legal);
  EXPECT_EQ(shape("f32[16, 17]"), "verify 'f': tile register 't' is f32[16, 17]: 16 rows of 68 bytes" + legal);
  EXPECT_EQ(shape("bf16[16, 3]"), "verify 'f': tile register 't' is bf16[16, 3]: 16 rows of 6 bytes" + legal);
  EXPECT_EQ(shape("f16[16, 32]"),
            "verify 'f': tile register 't' has elements of f16; expected f32, i32, bf16, i8 or u8");
}

TEST(Tiles, AtMostEightPerStatement) {
  std::string list = "t0: i32[1, 1]";
  for (int i = 1; i < 8; ++i) list += fmt::format(", t{}: i32[1, 1]", i);
  EXPECT_EQ(check("tiles " + list + " { tile_zero t7 }\n"), "");
  EXPECT_EQ(check("tiles " + list + ", t8: i32[1, 1] { tile_zero t8 }\n"),
            "verify 'f': 'tiles' declares 9 tile registers; expected 1 to 8");
  EXPECT_EQ(
      check(with_tiles("if p < 1 { tiles t: i32[1, 1] { tile_zero t } }\n")),
      "verify 'f': 'tiles' inside another 'tiles'; declare all tile registers that are used together in one 'tiles'");
  EXPECT_EQ(check(with_tiles("") + "tile_zero c\n"),
            "verify 'f': tile register 'c' is used outside of the 'tiles' that declares it");
}

TEST(Tiles, LoadsAndStoresAreChecked) {
  EXPECT_EQ(check(with_tiles("tile_load c = a[0, stride 64]\n")),
            "verify 'f': tile load between 'c' of i32 and 'a' of u8");
  EXPECT_EQ(check(with_tiles("tile_store a[0, stride 64] = x\n")), "verify 'f': tile store to input 'a'");
  EXPECT_EQ(check(with_tiles("tile_load x = a[0, stride 0]\n")),
            "verify 'f': tile load of 'x': the rows are 0 elements apart; expected 1 or more");
  EXPECT_EQ(check(with_tiles("tile_store y[p * 512, stride 15] = c\n")),
            "verify 'f': tile store of 'c': the rows are 15 elements apart; expected 16 or more");
  EXPECT_EQ(check(with_tiles("tile_load x = a[0, stride 1]\n")), "") << "rows may overlap";
}

TEST(Tiles, AccessesMustStayInBounds) {
  EXPECT_EQ(check(with_tiles("tile_load x = a[3072, stride 64]\n")), "");
  EXPECT_EQ(check(with_tiles("tile_load x = a[3073, stride 64]\n")),
            "verify 'f': tile load out of bounds: buffer 'a' has 4096 elements, index 3073 in [4033, 4096]");
  EXPECT_EQ(check(with_tiles("tile_load x = a[0, stride 270]\n")),
            "verify 'f': tile load out of bounds: buffer 'a' has 4096 elements, index 0 in [4050, 4113]");
  EXPECT_EQ(check(with_tiles("tile_store y[p * 256 - 1, stride 16] = c\n")),
            "verify 'f': tile store out of bounds: buffer 'y' has 4096 elements, index p * 256 + -1 in [-1, 270]");
}

TEST(Tiles, StoresOfParallelIterationsMustNotOverlap) {
  EXPECT_EQ(check(with_tiles("tile_store y[p * 16, stride 32] = c\n")), "") << "side by side";
  EXPECT_EQ(
      check(with_tiles("tile_store y[p * 240, stride 16] = c\n")),
      "verify 'f': two parallel iterations store to the same element of 'y': index p * 240, whose spans overlap (16 "
      "lanes a store)");
  EXPECT_EQ(
      check(with_tiles("tile_store y[0, stride 16] = c\n")),
      "verify 'f': two parallel iterations store to the same element of 'y': index 0, which does not depend on 'p' "
      "of extent 2");
  EXPECT_EQ(check(with_tiles("tile_store s[0, stride 8] = d\n")), "") << "scratch belongs to a worker";
}

TEST(Tiles, ShapesOfAProductMustMatch) {
  const auto product = [](const std::string& sum, const std::string& a, const std::string& b) {
    return check("tiles c: " + sum + ", a0: " + a + ", b0: " + b + " { tile_dot c, a0, b0 }\n");
  };
  EXPECT_EQ(product("f32[3, 5]", "bf16[3, 14]", "bf16[7, 10]"), "");
  EXPECT_EQ(product("i32[3, 5]", "u8[3, 28]", "u8[7, 20]"), "");
  const auto message = [](const std::string& shapes) {
    return "verify 'f': tile_dot of " + shapes +
           "; expected sums of f32 with factors of bf16, or of i32 with factors of i8 and u8, where the first factor "
           "has "
           "as many rows as the sum, the second has a row for every 4 bytes of a row of the first, and its rows have "
           "as "
           "many bytes as those of the sum";
  };
  EXPECT_EQ(product("f32[4, 5]", "bf16[3, 14]", "bf16[7, 10]"),
            message("'c' f32[4, 5], 'a0' bf16[3, 14] and 'b0' bf16[7, 10]"));
  EXPECT_EQ(product("f32[3, 5]", "bf16[3, 16]", "bf16[7, 10]"),
            message("'c' f32[3, 5], 'a0' bf16[3, 16] and 'b0' bf16[7, 10]"));
  EXPECT_EQ(product("f32[3, 5]", "bf16[3, 14]", "bf16[7, 12]"),
            message("'c' f32[3, 5], 'a0' bf16[3, 14] and 'b0' bf16[7, 12]"));
  EXPECT_EQ(product("f32[3, 5]", "u8[3, 28]", "u8[7, 20]"),
            message("'c' f32[3, 5], 'a0' u8[3, 28] and 'b0' u8[7, 20]"));
  EXPECT_EQ(check(with_tiles("tile_dot c, c, v\n")),
            "verify 'f': tile_dot of 'c', 'c' and 'v'; expected three registers");
}

TEST(Tiles, AreRefusedInVectorAndThreadLoops) {
  EXPECT_EQ(check(with_tiles("for i in [0, 4) vector { tile_zero c }\n")),
            "verify 'f': a vector loop uses tile registers; expected serial or unrolled loops");
  EXPECT_EQ(
      message(parse_loop_func("func \"f\" {\nfor t in [0, 4) thread_x {\ntiles c: i32[1, 1] { tile_zero c }\n}\n}\n")),
      "verify 'f': tile registers in a function whose loops are bound to blocks or threads; only CPUs have them");
}

/// Runs a function on a = 0, 1, 2, ... and w = 1, 2, 3, ... (as bytes) and returns y.
std::vector<int32_t> run(const LoopFunc& func) {
  std::vector<std::byte> a(4096), w(4096);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<std::byte>(i), w[i] = static_cast<std::byte>(i + 1);
  std::vector<int32_t> y(4096, -7);
  EXPECT_EQ(interpret(func, {a.data(), w.data(), reinterpret_cast<std::byte*>(y.data())}, 0, func.parallel_extent()),
            0);
  return y;
}

TEST(Tiles, InterpretedProductsAreMatrixProducts) {
  const std::vector<int32_t> y = run(parse_loop_func(wrap(kProduct)));
  const auto a = [](int64_t i) { return static_cast<int32_t>(static_cast<uint8_t>(i)); };
  const auto w = [](int64_t i) { return static_cast<int32_t>(static_cast<int8_t>(i + 1)); };
  for (int64_t p = 0; p < 2; ++p) {
    for (int64_t m = 0; m < 16; ++m) {
      for (int64_t n = 0; n < 16; ++n) {
        int32_t sum = 0;
        for (int64_t k = 0; k < 64; ++k) sum += a(p * 1024 + m * 64 + k) * w(k / 4 * 64 + n * 4 + k % 4);
        ASSERT_EQ(y[static_cast<size_t>(p * 256 + m * 16 + n)], sum) << p << ' ' << m << ' ' << n;
      }
    }
  }
  EXPECT_EQ(y[512], -7) << "beyond the last row";
}

TEST(Tiles, InterpretedAccessesAreChecked) {
  // The verifier does not know a loaded index.
  const LoopFunc func = parse_loop_func(wrap(with_tiles("tile_load x = a[i64(a[255]) * 13, stride 64]\n")));
  verify(func);
  try {
    run(func);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "interpret 'f': load of buffer 'a' at index 4146: out of bounds, it has 4096 elements");
  }
}

TEST(Tiles, PassesKeepTheirMeaning) {
  // Each copy of an unrolled loop's body declares tile registers; a branch on a constant around them is removed.
  const LoopFunc func = parse_loop_func(wrap(R"(for i in [0, 3) unrolled {
  tiles c: i32[8, 8], x: u8[8, 32], v: i8[8, 32] {
    tile_zero c
    if 1 < 2 {
      for k in [0, 2) unrolled {
        tile_load x = a[p * 1024 + i * 256 + k * 32, stride 64]
        tile_load v = w[k * 256, stride 32]
        tile_dot c, x, v
      }
    }
    tile_store y[p * 192 + i * 64, stride 8] = c
  }
}
)"));
  CpuLimits limits;
  limits.vector_bytes = 64, limits.masks = true;
  const LoopFunc lowered = loop_passes::lower(func, limits);
  EXPECT_EQ(run(lowered), run(func)) << print(lowered);
  EXPECT_EQ(print(parse_loop_func(print(lowered))), print(lowered));
  EXPECT_EQ(lowered.tiles.size(), 9U);
}

}  // namespace
}  // namespace kilter
