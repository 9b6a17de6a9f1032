#include "random_func.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace kilter::test {
namespace {

constexpr int64_t kInputElems = 1024;
constexpr int64_t kChunk = 512;  ///< elements of each output that one parallel iteration owns
constexpr int64_t kScratch = 256;
constexpr DType kTypes[] = {DType::f32, DType::i32, DType::boolean, DType::f16, DType::i64, DType::u8};

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed), b_("random " + std::to_string(seed)) {}

  LoopFunc make() {
    for (const DType t : kTypes) {
      inputs_.push_back(b_.input(std::string("in_") + std::string(name(t)), t, kInputElems));
    }
    idx_ = b_.input("idx", DType::i64, kInputElems);
    const int64_t p = 1 + pick(3);
    const int64_t q = 1 + pick(2);
    for (const DType t : kTypes) {
      outputs_.push_back(b_.output(std::string("out_") + std::string(name(t)), t, p * q * kChunk));
    }
    scratch_ = b_.scratch("work", DType::f32, kScratch);
    const Expr pv = b_.parallel("p", p);
    const Expr qv = b_.parallel("q", q);
    chunk_ = pv * (q * kChunk) + qv * kChunk;
    vars_.push_back({pv, p - 1});
    vars_.push_back({qv, q - 1});
    b_.loop("init", 0, kScratch, [&](Expr i) { b_.store(scratch_, i, cast(DType::f32, i)); });
    statements(3 + pick(4), 0);
    return b_.finish();
  }

 private:
  struct Var {
    Expr e;
    int64_t max;  ///< largest value; the smallest is 0 or more
  };
  struct Named {
    Expr value;
    int32_t reg = -1;  ///< -1: a let
    int vector_depth = 0;
  };

  int64_t pick(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool chance(int64_t percent) { return pick(100) < percent; }
  template <class T>
  const T& one_of(const std::vector<T>& v) {
    return v[static_cast<size_t>(pick(static_cast<int64_t>(v.size())))];
  }
  DType any_type() { return kTypes[pick(std::size(kTypes))]; }
  Buf of_type(const std::vector<Buf>& buffers, DType t) {
    for (size_t i = 0; i < std::size(kTypes); ++i) {
      if (kTypes[i] == t) return buffers[i];
    }
    return buffers[0];
  }

  /// Returns an i64 scalar in [0, limit).
  Expr index(int64_t limit) {
    Expr e = pick(std::max<int64_t>(1, limit / 8));
    int64_t high = e->ival;
    for (int64_t n = pick(4); n > 0; --n) {
      const Var& v = one_of(vars_);
      const int64_t room = limit - 1 - high;
      if (room <= 0) break;
      const int64_t c = v.max == 0 ? pick(5) : std::min<int64_t>(room / v.max, 1 + pick(20));
      if (c == 0) continue;
      e = chance(50) ? e + v.e * c : v.e * c + e;
      high += c * v.max;
    }
    if (chance(15)) return e / (1 + pick(5));
    if (chance(15)) return e % (1 + pick(7));
    if (chance(10)) return min(e, limit / 2);
    if (chance(10)) return (e / 4) * 4 + e % 4;
    if (chance(5)) return e - min(e, Expr(3));
    return e;
  }

  Expr constant(DType t, int32_t lanes) {
    static constexpr double kFloats[] = {0.0, -0.0, 1.0, -1.0, 0.5, 3.25, -2.75, 100.0, 1e-3};
    if (is_float(t)) return imm(t, kFloats[pick(std::size(kFloats))], lanes);
    if (t == DType::boolean) return imm_int(t, pick(2), lanes);
    return imm_int(t, pick(12) - (is_signed_integer(t) ? 4 : 0), lanes);
  }

  Expr loaded(DType t, int32_t lanes) {
    const Buf from = of_type(inputs_, t);
    if (lanes == 1 && chance(15)) return b_.load(from, b_.load(idx_, index(kInputElems)) + index(256));
    if (lanes == 1) return b_.load(from, index(kInputElems));
    if (chance(15)) return b_.gather(from, b_.load(idx_, index(kInputElems - lanes), lanes) + index(256));
    const int64_t stride = chance(70) ? 1 : pick(4);
    const int64_t limit = kInputElems - (lanes - 1) * stride;
    const Expr mask = chance(25) ? first_lanes(index(2 * lanes), lanes) : Expr();
    return b_.load(from, index(limit), lanes, stride, mask);
  }

  Expr leaf(DType t, int32_t lanes) {
    std::vector<Expr> known;
    for (const Named& n : named_) {
      if (n.value.type() == VType{t, lanes}) known.push_back(n.value);
    }
    if (!known.empty() && chance(50)) return one_of(known);
    if (t == DType::i64 && chance(40)) return lanes == 1 ? index(64) : ramp(index(64), pick(5) - 2, lanes);
    // Reads memory that the function also writes, at few different places, so that loads and stores overlap.
    if (t == DType::f32 && lanes == 1 && vector_depth_ == 0 && chance(25)) return b_.load(scratch_, index(16));
    if (lanes == 1 && vector_depth_ == 0 && chance(10)) return b_.load(of_type(outputs_, t), chunk_ + index(16));
    if (chance(20)) return constant(t, lanes);
    if (lanes > 1 && chance(30)) return broadcast(leaf(t, 1), lanes);
    return loaded(t, lanes);
  }

  Expr condition(int32_t lanes, int depth) {
    static constexpr Op kCompare[] = {Op::eq, Op::ne, Op::lt, Op::le, Op::gt, Op::ge};
    const DType t = any_type();
    return binary(kCompare[pick(6)], value(t, lanes, depth - 1), value(t, lanes, depth - 1));
  }

  Expr value(DType t, int32_t lanes, int depth) {
    if (depth <= 0 || chance(15)) return leaf(t, lanes);
    if (t == DType::boolean) return boolean(lanes, depth);
    if (chance(12))
      return select(condition(chance(50) ? lanes : 1, depth), value(t, lanes, depth - 1), value(t, lanes, depth - 1));
    if (chance(12)) return cast(t, value(any_type(), lanes, depth - 1));
    if (lanes == 1 && vector_depth_ == 0 && chance(8)) {
      static constexpr Op kReduce[] = {Op::add, Op::mul, Op::min, Op::max};
      return lane_reduce(kReduce[pick(4)], value(t, 8, depth - 1));
    }
    if (lanes > 1 && chance(10)) return broadcast(value(t, 1, depth - 1), lanes);
    if (lanes > 1 && vector_depth_ == 0 && chance(8)) {
      const int32_t each = chance(50) ? lanes : 8;
      std::vector<int32_t> picks;
      for (int32_t k = 0; k < lanes; ++k) picks.push_back(static_cast<int32_t>(pick(2 * each)));
      return shuffle(value(t, each, depth - 1), value(t, each, depth - 1), std::move(picks));
    }
    return is_float(t) ? floating(t, lanes, depth) : integral(t, lanes, depth);
  }

  Expr boolean(int32_t lanes, int depth) {
    switch (pick(4)) {
      case 0:
        return unary(Op::logical_not, value(DType::boolean, lanes, depth - 1));
      case 1:
        return binary(chance(50) ? Op::logical_and : Op::logical_or, value(DType::boolean, lanes, depth - 1),
                      value(DType::boolean, lanes, depth - 1));
      case 2:
        return unary(Op::is_nan, value(DType::f32, lanes, depth - 1));
      default:
        return condition(lanes, depth);
    }
  }

  Expr floating(DType t, int32_t lanes, int depth) {
    static constexpr Op kUnary[] = {Op::neg,  Op::abs, Op::floor, Op::ceil, Op::round_even, Op::trunc,
                                    Op::sqrt, Op::exp, Op::tanh,  Op::sin,  Op::sigmoid};
    static constexpr Op kBinary[] = {Op::add, Op::sub, Op::mul, Op::div, Op::mod, Op::min, Op::max};
    if (chance(25)) return unary(kUnary[pick(std::size(kUnary))], value(t, lanes, depth - 1));
    if (chance(25)) return fma(value(t, lanes, depth - 1), value(t, lanes, depth - 1), value(t, lanes, depth - 1));
    if (t == DType::f32 && chance(8)) return bitcast(t, value(DType::i32, lanes, depth - 1));
    return binary(kBinary[pick(std::size(kBinary))], value(t, lanes, depth - 1), value(t, lanes, depth - 1));
  }

  Expr integral(DType t, int32_t lanes, int depth) {
    static constexpr Op kUnary[] = {Op::neg, Op::abs, Op::bit_not};
    static constexpr Op kBinary[] = {Op::add, Op::sub,     Op::mul,    Op::div,     Op::mod, Op::min,
                                     Op::max, Op::bit_and, Op::bit_or, Op::bit_xor, Op::shl, Op::shr};
    if (chance(20)) return unary(kUnary[pick(3)], value(t, lanes, depth - 1));
    return binary(kBinary[pick(std::size(kBinary))], value(t, lanes, depth - 1), value(t, lanes, depth - 1));
  }

  void scoped(const std::function<void()>& body) {
    const size_t vars = vars_.size();
    const size_t named = named_.size();
    body();
    vars_.resize(vars);
    named_.resize(named);
  }

  void statements(int64_t count, int depth) {
    for (int64_t i = 0; i < count; ++i) statement(depth);
  }

  int32_t any_lanes() {
    static constexpr int32_t kLanes[] = {1, 1, 4, 8, 16};
    return vector_depth_ > 0 ? 1 : kLanes[pick(5)];
  }

  void statement(int depth) {
    const int64_t what = pick(100);
    if (depth < 3 && what < 22) return loop(depth);
    if (depth < 3 && what < 34 && vector_depth_ == 0) return vector_loop(depth);
    if (depth < 3 && what < 44) return branch(depth);
    if (what < 56) {
      const Expr v = b_.let("l", value(any_type(), any_lanes(), 3));
      named_.push_back({v, -1, vector_depth_});
    } else if (what < 66) {
      declare();
    } else if (what < 80) {
      set();
    } else if (what < 84) {
      b_.prefetch(inputs_[0], index(kInputElems));
    } else {
      store();
    }
  }

  void declare() {
    const int32_t r = b_.reg("r", value(any_type(), any_lanes(), 3));
    named_.push_back({b_.get(r), r, vector_depth_});
  }

  void set() {
    std::vector<Named> own;
    for (const Named& n : named_) {
      if (n.reg >= 0 && n.vector_depth == vector_depth_) own.push_back(n);
    }
    if (own.empty()) return store();
    const Named& n = one_of(own);
    b_.set(n.reg, value(n.value.elem(), n.value.lanes(), 3));
  }

  void loop(int depth) {
    const int64_t begin = chance(70) ? 0 : pick(4);
    const int64_t extent = pick(20) == 0 ? 0 : 1 + pick(6);
    const int64_t step = chance(75) ? 1 : 1 + pick(3);
    const bool unrolled = chance(30);
    Expr end = begin + extent;
    const bool varies = !unrolled && vector_depth_ == 0;
    if (varies && chance(25)) end = min(index(8) + 1, end);
    const Expr from = varies && chance(15) ? min(index(4), Expr(begin)) : Expr(begin);
    b_.loop(
        "i", from, end, step,
        [&](Expr i) {
          scoped([&] {
            vars_.push_back({i, std::max<int64_t>(begin + extent - 1, 0)});
            if (vector_depth_ > 0) inner_.emplace_back(i, begin + extent);
            statements(1 + pick(3), depth + 1);
            if (vector_depth_ > 0) inner_.pop_back();
          });
        },
        unrolled ? LoopKind::unrolled : LoopKind::serial);
  }

  void vector_loop(int depth) {
    const int64_t extent = 1 + pick(chance(50) ? 12 : 90);
    b_.vector_loop("v", extent, [&](Expr v) {
      scoped([&] {
        vars_.push_back({v, extent - 1});
        ++vector_depth_;
        lane_ = v;
        lane_extent_ = extent;
        lane_step_ = chance(80) ? 1 : 2;
        lane_stores_.clear();
        if (chance(60)) declare();
        statements(2 + pick(3), depth + 1);
        store();
        --vector_depth_;
      });
    });
  }

  void branch(int depth) {
    Expr taken = condition(1, 2);
    if (vector_depth_ > 0 && chance(60)) {  // differs from lane to lane
      taken =
          binary(Op::lt, b_.load(of_type(inputs_, DType::i32), lane_ + index(64)), imm_int(DType::i32, pick(100) - 50));
    }
    const auto body = [&] {
      scoped([&] {
        statements(1 + pick(2), depth + 1);
        if (chance(60)) set();
      });
    };
    b_.if_then(taken, body, chance(40) ? std::function<void()>(body) : std::function<void()>(), chance(20));
  }

  void store() {
    if (vector_depth_ > 0) return lane_store();
    const int32_t lanes = any_lanes();
    if (chance(30) && lanes == 1) return b_.store(scratch_, index(16), value(DType::f32, 1, 3));
    const DType t = any_type();
    const Expr mask = lanes > 1 && chance(30) ? first_lanes(index(2 * lanes), lanes) : Expr();
    if (lanes > 1 && chance(20)) {
      const int64_t stride = 1 + pick(3);
      return b_.scatter(of_type(outputs_, t), ramp(chunk_ + index(kChunk - lanes * stride), stride, lanes),
                        value(t, lanes, 3), mask);
    }
    b_.store(of_type(outputs_, t), chunk_ + index(chance(50) ? 16 : kChunk - lanes), value(t, lanes, 3), mask);
  }

  /// Adds a store in a vector loop, with a different index in every iteration. Each loop has at most one per buffer.
  void lane_store() {
    const DType t = any_type();
    for (const DType done : lane_stores_) {
      if (done == t) return;
    }
    lane_stores_.push_back(t);
    Expr at = lane_ * lane_step_;
    int64_t span = lane_extent_ * lane_step_;
    for (const auto& [var, extent] : inner_) {
      if (span * extent > kChunk) return;
      at = at + var * span;
      span *= extent;
    }
    if (span > kChunk) return;
    b_.store(of_type(outputs_, t), chunk_ + at, value(t, 1, 3));
  }

  std::mt19937_64 random_;
  LoopBuilder b_;
  std::vector<Buf> inputs_, outputs_;
  Buf idx_, scratch_;
  Expr chunk_;
  std::vector<Var> vars_;
  std::vector<Named> named_;
  std::vector<std::pair<Expr, int64_t>> inner_;  ///< loops within the vector loop: variable, end
  int vector_depth_ = 0;
  Expr lane_;
  int64_t lane_extent_ = 0, lane_step_ = 1;
  std::vector<DType> lane_stores_;
};

}  // namespace

