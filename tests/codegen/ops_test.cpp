// Every operation on every type and several vector lengths: compares generated code with the interpreter, bit for bit.
#include <bit>
#include <cmath>
#include <random>

#include "run.h"

namespace kilter::testing {
namespace {

constexpr DType kTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,  DType::i16,    DType::i32,
                            DType::i64, DType::u8,  DType::u16, DType::u32,  DType::u64, DType::boolean};
constexpr int32_t kLanes[] = {1, 3, 4, 16, 32};

/// Fills a buffer with the special values of a type, then with noise.
void fill(DType type, GuardedMemory& buffer, uint64_t seed) {
  std::mt19937_64 random(seed);
  visit_dtype(type, [&](auto tag) {
    using T = decltype(tag);
    auto* p = reinterpret_cast<T*>(buffer.data());
    const auto n = static_cast<size_t>(buffer.bytes()) / sizeof(T);
    for (size_t i = 0; i < n; ++i) {
      const uint64_t r = random();
      if constexpr (std::is_same_v<T, bool>) {
        p[i] = (r & 1) != 0;
      } else if constexpr (std::is_integral_v<T>) {
        const T special[] = {0, 1, static_cast<T>(-1), std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), 7};
        p[i] = r % 3 == 0 ? special[(r >> 8) % 6] : static_cast<T>(r % 2 == 0 ? r >> 8 : (r >> 8) % 40);
      } else {
        const double special[] = {0.0,  -0.0, 1.0,   -1.0, 0.5,  1.5,   2.5,   INFINITY, -INFINITY,   NAN,
                                  1e10, 3e9,  65520, 6e-8, 300., -300., 255.7, -0.6,     2147483648., 1e-310};
        const double noise =
            std::ldexp(static_cast<double>(static_cast<int64_t>(r)), -63 + static_cast<int>(r % 40) - 8);
        const double v = r % 3 == 0 ? special[(r >> 8) % 20] : noise;
        if constexpr (sizeof(T) == 2) {
          p[i] = T(static_cast<float>(v));
        } else {
          p[i] = static_cast<T>(v);
        }
      }
    }
  });
}

bool same_element(DType type, const std::byte* a, const std::byte* b) {
  if (std::memcmp(a, b, static_cast<size_t>(size_bytes(type))) == 0) return true;
  bool both_nan = false;
  visit_dtype(type, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (std::is_floating_point_v<T>) {
      both_nan = std::isnan(*reinterpret_cast<const T*>(a)) && std::isnan(*reinterpret_cast<const T*>(b));
    } else if constexpr (!std::is_integral_v<T>) {
      both_nan = std::isnan(static_cast<float>(*reinterpret_cast<const T*>(a))) &&
                 std::isnan(static_cast<float>(*reinterpret_cast<const T*>(b)));
    }
  });
  return both_nan;
}

/// Runs `func` as generated code and in the interpreter, on equal buffers, and compares every buffer.
void check(const LoopFunc& func, const Target& target) {
  const LoopFunc lowered = loop_passes::lower(func, target.limits);
  std::vector<GuardedMemory> ours, theirs;
  std::vector<std::byte*> our_args, their_args;
  for (const Buffer& b : func.buffers) {
    if (b.kind == BufferKind::scratch) continue;
    for (auto* list : {&ours, &theirs}) {
      list->emplace_back(b.elems * size_bytes(b.type));
      fill(b.type, list->back(), ours.size());
    }
  }
  for (GuardedMemory& g : ours) our_args.push_back(g.data());
  for (GuardedMemory& g : theirs) their_args.push_back(g.data());
  ASSERT_EQ(run_compiled(lowered, target, our_args), 0);
  interpret(func, their_args, 0, func.parallel_extent());
  for (size_t k = 0, i = 0; k < func.buffers.size(); ++k) {
    const Buffer& b = func.buffers[k];
    if (b.kind == BufferKind::scratch) continue;
    EXPECT_TRUE(ours[i].intact()) << func.name << " on " << target.name << " wrote outside '" << b.name << "'";
    for (int64_t e = 0; e < b.elems; ++e) {
      const int64_t at = e * size_bytes(b.type);
      ASSERT_TRUE(same_element(b.type, ours[i].data() + at, theirs[i].data() + at))
          << func.name << " on " << target.name << ": '" << b.name << "' element " << e << "\n"
          << print(func);
    }
    ++i;
  }
}

