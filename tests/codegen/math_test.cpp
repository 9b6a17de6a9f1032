// Checks the accuracy of the elementary functions in generated code: the error in units of the last place, over all of
// f32's range in steps of a prime number of bit patterns, and at the special values.
#include "loop/passes/math.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "run.h"

namespace kilter::testing {
namespace {

using LongFn = long double (*)(long double);

long double sigmoid(long double x) { return 1.0L / (1.0L + std::exp(-x)); }

struct Function {
  Op op;
  LongFn exact;
  double f32_ulp, f64_ulp;  ///< largest error allowed; f64_ulp 0: no f64 version
};
const Function kFunctions[] = {
    {Op::exp, [](long double x) { return std::exp(x); }, 1, 1},
    {Op::log, [](long double x) { return std::log(x); }, 1, 1},
    {Op::tanh, [](long double x) { return std::tanh(x); }, 2.1, 2.7},
    {Op::erf, [](long double x) { return std::erf(x); }, 1.1, 0},
    {Op::sigmoid, sigmoid, 2.1, 2.1},
    {Op::sin, [](long double x) { return std::sin(x); }, 1.6, 0},
    {Op::cos, [](long double x) { return std::cos(x); }, 1.6, 0},
    {Op::tan, [](long double x) { return std::tan(x); }, 3.5, 0},
    {Op::asin, [](long double x) { return std::asin(x); }, 2.3, 2.3},
    {Op::acos, [](long double x) { return std::acos(x); }, 1.1, 1.3},
    {Op::atan, [](long double x) { return std::atan(x); }, 2.1, 2.4},
    {Op::sinh, [](long double x) { return std::sinh(x); }, 0.51, 2.9},
    {Op::cosh, [](long double x) { return std::cosh(x); }, 0.51, 2.9},
    {Op::asinh, [](long double x) { return std::asinh(x); }, 0.51, 1.7},
    {Op::acosh, [](long double x) { return std::acosh(x); }, 0.51, 1.4},
    {Op::atanh, [](long double x) { return std::atanh(x); }, 0.51, 1.9},
    {Op::log1p, [](long double x) { return std::log1p(x); }, 0.8, 1},
    {Op::expm1, [](long double x) { return std::expm1(x); }, 1.5, 2.1},
};

/// Returns |got - exact| in units of T's last place at `exact`. For subnormal results the unit is the smallest
/// subnormal.
template <class T>
double ulp_error(T got, long double exact) {
  constexpr int kDigits = std::numeric_limits<T>::digits;
  constexpr int kLowest = std::numeric_limits<T>::min_exponent - kDigits;
  const auto rounded = static_cast<T>(exact);
  if (std::isnan(got) || std::isnan(exact)) return std::isnan(got) && std::isnan(exact) ? 0 : INFINITY;
  if (std::isinf(rounded) || std::isinf(got)) {
    if (got == rounded) return 0;
    // One of the two is infinite, and the other may be just below the overflow threshold.
    if (std::signbit(got) != std::signbit(rounded)) return INFINITY;
    const long double top = std::ldexp(1.0L, std::numeric_limits<T>::max_exponent);
    got = std::isinf(got) ? std::numeric_limits<T>::max() : got;
    return std::fabs(static_cast<double>((std::min(std::fabs(exact), top) - std::fabs(got)) /
                                         std::ldexp(1.0L, std::numeric_limits<T>::max_exponent - kDigits)));
  }
  int exponent = 0;
  std::frexp(exact, &exponent);
  const int unit = std::max(exponent - kDigits, kLowest);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact) / std::ldexp(1.0L, unit));
}

LoopFunc apply(Op op, DType type, int64_t elems, const CpuLimits& limits) {
  LoopBuilder b(std::string(name(op)));
  const Buf x = b.input("x", type, elems);
  const Buf y = b.output("y", type, elems);
  b.vector_loop("i", elems, [&](Expr i) { b.store(y, i, unary(op, b.load(x, i))); });
  return loop_passes::lower(b.finish(), limits);
}

template <class T>
std::vector<T> run(const LoopFunc& func, const Target& target, std::vector<std::vector<T>> inputs) {
  const Mapped mapped(compile(std::span(&func, 1), target));
  std::vector<T> out(inputs[0].size());
  std::vector<std::byte*> args;
  for (auto& in : inputs) args.push_back(reinterpret_cast<std::byte*>(in.data()));
  args.push_back(reinterpret_cast<std::byte*>(out.data()));
  EXPECT_EQ(call(func, mapped.entry(0), args, 0, 1), 0);
  return out;
}

