// kilter compare: measures two networks, thread counts, targets, files or runtimes side by side, interleaved.

#include "measure/compare.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "profile/shown.h"
#include "runner.h"
#include "terminal.h"

namespace kilter::tool {
namespace {

struct SideOptions {
  std::string what;
  ModelOptions model = ModelOptions::of_side();
  bool operator==(const SideOptions&) const = default;
};

struct CompareOptions {
  ModelOptions model;  ///< options shared by both sides
  SideOptions a, b;
  double seconds = 10, half_width = 0.5;
  size_t layers = 10;
  std::string json;

  ModelOptions of(const SideOptions& side) const { return model.with_side(side.model); }
};

bool is_json(const std::string& what) { return what.ends_with(".json"); }

nlohmann::json read_json(const std::string& file) {
  std::ifstream in(file);
  if (!in) fail(ErrorKind::io, "{}: cannot read the file", file);
  nlohmann::json json = try_parse_json(std::string(std::istreambuf_iterator<char>(in), {}));
  if (json.is_discarded()) fail(ErrorKind::bad_input, "{}: not JSON", file);
  return json;
}

void compare_files(const CompareOptions& options) {
  if (!is_json(options.a.what) || !is_json(options.b.what)) {
    fail(ErrorKind::usage,
         "compare {} {}: a saved result can only be compared with another saved result; give two .json files, or two "
         "networks",
         options.a.what, options.b.what);
  }
  const profile::Side a = profile::shown(profile::side_from_json(read_json(options.a.what), options.a.what));
  const profile::Side b = profile::shown(profile::side_from_json(read_json(options.b.what), options.b.what));
  say_fitted(fmt::format("A  {:<40} {:>10.4f} ms\nB  {:<40} {:>10.4f} ms\n", a.label, a.ms, b.label, b.ms));
  say_fitted(profile::conditions_text(a, b));
  say_fitted(fmt::format("B / A = {:.3f}; not interleaved, so no interval: the machine may have changed in between\n",
                         b.ms / a.ms));
  for (const auto& [side, of] : {std::pair{'A', &a}, {'B', &b}}) {
    if (quietness(of->conditions) != Quietness::unknown)
      say_fitted(fmt::format("{}  {}\n", side, quiet_text(of->conditions, "samples")));
  }
  const double ratio = b.ms / a.ms;
  if (!a.layers.empty() && !b.layers.empty())
    say("{}", profile::layers_text(a, b, {ratio, ratio, ratio}, options.layers, table_style()));
}

void compare_networks(CompareOptions options) {
  if (options.b.what.empty()) options.b.what = options.a.what;
  if (is_json(options.a.what) || is_json(options.b.what)) return compare_files(options);
  for (const std::string& what : {options.a.what, options.b.what}) options.model.check_compiled(what);
  CompareOptions().of(options.a).check_compiled(options.a.what, "-a");
  CompareOptions().of(options.b).check_compiled(options.b.what, "-b");
  Progress progress("compare");
  progress.show("preparing A");
  Runner a(options.a.what, options.of(options.a));
  // If both sides have equal settings, one network serves as both. Two copies would be at different addresses, which
  // affects the times.
  std::unique_ptr<Runner> other;
  if (options.b != options.a) {
    progress.show("preparing B");
    other = std::make_unique<Runner>(options.b.what, options.of(options.b));
  }
  Runner& b = other ? *other : a;
  kilter::CompareOptions how;
  how.max_seconds = options.seconds;
  how.target_half_width = options.half_width * 0.01;
  const Duel d = duel(a, b, how, progress);
  progress.clear();
  if (!options.json.empty()) write_json(options.json, to_json(d));
  if (options.json != "-") say("{}", text(d, options.layers, table_style()));
}

}  // namespace

void add_compare(Command app, Context&) {
  auto options = std::make_shared<CompareOptions>();
  Command sub = app.subcommand(
      "compare", "Compare two networks, settings, results or runtimes: conditions first, then times, interleaved");
  sub.group("Measure and explain");
  sub.option("A", options->a.what,
             "ONNX file, zoo:NAME, compiled file; onnxruntime:MODEL or openvino:MODEL; or a .json that bench or "
             "profile wrote")
      .file("A")
      .required();
  sub.option("B", options->b.what, "the same kinds as for A (default: A itself, with the options of B)").file("B");
  options->model.add_settings_to(sub);
  options->a.model.add_settings_to(sub.under("Options for A only", true), "-a");
  options->b.model.add_settings_to(sub.under("Options for B only", true), "-b");
  sub.heading("Measuring");
  sub.option("--seconds", options->seconds, "maximum time to measure, in seconds").range(0.1, 3600.0).shows_default();
  sub.option("--half-width", options->half_width, "stop when the 95 % interval of the ratio is this narrow, in percent")
      .range(0.01, 100.0)
      .shows_default();
  sub.option("--layers", options->layers, "number of layers to show").shows_default();
  sub.heading("Output");
  sub.json(options->json, "the figures");
  sub.footer(
      "Each of the options for both sides also exists for one side, with -a or -b after its name (--threads-b); the "
      "option of one side takes precedence. --help-all lists them. Times are wall time and CPU time. If the batches "
      "differ, times per item are compared, too.");
  sub.example("kilter compare zoo:resnet18 --threads-a 1 --threads-b 2", "What a second thread gains");
  sub.example("kilter compare zoo:resnet18 --threads 1 --records-b default", "What the tuned plan gains");
  sub.example("kilter compare zoo:mobilenet_v2 --threads 1 --input-b input=8x3x224x224", "What a larger batch gains");
  sub.example("kilter compare model.onnx onnxruntime:model.onnx --threads 1", "Kilter and ONNX Runtime");
  sub.example("kilter compare yesterday.json today.json", "Two results that `kilter bench --json` has written");
  sub.callback([=] { compare_networks(*options); });
}

}  // namespace kilter::tool