constexpr Op kUnary[] = {Op::neg,  Op::abs,        Op::logical_not, Op::bit_not, Op::floor,
                         Op::ceil, Op::round_even, Op::trunc,       Op::sqrt,    Op::is_nan};
constexpr Op kBinary[] = {Op::add,     Op::sub,    Op::mul,     Op::div, Op::mod,         Op::min,       Op::max,
                          Op::bit_and, Op::bit_or, Op::bit_xor, Op::shl, Op::shr,         Op::eq,        Op::ne,
                          Op::lt,      Op::le,     Op::gt,      Op::ge,  Op::logical_and, Op::logical_or};

bool unary_exists(Op op, DType t) {
  if (op == Op::logical_not) return t == DType::boolean;
  if (op == Op::bit_not) return is_integer(t);
  if (op == Op::neg || op == Op::abs) return is_float(t) || is_integer(t);
  return is_float(t);
}
bool binary_exists(Op op, DType t) {
  if (is_comparison(op)) return true;
  if (op == Op::logical_and || op == Op::logical_or) return t == DType::boolean;
  if (op == Op::shl || op == Op::shr) return is_integer(t);
  if (op == Op::bit_and || op == Op::bit_or || op == Op::bit_xor) return is_integer(t) || t == DType::boolean;
  if (op == Op::mod && is_float(t)) return false;  // checked exactly in math_test, where it is expanded
  return is_float(t) || is_integer(t);
}

constexpr int64_t kBlocks = 24;

LoopFunc all_operations(DType type, int32_t lanes) {
  LoopBuilder b(fmt::format("ops_{}x{}", name(type), lanes));
  const Buf x = b.input("x", type, kBlocks * lanes);
  const Buf y = b.input("y", type, kBlocks * lanes);
  std::vector<std::pair<Op, Buf>> outputs;
  for (const Op op : kUnary) {
    if (!unary_exists(op, type)) continue;
    outputs.emplace_back(op,
                         b.output(std::string(name(op)), op == Op::is_nan ? DType::boolean : type, kBlocks * lanes));
  }
  for (const Op op : kBinary) {
    if (!binary_exists(op, type)) continue;
    const DType to = is_comparison(op) ? DType::boolean : type;
    outputs.emplace_back(op, b.output(std::string(name(op)), to, kBlocks * lanes));
  }
  const Buf chosen = b.output("select", type, kBlocks * lanes);
  const Expr i = b.parallel("i", kBlocks);
  const Expr at = i * static_cast<int64_t>(lanes);
  for (const auto& [op, out] : outputs) {
    const Expr a = b.load(x, at, lanes);
    b.store(out, at, op <= Op::is_nan ? unary(op, a) : binary(op, a, b.load(y, at, lanes)));
  }
  const Expr condition = binary(Op::lt, b.load(x, at, lanes), b.load(y, at, lanes));
  b.store(chosen, at, select(condition, b.load(x, at, lanes), b.load(y, at, lanes)));
  return b.finish();
}

class EachType : public ::testing::TestWithParam<DType> {};

TEST_P(EachType, Operations) {
  for (const int32_t lanes : kLanes) {
    for (const Target& target : targets_with(lanes)) check(all_operations(GetParam(), lanes), target);
  }
}

TEST(Compile, LongVectorsOnOpenCl) {
  check(all_operations(DType::f32, 16), parse_target("opencl"));
  check(all_operations(DType::u8, 8), parse_target("opencl"));
  check(all_operations(DType::boolean, 16), parse_target("opencl"));
}

