// kilter bench: times a network from the caller's inputs to the caller's outputs.

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/cpu_info.h"
#include "codegen/llvm/backend.h"
#include "exec/thread_pool.h"
#include "measure/clock.h"
#include "tool.h"

namespace kilter::tool {
namespace {

struct BenchOptions {
  ModelOptions model;
  std::string json;
  double seconds = 2;
};

void write_json(const std::string& where, const nlohmann::json& report) {
  const std::string text = report.dump(2) + "\n";
  if (where == "-") {
    fmt::print("{}", text);
    return;
  }
  std::ofstream out(where);
  out << text;
  if (!out.flush()) fail(ErrorKind::io, "--json {}: cannot write the file", where);
}

void bench(const BenchOptions& options) {
  const auto session = options.model.open();
  const std::map<std::string, Tensor> inputs = options.model.all_inputs(*session);
  Progress progress("bench " + session->name());
  progress.show("compiling");
  Loaded& loaded = session->prepare_for(inputs);
  const Plan& plan = loaded.plan();
  std::vector<const std::byte*> from;
  std::vector<Tensor> outputs;
  std::vector<std::byte*> to;
  for (const PlanTensor& t : plan.inputs) from.push_back(inputs.at(t.name).raw());
  for (const PlanTensor& t : plan.outputs) outputs.emplace_back(t.type, t.shape);
  for (const Tensor& t : outputs) to.push_back(t.raw());
  progress.show("measuring");
  const Samples samples = sample([&] { loaded.instance->run(from, to); }, options.seconds);
  const int threads = options.model.threads > 0 ? options.model.threads : default_threads();
  int64_t reference = 0;
  for (const Step& s : plan.steps) reference += s.kind == StepKind::reference ? 1 : 0;
  nlohmann::json report{{"model", session->name()},
                        {"median_ms", samples.median()},
                        {"min_ms", samples.min()},
                        {"p90_ms", samples.quantile(0.9)},
                        {"samples", samples.ms.size()},
                        {"compile_ms", loaded.compiled.compile_ms},
                        {"peak_rss_bytes", peak_rss_bytes()},
                        {"threads", threads},
                        {"target", plan.target},
                        {"steps", plan.steps.size()},
                        {"reference_steps", reference},
                        {"arena_bytes", plan.arena_bytes},
                        {"constants_bytes", plan.constants_bytes},
                        {"conditions",
                         {{"cpu", cpu_brand()},
                          {"codegen", codegen_version()},
                          {"inputs", "seeded: floats N(0,1), integers 0..99"},
                          {"weights", "as one run after another leaves them in the caches"},
                          {"clock", "monotonic"},
                          {"pinned", false},
                          {"warm_up_runs", 3},
                          {"estimator", "median"}}}};
  if (!options.json.empty()) write_json(options.json, report);
  if (options.json == "-") return;
  fmt::print("{}: median {:.3f} ms  min {:.3f}  p90 {:.3f}  ({} samples, {} threads, {} on {})\n", session->name(),
             samples.median(), samples.min(), samples.quantile(0.9), samples.ms.size(), threads, plan.target,
             cpu_brand());
  fmt::print("  compiled in {:.0f} ms, {} steps, arena {:.1f} MB, packed weights {:.1f} MB\n",
             loaded.compiled.compile_ms, plan.steps.size(), static_cast<double>(plan.arena_bytes) * 1e-6,
             static_cast<double>(plan.constants_bytes) * 1e-6);
  if (reference > 0)
    fmt::print("  {} steps run reference kernels (no schedule yet); `kilter inspect` names them\n", reference);
}

}  // namespace

void add_bench(CLI::App& app, Context&) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* sub = app.add_subcommand("bench", "Time a network from the caller's inputs to the caller's outputs");
  options->model.add_to(*sub);
  sub->add_option("--json", options->json,
                  "also write the figures as JSON to a file; - is standard output, which then holds nothing else");
  sub->add_option("--seconds", options->seconds, "how long to measure")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  sub->callback([=] { bench(*options); });
}

}  // namespace kilter::tool
