// kilter compare: two networks, thread counts, targets, files or runtimes side by side, interleaved.

#include "measure/compare.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "profile/shown.h"
#include "runner.h"

namespace kilter::tool {
namespace {

struct SideOptions {
  std::string what;
  int threads = 0;
  std::string target, records, choose, layer_plan;
  std::vector<std::string> schedules, disable, forbid;
  bool operator==(const SideOptions&) const = default;
};

struct CompareOptions {
  ModelOptions model;  ///< shared by both sides: --input, --threads, sources of schedules
  SideOptions a, b;
  double seconds = 10, half_width = 0.5;
  size_t layers = 10;
  std::string json;

  /// The shared options with those of one side.
  ModelOptions of(const SideOptions& side) const {
    ModelOptions out = model;
    if (side.threads > 0) out.threads = side.threads;
    if (!side.target.empty()) out.target = side.target;
    // A side's own source takes the place of the shared one.
    if (!side.records.empty()) out.records = side.records, out.layer_plan.clear();
    if (!side.layer_plan.empty()) out.layer_plan = side.layer_plan;
    if (!side.layer_plan.empty() && side.records.empty()) out.records = "none";
    if (out.records == "none" && model.records != "none") out.choose.clear();
    if (!side.choose.empty()) out.choose = side.choose;
    out.forbid.insert(out.forbid.end(), side.forbid.begin(), side.forbid.end());
    out.schedules.insert(out.schedules.end(), side.schedules.begin(), side.schedules.end());
    out.disable.insert(out.disable.end(), side.disable.begin(), side.disable.end());
    return out;
  }
};

bool is_json(const std::string& what) { return what.ends_with(".json"); }

nlohmann::json read_json(const std::string& file) {
  std::ifstream in(file);
  if (!in) fail(ErrorKind::io, "{}: cannot read the file", file);
  nlohmann::json json = nlohmann::json::parse(in, nullptr, false);
  if (json.is_discarded()) fail(ErrorKind::bad_input, "{}: not JSON", file);
  return json;
}

void compare_files(const CompareOptions& options) {
  if (!is_json(options.a.what) || !is_json(options.b.what)) {
    fail(ErrorKind::usage,
         "compare {} {}: a saved result compares with a saved result only; give two .json files, or two networks",
         options.a.what, options.b.what);
  }
  const profile::Side a = profile::shown(profile::side_from_json(read_json(options.a.what), options.a.what));
  const profile::Side b = profile::shown(profile::side_from_json(read_json(options.b.what), options.b.what));
  fmt::print("A  {:<40} {:>10.4f} ms\nB  {:<40} {:>10.4f} ms\n", a.label, a.ms, b.label, b.ms);
  fmt::print("{}", profile::conditions_text(a, b));
  fmt::print("B / A = {:.3f}; not interleaved, so no interval: the machine may have changed in between\n", b.ms / a.ms);
  if (!a.layers.empty() && !b.layers.empty()) fmt::print("{}", profile::differences_text(a, b, options.layers));
}

void compare_networks(CompareOptions options) {
  if (options.b.what.empty()) options.b.what = options.a.what;
  if (is_json(options.a.what) || is_json(options.b.what)) return compare_files(options);
  CompareOptions().of(options.a).check_compiled(options.a.what, "-a");
  CompareOptions().of(options.b).check_compiled(options.b.what, "-b");
  Progress progress("compare");
  progress.show("preparing A");
  Runner a(options.a.what, options.of(options.a));
  // Equal settings are one network, run twice: two copies lie elsewhere in memory, which shows in times.
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
  if (!options.json.empty()) write_text("--json", options.json, to_json(d).dump(2) + "\n");
  if (options.json != "-") fmt::print("{}", text(d, options.layers));
}

void add_side(CLI::App& app, SideOptions& side, const std::string& suffix) {
  const std::string of = " of " + std::string(suffix == "a" ? "A" : "B");
  app.add_option("--threads-" + suffix, side.threads, "threads" + of)->check(CLI::Range(1, 1024));
  app.add_option("--target-" + suffix, side.target, "CPU to generate code for" + of);
  app.add_option("--schedule-" + suffix, side.schedules, "NODE=SCHEDULE" + of);
  app.add_option("--records-" + suffix, side.records, "tuning records" + of + ": a file, default or none");
  app.add_option("--choose-" + suffix, side.choose, "what is taken of records" + of + ", as --choose of kilter run")
      ->check(CLI::IsMember({"accepted", "history-best", "graph-best"}));
  app.add_option("--layer-plan-" + suffix, side.layer_plan, "file of what is chosen of each layer" + of);
  app.add_option("--forbid-" + suffix, side.forbid, "TEMPLATE, TEMPLATE@NODE or SCHEDULE@NODE that is not taken" + of)
      ->allow_extra_args(false);
  app.add_option("--disable-" + suffix, side.disable, "pass that does not run" + of)->delimiter(',');
}

}  // namespace

void add_compare(CLI::App& app, Context&) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* sub = app.add_subcommand(
      "compare", "Compare two networks, settings, results or runtimes: conditions first, then times, interleaved");
  sub->add_option("A", options->a.what,
                  "ONNX file, zoo:NAME, compiled file; onnxruntime:MODEL or openvino:MODEL; or a .json that bench or "
                  "profile wrote")
      ->required();
  sub->add_option("B", options->b.what, "the same kinds; default: A again, with the options of B");
  sub->add_option("--input", options->model.inputs, "NAME=FILE.npy or NAME=SHAPE, for both; may be repeated");
  sub->add_option("--threads", options->model.threads, "threads of both")->check(CLI::Range(1, 1024));
  options->model.add_sources_to(*sub);
  sub->add_option("--forbid", options->model.forbid, "what is not taken, as --forbid of kilter run, for both")
      ->allow_extra_args(false);
  add_side(*sub, options->a, "a");
  add_side(*sub, options->b, "b");
  sub->add_option("--seconds", options->seconds, "how long to measure at most")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  sub->add_option("--half-width", options->half_width,
                  "stop when the 95 % interval of the ratio is this narrow, in percent")
      ->check(CLI::Range(0.01, 100.0))
      ->capture_default_str();
  sub->add_option("--layers", options->layers, "layers to show")->capture_default_str();
  sub->add_option("--json", options->json,
                  "also write the figures as JSON to a file; - is standard output, which then holds nothing else");
  sub->footer(
      "Examples:  kilter compare zoo:resnet18 --threads-a 1 --threads-b 2\n"
      "           kilter compare zoo:resnet18 --threads 1 --records-b default\n"
      "           kilter compare zoo:resnet18 --threads 1 --records default --choose-b history-best\n"
      "           kilter compare model.onnx onnxruntime:model.onnx --threads 1\n"
      "           kilter compare yesterday.json today.json");
  sub->callback([=] { compare_networks(*options); });
}

}  // namespace kilter::tool
