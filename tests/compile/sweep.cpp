#include "sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "guarded_run.h"
#include "ops/cases.h"
#include "ops/evaluate.h"

namespace kilter {

namespace {

Tolerance tolerance_of(const Graph& graph) {
  Tolerance widest;
  for (NodeId id : graph.order()) {
    const Tolerance& own = graph.node(id).op->tolerance;
    widest.rtol = std::max(widest.rtol, own.rtol);
    if (own.scaled) widest.atol = std::max(widest.atol, own.atol);
  }
  return widest;
}

std::string check_on(const SweepNet& net, const std::vector<Tensor>& want, const Target& target, size_t shift) {
  std::string steps;
  try {
    Compiled compiled = compile_for(net.graph(), target);
    steps = steps_text(compiled.plan);
    const auto program = std::make_shared<const Program>(compiled.plan);
    std::string wrong = run_guarded(program, net.inputs(), want, tolerance_of(net.graph()), shift);
    if (wrong.empty()) wrong = check_padding(compiled, program, net.inputs());
    return wrong.empty() ? wrong : fmt::format("{} ({} bytes off alignment){}", wrong, shift, steps);
  } catch (const Error& error) {
    return "error: " + error.message() + steps;
  }
}

}  // namespace

void sweep(const NetKind& kind) {
  const char* more = std::getenv("KILTER_SWEEP");
  const uint64_t count = more == nullptr ? kind.count : std::strtoull(more, nullptr, 10);
  uint64_t illegal = 0;
  for (uint64_t seed = 0; seed < count; ++seed) {
    SweepNet net(seed ^ hash_text(kind.name));
    try {
      kind.make(net);
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::bad_model) << error.message();
      ++illegal;
      continue;
    }
    const std::vector<Tensor> want = evaluate(net.graph(), net.inputs());
    for (const Target& target : targets_here()) {
      const std::string wrong = check_on(net, want, target, seed % 2 * 8);
      EXPECT_EQ(wrong, "") << kind.name << " " << seed << " on " << target.name << "\n" << print(net.graph());
    }
  }
  EXPECT_LE(2 * illegal, count) << kind.name << ": too many networks were drawn that are illegal";
}

}  // namespace kilter