TEST_P(EachType, Casts) {
  for (const int32_t lanes : {1, 4, 16}) {
    for (const Target& target : targets_with(lanes)) {
      LoopBuilder b(fmt::format("casts_{}x{}", name(GetParam()), lanes));
      const Buf x = b.input("x", GetParam(), 64 * lanes);
      std::vector<std::pair<DType, Buf>> outputs;
      for (const DType to : kTypes) outputs.emplace_back(to, b.output(std::string(name(to)), to, 64 * lanes));
      const Expr at = b.parallel("i", 64) * static_cast<int64_t>(lanes);
      for (const auto& [to, out] : outputs) b.store(out, at, cast(to, b.load(x, at, lanes)));
      check(b.finish(), target);
    }
  }
}

TEST_P(EachType, LaneReductions) {
  if (GetParam() == DType::boolean) {
    EXPECT_THROW(lane_reduce(Op::max, imm_int(DType::boolean, 1, 4)), Error);
    return;
  }
  for (const int32_t lanes : {2, 3, 8, 16}) {
    for (const Target& target : targets_with(lanes)) {
      LoopBuilder b(fmt::format("reduce_{}x{}", name(GetParam()), lanes));
      const Buf x = b.input("x", GetParam(), kBlocks * lanes);
      const Buf y = b.output("y", GetParam(), kBlocks * 4);
      const Expr i = b.parallel("i", kBlocks);
      int64_t k = 0;
      for (const Op op : {Op::add, Op::mul, Op::min, Op::max}) {
        b.store(y, i * 4 + k++, lane_reduce(op, b.load(x, i * static_cast<int64_t>(lanes), lanes)));
      }
      check(b.finish(), target);
    }
  }
}

TEST_P(EachType, Shuffles) {
  std::mt19937_64 random(7);
  for (const Target& target : targets_here()) {
    for (const int32_t lanes : {1, 3, 4, 8, 16}) {
      LoopBuilder b(fmt::format("shuffle_{}x{}", name(GetParam()), lanes));
      const Buf x = b.input("x", GetParam(), kBlocks * lanes * 2);
      const Buf y = b.output("y", GetParam(), kBlocks * 40);
      const Expr i = b.parallel("i", kBlocks);
      const Expr u = b.let("u", b.load(x, i * Expr(2 * lanes), lanes));
      const Expr v = b.let("v", b.load(x, i * Expr(2 * lanes) + lanes, lanes));
      int64_t at = 0;
      for (const int32_t out : {1, 5, lanes, 16}) {
        std::vector<int32_t> picks;
        for (int32_t k = 0; k < out; ++k) picks.push_back(static_cast<int32_t>(random() % (2 * lanes)));
        b.store(y, i * Expr(40) + at, shuffle(u, v, picks));
        at += out;
      }
      check(b.finish(), target);
    }
  }
}

TEST_P(EachType, MasksStridesAndGathers) {
  for (const int32_t lanes : {1, 3, 8, 16}) {
    for (const Target& target : targets_with(lanes)) {
      LoopBuilder b(fmt::format("memory_{}x{}", name(GetParam()), lanes));
      constexpr int64_t kSize = 512;
      const Buf x = b.input("x", GetParam(), kSize);
      const Buf index = b.input("index", DType::u8, kSize);
      std::vector<Buf> out;
      for (int k = 0; k < 12; ++k) out.push_back(b.output(fmt::format("y{}", k), GetParam(), (lanes + 1) * lanes));
      const Buf last = b.output("scattered", GetParam(), (lanes + 1) * lanes);
      const Expr i = b.parallel("i", lanes + 1);
      const Expr at = i * static_cast<int64_t>(lanes);
      const Expr mask = first_lanes(i, lanes);
      size_t k = 0;
      for (const int64_t stride : {0, 2, 3, 4, 7}) {
        b.store(out[k++], at, b.load(x, i * 3, lanes, stride));
        b.store(out[k++], at, b.load(x, i * 3, lanes, stride, mask));
      }
      b.store(out[k++], at, b.load(x, i + kSize - 1 - lanes, lanes, -1));
      b.store(out[k++], at, b.load(x, i, lanes, 1, mask), mask);
      const Expr indices = cast(DType::i64, b.load(index, at, lanes));
      const Expr gathered = lanes == 1 ? b.load(x, indices) : b.gather(x, indices);
      const Expr reversed = ramp(at + static_cast<int64_t>(lanes) - 1, -1, lanes);
      b.scatter(last, reversed, gathered, mask);
      check(b.finish(), target);
    }
  }
}