std::vector<float> samples_f32() {
  std::vector<float> x;
  constexpr uint32_t kStep = 20011;  // 214 000 of the 2^32 bit patterns
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += kStep)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (int i = -20000; i <= 20000; ++i) x.push_back(static_cast<float>(i) * 0.0053F);
  for (const float special : {0.0F,          1.0F,        0.5F,        2.0F,       0.70710678F, 1.41421356F,
                              88.722839F,    88.72284F,   87.336545F,  103.97208F, 104.0F,      88.37F,
                              88.38F,        9.01F,       3.92F,       0x1p-126F,  0x1p-149F,   0x1.fffffep-127F,
                              3.4028235e38F, 0.41421356F, 2.41421356F, INFINITY,   1.57079637F, 3.14159274F,
                              0x1p-13F,      16777216.0F}) {
    for (const float v : {special, std::nextafter(special, 0.0F), std::nextafter(special, INFINITY)}) {
      x.push_back(v);
      x.push_back(-v);
    }
  }
  x.push_back(std::numeric_limits<float>::quiet_NaN());
  x.push_back(std::bit_cast<float>(0x7f812345U));
  return x;
}

std::vector<double> samples_f64() {
  std::vector<double> x;
  std::mt19937_64 random(7);
  for (int i = 0; i < 60000; ++i) x.push_back(std::bit_cast<double>(random()));
  for (int i = -30000; i <= 30000; ++i) x.push_back(i * 0.0271 + 1e-5 * (i % 7));
  for (int i = -30000; i <= 30000; ++i) x.push_back(i * 0.0000331);
  for (const double special : {0.0, 1.0, 0.5, 709.782712893384, 708.39641853226, 745.133219101941, 710.4758600739439,
                               0x1p-1022, 0x1p-1074, 1.7976931348623157e308, 0x1p28, static_cast<double>(INFINITY)}) {
    for (const double v : {special, std::nextafter(special, 0.0), std::nextafter(special, INFINITY)}) {
      x.push_back(v);
      x.push_back(-v);
    }
  }
  x.push_back(std::numeric_limits<double>::quiet_NaN());
  return x;
}

struct Worst {
  double ulp = 0;
  double at = 0, got = 0, want = 0;
};

template <class T>
Worst worst_error(const Function& f, const Target& target, const std::vector<T>& x) {
  const LoopFunc func = apply(f.op, DTypeOf<T>::value, static_cast<int64_t>(x.size()), target.limits);
  const std::vector<T> y = run<T>(func, target, {x});
  Worst worst;
  for (size_t i = 0; i < x.size(); ++i) {
    const long double exact = f.exact(static_cast<long double>(x[i]));
    double e = ulp_error(y[i], exact);
    const bool flushed = f.op == Op::sigmoid && std::fabs(exact) < std::numeric_limits<T>::min();
    if (flushed && y[i] >= 0 && y[i] <= std::numeric_limits<T>::min()) e = 0;
    if (static_cast<T>(exact) == 0 && y[i] == 0 && std::signbit(exact) != std::signbit(y[i]) && f.op != Op::acosh)
      e = INFINITY;
    if (e > worst.ulp) worst = {e, static_cast<double>(x[i]), static_cast<double>(y[i]), static_cast<double>(exact)};
  }
  return worst;
}

class MathFunction : public ::testing::TestWithParam<Function> {};

TEST_P(MathFunction, StaysWithinItsErrorBound) {
  const Function& f = GetParam();
  const std::vector<float> x32 = samples_f32();
  const std::vector<double> x64 = samples_f64();
  EXPECT_EQ(loop_passes::has_math(f.op, DType::f64), f.f64_ulp > 0);
  for (const Target& target : targets_here()) {
    const Worst w = worst_error(f, target, x32);
    RecordProperty(std::string("f32_") + target.name, std::to_string(w.ulp));
    EXPECT_LE(w.ulp, f.f32_ulp) << target.name << " f32 at " << std::hexfloat << w.at << ": got " << w.got << ", exact "
                                << w.want;
    if (f.f64_ulp == 0) continue;
    const Worst d = worst_error(f, target, x64);
    RecordProperty(std::string("f64_") + target.name, std::to_string(d.ulp));
    EXPECT_LE(d.ulp, f.f64_ulp) << target.name << " f64 at " << std::hexfloat << d.at << ": got " << d.got << ", exact "
                                << d.want;
  }
}

INSTANTIATE_TEST_SUITE_P(All, MathFunction, ::testing::ValuesIn(kFunctions),
                         [](const auto& p) { return std::string(name(p.param.op)); });

