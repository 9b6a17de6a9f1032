// kilter bench: times a network from the caller's inputs to the caller's outputs.

#include <nlohmann/json.hpp>

#include "base/cpu_info.h"
#include "codegen/llvm/backend.h"
#include "measure/clock.h"
#include "profile/profile.h"
#include "tool.h"

namespace kilter::tool {
namespace {

struct BenchOptions {
  ModelOptions model;
  std::string json;
  double seconds = 2;
};

void bench(const BenchOptions& options) {
  Progress progress("bench " + options.model.model);
  progress.show("compiling");
  Prepared network(options.model);
  const Plan& plan = network.plan();
  progress.show("measuring");
  const Samples samples = sample([&] { network.run(); }, options.seconds);
  Conditions conditions = profile::conditions_of(plan, network.threads);
  conditions.taken = conditions.kept = static_cast<int64_t>(samples.ms.size());
  conditions.estimator = "median";
  conditions.program = version_text();
  int64_t reference = 0;
  for (const Step& s : plan.steps) reference += s.kind == StepKind::reference ? 1 : 0;
  nlohmann::json report{{"model", network.session->name()},
                        {"median_ms", samples.median()},
                        {"min_ms", samples.min()},
                        {"p90_ms", samples.quantile(0.9)},
                        {"samples", samples.ms.size()},
                        {"compile_ms", network.loaded->compiled.compile_ms},
                        {"peak_rss_bytes", peak_rss_bytes()},
                        {"threads", network.threads},
                        {"target", plan.target},
                        {"steps", plan.steps.size()},
                        {"reference_steps", reference},
                        {"arena_bytes", plan.arena_bytes},
                        {"constants_bytes", plan.constants_bytes},
                        {"conditions", to_json(conditions)},
                        {"inputs", "seeded: floats N(0,1), integers 0..99"}};
  if (!options.json.empty()) write_text("--json", options.json, report.dump(2) + "\n");
  if (options.json == "-") return;
  fmt::print("{}: median {:.3f} ms  min {:.3f}  p90 {:.3f}  ({} samples, {} threads, {} on {})\n",
             network.session->name(), samples.median(), samples.min(), samples.quantile(0.9), samples.ms.size(),
             network.threads, plan.target, cpu_brand());
  fmt::print("  compiled in {:.0f} ms, {} steps, arena {:.1f} MB, packed weights {:.1f} MB\n",
             network.loaded->compiled.compile_ms, plan.steps.size(), static_cast<double>(plan.arena_bytes) * 1e-6,
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
