// Every pass on random networks: results, inputs and outputs stay the same, and a second run has nothing left to do.
#include <gtest/gtest.h>

#include <map>

#include "../compile/random_net.h"
#include "compile/compile.h"
#include "ops/support/evaluate.h"
#include "pass_runner.h"

namespace kilter {
namespace {

constexpr uint64_t kNets = 400;

/// Rewritten sums and factors round differently; everything else stays bit-identical.
constexpr Tolerance kTolerance{.rtol = 1e-4, .atol = 1e-5};

std::string ports(const Graph& graph) {
  std::string out;
  for (ValueId v : graph.inputs()) out += graph.value(v).name + ": " + text(graph.type(v)) + "\n";
  for (const Graph::Output& o : graph.outputs()) {
    out += o.name + ": " + text(graph.type(o.value)) + "\n";
  }
  return out;
}

void expect_same(const std::vector<Tensor>& got, const std::vector<Tensor>& want, const Graph& before,
                 const Graph& now) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(compare(got[i], want[i], kTolerance).value_or(""), "")
        << "output " << i << "\nbefore: " << print(before) << "after: " << print(now);
  }
}

/// The graph as read back from its text form.
Graph read_back(const Graph& graph) {
  std::map<std::string, Tensor> constants;
  for (ValueId v = 0; v < static_cast<ValueId>(graph.value_count()); ++v) {
    const Value& value = graph.value(v);
    if (!value.dead && value.constant) constants.emplace(value.name, *value.constant);
  }
  return parse_graph(print(graph), constants);
}

struct Setup {
  size_t pass;    ///< index in all_passes()
  bool prepared;  ///< the earlier passes have run
};

class PassOnRandomNets : public testing::TestWithParam<Setup> {};

TEST_P(PassOnRandomNets, KeepsResultsAndIsIdempotent) {
  const PassRow& row = all_passes()[GetParam().pass];
  int64_t total = 0;
  for (uint64_t seed = 0; seed < kNets && !HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("network {}", seed));
    SweepNet net(seed ^ hash_text("passes"));
    draw_nodes(net, net.draw.between(1, 14));
    Graph graph = net.graph();
    for (size_t p = 0; p < GetParam().pass && GetParam().prepared; ++p) run_pass(all_passes()[p].function, graph);
    const Graph before = graph;
    const std::vector<Tensor> want = evaluate(before, net.inputs());
    total += run_pass(row.function, graph);
    EXPECT_EQ(ports(graph), ports(before));
    expect_same(evaluate(graph, net.inputs()), want, before, graph);
    const std::string once = print(graph);
    const Graph read = read_back(graph);
    verify(read);
    EXPECT_EQ(print(read), once);
    expect_same(evaluate(read, net.inputs()), want, before, read);
    EXPECT_EQ(run_pass(row.function, graph), 0) << "before: " << print(before) << "after: " << once;
    EXPECT_EQ(print(graph), once);
  }
  // The networks contain no narrow floats, no quantised layers or weights, no patterns to recognise, no operators to
  // decompose, and no images that the last passes improve. Signals become images only in canonicalise. The earlier
  // passes leave no dead, constant or equal nodes.
  const bool nothing_left =
      row.name.starts_with("recognise_") || row.name.starts_with("fuse_") || row.name == "decompose" ||
      row.name == "block_weights" || row.name == "widen_floats" || row.name == "integer_arithmetic" ||
      row.name == "store_integers" || (!GetParam().prepared && row.name == "signals_as_images") ||
      (GetParam().prepared &&
       (row.name == "fold_again" || row.name == "dead_code" || row.name == "common_subexpressions"));
  EXPECT_TRUE(total > 0 || nothing_left) << "no network was rewritten";
}

std::vector<Setup> setups() {
  std::vector<Setup> all;
  for (size_t p = 0; p < all_passes().size(); ++p) {
    all.push_back({p, false});
    if (p > 0) all.push_back({p, true});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Passes, PassOnRandomNets, testing::ValuesIn(setups()), [](const auto& setup) {
  return std::string(all_passes()[setup.param.pass].name) + (setup.param.prepared ? "_InItsPlace" : "_Alone");
});

/// Every limit on the number of rewrites, from 0 up, gives a graph with the same results.
TEST(Passes, AnyRewriteLimitKeepsResults) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SweepNet net(seed ^ hash_text("bisect"));
    draw_nodes(net, 10);
    const std::vector<Tensor> want = evaluate(net.graph(), net.inputs());
    for (int64_t most = 0; most < 12; ++most) {
      Graph graph = net.graph();
      int64_t left = most;
      for (const PassRow& row : all_passes()) {
        const int64_t done = run_pass(row.function, graph, "x86-64-v3", left);
        if (row.name != "dead_code") left -= done;
        ASSERT_GE(left, 0) << row.name;
      }
      expect_same(evaluate(graph, net.inputs()), want, net.graph(), graph);
    }
  }
}

}  // namespace
}  // namespace kilter