// Masks that are constant at compile time, applied to values that are computed in a wider type than they are stored in.
TEST_P(EachType, ConstantMasks) {
  for (const int32_t lanes : {2, 4, 8, 16}) {
    for (const Target& target : targets_with(lanes)) {
      LoopBuilder b(fmt::format("constant_masks_{}x{}", name(GetParam()), lanes));
      const Buf x = b.input("x", DType::f32, 4 * lanes);
      const Buf same = b.input("same", GetParam(), 4 * lanes);
      std::vector<std::pair<Buf, Expr>> out;
      const auto add = [&](Expr mask) {
        out.emplace_back(b.output(fmt::format("y{}", out.size()), GetParam(), 4 * lanes), std::move(mask));
      };
      const Expr lane = ramp(imm_int(DType::i32, 0), imm_int(DType::i32, 1), lanes);
      for (int32_t k = 0; k < lanes; ++k) {
        add(first_lanes(k, lanes));
        add(binary(Op::eq, lane, imm_int(DType::i32, k, lanes)));
        add(binary(Op::ge, lane, imm_int(DType::i32, k, lanes)));
      }
      const Expr at = b.parallel("i", 4) * static_cast<int64_t>(lanes);
      for (const auto& [y, mask] : out) {
        b.store(y, at, cast(GetParam(), b.load(x, at, lanes, 1, mask) * imm(DType::f32, 0.7)), mask);
        b.store(y, at, b.load(same, at, lanes, 1, mask), binary(Op::logical_and, mask, first_lanes(lanes - 1, lanes)));
      }
      check(b.finish(), target);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EachType, ::testing::ValuesIn(kTypes),
                         [](const auto& p) { return std::string(name(p.param)); });

TEST(Compile, RegistersLoopsBranchesAndScratch) {
  for (const Target& target : targets_here()) {
    LoopBuilder b("statements");
    const Buf x = b.input("x", DType::f32, 40 * 16);
    const Buf y = b.output("y", DType::f32, 5 * 16);
    const Buf s = b.scratch("s", DType::f32, 48);
    const Expr i = b.parallel("i", 5);
    const int32_t sum = b.reg("sum", imm(DType::f32, 0, 16));
    const int32_t count = b.reg("count", Expr(0));
    b.loop("k", 0, 8, [&](Expr k) {
      const int32_t scaled = b.reg("scaled", b.load(x, (i * 8 + k) * 16, 16));
      b.if_then(
          binary(Op::eq, k % 3, 0), [&] { b.set(scaled, b.get(scaled) * imm(DType::f32, 2)); },
          [&] {
            b.loop("n", 0, k, [&](Expr) { b.set(scaled, b.get(scaled) + imm(DType::f32, 0.25)); });
            b.set(count, b.get(count) + k);
          });
      b.set(sum, fma(b.get(scaled), imm(DType::f32, 0.5), b.get(sum)));
      b.prefetch(x, (i * 8 + k) * 16);
    });
    b.store(s, 16, b.get(sum));
    b.store(s, 0, cast(DType::f32, b.get(count)));
    const Expr again = b.let("again", b.load(s, 16, 16));
    b.store(y, i * 16, again + b.load(s, 0));
    check(b.finish(), target);
  }
}

// Several buffers of the same element type, and a loop that stores to and loads from the same buffer.
TEST(Compile, LoadsSeeStoresToTheSameBuffer) {
  for (const Target& target : targets_with(1)) {
    LoopBuilder b("prefix");
    const Buf x = b.input("x", DType::i32, 64);
    const Buf y = b.output("y", DType::i32, 64);
    b.store(y, 0, b.load(x, 0));
    b.loop("i", 1, 64, [&](Expr i) { b.store(y, i, b.load(y, i - 1) + b.load(x, i)); });
    check(b.finish(), target);
  }
}

}  // namespace
}  // namespace kilter::testing
