// Tile registers: generated code compared with the interpreter. On processors without AMX, an emulator executes the
// instructions.
#include <cmath>
#include <random>

#include "run.h"
#include "support/amx_emulator.h"

namespace kilter::testing {
namespace {

/// A target with AMX for which this machine has all other extensions, or nullopt.
std::optional<Target> tile_target() {
  const Target target = parse_target("llvm -mcpu=sapphirerapids -mattr=-avx512fp16");
  std::vector<std::string> others = features_used(target);
  std::erase_if(others, [](const std::string& f) { return f.starts_with("amx-"); });
  if (!missing_cpu_features(others).empty()) return std::nullopt;
  provide_amx();
  return target;
}

struct Types {
  DType a, b, sum;
  int64_t group() const { return 4 / size_bytes(a); }
};
constexpr Types kTypes[] = {{DType::bf16, DType::bf16, DType::f32},
                            {DType::u8, DType::i8, DType::i32},
                            {DType::i8, DType::u8, DType::i32},
                            {DType::i8, DType::i8, DType::i32},
                            {DType::u8, DType::u8, DType::i32}};

/// A product of `rows` x `depth` groups with `depth` groups x `columns`, for each tile register.
struct Extents {
  int32_t rows, depth, columns;
};

/// Adds products of tiles to `y` over `steps` steps. There are `gap` elements between the end of a row of the operands
/// and the start of the next. The second iteration of the parallel range has its own operands.
LoopFunc product(const Types& t, const Extents& x, int64_t steps, int64_t gap) {
  const int64_t group = t.group(), a_row = x.depth * group + gap, b_row = x.columns * group + gap,
                y_row = x.columns + gap;
  LoopBuilder b("product");
  const Expr p = b.parallel("p", 2);
  const Buf a = b.input("a", t.a, 2 * steps * x.rows * a_row), w = b.input("w", t.b, 2 * steps * x.depth * b_row);
  const Buf y = b.output("y", t.sum, 2 * x.rows * y_row);
  const auto elems = [&](int64_t n) { return static_cast<int32_t>(n * group); };
  b.tiles(
      {{"sum", t.sum, x.rows, x.columns}, {"a", t.a, x.rows, elems(x.depth)}, {"w", t.b, x.depth, elems(x.columns)}},
      [&](std::span<const Tile> tiles) {
        b.zero(tiles[0]);
        b.loop("k", 0, steps, [&](const Expr& k) {
          const Expr step = p * Expr(steps) + k;
          b.load_tile(tiles[1], a, step * Expr(x.rows * a_row), a_row);
          b.load_tile(tiles[2], w, step * Expr(x.depth * b_row), b_row);
          b.dot_tiles(tiles[0], tiles[1], tiles[2]);
        });
        b.store_tile(y, p * Expr(x.rows * y_row), y_row, tiles[0]);
      });
  return b.finish();
}

/// Fills a buffer with all values of its bytes, or with bf16 of which some are subnormal, or with 0 for results.
void fill(DType type, GuardedMemory& buffer, std::mt19937_64& random, bool whole) {
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < buffer.bytes() / size_bytes(type); ++i) {
    if (type == DType::bf16) {
      const float value = whole ? static_cast<float>(static_cast<int64_t>(random() % 400) - 200) : normal(random);
      reinterpret_cast<BFloat16*>(buffer.data())[i] = BFloat16(!whole && random() % 16 == 0 ? 1e-39F : value);
    } else {
      buffer.data()[i] = size_bytes(type) == 1 ? static_cast<std::byte>(random()) : std::byte{0};
    }
  }
}

/// Returns the output of a function with one output, which comes last, on random inputs.
std::vector<std::byte> run(const LoopFunc& func, const Target* target, uint64_t seed, bool whole) {
  std::mt19937_64 random(seed);
  std::vector<GuardedMemory> buffers;
  std::vector<std::byte*> args;
  for (const Buffer& b : func.buffers) {
    if (b.kind != BufferKind::scratch) buffers.emplace_back(b.elems * size_bytes(b.type));
  }
  size_t next = 0;
  for (const Buffer& b : func.buffers) {
    if (b.kind == BufferKind::scratch) continue;
    fill(b.kind == BufferKind::output ? DType::f32 : b.type, buffers[next], random, whole);
    args.push_back(buffers[next++].data());
  }
  if (target == nullptr) {
    EXPECT_EQ(interpret(func, args, 0, func.parallel_extent()), 0);
  } else {
    const LoopFunc lowered = loop_passes::lower(func, target->limits);
    const Mapped code(compile(std::span(&lowered, 1), *target));
    EXPECT_EQ(call(func, code.entry(0), args, 0, func.parallel_extent()), 0);
    for (const GuardedMemory& g : buffers) EXPECT_TRUE(g.intact());
  }
  return {args.back(), args.back() + buffers.back().bytes()};
}

TEST(Tiles, CompiledCodeMatchesInterpreter) {
  const std::optional<Target> target = tile_target();
  if (!target) GTEST_SKIP() << "the machine lacks an extension other than AMX";
  std::mt19937_64 random(1);
  const auto between = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  const int64_t before = emulated_instructions();
  for (const Types& t : kTypes) {
    for (int round = 0; round < 12; ++round) {
      const auto extent = [&] { return round == 0 ? 16 : static_cast<int32_t>(between(1, 16)); };
      const Extents x{extent(), extent(), extent()};
      const int64_t steps = between(1, 5), gap = between(0, 3) * t.group();
      SCOPED_TRACE(fmt::format("{} x {}: {} rows, {} groups, {} columns, {} steps, gap {}", name(t.a), name(t.b),
                               x.rows, x.depth, x.columns, steps, gap));
      const LoopFunc func = product(t, x, steps, gap);
      EXPECT_EQ(run(func, &*target, 7, true), run(func, nullptr, 7, true));
    }
  }
  EXPECT_TRUE(cpu_has("amx-tile") || emulated_instructions() > before);
}

/// A different order of additions, and subnormal operands that count as 0, change f32 sums only by f32 rounding errors.
TEST(Tiles, SumsOfRoundedProductsStayWithinF32Error) {
  const std::optional<Target> target = tile_target();
  if (!target) GTEST_SKIP() << "the machine lacks an extension other than AMX";
  const LoopFunc func = product(kTypes[0], {16, 16, 16}, 20, 0);
  const std::vector<std::byte> got = run(func, &*target, 3, false), expected = run(func, nullptr, 3, false);
  for (size_t i = 0; i < got.size(); i += 4) {
    float x = 0, y = 0;
    std::memcpy(&x, &got[i], 4), std::memcpy(&y, &expected[i], 4);
    EXPECT_NEAR(x, y, 640 * 0x1p-24 * 8) << i / 4;
  }
}

/// Two `tiles` with different shapes in one kernel, one of them in an unrolled loop.
LoopFunc two_shapes() {
  LoopBuilder b("two_shapes");
  const Buf x = b.input("x", DType::u8, 4096), w = b.input("w", DType::i8, 4096), y = b.output("y", DType::i32, 1024);
  const auto square = [&](const Expr& place, int32_t n) {
    b.tiles({{"w", DType::i8, n, 4 * n}, {"x", DType::u8, n, 4 * n}, {"sum", DType::i32, n, n}},
            [&](std::span<const Tile> t) {
              b.zero(t[2]);
              b.load_tile(t[0], w, place, 4 * n), b.load_tile(t[1], x, place, 4 * n);
              b.dot_tiles(t[2], t[1], t[0]);
              b.store_tile(y, place, n, t[2]);
            });
  };
  b.loop("i", 0, 3, 1, [&](const Expr& i) { square(i * Expr(256), 8); }, LoopKind::unrolled);
  square(768, 16);
  return b.finish();
}

TEST(Tiles, EveryShapeOfAKernelHasItsOwnConfiguration) {
  const std::optional<Target> target = tile_target();
  if (!target) GTEST_SKIP() << "the machine lacks an extension other than AMX";
  EXPECT_EQ(run(two_shapes(), &*target, 5, true), run(two_shapes(), nullptr, 5, true));
}

std::string assembly(const LoopFunc& func, const Target& target) {
  return backend_of(target).source(loop_passes::lower(func, target.limits), target);
}

int64_t count(const std::string& text, std::string_view word) {
  int64_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST(Tiles, AreConfiguredOncePerCallIfAllShapesAreEqual) {
  const Target target = parse_target("sapphirerapids");
  const std::string one = assembly(product(kTypes[0], {16, 16, 16}, 4, 0), target);
  EXPECT_EQ(count(one, "ldtilecfg"), 1) << one;
  EXPECT_EQ(count(one, "tilerelease"), 1) << one;
  EXPECT_EQ(count(one, "tdpbf16ps"), 1) << one;
  EXPECT_LT(one.find("ldtilecfg"), one.find("tilezero")) << one;
  const std::string two = assembly(two_shapes(), target);
  EXPECT_EQ(count(two, "ldtilecfg"), 4) << two;
  EXPECT_EQ(count(two, "tilerelease"), 1) << two;
  EXPECT_EQ(count(two, "tdpbusd"), 4) << two;
}

TEST(Tiles, NeedATargetWithTiles) {
  const auto refusal = [](const Types& t, const char* name) {
    const Target target = parse_target(name);
    const LoopFunc func = loop_passes::lower(product(t, {16, 16, 16}, 1, 0), target.limits);
    const auto rejected = backend_of(target).accepts(func, target);
    return rejected ? fmt::format("{}: {}, got {}", rejected->check, rejected->limit, rejected->got) : "none";
  };
  EXPECT_EQ(refusal(kTypes[0], "sapphirerapids"), "none");
  EXPECT_EQ(refusal(kTypes[1], "sapphirerapids"), "none");
  EXPECT_EQ(refusal(kTypes[0], "sapphirerapids-avx512"), "tile registers: none on a target without AMX, got some");
  EXPECT_EQ(refusal(kTypes[0], "znver5"), "tile registers: none on a target without AMX, got some");
  EXPECT_EQ(refusal(kTypes[0], "llvm -mcpu=sapphirerapids -mattr=-amx-bf16"),
            "products of tile registers: bytes (AMX-INT8), got bf16");
  EXPECT_EQ(refusal(kTypes[1], "llvm -mcpu=sapphirerapids -mattr=-amx-int8"),
            "products of tile registers: bf16 (AMX-BF16), got bytes");
}

}  // namespace
}  // namespace kilter::testing