LoopFunc random_func(uint64_t seed) { return Generator(seed).make(); }

Memory::Memory(const LoopFunc& func, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (const Buffer& b : func.buffers) {
    if (b.kind == BufferKind::scratch) continue;
    Block block{b.name, b.type, b.elems, {}};
    block.words.resize(static_cast<size_t>((b.elems * size_bytes(b.type) + 7) / 8));
    auto* bytes = reinterpret_cast<std::byte*>(block.words.data());
    visit_dtype(b.type, [&](auto tag) {
      using T = decltype(tag);
      for (int64_t i = 0; i < b.elems; ++i) {
        const auto r = static_cast<int64_t>(random() >> 33);
        T v{};
        if constexpr (std::is_same_v<T, bool>) {
          v = (r & 1) != 0;
        } else if constexpr (std::is_integral_v<T>) {
          v = static_cast<T>(b.name == "idx" ? r % 64 : r % 256 - 100);
        } else {
          v = static_cast<T>(static_cast<float>(r % 4001 - 2000) / 256.0F);
        }
        std::memcpy(bytes + i * static_cast<int64_t>(sizeof(T)), &v, sizeof(T));
      }
    });
    blocks_.push_back(std::move(block));
  }
}

std::vector<std::byte*> Memory::args() {
  std::vector<std::byte*> result;
  for (Block& b : blocks_) result.push_back(reinterpret_cast<std::byte*>(b.words.data()));
  return result;
}

