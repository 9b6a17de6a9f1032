// OpenCL C: functions with bound loops, scratch memory and checks against the interpreter, and what is refused.
#include <gmock/gmock.h>

#include <numeric>

#include "codegen/opencl/source.h"
#include "run.h"

namespace kilter::testing {
namespace {

using ::testing::HasSubstr;

template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

const Target& opencl() {
  static const Target target = parse_target("opencl");
  return target;
}

/// Runs a function of f32 buffers on the device and in the interpreter, on inputs 0, 1, 2, ..., and compares the result
/// and the buffers.
void check(std::string_view text) {
  const LoopFunc func = parse_loop_func(text);
  verify(func);
  const LoopFunc lowered = loop_passes::lower(func, opencl().limits);
  std::vector<std::vector<float>> ours, theirs;
  std::vector<std::byte*> our_args, their_args;
  for (const Buffer& b : func.buffers) {
    if (b.kind == BufferKind::scratch) continue;
    ours.emplace_back(static_cast<size_t>(b.elems));
    std::iota(ours.back().begin(), ours.back().end(), 0.F);
  }
  theirs = ours;
  for (auto& buffer : ours) our_args.push_back(reinterpret_cast<std::byte*>(buffer.data()));
  for (auto& buffer : theirs) their_args.push_back(reinterpret_cast<std::byte*>(buffer.data()));
  const int32_t result = run_compiled(lowered, opencl(), our_args);
  EXPECT_EQ(result, interpret(func, their_args, 0, func.parallel_extent()));
  EXPECT_EQ(ours, theirs) << codegen::opencl_kernel(lowered).source;
}

TEST(OpenCl, ThreadsOfABlockShareMemoryBetweenBarriers) {
  check(R"(func "block_sums" {
  input x: f32[128]
  output y: f32[4]
  scratch part: shared f32[32]
  for b in [0, 4) block_x {
    let first = b * 32
    for t in [0, 32) thread_x {
      part[t] = x[first + t]
      barrier
      reg width = 16
      for round in [0, 5) {
        if t < width {
          part[t] = part[t] + part[t + width]
        }
        barrier
        set width = width / 2
      }
      if t == 0 {
        y[b] = part[0]
      }
    }
  }
})");
}

TEST(OpenCl, AllAxesOfBlocksAndThreadsAreBound) {
  check(R"(func "axes" {
  input w: constant f32[8]
  output y: f32[1440]
  scratch mine: local f32[2]
  for bz in [0, 2) block_z {
    for by in [0, 3) block_y {
      for bx in [0, 4) block_x {
        for tz in [0, 5) thread_z {
          for ty in [0, 2) thread_y {
            for tx in [0, 6) thread_x {
              mine[0] = w[tx] * 10:f32
              mine[1] = w[tz]
              y[((((bz * 3 + by) * 4 + bx) * 5 + tz) * 2 + ty) * 6 + tx] = mine[0] + mine[1]
            }
          }
        }
      }
    }
  }
})");
}

TEST(OpenCl, IterationsHaveScratchMemoryOfTheirOwn) {
  check(R"(func "reverse_rows" {
  input x: f32[700]
  output y: f32[700]
  scratch row: f32[7]
  scratch other: f32[1]
  parallel r: 20
  parallel q: 5
  let from = (r * 5 + q) * 7
  other[0] = x[from]
  for i in [0, 7) {
    row[6 - i] = x[from + i]
  }
  for j in [0, 7) {
    y[from + j] = row[j] + other[0]
  }
})");
}

TEST(OpenCl, FailedChecksAreReturned) {
  for (const char* limit : {"11", "12"}) {
    check(fmt::format(R"(func "checked" {{
  input x: f32[12]
  output y: f32[12]
  parallel i: 12
  check i < {}
  y[i] = x[i] * 2:f32
}})",
                      limit));
  }
}

TEST(OpenCl, LoopsWithOtherStepsAndBoundsThatVary) {
  check(R"(func "triangle" {
  input x: f32[64]
  output y: f32[8]
  parallel i: 8
  reg sum = 0:f32
  for k in [i, i * i + 1) step 3 {
    set sum = sum + x[k]
  }
  y[i] = sum
})");
}

TEST(OpenCl, OddVectorsAndTileRegistersAreRefused) {
  const auto refused = [](std::string_view text) {
    const LoopFunc func = parse_loop_func(text);
    return error_of([&] { compile_objects(std::span(&func, 1), opencl()); });
  };
  EXPECT_EQ(
      refused(R"(func "vectors" {
  input x: f32[8]
  output y: f32[8]
  y[0] = x[0, lanes 6]
})"),
      "kernel 'vectors': the back end 'opencl' does not accept it: lanes of a vector: limit 1, 2, 3, 4, 8 or 16, got "
      "f32x6");
  EXPECT_EQ(refused(R"(func "tiles" {
  output y: f32[4]
  tiles c: f32[1, 4] {
    tile_zero c
    tile_store y[0, stride 4] = c
  }
})"),
            "kernel 'tiles': the back end 'opencl' does not accept it: tile registers: limit none, got some");
}

TEST(OpenCl, SharedExpressionsAreComputedOnce) {
  const LoopFunc func = parse_loop_func(R"(func "shared" {
  input x: f32[4]
  output y: f32[4]
  parallel i: 4
  y[i] = ($0 = x[i] * 3:f32) * $0 + $0
})");
  const std::string source = codegen::opencl_kernel(func).source;
  EXPECT_THAT(source, HasSubstr("const float t0 = (b0_x[v0_i] * 0x1.8p+1f);"));
  EXPECT_THAT(source, HasSubstr("b1_y[v0_i] = ((t0 * t0) + t0);"));
}

TEST(OpenCl, FactsOfAKernelRoundTrip) {
  codegen::OpenClKernel k;
  k.buffers = 3;
  k.groups = {4, 5, 6};
  k.threads = {32, 2, 1};
  k.bound = k.checked = true;
  k.source = "kernel void KILTER_KERNEL() {}\n";
  const std::string text = codegen::to_text(k);
  EXPECT_EQ(codegen::to_text(codegen::parse_opencl_kernel(text)), text);
  EXPECT_THAT(error_of([] { codegen::parse_opencl_kernel("opencl 3 4"); }),
              HasSubstr("expected a line of facts about an OpenCL kernel"));
}

}  // namespace
}  // namespace kilter::testing
