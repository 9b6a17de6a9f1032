// kilter quantize: writes a model with 8-bit or 4-bit numbers, and shows what each layer loses.

#include "quantize/quantize.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "scratch_folder.h"
#include "terminal.h"
#include "tool.h"
#include "zoo/zoo.h"

namespace kilter::tool {
namespace {

using quantize::Format;
using quantize::Method;

struct QuantizeCommand {
  std::string model, samples, format, method = "minmax", activations, weights, out, json;
  std::vector<std::string> exclude;
  double percentile = 0;
  int64_t block = 0;
  int threads = 0;
  bool per_channel = false;

  bool weights_only() const { return weights.starts_with("int"); }
};

constexpr double kPercentile = 99.99;
constexpr int64_t kBlock = 32;
constexpr size_t kShownLayers = 20, kNamedLayers = 3;

/// Makes the model a file: writes a built-in network to the scratch folder.
std::filesystem::path file_of(const QuantizeCommand& command, const ScratchFolder& scratch) {
  constexpr std::string_view kZoo = "zoo:";
  if (!command.model.starts_with(kZoo)) return command.model;
  onnx::save(zoo::build(command.model.substr(kZoo.size()), {}), scratch.model(), 17);
  return scratch.model();
}

/// Throws usage for an option that has no effect on the way in which the model is quantised.
void refuse_idle_options(const QuantizeCommand& c) {
  const auto refuse = [&](bool given, std::string_view option, std::string_view needs) {
    if (given) fail(ErrorKind::usage, "{} has no effect without {}; leave it out, or add {}", option, needs, needs);
  };
  if (c.weights_only()) {
    const std::string_view needs = "--weights s8 or u8 and --samples";
    refuse(!c.samples.empty(), "--samples", "--weights s8 or u8");
    refuse(c.method != "minmax", "--method " + c.method, needs);
    refuse(c.percentile != 0, "--percentile", needs);
    refuse(c.per_channel, "--per-channel", needs);
    refuse(!c.activations.empty(), "--activations " + c.activations, needs);
    refuse(c.format == "qoperator", "--format qoperator", needs);
    if (c.block != 0 && (c.block < 16 || (c.block & (c.block - 1)) != 0))
      fail(ErrorKind::usage, "--block {}: expected a power of two, 16 or more", c.block);
    return;
  }
  refuse(c.block != 0, "--block", "--weights int4 or int8");
  refuse(c.format == "matmulnbits", "--format matmulnbits", "--weights int4 or int8");
  refuse(c.percentile != 0 && c.method != "percentile", "--percentile", "--method percentile");
  if (c.format == "qoperator" && c.activations == "s8" && c.weights == "u8") {
    fail(ErrorKind::usage,
         "--format qoperator with --activations s8 and --weights u8: no runtime has QLinearConv for these types; use "
         "--weights s8, or --format qdq");
  }
}

/// The commands that a report suggests next.
std::string command_line(const QuantizeCommand& c, const std::vector<std::string>& more) {
  std::string line = "kilter quantize " + shell_word(c.model);
  const auto add = [&](std::string_view option, const std::string& value) {
    if (!value.empty()) line += fmt::format(" {} {}", option, shell_word(value));
  };
  add("--samples", c.samples), add("--format", c.format);
  if (c.method != "minmax") add("--method", c.method);
  if (c.percentile != 0) line += fmt::format(" --percentile {}", c.percentile);
  if (c.per_channel) line += " --per-channel";
  add("--activations", c.activations), add("--weights", c.weights);
  if (c.block != 0) line += fmt::format(" --block {}", c.block);
  if (c.threads != 0) line += fmt::format(" --threads {}", c.threads);
  for (const std::string& node : c.exclude) add("--exclude", node);
  for (const std::string& word : more) line += " " + word;
  return line + " -o " + shell_word(c.out);
}

std::string db_text(const quantize::Error2& error) {
  if (error.noise == 0) return "exact";
  return std::isfinite(error.db()) ? fmt::format("{:.1f}", error.db()) : "-";
}

nlohmann::json db_json(const quantize::Error2& error) {
  return error.noise > 0 ? nlohmann::json(error.db()) : nlohmann::json(nullptr);
}

nlohmann::json left_out_json(const std::vector<quantize::LeftOut>& all) {
  nlohmann::json made = nlohmann::json::array();
  for (const auto& left : all) made.push_back({{"node", left.node}, {"op", left.op}, {"reason", left.reason}});
  return made;
}

nlohmann::json to_json(const QuantizeCommand& c, const quantize::Report& report) {
  nlohmann::json layers = nlohmann::json::array(), outputs = nlohmann::json::array();
  for (const auto& layer : report.measured.layers) {
    nlohmann::json one{{"node", layer.node}, {"op", layer.op}, {"output", layer.output}};
    if (layer.quantised_output) {
      one.update({{"low", layer.range.low},
                  {"high", layer.range.high},
                  {"scale", layer.affine.scale},
                  {"zero_point", layer.affine.zero}});
    }
    one.update({{"alone_db", db_json(layer.alone)}, {"in_network_db", db_json(layer.in_network)}});
    layers.push_back(std::move(one));
  }
  for (const auto& output : report.measured.outputs) {
    outputs.push_back({{"name", output.name},
                       {"db", db_json(output.error)},
                       {"same_class", output.same_class},
                       {"rows", output.rows}});
  }
  return {{"model", c.model},
          {"file", c.out},
          {"format", c.format.empty() ? "qdq" : c.format},
          {"method", c.method},
          {"samples", report.samples},
          {"folded_nodes", report.folded},
          {"opset", {{"model", report.old_opset}, {"file", report.opset}}},
          {"weight_bytes", {{"model", report.old_bytes}, {"file", report.bytes}}},
          {"layers", layers},
          {"outputs", outputs},
          {"float_products", left_out_json(report.left_out)}};
}

nlohmann::json to_json(const QuantizeCommand& c, const quantize::WeightReport& report) {
  nlohmann::json layers = nlohmann::json::array();
  for (const auto& layer : report.layers) {
    layers.push_back(
        {{"node", layer.node}, {"op", layer.op}, {"shape", layer.shape}, {"weights_db", db_json(layer.error)}});
  }
  return {{"model", c.model},
          {"file", c.out},
          {"format", c.format.empty() ? "matmulnbits" : c.format},
          {"weights", c.weights},
          {"opset", {{"model", report.old_opset}, {"file", report.opset}}},
          {"weight_bytes", {{"model", report.old_bytes}, {"file", report.bytes}}},
          {"layers", layers},
          {"float_products", left_out_json(report.left_out)}};
}

template <class Report>
void print_file(const QuantizeCommand& c, const Report& report) {
  say("{}: weights {:.2f} MB, were {:.2f} MB", c.out, static_cast<double>(report.bytes) * 1e-6,
      static_cast<double>(report.old_bytes) * 1e-6);
  if (report.opset != report.old_opset) say("; opset {}, was {}", report.opset, report.old_opset);
  say("\n");
}

void print_left_out(const std::vector<quantize::LeftOut>& all) {
  if (all.empty()) return;
  say("stay f32:\n");
  for (size_t i = 0; i < all.size() && i < kShownLayers; ++i)
    say_fitted(fmt::format("  {:<8} {}: {}\n", all[i].op, printable(all[i].node), printable(all[i].reason)));
  if (all.size() > kShownLayers) say("  and {} more; --json lists all\n", all.size() - kShownLayers);
}

void print_next(const QuantizeCommand& c, const quantize::Report& report) {
  const auto& layers = report.measured.layers;
  const bool names_layers = layers.size() > kNamedLayers;
  if (c.per_channel && !names_layers) return;
  say("next, if that is not enough:\n");
  if (!c.per_channel) say("  a scale for each channel of the weights: {}\n", command_line(c, {"--per-channel"}));
  if (!names_layers) return;
  std::vector<std::string> worst;
  for (size_t i = 0; i < kNamedLayers; ++i) worst.push_back("--exclude " + shell_word(layers[i].node));
  say("  the worst layers in f32: {}\n", command_line(c, worst));
}

void print(const QuantizeCommand& c, const quantize::Report& report) {
  const auto& layers = report.measured.layers;
  const size_t shown = std::min(layers.size(), kShownLayers);
  TextTable table({{.title = "layer, the worst alone first", .width = 28, .left = true, .least = 28},
                   {.title = "operator", .width = 18, .left = true, .least = 7},
                   {.title = "low", .width = 10, .rank = 1},
                   {.title = "high", .width = 10, .rank = 2},
                   {.title = "scale", .width = 11, .rank = 3},
                   {.title = "zero", .width = 5, .rank = 4},
                   {.title = "alone dB", .width = 9},
                   {.title = "in net dB", .width = 11}});
  for (size_t i = 0; i < shown; ++i) {
    const auto& l = layers[i];
    const auto number = [&](double v) { return l.quantised_output ? fmt::format("{:.4g}", v) : std::string("-"); };
    table.add({printable(l.node), l.op, number(l.range.low), number(l.range.high),
               number(static_cast<double>(l.affine.scale)), number(l.affine.zero), db_text(l.alone),
               db_text(l.in_network)});
  }
  say("{}", table.text(table_style(), "--json has them"));
  if (layers.size() > kShownLayers)
    say("and {} layers that lose less; --json lists all\n", layers.size() - kShownLayers);
  say_fitted(
      fmt::format("dB: 10 log10(signal / error) of the layer's result on {} samples, against f32; 6 dB are one bit. "
                  "alone: only this "
                  "layer is quantised; in net: all are\n",
                  report.samples));
  print_left_out(report.left_out);
  for (const auto& output : report.measured.outputs) {
    std::string line = fmt::format("output {}: {} dB", printable(output.name), db_text(output.error));
    if (output.rows > 0)
      line += fmt::format(", the largest element is the same in {} of {} rows", output.same_class, output.rows);
    say_fitted(line + "\n");
  }
  print_file(c, report);
  print_next(c, report);
}

void print(const QuantizeCommand& c, const quantize::WeightReport& report) {
  TextTable table({{.title = "layer, the worst first", .width = 48, .left = true, .least = 22},
                   {.title = "operator", .width = 8, .left = true},
                   {.title = "weights", .width = 14},
                   {.title = "weights dB", .width = 11}});
  for (size_t i = 0; i < report.layers.size() && i < kShownLayers; ++i) {
    const auto& l = report.layers[i];
    table.add({printable(l.node), l.op, text(l.shape), db_text(l.error)});
  }
  say("{}", table.text(table_style(), "--json has them"));
  if (report.layers.size() > kShownLayers)
    say("and {} layers that lose less; --json lists all\n", report.layers.size() - kShownLayers);
  say("dB: 10 log10(signal / error) of the weights; 6 dB are one bit\n");
  print_left_out(report.left_out);
  print_file(c, report);
}

void finish(const QuantizeCommand& c, const auto& report) {
  if (!c.json.empty()) write_json(c.json, to_json(c, report));
  if (c.json != "-") print(c, report);
}

void run_weights(const QuantizeCommand& c) {
  const ScratchFolder scratch;
  quantize::WeightOptions options;
  options.format = c.format == "qdq" ? Format::qdq : Format::matmulnbits;
  options.bits = c.weights == "int4" ? 4 : 8;
  options.block = c.block != 0 ? c.block : kBlock;
  options.exclude = {c.exclude.begin(), c.exclude.end()};
  options.name = c.model;
  finish(c, quantize::quantise_weights_only(file_of(c, scratch), options, c.out));
}

void run_samples(const QuantizeCommand& c) {
  const ScratchFolder scratch, source;
  const std::filesystem::path model = file_of(c, source);
  if (c.samples.empty()) {
    fail(ErrorKind::usage,
         "quantize {}: give a folder of samples with --samples DIR, from which the ranges of the values are measured "
         "(without samples: --weights int4 or int8, for the weights of MatMul and Gemm only)\n{}",
         c.model, quantize::samples_help(onnx::Model::load(model)->inputs()));
  }
  quantize::Options options;
  options.format = c.format == "qoperator" ? Format::qoperator : Format::qdq;
  options.calibration.method = c.method == "entropy"      ? Method::entropy
                               : c.method == "percentile" ? Method::percentile
                                                          : Method::minmax;
  options.calibration.percentile = c.percentile != 0 ? c.percentile : kPercentile;
  options.per_channel = c.per_channel;
  options.activations = c.activations == "s8" ? DType::i8 : DType::u8;
  options.weights = c.weights == "u8" ? DType::u8 : DType::i8;
  options.exclude = {c.exclude.begin(), c.exclude.end()};
  options.name = c.model;
  options.runs.compile = ModelOptions().compile_setup().options;
  options.runs.threads = c.threads;
  options.runs.scratch = scratch.model();
  Progress progress("quantize " + c.model);
  options.runs.progress = [&](const std::string& doing) { progress.show(doing); };
  const quantize::Report report = quantize::quantise_model(model, c.samples, options, c.out);
  progress.clear();
  finish(c, report);
}

}  // namespace

void add_quantize(Command app, Context&) {
  auto c = std::make_shared<QuantizeCommand>();
  Command sub = app.subcommand(
      "quantize",
      "Write a model with 8-bit or 4-bit numbers as ONNX, which other runtimes can also run, and show its errors");
  sub.group("Run and deploy");
  add_model_argument(sub, c->model, false);
  sub.heading("Output");
  sub.option("-o,--output,~--out", c->out, "ONNX file to write").file().required();
  sub.json(c->json, "everything");
  sub.heading("Quantising");
  sub.option(
         "--samples", c->samples,
         "folder of inputs from which the ranges of the values are measured: DIR/*.npy, or a folder for each sample "
         "with NAME.npy for each input")
      .folder();
  sub.option("--format", c->format,
             "qdq: float operators between QuantizeLinear and DequantizeLinear (the default with --samples); "
             "qoperator: QLinearConv and the like; matmulnbits: com.microsoft:MatMulNBits (for weights only; the "
             "default without --samples)")
      .one_of({"qdq", "qoperator", "matmulnbits"});
  sub.option("--method", c->method,
             "minmax: ranges contain every value; percentile: they leave out the most extreme ones; entropy: they lose "
             "the least information")
      .one_of({"minmax", "percentile", "entropy"})
      .default_text(c->method);
  sub.option("--percentile", c->percentile, "share of the values inside the ranges, with --method percentile")
      .range(50.0, 100.0)
      .default_text("99.99");
  sub.flag("--per-channel", c->per_channel, "a scale for each output channel of the weights, not one for all");
  sub.option("--activations", c->activations, "type of computed values (default: u8)").one_of({"u8", "s8"});
  sub.option("--weights", c->weights,
             "type of weights (default: s8); int4 and int8: quantise only the weights of MatMul and Gemm, in blocks, "
             "without samples")
      .one_of({"s8", "u8", "int4", "int8"});
  sub.option("--block", c->block, "number of weights that share a scale, with --weights int4 or int8: a power of two")
      .range(int64_t{16}, int64_t{1} << 20)
      .default_text(std::to_string(kBlock));
  sub.option("--exclude", c->exclude, "node that stays in f32; may be repeated").one_value_each().value("NODE");
  sub.heading("Running");
  sub.option("--threads", c->threads, "number of threads (default: KILTER_NUM_THREADS, else the CPUs of this process)")
      .range(1, 1024);
  sub.example("kilter quantize zoo:squeezenet1_1 --samples samples -o squeezenet_int8.onnx",
              "8 bits, with ranges from the .npy files in samples/");
  sub.example("kilter quantize zoo:resnet18 --weights int8 -o small.onnx", "Only weights, without samples");
  sub.callback([c] {
    refuse_idle_options(*c);
    std::error_code none;
    if (std::filesystem::equivalent(c->model, c->out, none))
      fail(ErrorKind::usage, "-o {} is the model itself and would overwrite it; give another file", c->out);
    check_writable("-o", c->out);
    check_writable("--json", c->json);
    if (c->weights_only()) {
      run_weights(*c);
    } else {
      run_samples(*c);
    }
  });
}

}  // namespace kilter::tool
