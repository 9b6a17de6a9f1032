#include "tune/graph/solvers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <limits>
#include <map>

#include "../base/error_of.h"
#include "networks.h"
namespace kilter::tune {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

ChoiceAnswer brute_force(const ChoiceProblem& problem) {
  const auto answer = solve_brute_force(problem);
  return *answer;
}

/// Fails unless the solution states the true cost of its choice and its claims about optimality are true.
void expect_honest(const ChoiceProblem& problem, const ChoiceAnswer& answer, double optimum, const std::string& where) {
  ASSERT_EQ(answer.choice.size(), problem.nodes.size()) << where;
  const double ms = problem.cost_ms(answer.choice);
  const double close = 1e-8 * (1 + static_cast<double>(problem.nodes.size() + problem.edges.size()));
  if (std::isinf(optimum)) {
    EXPECT_TRUE(std::isinf(answer.ms)) << where;
    return;
  }
  EXPECT_DOUBLE_EQ(ms, answer.ms) << where;
  EXPECT_GE(answer.ms, optimum - close) << where;
  EXPECT_LE(answer.lower_bound_ms, optimum + close) << where;
  EXPECT_LE(answer.lower_bound_ms, answer.ms) << where;
  if (answer.exact) {
    EXPECT_NEAR(answer.ms, optimum, close) << where << ": " << answer.how;
    EXPECT_EQ(answer.gap(), 0) << where;
  }
}

TEST(Greedy, TakesEachNodesCheapest) {
  const ChoiceProblem problem{{{3, 1}, {2, 5}}, {{0, 1, {0, 0, 10, 0}}}};
  const ChoiceAnswer answer = solve_greedy(problem);
  EXPECT_EQ(answer.choice, (std::vector<size_t>{1, 0}));
  EXPECT_DOUBLE_EQ(answer.ms, 13);
  EXPECT_DOUBLE_EQ(answer.lower_bound_ms, 3);
  EXPECT_FALSE(answer.exact);
}

TEST(BruteForce, KnownProblem) {
  const ChoiceProblem problem{{{3, 1}, {2, 5}}, {{0, 1, {0, 0, 10, 0}}}};
  const ChoiceAnswer answer = brute_force(problem);
  EXPECT_EQ(answer.choice, (std::vector<size_t>{0, 0}));
  EXPECT_DOUBLE_EQ(answer.ms, 5);
  EXPECT_TRUE(answer.exact);
}

TEST(BruteForce, RefusesTooManyCombinations) {
  ChoiceProblem problem;
  for (int i = 0; i < 30; ++i) problem.nodes.push_back({1, 2, 3});
  const auto answer = solve_brute_force(problem);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.rejected().text(), "combinations for brute force: limit 1e+07, got 2.059e+14");
}

TEST(Forest, EqualsBruteForceOnRandomForests) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    RandomOptions options;
    options.forest = true;
    options.nodes = 1 + seed % 8;
    options.impossible = seed % 3 == 0 ? 0.2 : 0;
    options.whole = seed % 2 == 0;
    const ChoiceProblem problem = random_problem(options, seed);
    const auto answer = solve_forest(problem);
    ASSERT_TRUE(answer) << seed;
    const double optimum = brute_force(problem).ms;
    ASSERT_TRUE(answer->exact);
    expect_honest(problem, *answer, optimum, fmt::format("forest, seed {}", seed));
  }
}

TEST(Forest, RefusesCycles) {
  const ChoiceProblem problem{{{1}, {1}, {1}}, {{0, 1, {0}}, {1, 2, {0}}, {2, 0, {0}}}};
  const auto answer = solve_forest(problem);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.rejected().text(),
            "graph for dynamic programming: limit a forest (no cycle of edges), got 3 nodes with 3 edges and a cycle");
}

TEST(Forest, LongChain) {
  const ChoiceProblem problem = network_problem(Shape::chain, 5000, 8, 1);
  const auto chain = *solve_forest(problem);
  const ChoiceAnswer pbqp = solve_pbqp(problem);
  EXPECT_TRUE(pbqp.exact);
  EXPECT_NEAR(chain.ms, pbqp.ms, 1e-9 * chain.ms);
  EXPECT_LT(chain.ms, solve_greedy(problem).ms);
}

