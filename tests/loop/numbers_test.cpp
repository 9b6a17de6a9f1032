// Functions whose numbers are read from memory behave as before, for all numbers.
#include "loop/numbers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "loop/passes/passes.h"

namespace kilter {
namespace {

/// Rows of `columns` elements, scaled by a constant. Has two parallel dimensions, a vector loop, an unrolled one, a
/// strided load, a wrapped index and a float.
std::string rows(int64_t images, int64_t rows, int64_t columns, double factor) {
  const int64_t elems = images * rows * columns;
  return fmt::format(R"(func "rows" {{
  input x: f32[{0}]
  output y: f32[{0}]
  output z: f32[{0}]
  scratch s: f32[{3}]
  parallel n: {1}
  parallel r: {2}
  let first = (n * {2} + r) * {3}
  for v in [0, {3}) vector {{
    s[v] = x[first + v] * {4}:f32
  }}
  for w in [0, {3}) vector {{
    let at = select(w < 1, {3} - 1, w - 1)
    let inside = bitcast(u64, at) < {3}:u64
    check inside
    y[first + w] = s[at]
  }}
  for c in [0, {3}) {{
    for u in [0, 2) unrolled {{
      if u == 0 {{
        z[first + c] = y[first + c] + s[c]
      }}
    }}
  }}
  if n == 0 {{
    if r == 0 {{
      let column = x[0, lanes 2, stride {3}]
      z[0, lanes 2] = column
    }}
  }}
}}
)",
                     elems, images, rows, columns, factor);
}

std::string plain(std::string text) {  // the printed form has no "lanes" on the left
  const size_t at = text.find("z[0, lanes 2]");
  return text.replace(at, 13, "z[0]");
}

LoopFunc function(int64_t images, int64_t rows_, int64_t columns, double factor) {
  return parse_loop_func(plain(rows(images, rows_, columns, factor)));
}

struct Result {
  std::vector<float> y, z;
  bool operator==(const Result&) const = default;
};

/// Runs all parallel iterations. `items`: their number.
Result run(const LoopFunc& func, int64_t elems, int64_t items, std::vector<int64_t> dims = {}) {
  std::vector<float> x(static_cast<size_t>(elems));
  std::iota(x.begin(), x.end(), 1.0F);
  Result out{std::vector<float>(x.size()), std::vector<float>(x.size())};
  const auto bytes = [](auto& values) { return reinterpret_cast<std::byte*>(values.data()); };
  std::vector<std::byte*> args{bytes(x), bytes(out.y), bytes(out.z)};
  if (!dims.empty()) args.push_back(bytes(dims));
  // The interpreter checks bounds by the sizes in the function.
  LoopFunc sized = func;
  for (Buffer& b : sized.buffers) {
    if (b.type == DType::f32 && b.kind != BufferKind::scratch) b.elems = elems;
  }
  EXPECT_EQ(interpret(sized, args, 0, items), 0);
  return out;
}

/// A function that reads all numbers in which two functions differ, and the numbers of each.
struct Shared {
  LoopFunc func;
  std::vector<int64_t> first, second;
};
Shared share(const LoopFunc& a, const LoopFunc& b) {
  const LoopNumbers na = numbers_of(a), nb = numbers_of(b);
  EXPECT_EQ(na.structure, nb.structure);
  EXPECT_EQ(na.values.size(), nb.values.size());
  Shared out;
  std::vector<NumberPlace> places;
  for (size_t i = 0; i < na.values.size(); ++i) {
    if (na.values[i] == nb.values[i]) {
      places.emplace_back();
      continue;
    }
    // Every second number is read as 5 less than what is stored.
    const int64_t plus = out.first.size() % 2 == 0 ? 0 : -5;
    places.push_back({static_cast<int32_t>(out.first.size()), plus});
    out.first.push_back(na.values[i] - plus), out.second.push_back(nb.values[i] - plus);
  }
  std::vector<int64_t> scratch = na.scratch;
  for (size_t i = 0; i < scratch.size(); ++i) scratch[i] = std::max(scratch[i], nb.scratch[i]);
  out.func = reading_numbers(a, places, scratch);
  return out;
}

TEST(Numbers, StructureAndCodeDistinguishFunctions) {
  const LoopNumbers a = numbers_of(function(2, 3, 5, 0.5)), same = numbers_of(function(2, 3, 5, 0.5));
  const LoopNumbers other = numbers_of(function(2, 3, 7, 0.5)), factor = numbers_of(function(2, 3, 5, 0.25));
  EXPECT_EQ(a.code(), same.code());
  EXPECT_EQ(a.structure, other.structure);
  EXPECT_NE(a.code(), other.code());
  EXPECT_NE(a.code(), factor.code()) << "a float is a number, too";
  LoopFunc scratch = function(2, 3, 5, 0.5);
  for (Buffer& b : scratch.buffers) b.elems *= 2;
  EXPECT_NE(a.code(), numbers_of(scratch).code()) << "the places of scratch buffers are part of the code";
  EXPECT_EQ(a.structure, numbers_of(scratch).structure);
}

TEST(Numbers, UnrolledLoopsBelongToTheStructure) {
  const std::string text = plain(rows(2, 3, 5, 0.5));
  std::string longer = text;
  longer.replace(longer.find("[0, 2) unrolled"), 15, "[0, 3) unrolled");
  EXPECT_NE(numbers_of(parse_loop_func(text)).structure, numbers_of(parse_loop_func(longer)).structure);
}

TEST(Numbers, NumbersReadFromMemoryGiveTheSameResults) {
  const LoopFunc small = function(2, 3, 5, 0.5), large = function(3, 4, 70, 0.25);
  const Shared shared = share(small, large);
  verify_structure(shared.func);
  EXPECT_EQ(run(shared.func, 30, 6, shared.first), run(small, 30, 6));
  EXPECT_EQ(run(shared.func, 840, 12, shared.second), run(large, 840, 12));
  EXPECT_EQ(print(parse_loop_func(print(shared.func))), print(shared.func));
}

TEST(Numbers, LoweredFunctionsGiveTheSameResultsForEveryExtent) {
  for (const bool masks : {true, false}) {
    CpuLimits limits;
    limits.vector_bytes = 32, limits.masks = masks;
    const LoopFunc base = function(2, 3, 64, 0.5);
    for (int64_t columns = 2; columns <= 70; ++columns) {
      const LoopFunc own = function(1, 4, columns, 0.75);
      const LoopFunc shared_by_two = [&] {
        const Shared shared = share(base, own);
        return loop_passes::lower_shared(shared.func, limits);
      }();
      const int64_t elems = 4 * columns;
      EXPECT_EQ(run(shared_by_two, elems, 4, share(base, own).second), run(own, elems, 4)) << columns << " " << masks;
    }
  }
}

}  // namespace
}  // namespace kilter
