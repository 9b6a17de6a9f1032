#include "pass_runner.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "ops/support/builder.h"
#include "target/target.h"

namespace kilter {

int64_t run_pass(PassFunction pass, Graph& graph, std::string_view target, int64_t most) {
  PassContext context;
  context.limits = parse_target(target).limits;
  context.precision = Precision::bf16;  // only choose_storage reads it
  context.rewrites_left = most;
  pass(graph, context);
  verify(graph);
  verify_types(graph);
  return context.rewrites_done;
}

std::string nodes_text(const Graph& graph) {
  std::string out;
  const std::string whole = print(graph);
  for (std::string_view line : split(whole, '\n')) {
    if (line.starts_with("  %") || line.starts_with("  output")) out += std::string(trim(line)) + "\n";
  }
  return out;
}

std::string after(PassFunction pass, std::string_view text, std::string_view target) {
  Graph graph = parse_graph(text);
  verify(graph);
  verify_types(graph);
  run_pass(pass, graph, target);
  const std::string once = print(graph);
  EXPECT_EQ(run_pass(pass, graph, target), 0) << "the second run rewrites again:\n" << once;
  EXPECT_EQ(print(graph), once);
  return nodes_text(graph);
}

std::string with(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (!from.empty() && at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

std::string unchanged(PassFunction pass, std::string_view text, std::string_view target) {
  Graph graph = parse_graph(text);
  verify(graph);
  verify_types(graph);
  const std::string before = print(graph);
  const int64_t rewrites = run_pass(pass, graph, target);
  const std::string now = print(graph);
  if (now != before) return now;
  return rewrites == 0 ? "" : fmt::format("{} rewrites counted", rewrites);
}

}  // namespace kilter
