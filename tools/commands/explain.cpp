// kilter explain: why a network takes the time it takes, and what to do next.

#include "profile/explain/explain.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "exec/thread_pool.h"
#include "look_ahead.h"
#include "profile/report/report.h"
#include "profile/shown.h"
#include "runner.h"
#include "terminal.h"
#include "tuning.h"

namespace kilter::tool {
namespace {

struct ExplainOptions {
  ModelOptions model;
  std::string node, json, html, against;
  double seconds = 10, minutes = 5;
};

constexpr int64_t kBatch = 8;

/// Arguments that say what is run and what of the records holds, as commands that `explain` tells take them; options of
/// single layers are the causes' own.
std::string arguments_of(const ModelOptions& options) {
  constexpr std::string_view kKept[] = {"--records", "--choose", "--forbid"};
  std::string out = model_arguments(options);
  for (const auto& [name, value] : options.compile_options_given()) {
    if (std::ranges::find(kKept, name) != std::end(kKept)) out += fmt::format(" {} {}", name, shell_word(value));
  }
  return std::string(trim(out));
}

/// The input of a batch of 8 where the network can take one: built-in ones, and models that leave the batch open.
std::optional<std::pair<std::string, Shape>> batch_input(const ModelOptions& options, const Session& session,
                                                         const std::map<std::string, Tensor>& inputs) {
  if (!options.inputs.empty() || session.compiled_file() || session.inputs().size() != 1) return std::nullopt;
  const onnx::Port port = session.inputs().front();
  Shape shape = inputs.at(port.name).shape();
  if (shape.empty() || shape[0] != 1) return std::nullopt;
  const bool open =
      options.model.starts_with("zoo:") || (port.dims && !port.dims->empty() && !port.dims->front().size.has_value());
  if (!open) return std::nullopt;
  shape[0] = kBatch;
  return std::pair(port.name, shape);
}

/// The subject on a batch of 8, and the input that makes it one.
void add_batch(profile::Subject& subject, const ModelOptions& options, const Session& session) {
  const auto input = batch_input(options, session, subject.inputs);
  if (!input) return;
  const auto& [name, shape] = *input;
  subject.batch_input = fmt::format("{}={}", name, fmt::join(shape, "x"));
  auto batch = std::make_shared<profile::Subject>();
  batch->inputs[name] = random_input(name, subject.inputs.at(name).dtype(), shape);
  batch->graph = [&session, inputs = batch->inputs] { return bound_graph(session, inputs); };
  subject.batch = std::move(batch);
}

/// What records say that are not in use.
void add_tuned(profile::Subject& subject, const ModelOptions& options) {
  if (options.records != "none" || !options.layer_plan.empty()) return;
  ModelOptions with = options;
  with.records = "default";
  subject.tuned = profile::Tuned{[with] { return with.compile_options(); }, use_records_command(options)};
}

profile::Subject subject_of(const ExplainOptions& options, const Session& session) {
  profile::Subject subject;
  const ModelOptions& model = options.model;
  subject.model = model.model;
  subject.arguments = arguments_of(model);
  subject.inputs = model.all_inputs(session);
  subject.cpus = default_threads();
  subject.threads = model.threads > 0 ? model.threads : subject.cpus;
  subject.compile = session.options().compile;
  if (session.compiled_file()) return subject;
  add_batch(subject, model, session);
  add_tuned(subject, model);
  subject.graph = [&session, inputs = subject.inputs] { return bound_graph(session, inputs); };
  subject.look_ahead = [&, inputs = subject.inputs](const profile::Profile& p) {
    return look_ahead(p, model, session, inputs, options.minutes);
  };
  return subject;
}

/// The same network in another runtime, in turns with ours.
Duel against(const ExplainOptions& options, Runner& other, Progress& progress) {
  progress.show("preparing to run against " + options.against);
  Runner ours(options.model.model, options.model);
  kilter::CompareOptions how;
  how.max_seconds = options.seconds;
  how.target_half_width = 0.005;
  return duel(ours, other, how, progress);
}

void run_explain(const ExplainOptions& options) {
  check_writable("--json", options.json);
  check_writable("--html", options.html);
  Progress progress("explain " + options.model.model);
  // First, since what is missing there is better said before minutes of work.
  std::unique_ptr<Runner> other;
  if (!options.against.empty())
    other = std::make_unique<Runner>(options.against + ":" + options.model.model, options.model);
  const auto session = options.model.open();
  profile::Subject subject = subject_of(options, *session);
  if (session->compiled_file()) subject.program = session->prepare().program;
  profile::ExplainOptions how;
  how.node = options.node;
  how.seconds = options.seconds * 0.25;
  how.trial_seconds = options.seconds * 0.75;
  how.progress = [&](const std::string& doing) { progress.show(doing); };
  profile::Explanation explanation = profile::explain(subject, how);
  explanation.profile.conditions.program = version_text();
  std::optional<Duel> duel;
  if (other) duel = against(options, *other, progress);
  progress.clear();
  nlohmann::json report = profile::to_json(explanation);
  if (duel) report["explain"]["against"] = to_json(*duel);
  if (!options.json.empty()) write_text("--json", options.json, json_text(report, 2) + "\n");
  if (!options.html.empty()) write_text("--html", options.html, profile::html_report(report));
  if (options.json == "-" || options.html == "-") return;
  fmt::print("{}", profile::explanation_text(profile::shown(explanation), printable(options.node)));
  if (duel) fmt::print("\nAgainst {}\n{}", duel->b.conditions.program, text(*duel, 12));
}

}  // namespace

void add_explain(CLI::App& app, Context&) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* sub = app.add_subcommand(
      "explain", "Say why a network takes the time it takes, what the machine would allow, and what to do next");
  options->model.add_to(*sub);
  sub->add_option("--node", options->node, "everything about one layer, with more of its schedules measured");
  sub->add_option("--seconds", options->seconds, "how long to measure, without the time to compile alternatives")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  add_minutes(*sub, options->minutes);
  sub->add_option("--json", options->json,
                  "also write everything as JSON to a file; - is standard output, which then holds nothing else");
  sub->add_option("--html", options->html,
                  "also write a report for a browser: that of kilter profile, with what is said here; one file");
  sub->add_option("--against", options->against,
                  "also run the network in this runtime, in turns with Kilter, and lay the layers side by side")
      ->check(CLI::IsMember({"onnxruntime", "openvino"}));
  sub->footer(
      "A machine that other programs use is told first; what rests on times that they disturbed is then withheld.\n"
      "Gains are measured where an alternative can be compiled and run (the text says so), by running it in turns "
      "with\n"
      "the network as it is; the others are predicted. The commands compare what they claim, by wall and by processor "
      "time.\n"
      "Example:  kilter explain zoo:resnet18 --threads 1 --schedule conv1=reference\n"
      "          kilter explain model.onnx --against onnxruntime --html report.html");
  sub->callback([=] { run_explain(*options); });
}

}  // namespace kilter::tool
