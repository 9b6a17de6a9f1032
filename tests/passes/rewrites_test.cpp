// The tables of rewrites: the names that options accept, and the effects of disabling and counting a row.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "../base/scratch_folder.h"
#include "base/files.h"
#include "compile/compile.h"
#include "ops/op.h"
#include "passes/pass.h"

namespace kilter {
namespace {

constexpr std::string_view kSwish = R"(graph "g" {
  input %x: f32[2,3]
  %s: f32[2,3] = Sigmoid@17 "s"(%x)
  %y: f32[2,3] = Mul@17 "y"(%x, %s)
  %z: f32[2,3] = Mul@17 "z"(%y, %y)
  output "z" %z
}
)";

CompileOptions with_disabled(std::set<std::string> disable) {
  CompileOptions options;
  options.target = native_target();
  options.contents.code = false;
  options.debug.disable = std::move(disable);
  return options;
}

int64_t count(const PassedGraph& passed, std::string_view op) {
  return std::ranges::count_if(passed.graph.order(), [&](NodeId id) { return passed.graph.node(id).op->name == op; });
}

/// The number of times that a rewrite was applied, summed over all passes.
int64_t times(const PassedGraph& passed, const std::string& rewrite) {
  int64_t all = 0;
  for (const PassTiming& timing : passed.timings) {
    const auto found = timing.by_rewrite.find(rewrite);
    all += found == timing.by_rewrite.end() ? 0 : found->second;
  }
  return all;
}

TEST(Rewrites, HaveUniqueNamesEquationsAndKnownOperators) {
  std::set<std::string_view> operators;
  for (const OpDef* op : all_ops()) operators.insert(op->name);
  std::set<std::string> names;
  size_t tables = 0;
  for (const PassRow& pass : all_passes()) {
    if (pass.rewrites == nullptr) continue;
    ++tables;
    for (const Rewrite& rewrite : pass.rewrites()) {
      const std::string name = full_name(pass.name, rewrite.name);
      EXPECT_TRUE(names.insert(name).second) << name;
      EXPECT_NE(rewrite.equation.find("=>"), std::string_view::npos) << name;
      for (const std::string_view op : rewrite.ops) EXPECT_TRUE(operators.contains(op)) << name << ": " << op;
    }
  }
  EXPECT_EQ(tables, 7U);
  EXPECT_EQ(full_name("canonicalise", "gemm"), "canonicalise.gemm");
}

TEST(Rewrites, AreCountedByName) {
  const PassedGraph passed = run_passes(parse_graph(std::string(kSwish)), with_disabled({}));
  EXPECT_EQ(count(passed, "Swish"), 1);
  EXPECT_EQ(times(passed, "recognise_patterns.swish"), 1);
  EXPECT_EQ(times(passed, "recognise_patterns.gelu"), 0);
}

TEST(Rewrites, DisabledOnesAreNotApplied) {
  const PassedGraph passed = run_passes(parse_graph(std::string(kSwish)), with_disabled({"recognise_patterns.swish"}));
  EXPECT_EQ(count(passed, "Swish"), 0);
  EXPECT_EQ(count(passed, "Sigmoid"), 1);
  EXPECT_EQ(times(passed, "recognise_patterns.swish"), 0);
}

TEST(Rewrites, NamesInOptionsMustBeKnown) {
  const auto said = [](const std::string& name) -> std::string {
    try {
      (void)run_passes(parse_graph(std::string(kSwish)), with_disabled({name}));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.message();
    }
    return "";
  };
  EXPECT_EQ(said("decompose.gemm"),
            "--disable: pass 'decompose' has no rewrite 'gemm'; legal values are lp_pool, global_lp_pool, lrn, trilu, "
            "one_hot, "
            "deform_conv, groups_of_operands");
  EXPECT_EQ(said("fuse.gelu"), "--disable: pass 'fuse' has no table of rewrites; disable the pass as a whole");
  EXPECT_TRUE(said("nothing.gelu").starts_with("--disable: no pass 'nothing'; legal values are integer_arithmetic, "));
}

TEST(Rewrites, DumpsSayWhyARewriteDoesNotApply) {
  const ScratchFolder folder;
  CompileOptions options = with_disabled({});
  options.debug.dump_ir = folder.path();
  run_passes(parse_graph(std::string(kSwish)), options);
  EXPECT_EQ(
      read_file(folder.path() / "10_recognise_patterns.rewrites"),
      "'y' recognise_patterns.swish: applied\n"
      "'z' recognise_patterns.gelu: not applied: it is not a product of x, 0.5 and 1 + Erf(x / sqrt 2)\n"
      "'z' recognise_patterns.group_norm_scale: not applied: no operand is a GroupNormalization with a scale for each "
      "channel that only this node reads\n"
      "'z' recognise_patterns.hard_swish: not applied: no operand is Clip(x + 3, 0, 6) / 6 or a HardSigmoid of 1/6 "
      "and 1/2 of the other operand\n"
      "'z' recognise_patterns.rms_norm: not applied: no operand is x over a root of mean(x * x) + e that nothing "
      "else reads\n"
      "'z' recognise_patterns.swish: not applied: no operand is the Sigmoid of the other\n");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "06_decompose.rewrites")) << "nothing was tried";
}

TEST(Rewrites, ALimitOnRewritesStopsThem) {
  for (const int64_t most : {0, 1}) {
    CompileOptions options = with_disabled({});
    options.debug.max_rewrites = most;
    const PassedGraph passed = run_passes(parse_graph(std::string(kSwish)), options);
    EXPECT_EQ(count(passed, "Swish"), most);
    int64_t all = 0;
    for (const PassTiming& timing : passed.timings) all += timing.rewrites;
    EXPECT_EQ(all, most) << "a row that does not apply must not count";
  }
}

}  // namespace
}  // namespace kilter
