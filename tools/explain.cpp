// kilter explain: why a network takes the time it takes, and what to do next.

#include "profile/explain.h"

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "exec/thread_pool.h"
#include "look_ahead.h"
#include "profile/report/report.h"
#include "profile/shown.h"
#include "runner.h"
#include "tuning.h"

namespace kilter::tool {
namespace {

struct ExplainOptions {
  ModelOptions model;
  std::string node, json, html, against;
  double seconds = 10, minutes = 5;
};

/// --input for a batch of 8 where the network can take one: built-in ones, and models that leave the batch open.
std::string batch_arguments(const ModelOptions& options, const Session& session,
                            const std::map<std::string, Tensor>& inputs) {
  if (!options.inputs.empty() || session.compiled_file() || session.inputs().size() != 1) return {};
  const onnx::Port port = session.inputs().front();
  Shape shape = inputs.at(port.name).shape();
  if (shape.empty() || shape[0] != 1) return {};
  const bool open =
      options.model.starts_with("zoo:") || (port.dims && !port.dims->empty() && !port.dims->front().size.has_value());
  if (!open) return {};
  shape[0] = 8;
  return "--input " + shell_word(port.name + "=" + text(shape));
}

profile::Subject subject_of(const ModelOptions& options, const Session& session) {
  profile::Subject subject;
  subject.model = options.model;
  subject.arguments = std::string(trim(model_arguments(options)));
  subject.inputs = options.all_inputs(session);
  subject.batch_arguments = batch_arguments(options, session, subject.inputs);
  subject.cpus = default_threads();
  subject.threads = options.threads > 0 ? options.threads : subject.cpus;
  subject.compile = session.options().compile;
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
  profile::Subject subject = subject_of(options.model, *session);
  if (session->compiled_file()) {
    subject.program = session->prepare().program;
  } else {
    subject.graph = [&session, &subject] { return bound_graph(*session, subject.inputs); };
  }
  profile::ExplainOptions how;
  how.node = options.node;
  how.seconds = options.seconds * 0.25;
  how.trial_seconds = options.seconds * 0.75;
  how.progress = [&](const std::string& doing) { progress.show(doing); };
  profile::Explanation explanation = profile::explain(subject, how);
  explanation.profile.conditions.program = version_text();
  explanation.profile.tuning =
      look_ahead(explanation.profile, options.model, *session, subject.inputs, options.minutes);
  std::optional<Duel> duel;
  if (other) duel = against(options, *other, progress);
  progress.clear();
  nlohmann::json report = profile::to_json(explanation);
  if (duel) report["explain"]["against"] = to_json(*duel);
  if (!options.json.empty()) write_text("--json", options.json, report.dump(2) + "\n");
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
      "Gains are measured where an alternative can be compiled and run (the text says so), by running it in turns "
      "with\n"
      "the network as it is; the others are predicted.\n"
      "Example:  kilter explain zoo:resnet18 --threads 1 --schedule conv1=reference\n"
      "          kilter explain model.onnx --against onnxruntime --html report.html");
  sub->callback([=] { run_explain(*options); });
}

}  // namespace kilter::tool
