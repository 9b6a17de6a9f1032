// Chooses the solver for a network.

#include "base/error.h"
#include "tune/graph/solvers.h"
#include "tune/tuner/graph_best/layer_network.h"

namespace kilter::tune {

Solver parse_solver(std::string_view name) {
  if (name == "auto") return Solver::automatic;
  if (name == "dp") return Solver::forest;
  if (name == "pbqp") return Solver::pbqp;
  if (name == "greedy") return Solver::greedy;
  fail(ErrorKind::usage, "--solver {}: legal values are auto, dp, pbqp and greedy", name);
}

ChoiceAnswer solve(const ChoiceProblem& problem, Solver solver) {
  if (solver == Solver::greedy) return solve_greedy(problem);
  if (solver == Solver::automatic || solver == Solver::forest) {
    auto answer = solve_forest(problem);
    if (answer) return *std::move(answer);
    if (solver == Solver::forest) fail(ErrorKind::usage, "--solver dp: {}; use pbqp or auto", answer.rejected().text());
  }
  return solve_pbqp(problem);
}

}  // namespace kilter::tune