TEST(MathExp, NonPositiveArgumentsMayFlushSubnormals) {
  const std::vector<float> x = samples_f32();
  const auto elems = static_cast<int64_t>(x.size());
  for (const Target& target : targets_here()) {
    LoopBuilder b("weights");
    const Buf from = b.input("x", DType::f32, elems), to = b.output("y", DType::f32, elems);
    b.vector_loop("i", elems,
                  [&](Expr i) { b.store(to, i, unary(Op::exp, min(imm(DType::f32, 0), b.load(from, i)))); });
    const std::vector<float> y = run<float>(loop_passes::lower(b.finish(), target.limits), target, {x});
    Worst worst;
    for (size_t i = 0; i < x.size(); ++i) {
      const float at = x[i] > 0 ? 0 : x[i];
      const long double exact = std::exp(static_cast<long double>(at));
      double e = ulp_error(y[i], exact);
      if (exact < std::numeric_limits<float>::min() && y[i] == 0) e = 0;
      if (e > worst.ulp) worst = {e, x[i], y[i], static_cast<double>(exact)};
      EXPECT_TRUE(at >= -87.7F || std::isnan(at) || y[i] == 0) << target.name << " at " << at << ": got " << y[i];
    }
    EXPECT_LE(worst.ulp, 1) << target.name << " at " << worst.at << ": got " << worst.got << ", exact " << worst.want;
  }
}

LoopFunc apply_binary(Op op, int64_t elems, const CpuLimits& limits) {
  LoopBuilder b(std::string(name(op)));
  const Buf x = b.input("x", DType::f32, elems);
  const Buf y = b.input("y", DType::f32, elems);
  const Buf z = b.output("z", DType::f32, elems);
  b.vector_loop("i", elems, [&](Expr i) { b.store(z, i, binary(op, b.load(x, i), b.load(y, i))); });
  return loop_passes::lower(b.finish(), limits);
}

void pairs(std::vector<float>& x, std::vector<float>& y) {
  const std::vector<float> special = {0.0F,
                                      1.0F,
                                      2.0F,
                                      3.0F,
                                      0.5F,
                                      2.5F,
                                      1e-40F,
                                      1e30F,
                                      3e38F,
                                      16777215.0F,
                                      16777216.0F,
                                      INFINITY,
                                      std::numeric_limits<float>::quiet_NaN(),
                                      0x1p-149F,
                                      1.0000001F,
                                      0.99999994F,
                                      0.1F,
                                      1e-20F};
  for (const float a : special) {
    for (const float b : special) {
      for (const float sx : {1.0F, -1.0F}) {
        for (const float sy : {1.0F, -1.0F}) {
          x.push_back(sx * a);
          y.push_back(sy * b);
        }
      }
    }
  }
  std::mt19937 random(3);
  for (int i = 0; i < 100000; ++i) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
    y.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
    x.push_back(std::exp2(static_cast<float>(static_cast<int32_t>(random())) * 0x1p-27F));
    y.push_back(static_cast<float>(static_cast<int32_t>(random())) * 0x1p-25F);
    x.push_back(static_cast<float>(static_cast<int32_t>(random() % 2001) - 1000) * 0.125F);
    y.push_back(static_cast<float>(static_cast<int32_t>(random() % 61) - 30) * 0.5F);
  }
}

TEST(MathPow, StaysWithinItsErrorBound) {
  std::vector<float> x, y;
  pairs(x, y);
  for (const Target& target : targets_here()) {
    const std::vector<float> z =
        run<float>(apply_binary(Op::pow, static_cast<int64_t>(x.size()), target.limits), target, {x, y});
    Worst worst;
    size_t at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const long double exact = std::pow(static_cast<long double>(x[i]), static_cast<long double>(y[i]));
      double e = ulp_error(z[i], exact);
      if (static_cast<float>(exact) == 0 && std::signbit(exact) != std::signbit(z[i])) e = INFINITY;
      if (e > worst.ulp)
        worst = {e, static_cast<double>(x[i]), static_cast<double>(z[i]), static_cast<double>(exact)}, at = i;
    }
    EXPECT_LE(worst.ulp, 0.51) << target.name << " " << x[at] << " ^ " << y[at] << ": got " << worst.got << ", exact "
                               << worst.want;
  }
}

TEST(MathMod, IsExact) {
  std::vector<float> x, y;
  pairs(x, y);
  for (const Target& target : targets_here()) {
    const std::vector<float> z =
        run<float>(apply_binary(Op::mod, static_cast<int64_t>(x.size()), target.limits), target, {x, y});
    for (size_t i = 0; i < x.size(); ++i) {
      const float want = std::fmod(x[i], y[i]);
      if (std::isnan(want) && std::isnan(z[i])) continue;
      ASSERT_EQ(std::bit_cast<uint32_t>(z[i]), std::bit_cast<uint32_t>(want))
          << target.name << " " << std::hexfloat << x[i] << " % " << y[i] << ": " << z[i] << " " << want;
    }
  }
}

}  // namespace
}  // namespace kilter::testing
