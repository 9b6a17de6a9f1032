// kilter explain: why a network takes the time it takes, and what to do next.

#include "profile/explain.h"

#include <nlohmann/json.hpp>

#include "exec/thread_pool.h"
#include "tool.h"

namespace kilter::tool {
namespace {

struct ExplainOptions {
  ModelOptions model;
  std::string node, json;
  double seconds = 10;
};

/// The arguments of the command line that say what is run, and not how.
std::string fixed_arguments(const ModelOptions& options) {
  std::string out;
  for (const std::string& input : options.inputs) out += fmt::format("{}--input {}", out.empty() ? "" : " ", input);
  if (options.target != "native") out += fmt::format("{}--target '{}'", out.empty() ? "" : " ", options.target);
  return out;
}

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
  return fmt::format("--input {}={}", port.name, fmt::join(shape, "x"));
}

void run_explain(const ExplainOptions& options) {
  Progress progress("explain " + options.model.model);
  const auto session = options.model.open();
  profile::Subject subject;
  subject.model = options.model.model;
  subject.arguments = fixed_arguments(options.model);
  subject.inputs = options.model.all_inputs(*session);
  subject.batch_arguments = batch_arguments(options.model, *session, subject.inputs);
  subject.cpus = default_threads();
  subject.threads = options.model.threads > 0 ? options.model.threads : subject.cpus;
  subject.compile = session->options().compile;
  if (session->compiled_file()) {
    subject.program = session->prepare().program;
  } else {
    onnx::Model::Shapes shapes;
    for (const auto& [name, tensor] : subject.inputs) shapes[name] = tensor.shape();
    subject.graph = [&session, shapes, values = session->needed_values(subject.inputs)] {
      return session->graph(shapes, values);
    };
  }
  profile::ExplainOptions how;
  how.node = options.node;
  how.seconds = options.seconds * 0.25;
  how.trial_seconds = options.seconds * 0.75;
  how.progress = [&](const std::string& doing) { progress.show(doing); };
  profile::Explanation explanation = profile::explain(subject, how);
  explanation.profile.conditions.program = version_text();
  progress.clear();
  if (!options.json.empty()) write_text("--json", options.json, profile::to_json(explanation).dump(2) + "\n");
  if (options.json != "-") fmt::print("{}", profile::explanation_text(explanation, options.node));
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
  sub->add_option("--json", options->json,
                  "also write everything as JSON to a file; - is standard output, which then holds nothing else");
  sub->footer(
      "Gains are measured where an alternative can be compiled and run (the text says so), by running it in turns "
      "with\n"
      "the network as it is; the others are predicted.\n"
      "Example:  kilter explain zoo:resnet18 --threads 1 --schedule conv1=reference");
  sub->callback([=] { run_explain(*options); });
}

}  // namespace kilter::tool
