// kilter precision: chooses bf16 or fp16, and the layers that stay in f32, for a tolerance on samples.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/cpu_info.h"
#include "base/other_threads.h"
#include "base/text.h"
#include "mixed_precision/choose.h"
#include "quantize/samples.h"
#include "terminal.h"
#include "tool.h"
#include "tune/tuner/plans/choices_file.h"

namespace kilter::tool {
namespace {

struct PrecisionCommand {
  ModelOptions model;
  std::string samples, out, json;
  double tolerance = 0, seconds = 10;
};

constexpr size_t kShownLayers = 20;

std::vector<mixed::Sample> samples_of(const PrecisionCommand& c, const Session& session) {
  const std::vector<onnx::Port> inputs = session.inputs();
  if (c.samples.empty()) {
    fail(ErrorKind::usage,
         "precision {}: give a folder of samples with --samples DIR, on which the outputs are compared with f32\n{}",
         c.model.model, quantize::samples_help(inputs));
  }
  const std::vector<onnx::Port> outputs = session.outputs();
  if (std::ranges::none_of(outputs, [](const onnx::Port& port) { return is_float(port.type); })) {
    fail(ErrorKind::usage, "precision {}: no output has a float type, so no error can be measured", c.model.model);
  }
  const quantize::Samples folder(c.samples, inputs);
  std::vector<mixed::Sample> samples;
  for (size_t i = 0; i < folder.size(); ++i) samples.push_back(folder.load(i));
  return samples;
}

mixed::Result choose(const PrecisionCommand& c) {
  const auto session = c.model.open();
  if (session->compiled_file()) {
    fail(ErrorKind::usage, "{} is a compiled file, which has the precision that it was compiled with; give the model",
         c.model.model);
  }
  mixed::Request request;
  request.model = c.model.model;
  request.samples = samples_of(c, *session);
  request.session = session->options();
  request.session.compile.report.progress = {};
  request.tolerance = c.tolerance, request.seconds = c.seconds;
  Progress progress("precision " + c.model.model);
  request.progress = [&](const std::string& doing) { progress.show(doing); };
  return mixed::choose_precision(request);
}

std::string conditions_text(const PrecisionCommand& c, const mixed::Result& result) {
  return fmt::format("{} for {} on {}, {}", c.model.model, result.target, threads_text(c.model.thread_count()),
                     cpu_brand());
}

void print_mixes(const PrecisionCommand& c, const mixed::Result& result) {
  say_fitted(fmt::format("{}; {} {}, tolerance {:g}\n", conditions_text(c, result), result.samples,
                         result.samples == 1 ? "sample" : "samples", c.tolerance));
  const std::string head =
      fmt::format("{:<10} {:>13} {:>9} {:>10} {:>9}", "precision", "layers in f32", "error", "ms", "of f32");
  say("{}\n", styled(Style::bold, head));
  for (size_t i = 0; i < result.mixes.size(); ++i) {
    const mixed::Mix& m = result.mixes[i];
    const bool declared = m.precision == Precision::declared;
    say("{:<10} {:>13} {:>9.1e} {:>10.4f} {:>9.3f}{}\n", name(m.precision),
        declared ? "-" : fmt::format("{} of {}", m.kept, m.layers), m.error, m.ms, m.ratio.value,
        i == result.chosen ? "  chosen"
        : !m.within        ? "  beyond the tolerance"
                           : "");
  }
  say_fitted(fmt::format(
      "error: the largest difference from the declared precision of any output, relative to the output's largest "
      "magnitude; times are of the first sample, {} interleaved rounds, {} of them disturbed\n",
      result.rounds, result.disturbed));
  for (const mixed::Gear& gear : result.gears) {
    if (!gear.refused.empty()) say_fitted(fmt::format("{}: {}\n", name(gear.precision), gear.refused));
  }
}

void print_layers(const mixed::Gear& gear) {
  std::vector<mixed::LayerCost> layers;
  std::ranges::copy_if(gear.layers, std::back_inserter(layers), [](const auto& l) { return l.error > 0; });
  std::ranges::stable_sort(layers, std::greater(), &mixed::LayerCost::error);
  const size_t shown = std::min(layers.size(), kShownLayers);
  constexpr size_t kTitle = 36;
  TextTable table({{.title = fmt::format("{}, layers with the largest errors", name(gear.precision)),
                    .width = kTitle,
                    .left = true,
                    .least = kTitle},
                   {.title = "error alone", .width = 11},
                   {.title = "f32 ms", .width = 9},
                   {.title = fmt::format("{} ms", name(gear.precision)), .width = 9},
                   {.title = "stays", .width = 6, .left = true, .gap = 2},
                   {.title = "operators", .left = true, .rank = 1}});
  for (size_t i = 0; i < shown; ++i) {
    const mixed::LayerCost& l = layers[i];
    table.add({printable(l.layer), fmt::format("{:.1e}", l.error), fmt::format("{:.4f}", l.wide_ms),
               fmt::format("{:.4f}", l.narrow_ms), gear.kept.contains(l.layer) ? "f32" : "", l.ops});
  }
  say("\n{}", table.text(table_style(), "--json has them"));
  if (layers.size() > kShownLayers) {
    say("and {} layers with smaller errors, {} of them in f32; --json lists all\n", layers.size() - kShownLayers,
        std::ranges::count_if(layers.begin() + kShownLayers, layers.end(),
                              [&](const auto& l) { return gear.kept.contains(l.layer); }));
  }
}

/// The options that compile the chosen mix.
std::string options_of(const mixed::Mix& mix) {
  std::string out = fmt::format(" --precision {}", name(mix.precision));
  for (const std::string& node : mix.keep_float) out += " --keep-float " + shell_word(node);
  return out;
}

void print_use(const PrecisionCommand& c, const mixed::Mix& mix) {
  if (mix.precision == Precision::declared) {
    say("\nthe declared precision is the fastest within the tolerance\n");
    if (!c.out.empty()) say("{}: a layer plan without a precision\n", c.out);
    return;
  }
  const std::string use = c.out.empty() ? options_of(mix) : " --layer-plan " + shell_word(c.out);
  say("\nuse it: kilter compile {}{} -o {}\n", shell_word(c.model.model), use,
      shell_word(compiled_name(c.model.model)));
}

nlohmann::json to_json(const mixed::Mix& mix, bool chosen) {
  return {{"precision", name(mix.precision)},
          {"keep_float", mix.keep_float},
          {"layers_in_f32", mix.kept},
          {"layers", mix.layers},
          {"error", std::isfinite(mix.error) ? nlohmann::json(mix.error) : nlohmann::json(nullptr)},
          {"within", mix.within},
          {"ms", mix.ms},
          {"of_f32", {{"value", mix.ratio.value}, {"low", mix.ratio.low}, {"high", mix.ratio.high}}},
          {"chosen", chosen}};
}

nlohmann::json to_json(const PrecisionCommand& c, const mixed::Result& result) {
  nlohmann::json mixes = nlohmann::json::array(), gears = nlohmann::json::array();
  for (size_t i = 0; i < result.mixes.size(); ++i) mixes.push_back(to_json(result.mixes[i], i == result.chosen));
  for (const mixed::Gear& gear : result.gears) {
    nlohmann::json layers = nlohmann::json::array();
    for (const mixed::LayerCost& l : gear.layers) {
      layers.push_back({{"layer", l.layer},
                        {"ops", l.ops},
                        {"nodes", l.nodes},
                        {"error", std::isfinite(l.error) ? nlohmann::json(l.error) : nlohmann::json(nullptr)},
                        {"f32_ms", l.wide_ms},
                        {"ms", l.narrow_ms},
                        {"in_f32", gear.kept.contains(l.layer)}});
    }
    nlohmann::json attempts = nlohmann::json::array();
    for (const mixed::Attempt& a : gear.attempts)
      attempts.push_back({{"layers_in_f32", a.kept}, {"expected", a.expected}, {"error", a.error}});
    gears.push_back(
        {{"precision", name(gear.precision)}, {"refused", gear.refused}, {"attempts", attempts}, {"layers", layers}});
  }
  return {{"model", c.model.model},
          {"target", result.target},
          {"cpu", cpu_brand()},
          {"threads", c.model.thread_count()},
          {"samples", result.samples},
          {"tolerance", c.tolerance},
          {"compilations", result.compilations},
          {"rounds", result.rounds},
          {"disturbed", result.disturbed},
          {"mixes", mixes},
          {"precisions", gears}};
}

void write_plan(const PrecisionCommand& c, const mixed::Result& result) {
  const mixed::Mix& mix = result.mixes[result.chosen];
  tune::LayerPlan plan;
  if (mix.precision != Precision::declared) plan.precision = mix.precision;
  plan.keep_float = mix.keep_float;
  const std::string notes =
      fmt::format("{}: precision chosen on {} samples for a tolerance of {:g}\nerror {:.1e}, {:.3f} of the time in f32",
                  conditions_text(c, result), result.samples, c.tolerance, mix.error, mix.ratio.value);
  write_text("-o", c.out, tune::text(plan, notes));
}

/// Throws usage for an option that this command itself chooses.
void refuse_choices(const ModelOptions& model) {
  const auto refuse = [](bool given, const std::string& option) {
    if (given) fail(ErrorKind::usage, "{}: this command chooses the precision itself; leave the option out", option);
  };
  refuse(model.precision != ModelOptions().precision, "--precision " + model.precision);
  refuse(!model.keep_float.empty(), "--keep-float");
  refuse(!model.layer_plan.empty(), "--layer-plan " + model.layer_plan);
}

}  // namespace

void add_precision(Command app, Context&) {
  auto c = std::make_shared<PrecisionCommand>();
  Command sub = app.subcommand(
      "precision",
      "Choose bf16 or fp16 and the layers that stay in f32: the fastest mix within a tolerance on samples");
  sub.group("Run and deploy");
  c->model.add_to(sub, false);
  sub.heading("Choosing");
  sub.option("--tolerance", c->tolerance,
             "largest difference of an output from f32 that is allowed, relative to the output's largest magnitude, "
             "such as 1e-2")
      .positive()
      .required();
  sub.option("--samples", c->samples,
             "folder of inputs on which outputs are compared: DIR/*.npy, or a folder for each sample with NAME.npy for "
             "each input")
      .folder();
  sub.option("--seconds", c->seconds, "time to compare the mixes").positive().shows_default();
  sub.heading("Output");
  sub.option("-o,--output,~--out", c->out, "layer plan to write, for --layer-plan of the commands that compile").file();
  sub.json(c->json, "everything");
  sub.example("kilter precision zoo:squeezenet1_1 --tolerance 1e-2 --samples samples -o mixed.plan",
              "The fastest mix within 1 % of the largest output");
  sub.callback([c] {
    refuse_choices(c->model);
    check_writable("-o", c->out);
    check_writable("--json", c->json);
    const mixed::Result result = choose(*c);
    if (!c->out.empty()) write_plan(*c, result);
    if (!c->json.empty()) write_json(c->json, to_json(*c, result));
    if (c->json == "-") return;
    print_mixes(*c, result);
    for (const mixed::Gear& gear : result.gears) {
      if (gear.refused.empty()) print_layers(gear);
    }
    print_use(*c, result.mixes[result.chosen]);
  });
}

}  // namespace kilter::tool