std::string Memory::difference(const Memory& other) const {
  for (size_t k = 0; k < blocks_.size(); ++k) {
    const Block& a = blocks_[k];
    std::string result;
    visit_dtype(a.type, [&](auto tag) {
      using T = decltype(tag);
      const auto* x = reinterpret_cast<const T*>(a.words.data());
      const auto* y = reinterpret_cast<const T*>(other.blocks_[k].words.data());
      for (int64_t i = 0; i < a.elems && result.empty(); ++i) {
        const auto* x_bytes = reinterpret_cast<const std::byte*>(x + i);
        if (std::equal(x_bytes, x_bytes + sizeof(T), reinterpret_cast<const std::byte*>(y + i))) continue;
        const auto u =
            static_cast<double>(static_cast<std::conditional_t<std::is_integral_v<T>, int64_t, float>>(x[i]));
        const auto v =
            static_cast<double>(static_cast<std::conditional_t<std::is_integral_v<T>, int64_t, float>>(y[i]));
        if (!(std::isnan(u) && std::isnan(v))) result = fmt::format("{}[{}]: {} and {}", a.name, i, u, v);
      }
    });
    if (!result.empty()) return result;
  }
  return "";
}

Memory run(const LoopFunc& func, uint64_t seed) {
  Memory memory(func, seed);
  interpret(func, memory.args(), 0, func.parallel_extent());
  return memory;
}

}  // namespace kilter::test
