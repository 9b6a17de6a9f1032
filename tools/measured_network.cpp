#include "measured_network.h"

#include <utility>

#include "tool.h"

namespace kilter::tool {

nlohmann::json compile_facts(const Compiled& compiled) {
  const Plan& plan = compiled.plan;
  int64_t reference = 0;
  for (const Step& s : plan.steps) reference += s.kind == StepKind::reference ? 1 : 0;
  return {{"program", false},
          {"compile_ms", compiled.compile_ms},
          {"steps", plan.steps.size()},
          {"reference_steps", reference},
          {"arena_bytes", plan.arena_bytes},
          {"constants_bytes", plan.constants_bytes}};
}

nlohmann::json report_of(const Bench& bench) {
  const Evaluation& e = bench.evaluation;
  const Samples& samples = e.samples;
  nlohmann::json report{{"model", bench.network},
                        {"estimate_ms", e.estimate()},
                        {"mean_ms", e.mean()},
                        {"std_dev_ms", e.std_dev()},
                        {"median_ms", samples.median()},
                        {"min_ms", samples.min()},
                        {"p90_ms", samples.quantile(0.9)},
                        {"number", e.number},
                        {"repeat", samples.ms.size()},
                        {"disturbed", e.disturbed},
                        {"threads", bench.threads},
                        {"target", bench.conditions.target},
                        {"precision", bench.conditions.precision},
                        {"conditions", to_json(bench.conditions)},
                        {"inputs", "seeded: floats N(0,1), integers 0..99"}};
  report.update(bench.more);
  return report;
}

Conditions conditions_of(Conditions conditions, const Evaluation& e) {
  conditions.taken = static_cast<int64_t>(e.samples.ms.size());
  conditions.kept = static_cast<int64_t>(e.quiet.ms.size());
  conditions.disturbed = e.disturbed, conditions.disturbed_by = e.disturbed_count.why();
  conditions.best_ms = e.samples.min();
  conditions.estimator = "mean of the middle half of the quiet measurements";
  conditions.program = version_text();
  return conditions;
}

Bench bench_of(AgentNetwork& network, const std::vector<tune::Lap>& runs) {
  Bench bench{network.session().name(),         network.machine().processor, network.threads(), evaluation_of(runs), {},
              compile_facts(network.compiled())};
  bench.conditions = conditions_of(network.conditions(), bench.evaluation);
  const AgentNetwork::Place place = network.place();
  bench.more["on"] = place.json, bench.place = place.text;
  return bench;
}

}  // namespace kilter::tool
