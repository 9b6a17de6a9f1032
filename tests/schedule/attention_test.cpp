// The attention templates: all tile and block sizes, and single queries, give the reference kernel's results; illegal
// knobs are rejected.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compile/compile.h"
#include "compile/kernel_store.h"
#include "compile/session.h"
#include "ops/support/cases.h"
#include "ops/support/evaluate.h"

namespace kilter {
namespace {

const OpDef& attention() { return *find_op("kilter", "FusedAttention", 1); }

std::vector<Tensor> run(Compiled compiled, const std::vector<Tensor>& inputs) {
  const auto program = std::make_shared<const Program>(std::move(compiled.plan));
  Loaded loaded{program, std::make_unique<Instance>(program, std::make_shared<ThreadPool>(2)), {}};
  return run_plan(loaded, inputs);
}

/// Compiles a case with a schedule (the default if empty) and runs it.
std::vector<Tensor> run(const OpCase& c, const std::string& schedule, std::string_view target) {
  CompileOptions options;
  options.target = parse_target(target);
  const Graph& graph = c.graph;
  if (!schedule.empty()) options.choices[graph.node(graph.order().front()).name].schedule = parse_schedule(schedule);
  Compiled compiled = compile_graph(graph, options);
  EXPECT_EQ(compiled.plan.steps.size(), 1U);
  const Shape& queries = c.inputs.at(0).shape();
  const std::string usual = queries.at(queries.size() - 2) == 1 ? "attention_query" : "attention_rows";
  EXPECT_TRUE(compiled.plan.steps.at(0).schedule.starts_with(schedule.empty() ? usual : schedule))
      << compiled.plan.steps.at(0).schedule;
  return run(std::move(compiled), c.inputs);
}

std::vector<std::string_view> targets() {
  std::vector<std::string_view> here;
  for (const std::string_view name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    if (runs_here(parse_target(name))) here.push_back(name);
  }
  return here;
}

void expect_right(const std::string& text, const std::string& schedule) {
  const OpCase c = make_case(attention(), text);
  const Tensor want = evaluate(c.graph, c.inputs).at(0);
  for (const std::string_view target : targets()) {
    const auto difference = compare(run(c, schedule, target).at(0), want, c.tolerance);
    EXPECT_FALSE(difference.has_value()) << text << " | " << schedule << " on " << target << ": " << *difference;
  }
}

std::string refusal(const std::string& schedule) {
  const OpCase c = make_case(attention(), "f32[5,8] f32[40,8] f32[40,8]");
  try {
    run(c, schedule, "x86-64-v2");
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(AttentionRows, EveryTileGivesTheSameResult) {
  // On every target, 37 queries leave a partial block, and 45 keys and 20 columns leave a partial tile.
  const std::string problem = "f32[2,37,19] f32[2,45,19] f32[2,45,20] f32[37,45] | scale=0.3";
  for (const std::string tiles : {"vectors=1 rows=1", "vectors=1 rows=12", "vectors=2 rows=6", "vectors=3 rows=3"}) {
    for (const std::string keys : {"45", "16"}) {
      for (const std::string out :
           {"out_vectors=1 out_rows=12", "out_vectors=2 out_rows=5", "out_vectors=8 out_rows=1"}) {
        expect_right(problem, "attention_rows " + tiles + " keys=" + keys + " " + out);
      }
    }
  }
}

TEST(AttentionRows, DefaultsAreCorrectForManySizes) {
  for (const int queries : {1, 4, 15, 16, 31, 50, 197}) {
    for (const int keys : {1, 7, 16, 197}) {
      const int size = queries % 2 == 0 ? 24 : 80, v_size = keys % 2 == 0 ? 64 : 9;
      const bool masked = (queries + keys) % 3 != 0;
      expect_right(fmt::format("f32[1,2,{0},{2}] f32[1,2,{1},{2}] f32[1,2,{1},{3}]{4} | scale=0.2", queries, keys, size,
                               v_size, masked ? fmt::format(" f32[1,1,1,{}]", keys) : ""),
                   "");
    }
  }
}

/// The kernels that attention over `lengths` queries and keys needs, if layers of all these lengths share them. Checks
/// the result of each.
size_t kernels_for(const std::vector<int>& lengths, std::string_view target) {
  KernelStore store;
  store.share(true);
  for (const int n : lengths) {
    const OpCase c = make_case(attention(), fmt::format("f32[2,{0},24] f32[2,{0},24] f32[2,{0},20] f32[{0}]", n));
    CompileOptions options;
    options.target = parse_target(target);
    options.shared.kernels = &store;
    const Tensor got = run(compile_graph(c.graph, options), c.inputs).at(0);
    const auto difference = compare(got, evaluate(c.graph, c.inputs).at(0), c.tolerance);
    EXPECT_FALSE(difference.has_value()) << n << " on " << target << ": " << *difference;
  }
  return store.size();
}

TEST(AttentionRows, LengthsShareFewKernels) {
  std::vector<int> lengths;
  for (int n = 2; n < 700; n += n < 80 ? 1 : 13) lengths.push_back(n);
  for (const std::string_view target : targets()) EXPECT_LE(kernels_for(lengths, target), 20U) << target;
}

TEST(AttentionQuery, IsCorrectForAllSizes) {
  for (const int size : {1, 8, 19, 64, 130}) {
    for (const int keys : {1, 7, 15, 16, 17, 45, 197}) {
      for (const int v_size : {3, 16, 20, 64, 150}) {
        const int kind = (size + keys + v_size) % 3;
        const std::string mask =
            kind == 0 ? "" : fmt::format(" f32[{}]", kind == 1 ? fmt::format("3,1,{}", keys) : std::to_string(keys));
        expect_right(fmt::format("f32[3,1,{0}] f32[3,{1},{0}] f32[3,{1},{2}]{3} | scale=0.4", size, keys, v_size, mask),
                     "attention_query");
      }
    }
  }
}

TEST(AttentionQuery, HeadsMayShareKeys) {
  expect_right("f32[2,4,1,24] f32[2,1,37,24] f32[1,4,37,20] f32[2,1,1,1] | scale=0.3", "attention_query");
}

TEST(AttentionQuery, ScoresThatAreMaskedOrNaN) {
  const std::string three =
      "f32[3,1,4] f32[3,5,4] f32[3,5,18] f32[3,1,5]:"
      "-inf,-inf,-inf,-inf,-inf, 0,-inf,0,-inf,0, -inf,-inf,-inf,-inf,0";
  for (const std::string rule : {"", " | empty_is_zero=1", " | nan_is_zero=1"})
    expect_right(three + rule, "attention_query");
}

TEST(AttentionQuery, OtherAttentionIsRefused) {
  EXPECT_NE(refusal("attention_query").find("queries: limit 1, got 5"), std::string::npos)
      << refusal("attention_query");
}

TEST(AttentionRows, RowsMaskedInWholeBlocksOfKeys) {
  // Blocks of 16 keys: the first query sees only the last block, the second only the first, the third none.
  std::string mask;
  for (int query = 0; query < 3; ++query) {
    for (int key = 0; key < 48; ++key) {
      const bool seen = query == 0 ? key >= 33 : query == 1 ? key < 5 : false;
      mask += (mask.empty() ? "" : ",") + std::string(seen ? "0" : "-inf");
    }
  }
  const std::string problem = "f32[3,8] f32[48,8] f32[48,16] f32[3,48]:" + mask;
  for (const std::string rule : {"", " | empty_is_zero=1"}) {
    expect_right(problem + rule, "attention_rows vectors=1 rows=6 keys=16 out_vectors=1 out_rows=6");
    expect_right(problem + rule, "");
  }
}

TEST(AttentionRows, LongSequencesAreProcessedInBlocksOfKeys) {
  const OpCase c = make_case(attention(), "f32[1,64,64] f32[1,20000,64] f32[1,20000,64] | scale=0.1");
  for (const std::string_view target : targets()) {
    CompileOptions options;
    options.target = parse_target(target);
    const Compiled compiled = compile_graph(c.graph, options);
    EXPECT_LE(compiled.plan.scratch_bytes, options.target.limits.l2_bytes / 2) << target;
    EXPECT_EQ(compiled.plan.arena_bytes, 0) << target;
  }
}

TEST(AttentionRows, IllegalKnobsAreRefused) {
  EXPECT_NE(refusal("attention_rows vectors=1 rows=6 keys=17 out_vectors=1 out_rows=6")
                .find("attention_rows knob keys: limit one of 16, 32, 40, got 17"),
            std::string::npos);
  EXPECT_NE(refusal("attention_rows vectors=4 rows=3 keys=40 out_vectors=1 out_rows=6")
                .find("register tile (rows with 4 vectors each): limit 2, got 3"),
            std::string::npos)
      << refusal("attention_rows vectors=4 rows=3 keys=40 out_vectors=1 out_rows=6");
  EXPECT_NE(refusal("attention_rows vectors=1 rows=6 keys=40 out_vectors=8 out_rows=2").find("out_rows with 8"),
            std::string::npos);
  EXPECT_NE(refusal("matmul_tiled vectors=1 rows=1 prefetch=0").find("operator: limit MatMul, got FusedAttention"),
            std::string::npos);
}

}  // namespace
}  // namespace kilter
