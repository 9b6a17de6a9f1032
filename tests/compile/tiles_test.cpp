// What the register tiles of contractions become: innermost loops of AArch64 code, read from the assembly.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "../base/scratch_folder.h"
#include "base/files.h"
#include "base/text.h"
#include "guarded_run.h"
#include "ops/builder.h"

namespace kilter {
namespace {

struct InnerLoop {
  int instructions = 0, multiply_adds = 0, loads = 0, stack = 0;
};

/// A loop is what stands between a label and a branch back to it; an innermost one holds no other branch back.
std::vector<InnerLoop> inner_loops(const std::string& assembly) {
  std::vector<InnerLoop> found;
  std::map<std::string, size_t> labels;  // first instruction behind each
  std::vector<std::string> lines;
  size_t last_back = 0;
  std::istringstream text(assembly);
  for (std::string line; std::getline(text, line);) {
    const std::string_view code = trim(std::string_view(line).substr(0, line.find("//")));
    if (code.ends_with(':')) labels[std::string(code.substr(0, code.size() - 1))] = lines.size();
    if (code.empty() || code.ends_with(':') || code.starts_with('.')) continue;
    lines.emplace_back(code);
    const size_t label = code.find(".LBB");
    if (label == std::string_view::npos) continue;
    const auto at = labels.find(std::string(code.substr(label)));
    if (at == labels.end() || at->second < last_back) continue;
    last_back = lines.size();
    InnerLoop loop;
    for (size_t i = at->second; i < lines.size(); ++i) {
      ++loop.instructions;
      loop.multiply_adds += lines[i].starts_with("fmla") ? 1 : 0;
      loop.loads += lines[i].starts_with("ld") ? 1 : 0;
      loop.stack += lines[i].find("[sp") != std::string::npos ? 1 : 0;
    }
    found.push_back(loop);
  }
  return found;
}

/// Contractions of each template, large enough for full tiles.
Graph contractions() {
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
  graph.add_output(b.add("MatMul", {b.input("a", DType::f32, {120, 256}), weights({256, 256})}), "product");
  return graph;
}

class Tiles : public testing::TestWithParam<const char*> {};

TEST_P(Tiles, StayInRegistersAndKeepTheMultipliersBusy) {
  const ScratchFolder folder;
  CompileOptions options;
  options.target = parse_target(GetParam());
  options.dump_ir = folder.path();
  compile_graph(contractions(), options);
  size_t tiled = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "loops")) {
    if (entry.path().extension() != ".s") continue;
    for (const InnerLoop& loop : inner_loops(read_file(entry.path()))) {
      if (loop.multiply_adds < 80) continue;  // tiles of the rest of a row
      ++tiled;
      const std::string where =
          fmt::format("{}: {} multiply-adds, {} loads, {} instructions", entry.path().filename().string(),
                      loop.multiply_adds, loop.loads, loop.instructions);
      EXPECT_EQ(loop.stack, 0) << where;
      // At most as many loads as the core starts while its two multipliers work, and 3.5 instructions a cycle.
      EXPECT_LE(2 * loop.loads, loop.multiply_adds * options.target.limits.loads_per_cycle * 1.1) << where;
      EXPECT_LE(loop.instructions, 1.75 * loop.multiply_adds) << where;
    }
  }
  EXPECT_GE(tiled, 3U);
}

INSTANTIATE_TEST_SUITE_P(Targets, Tiles, testing::Values("aarch64", "cortex-a72", "neoverse-n1"),
                         [](const testing::TestParamInfo<const char*>& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace kilter
