// kilter explain: says why a network takes as long as it does, and what to do next.

#include "profile/explain/explain.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

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

/// Returns the arguments, including the choice of records, to be repeated in the commands that `explain` suggests.
/// Options for single layers are left to the causes.
std::string arguments_of(const ModelOptions& options) {
  constexpr std::string_view kKept[] = {"--records", "--choose", "--forbid"};
  std::string out = model_arguments(options);
  for (const auto& [name, value] : options.compile_options_given()) {
    if (std::ranges::find(kKept, name) != std::end(kKept)) out += fmt::format(" {} {}", name, shell_word(value));
  }
  return std::string(trim(out));
}

/// Returns an input that makes a batch of 8, if the network accepts one: built-in networks, and models that leave the
/// batch open.
std::optional<std::pair<std::string, Shape>> batch_input(const ModelOptions& options, const Session& session,
                                                         const std::map<std::string, Tensor>& inputs) {
  if (!options.inputs.empty() || session.compiled_file() || session.inputs().size() != 1) return std::nullopt;
  const onnx::Port port = session.inputs().front();
  const auto input = inputs.find(port.name);
  if (input == inputs.end()) return std::nullopt;  // the graph has its value
  Shape shape = input->second.shape();
  if (shape.empty() || shape[0] != 1) return std::nullopt;
  const bool open =
      options.model.starts_with("zoo:") || (port.dims && !port.dims->empty() && !port.dims->front().size.has_value());
  if (!open) return std::nullopt;
  shape[0] = kBatch;
  return std::pair(port.name, shape);
}

/// Adds the subject for a batch of 8, and the input that makes it one.
void add_batch(profile::Subject& subject, const ModelOptions& options, const Session& session) {
  const auto input = batch_input(options, session, subject.inputs);
  if (!input) return;
  const auto& [name, shape] = *input;
  subject.batch_input = fmt::format("{}={}", name, fmt::join(shape, "x"));
  auto batch = std::make_shared<profile::Subject>();
  batch->inputs[name] = random_input(name, subject.inputs.at(name).dtype(), shape);
  // A built-in network has the shapes with which it was opened.
  ModelOptions with = options;
  with.inputs = {subject.batch_input};
  batch->graph = [with, inputs = batch->inputs] { return with.open()->bind(inputs).graph; };
  subject.batch = std::move(batch);
}

/// Adds the gain that the records offer if they are not in use.
void add_tuned(profile::Subject& subject, const ModelOptions& options) {
  if (options.records != "none" || !options.layer_plan.empty()) return;
  ModelOptions with = options;
  with.records = "default";
  subject.tuned = profile::Tuned{[with] { return with.compile_setup().chooser; }, use_records_command(options)};
}

/// The choices that the parts of a program run with, under their names in the whole.
Choices choices_of_parts(const NetworkParts& network, const CompileOptions& compile, const Chooser* chooser) {
  Choices all;
  for (const NetworkParts::Part& part : network.parts) {
    CompileOptions look = compile;
    look.contents = {.code = false};
    look.choices = network.of_part(compile.choices, part);
    look.report.notice = nullptr;
    add(network.in_whole(compile_graph(part.graph, look, chooser).choices, part), all);
  }
  return all;
}

/// Replaces the network to explain with the parts of a program, side by side.
void take_parts(profile::Subject& subject, std::shared_ptr<const NetworkParts> network) {
  network->spread(subject.compile);
  if (subject.chooser != nullptr) {
    subject.compile.choices = choices_of_parts(*network, subject.compile, subject.chooser.get());
    subject.chooser = nullptr;
  }
  subject.own_name = [network](const std::string& node) { return network->own_name(node); };
  subject.parts = network->text;
}

profile::Subject subject_of(const ExplainOptions& options, Session& session) {
  profile::Subject subject;
  const ModelOptions& model = options.model;
  subject.model = model.model;
  subject.arguments = arguments_of(model);
  subject.cpus = default_threads();
  subject.threads = model.threads > 0 ? model.threads : subject.cpus;
  subject.compile = session.options().compile, subject.chooser = session.options().chooser;
  if (session.compiled_file()) {
    subject.inputs = model.all_inputs(session);
    return subject;
  }
  const auto network = std::make_shared<const NetworkParts>(parts_of(model, session, PartShapes::first));
  for (size_t i = 0; i < network->inputs.size(); ++i)
    subject.inputs[network->whole.value(network->whole.inputs()[i]).name] = network->inputs[i];
  if (network->text.empty()) {
    add_batch(subject, model, session);
    add_tuned(subject, model);
  } else {
    take_parts(subject, network);
  }
  subject.graph = [network] { return network->whole; };
  subject.look_ahead = [&, graph = subject.graph](const profile::Profile& p) {
    return look_ahead(p, model, session, graph, options.minutes);
  };
  return subject;
}

/// Measures the same network in another runtime, interleaved with Kilter.
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
  // Comes first, so that a missing runtime is reported before minutes of work.
  std::unique_ptr<Runner> other;
  if (!options.against.empty())
    other = std::make_unique<Runner>(options.against + ":" + options.model.model, options.model);
  const auto session = options.model.open();
  if (session->file_program() != nullptr) {
    fail(ErrorKind::usage, "{} is a compiled file of a program: explain the original model", options.model.model);
  }
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
  if (!options.json.empty()) write_json(options.json, report);
  if (!options.html.empty()) write_text("--html", options.html, profile::html_report(report));
  if (options.json == "-" || options.html == "-") return;
  say("{}", profile::explanation_text(profile::shown(explanation), printable(options.node), table_style()));
  if (duel) say("\nAgainst {}\n{}", duel->b.conditions.program, text(*duel, 12, table_style()));
  confirm_report(options.html);
}

}  // namespace

void add_explain(Command app, Context&) {
  auto options = std::make_shared<ExplainOptions>();
  Command sub = app.subcommand(
      "explain", "Say why a network takes as long as it does, what the machine would allow, and what to do next");
  sub.group("Measure and explain");
  options->model.add_to(sub);
  sub.heading("Explaining");
  sub.option("--node", options->node, "explain one layer in full, and measure more of its schedules").value("NODE");
  sub.option("--seconds", options->seconds,
             "how long to measure, in seconds, not counting the compilation of alternatives")
      .range(0.1, 3600.0)
      .shows_default();
  sub.option("--against", options->against,
             "also run the network in this runtime, interleaved with Kilter, and compare them layer by layer")
      .one_of({"onnxruntime", "openvino"});
  add_minutes(sub, options->minutes);
  sub.heading("Output");
  sub.json(options->json, "everything");
  sub.option("--html", options->html,
             "also write an HTML report: that of kilter profile plus this explanation, in one file")
      .file();
  sub.footer(
      "If other programs use the machine, that is reported first, and findings based on disturbed times are withheld. "
      "Gains are measured if an alternative can be compiled and run interleaved with the unchanged network (the text "
      "says so); otherwise they are predicted. The suggested commands compare what the findings claim, by wall time "
      "and CPU time.");
  sub.example("kilter explain zoo:resnet18 --threads 1", "Why ResNet-18 takes its time, and what to do about it");
  sub.example("kilter explain model.onnx --against onnxruntime --html report.html",
              "A report that also compares each layer with ONNX Runtime");
  sub.callback([=] { run_explain(*options); });
}

}  // namespace kilter::tool
