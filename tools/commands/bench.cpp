// kilter bench: times a network from the caller's inputs to the caller's outputs.

#include <nlohmann/json.hpp>

#include "base/cpu_info.h"
#include "base/other_threads.h"
#include "base/text.h"
#include "codegen/backend.h"
#include "measured_network.h"
#include "profile/profile.h"
#include "profile/program.h"
#include "terminal.h"
#include "tool.h"

namespace kilter::tool {
namespace {

struct BenchOptions {
  ModelOptions model;
  OnOptions on;
  std::string json;
  double seconds = 2;
  int64_t number = 1, repeat = 0;  ///< repeat 0: as many measurements as `seconds` allows
  double min_repeat_ms = 1;
  bool flush = false, min_repeat_given = false;
};

constexpr int64_t kLeastRepeats = 3, kMostRepeats = 1'000'000;

struct Measured {
  Evaluation evaluation;
  std::vector<double> took_part;  ///< Conditions::took_part
};

Measured measure(Prepared& network, const BenchOptions& options) {
  EvaluatorOptions how;
  how.number = options.number;
  how.repeat = options.repeat;
  how.min_repeat_ms = options.min_repeat_ms;
  if (options.flush) how.prepare = cache_flusher();
  if (how.repeat == 0) {
    network.run();
    const double start = now_ms();
    if (how.prepare) how.prepare();
    network.run();
    const double once = std::max({(now_ms() - start) * static_cast<double>(how.number), how.min_repeat_ms, 1e-3});
    how.repeat = std::clamp(static_cast<int64_t>(options.seconds * 1e3 / once), kLeastRepeats, kMostRepeats);
  }
  const Attendance before = network.session->attendance();
  Evaluation evaluation = evaluate([&] { network.run(); }, how);
  return {std::move(evaluation), network.session->attendance().since(before).took_part()};
}

/// Returns the fields of the report that say what ran.
nlohmann::json facts_of(const Prepared& network) {
  if (network.loaded != nullptr) return compile_facts(network.loaded->compiled);
  Session& session = *network.session;
  const vm::FileProgram* file = session.file_program();
  size_t compiled = 0;
  if (file != nullptr) {
    compiled = file->plan_count();
  } else {
    for (const ProgramRunner::FormState& form : session.program().forms()) compiled += form.plan != nullptr ? 1 : 0;
  }
  return {{"program", true},
          {"compiled_file", file != nullptr},
          {"segments", session.functions().segments.size()},
          {"compiled_segments", compiled},
          {"held_bytes", file != nullptr ? session.held_bytes() : session.program().held_bytes()}};
}

/// Returns facts_of() as lines.
std::string facts_text(const nlohmann::json& facts) {
  const auto mb = [&](const char* what) { return facts.at(what).get<double>() * 1e-6; };
  if (facts.at("program").get<bool>()) {
    const std::string plans =
        facts.at("compiled_file").get<bool>()
            ? "plans in the compiled file"
            : fmt::format("plans compiled in the {} runs before the measurement", ProgramRunner::kRunsUntilCompiled);
    return fmt::format("  runs as a program; segments {}, {} {}, {:.1f} MB\n", facts.at("segments").get<int64_t>(),
                       plans, facts.at("compiled_segments").get<int64_t>(), mb("held_bytes"));
  }
  std::string out = fmt::format("  compiled in {:.0f} ms, {} steps, arena {:.1f} MB, packed weights {:.1f} MB\n",
                                facts.at("compile_ms").get<double>(), facts.at("steps").get<int64_t>(),
                                mb("arena_bytes"), mb("constants_bytes"));
  if (const auto reference = facts.at("reference_steps").get<int64_t>(); reference > 0) {
    out += fmt::format("  {} steps run reference kernels (no schedule yet); `kilter inspect` names them\n", reference);
  }
  return out;
}

Bench bench_here(const BenchOptions& options, Progress& progress) {
  progress.show("compiling");
  Prepared network(options.model, Prepared::Form::any);
  network.warm_up();
  progress.show("measuring");
  Measured measured = measure(network, options);
  progress.clear();
  network.loaded != nullptr ? tell_records(network.plan().records) : tell_records_of_program(*network.session);
  Conditions conditions = network.loaded != nullptr ? profile::conditions_of(network.plan(), network.threads)
                                                    : profile::program_conditions(*network.session);
  conditions.took_part = measured.took_part;
  if (options.flush) conditions.weights = conditions.activations = "caches flushed before each measurement";
  Bench bench{network.session->name(),        cpu_brand(), network.threads,
              std::move(measured.evaluation), {},          facts_of(network)};
  bench.conditions = conditions_of(std::move(conditions), bench.evaluation);
  bench.more["peak_rss_bytes"] = peak_rss_bytes();
  return bench;
}

Bench bench_there(const BenchOptions& options, Progress& progress) {
  AgentNetwork network(options.model, options.on, {}, [&](const std::string& what) { progress.show(what); });
  const std::vector<tune::Lap> runs = network.measure(options.seconds, options.repeat, [&](double share) {
    progress.show(fmt::format("measuring, {:.0f} %", 100 * share));
  });
  progress.clear();
  tell_records(network.plan().records);
  return bench_of(network, runs);
}

std::string text(const Bench& bench, bool flushed) {
  const Evaluation& e = bench.evaluation;
  const Samples& samples = e.samples;
  const Conditions& conditions = bench.conditions;
  const bool busy = quietness(conditions) == Quietness::busy;
  const std::string quiet = quiet_text(conditions, "measurements");
  std::string out = busy ? quiet + "\n" : "";
  if (const std::string absent = absent_threads_text(conditions.took_part); !absent.empty()) out += absent + "\n";
  out += fmt::format(
      "{}: {} on {} thread{} ({}{} on {})\n", printable(bench.network), figure_text(e.estimate(), conditions, 3),
      bench.threads, bench.threads == 1 ? "" : "s", conditions.target,
      conditions.precision == name(Precision::declared) ? "" : ", " + conditions.precision, printable(bench.processor));
  if (!bench.place.empty()) out += fmt::format("  {}\n", bench.place);
  if (!busy) out += fmt::format("  {}\n", quiet);
  out += fmt::format(
      "  mean {:.3f} (std dev {:.3f})  median {:.3f}  min {:.3f}  p90 {:.3f}; {} measurements of {} run{}{}\n",
      e.mean(), e.std_dev(), samples.median(), samples.min(), samples.quantile(0.9), samples.ms.size(), e.number,
      e.number == 1 ? "" : "s", flushed ? ", caches flushed before each" : "");
  if (e.disturbed > 0) {
    out += fmt::format("  first disturbance: {}; the figure uses {}\n", e.disturbed_by,
                       e.quiet.ms.size() == samples.ms.size() ? "all measurements, since most were disturbed"
                                                              : "the undisturbed measurements");
  }
  return out + facts_text(bench.more);
}

void bench(BenchOptions options) {
  check_writable("--json", options.json);
  options.on.settle({{"--flush", options.flush, "the caches of another machine are not flushed"},
                     {"--number", options.number != 1, "each run is a measurement there"},
                     {"--min-repeat-ms", options.min_repeat_given, "each run is a measurement there"}});
  Progress progress("bench " + options.model.model);
  const Bench bench = options.on.given ? bench_there(options, progress) : bench_here(options, progress);
  if (!options.json.empty()) write_json(options.json, report_of(bench));
  if (options.json != "-") say_fitted(text(bench, options.flush));
}

}  // namespace

void add_bench(Command app, Context&) {
  auto options = std::make_shared<BenchOptions>();
  Command sub = app.subcommand("bench", "Time a network from the caller's inputs to the caller's outputs");
  sub.group("Measure and explain");
  options->model.add_to(sub);
  sub.heading("Measuring");
  sub.option("--seconds", options->seconds, "how long to measure, in seconds").range(0.01, 3600.0).shows_default();
  sub.option("--number", options->number, "runs per measurement; a measurement is their mean")
      .positive()
      .shows_default();
  sub.option("--repeat", options->repeat, "number of measurements (default: as many as --seconds allows)").positive();
  sub.option("--min-repeat-ms", options->min_repeat_ms, "add runs until a measurement takes at least this long")
      .non_negative()
      .shows_default()
      .on_value([options] { options->min_repeat_given = true; });
  sub.flag("--flush", options->flush, "flush the caches before each measurement");
  options->on.add_to(sub);
  sub.heading("Output");
  sub.json(options->json, "the figures");
  sub.footer(
      "The first figure is the mean of the middle half of the undisturbed measurements; mean, median, min and p90 "
      "include all. With --on, each run is a measurement: the time of the plan in the agent's worker, which records "
      "the time at each layer.");
  sub.example("kilter bench zoo:resnet18 --threads 1", "Time ResNet-18 on one thread");
  sub.example("kilter bench zoo:resnet18 --threads 1 --json -", "The same, for a script");
  sub.example("kilter bench zoo:resnet18 --threads 1 --on board --sign-key team.secret",
              "The same on the machine of an agent that trusts team.public, in the fleet of KILTER_FLEET");
  sub.callback([=] { bench(*options); });
}

}  // namespace kilter::tool
