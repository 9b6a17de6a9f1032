// The code of contractions' register tiles: checks the disassembled innermost loops of AArch64 code, and of x86-64 code
// without multiply-adds.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "../base/scratch_folder.h"
#include "codegen/disassemble.h"
#include "compiled_case.h"
#include "ops/support/builder.h"

namespace kilter {
namespace {

/// Contractions of each template, large enough for full tiles. `product` adds a matrix product.
Graph contractions(bool product) {
  Graph graph;
  graph.name = "contractions";
  GraphBuilder b(graph);
  const auto weights = [&](const Shape& shape) {
    Tensor t(DType::f32, shape);
    std::fill_n(t.data<float>(), t.elems(), 0.5F);
    return b.constant(t);
  };
  const ValueId x = b.input("x", DType::f32, {1, 64, 28, 28});
  graph.add_output(b.add("Conv", {x, weights({64, 64, 1, 1})}), "point");
  graph.add_output(b.add("Conv", {x, weights({128, 64, 3, 3})}, {{"strides", std::vector<int64_t>{2, 2}}}), "direct");
  if (!product) return graph;
  graph.add_output(b.add("MatMul", {b.input("a", DType::f32, {120, 256}), weights({256, 256})}), "product");
  return graph;
}

class Tiles : public testing::TestWithParam<const char*> {};

TEST_P(Tiles, StayInRegistersAndKeepTheMultipliersBusy) {
  const ScratchFolder folder;
  CompileOptions options;
  options.target = parse_target(GetParam());
  options.debug.dump_ir = folder.path();
  const bool fma = options.target.limits.fma;  // without FMA, matrix products spill, which does not slow them down
  const Plan plan = compile_graph(contractions(fma), options).plan;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "loops"))
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(entry).replace_extension(".s"))) << entry.path();
  size_t tiled = 0;
  for (const int64_t kernel : plan.entries) {
    const std::span<const std::byte> code(plan.code, static_cast<size_t>(plan.code_bytes));
    for (const InnerLoop& loop : inner_loops(disassemble(code, kernel, options.target))) {
      if (loop.fmas < (fma ? 80 : 32)) continue;  // tiles of the remainder of a row
      ++tiled;
      const std::string where = fmt::format("kernel at {:#x}: {} multiply-adds, {} loads, {} instructions", kernel,
                                            loop.fmas, loop.loads, loop.instructions);
      EXPECT_EQ(loop.stack, 0) << where;
      if (!fma) continue;
      // While its two multipliers work, the core must be able to start all loads, and to issue 3.5 instructions per
      // cycle.
      EXPECT_LE(2 * loop.loads, loop.fmas * options.target.limits.loads_per_cycle * 1.1) << where;
      // With SVE, a broadcast from memory takes two instructions.
      EXPECT_LE(loop.instructions, (options.target.limits.masks ? 2.3 : 1.75) * loop.fmas) << where;
    }
  }
  EXPECT_GE(tiled, fma ? 3U : 2U);
}

INSTANTIATE_TEST_SUITE_P(Targets, Tiles,
                         testing::Values("aarch64", "cortex-a72", "neoverse-n1", "neoverse-v2", "neoverse-v1", "a64fx",
                                         "x86-64-v2"),
                         target_as_name);

}  // namespace
}  // namespace kilter
