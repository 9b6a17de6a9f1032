#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "compile/compile.h"
#include "compile/plan_builder.h"
#include "ops/builder.h"

namespace kilter {
namespace {

constexpr PassRow kPasses[] = {
    {"simplify", simplify, "removes nodes that do nothing and merges movement operators",
     "first: later patterns see less noise"},
    {"fold_constants", fold_constants, "evaluates nodes whose operands are constants",
     "after simplify, before anything looks for constants"},
    {"split_recurrent", split_recurrent, "one product with the inputs of all time steps, apart from the recurrence",
     "needs constant weights; its product is a Gemm, which canonicalise knows"},
    {"canonicalise", canonicalise, "writes operators in the one form that later passes know",
     "before the patterns, which are stated in that form"},
    {"recognise_patterns", recognise_patterns, "finds LayerNorm, GELU, SiLU, HardSwish in decomposed form",
     "needs canonical nodes; before batch-norm folding takes scales apart"},
    {"recognise_attention", recognise_attention, "finds softmax(q k') v in decomposed form",
     "needs softmax over the last axis, as canonicalise leaves it; before fusion takes scale and mask"},
    {"fold_batch_norm", fold_batch_norm, "folds per-channel scales and shifts into the convolution before them",
     "needs constant parameters; before fusion"},
    {"common_subexpressions", common_subexpressions, "merges equal nodes", "after rewriting, which makes equal nodes"},
    {"fold_again", fold_constants, "evaluates what rewriting made constant",
     "folding weights leaves constant arithmetic"},
    {"dead_code", dead_code, "removes nodes whose results nobody needs",
     "before layouts, so that only live users count"},
    {"choose_layouts", choose_layouts, "blocked channels through the graph, padding as halo",
     "needs the final operators; before fusion, which keeps to one layout"},
    {"fuse", fuse, "element-wise nodes into the node before them", "last: groups follow from everything above"},
};

void dump(const Graph& graph, const std::filesystem::path& folder, size_t index, std::string_view pass) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const auto file = folder / fmt::format("{:02}_{}.graph", index, pass);
  std::ofstream out(file);
  out << print(graph);
  if (!out.flush()) fail(ErrorKind::io, "--dump-ir: cannot write {}", file.string());
}

void check_names(const CompileOptions& options) {
  std::vector<std::string_view> names;
  for (const PassRow& row : kPasses) names.push_back(row.name);
  const auto known = [&](std::string_view n) { return std::find(names.begin(), names.end(), n) != names.end(); };
  if (!options.stop_after.empty() && !known(options.stop_after)) {
    fail(ErrorKind::usage, "--stop-after: no pass '{}'; legal are {}", options.stop_after, fmt::join(names, ", "));
  }
  for (const std::string& n : options.disable) {
    if (!known(n)) fail(ErrorKind::usage, "--disable: no pass '{}'; legal are {}", n, fmt::join(names, ", "));
  }
}

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

std::span<const PassRow> all_passes() { return kPasses; }

Compiled compile_graph(Graph graph, const CompileOptions& options) {
  check_names(options);
  install_reference_runner();
  const auto start = std::chrono::steady_clock::now();
  PassContext context;
  context.limits = options.target.limits;
  context.rewrites_left = options.max_rewrites;
  context.no_fuse = options.no_fuse;
  context.plain_layout = options.plain_layout;
  std::vector<PassTiming> timings;
  if (!options.dump_ir.empty()) dump(graph, options.dump_ir, 0, "import");
  if (!options.naive) {
    size_t index = 0;
    for (const PassRow& row : kPasses) {
      ++index;
      if (options.disable.contains(std::string(row.name))) continue;
      const auto before = std::chrono::steady_clock::now();
      const int64_t done = context.rewrites_done;
      row.function(graph, context);
      timings.push_back({std::string(row.name), ms_since(before), context.rewrites_done - done});
      verify(graph);
      if (!options.dump_ir.empty()) dump(graph, options.dump_ir, index, row.name);
      if (options.stop_after == row.name) break;
    }
  }
  const auto before = std::chrono::steady_clock::now();
  Compiled compiled = build_plan(std::move(graph), options);
  timings.push_back({"lower and generate code", ms_since(before), 0});
  compiled.unfused.insert(compiled.unfused.begin(), context.unfused.begin(), context.unfused.end());
  compiled.timings = std::move(timings);
  compiled.compile_ms = ms_since(start);
  return compiled;
}

}  // namespace kilter