struct Limits {
  const char* name;
  PbqpOptions options;
};

/// Options that leave out parts of the solver, so that no part can hide the faults of another.
std::vector<Limits> all_limits() {
  return {{"all", {}},
          {"no tables", {0, 120, 100'000, 40'000'000}},
          {"branches without bound", {0, 0, 100'000, 40'000'000}},
          {"bound without branches", {0, 60, 0, 0}},
          {"few branches", {0, 6, 20, 40'000'000}},
          {"heuristic alone", {0, 0, 0, 0}}};
}

TEST(Pbqp, ExactnessAndBoundsHoldOnSmallRandomGraphs) {
  std::map<std::string, int> exact;
  std::map<std::string, int> best;
  constexpr uint64_t kGraphs = 4000;
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    RandomOptions options;
    options.nodes = 1 + seed % 9;
    options.alternatives = options.nodes > 7 ? 3 : 4;
    options.edges_per_node = 0.5 + 0.5 * static_cast<double>(seed / 9 % 7);
    options.impossible = seed % 5 == 0 ? 0.25 : 0;
    options.whole = seed % 4 == 0;
    const ChoiceProblem problem = random_problem(options, seed);
    const double optimum = brute_force(problem).ms;
    const double greedy = solve_greedy(problem).ms;
    for (const Limits& limits : all_limits()) {
      const ChoiceAnswer answer = solve_pbqp(problem, limits.options);
      expect_honest(problem, answer, optimum, fmt::format("{}, seed {}", limits.name, seed));
      EXPECT_LE(answer.ms, greedy) << limits.name << ", seed " << seed;
      exact[limits.name] += answer.exact ? 1 : 0;
      best[limits.name] += answer.ms <= optimum + 1e-9 || std::isinf(optimum) ? 1 : 0;
    }
    if (HasFailure()) return;
  }
  for (const char* name : {"all", "no tables", "branches without bound"}) EXPECT_EQ(exact[name], kGraphs) << name;
  EXPECT_GT(exact["bound without branches"], kGraphs * 8 / 10);
  EXPECT_LT(exact["heuristic alone"], kGraphs);
  EXPECT_GT(best["heuristic alone"], kGraphs * 8 / 10);
}

TEST(Pbqp, IsolatedNodesSeveralEdgesAndNone) {
  EXPECT_DOUBLE_EQ(solve_pbqp({}).ms, 0);
  EXPECT_TRUE(solve_pbqp({}).exact);
  const ChoiceProblem alone{{{3, 1, 2}, {5}, {9, 8}}, {}};
  EXPECT_EQ(solve_pbqp(alone).choice, (std::vector<size_t>{1, 0, 1}));
  EXPECT_DOUBLE_EQ(solve_pbqp(alone).ms, 14);
  // Two edges in opposite directions: together they make (1, 0) the best.
  const ChoiceProblem twice{{{0, 0}, {0, 0}}, {{0, 1, {4, 4, 1, 4}}, {1, 0, {4, 1, 4, 4}}}};
  EXPECT_EQ(solve_pbqp(twice).choice, (std::vector<size_t>{1, 0}));
  EXPECT_DOUBLE_EQ(solve_pbqp(twice).ms, 2);
}

TEST(Pbqp, ImpossibleProblemsHaveInfiniteCost) {
  // Three nodes with two alternatives must all differ, which is impossible.
  const std::vector<double> different = {kImpossible, 0, 0, kImpossible};
  const ChoiceProblem triangle{{{0, 0}, {0, 0}, {0, 0}}, {{0, 1, different}, {1, 2, different}, {2, 0, different}}};
  const ChoiceAnswer answer = solve_pbqp(triangle);
  EXPECT_TRUE(answer.exact);
  EXPECT_TRUE(std::isinf(answer.ms));
  EXPECT_TRUE(std::isinf(answer.lower_bound_ms));
  EXPECT_EQ(answer.choice.size(), 3);
  const ChoiceProblem node{{{kImpossible}, {1}}, {}};
  EXPECT_TRUE(std::isinf(solve_pbqp(node).ms));
  EXPECT_TRUE(std::isinf(solve_forest(node)->ms));
}

std::string message_of(const ChoiceProblem& problem) {
  return error_of([&] { check(problem); });
}

TEST(Problem, RefusesInvalidProblems) {
  EXPECT_EQ(message_of({{{1}}, {{0, 0, {1}}}}),
            "graph tuner: edge 0 joins node 0 with itself; add its costs to the node's");
  EXPECT_EQ(message_of({{{1}, {}}, {}}), "graph tuner: node 1 has no alternatives");
  EXPECT_EQ(message_of({{{1}}, {{0, 1, {1}}}}), "graph tuner: edge 0 joins 0 and 1; there are 1 nodes");
  EXPECT_EQ(message_of({{{1}, {1, 2}}, {{0, 1, {1}}}}), "graph tuner: edge 0 has 1 costs; expected 1 x 2");
  EXPECT_EQ(message_of({{{std::nan("")}}, {}}),
            "graph tuner: node 0 has a cost of nan ms; expected a number or infinity");
  EXPECT_EQ(message_of({{{1}, {1}}, {{0, 1, {-kImpossible}}}}),
            "graph tuner: edge 0 has a cost of -inf ms; expected a number or infinity");
}

/// Tables and branches have only the reductions in common: if both claim to be exact, they must agree.
TEST(Pbqp, TablesAndBranchesAgreeOnLargerGraphs) {
  int both = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomOptions options;
    options.nodes = 14 + seed % 8;
    options.edges_per_node = 2.2;
    options.impossible = seed % 3 == 0 ? 0.1 : 0;
    options.whole = seed % 2 == 0;
    const ChoiceProblem problem = random_problem(options, seed);
    const ChoiceAnswer tables = solve_pbqp(problem, {1 << 24, 0, 0, 0});
    const ChoiceAnswer branches = solve_pbqp(problem, {0, 30, 1'000'000, 1'000'000'000});
    both += tables.exact && branches.exact ? 1 : 0;
    if (!tables.exact || !branches.exact || (std::isinf(tables.ms) && std::isinf(branches.ms))) continue;
    ASSERT_NEAR(tables.ms, branches.ms, 1e-6) << "seed " << seed << ": " << tables.how << ", " << branches.how;
  }
  EXPECT_GT(both, 290);
}

/// CPU time, because this process may be paused at any time.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

const std::map<std::string, Shape> kShapes = {{"residual", Shape::residual},
                                              {"inception", Shape::inception},
                                              {"dense", Shape::dense},
                                              {"dense_flat", Shape::dense_flat}};

class Networks : public testing::TestWithParam<const char*> {};

TEST_P(Networks, FiveHundredNodesOfEightAlternatives) {
  const Shape shape = kShapes.at(GetParam());
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const ChoiceProblem problem = network_problem(shape, 500, 8, seed);
    const double start = cpu_seconds();
    const ChoiceAnswer answer = solve_pbqp(problem);
    const double seconds = cpu_seconds() - start;
    const double greedy = solve_greedy(problem).ms;
    const std::string what = fmt::format(
        "seed {}: {} nodes, {} edges, {:.3f} s, {:.4f} ms, bound {:.4f}, node by node {:.4f}, {}", seed,
        problem.nodes.size(), problem.edges.size(), seconds, answer.ms, answer.lower_bound_ms, greedy, answer.how);
    RecordProperty(fmt::format("seed{}", seed), what);
    EXPECT_LT(seconds, 5) << what;
    EXPECT_LT(answer.ms, 0.95 * greedy) << what;
    EXPECT_LE(answer.lower_bound_ms, answer.ms) << what;
    EXPECT_LT(answer.gap(), 0.01) << what;
    if (shape != Shape::dense_flat) {
      EXPECT_TRUE(answer.exact) << what;
    }
    const ChoiceAnswer again = solve_pbqp(problem);
    EXPECT_EQ(again.choice, answer.choice) << what;
    EXPECT_EQ(again.lower_bound_ms, answer.lower_bound_ms) << what;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Networks, testing::Values("residual", "inception", "dense", "dense_flat"),
                         [](const auto& shape) { return std::string(shape.param); });

}  // namespace
}  // namespace kilter::tune
