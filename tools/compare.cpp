// kilter compare: two networks, thread counts, targets, files or runtimes side by side, interleaved.

#include "measure/compare.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "measure/device.h"
#include "onnx/model.h"
#include "profile/peer.h"
#include "profile/profile.h"
#include "profile/versus.h"
#include "tool.h"

namespace kilter::tool {
namespace {

struct SideOptions {
  std::string what;
  int threads = 0;
  std::string target;
  std::vector<std::string> schedules, disable;
  bool operator==(const SideOptions&) const = default;
};

struct CompareOptions {
  ModelOptions model;  ///< shared by both sides: --input
  SideOptions a, b;
  double seconds = 10, half_width = 0.5;
  size_t layers = 10;
  std::string json;
};

bool is_json(const std::string& what) { return what.ends_with(".json"); }

/// "onnxruntime:MODEL": the runtime; empty for Kilter.
std::string runtime_of(const std::string& what) {
  for (const char* name : {"onnxruntime", "openvino"}) {
    if (what.starts_with(std::string(name) + ":")) return name;
  }
  return {};
}

nlohmann::json read_json(const std::string& file) {
  std::ifstream in(file);
  if (!in) fail(ErrorKind::io, "{}: cannot read the file", file);
  nlohmann::json json = nlohmann::json::parse(in, nullptr, false);
  if (json.is_discarded()) fail(ErrorKind::bad_input, "{}: not JSON", file);
  return json;
}

/// One side that can run: Kilter in this process, or another runtime in its own.
class Runner {
 public:
  Runner(const CompareOptions& options, const SideOptions& side) : label_(side.what) {
    const std::string runtime = runtime_of(side.what);
    ModelOptions model = options.model;
    model.model = runtime.empty() ? side.what : side.what.substr(runtime.size() + 1);
    if (side.threads > 0) model.threads = side.threads;
    if (!side.target.empty()) model.target = side.target;
    model.schedules.insert(model.schedules.end(), side.schedules.begin(), side.schedules.end());
    model.disable.insert(model.disable.end(), side.disable.begin(), side.disable.end());
    if (runtime.empty()) {
      network_ = std::make_unique<Prepared>(model);
      return;
    }
    start_peer(runtime, model);
  }
  ~Runner() {
    std::error_code error;
    if (!exported_.empty()) std::filesystem::remove_all(exported_, error);
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  Candidate candidate() {
    Candidate c{label_, [this] { network_->run(); }};
    if (peer_) c.timed = [this](int64_t calls) { return peer_->run(calls); };
    return c;
  }

  profile::Side describe(double seconds) {
    profile::Side side;
    side.label = label_;
    if (peer_) {
      side.conditions = current_conditions();
      side.conditions.threads = threads_;
      side.conditions.executor = side.conditions.program = peer_->version();
      side.conditions.device = describe_device().fingerprint();
      side.conditions.weights = "as one run after another leaves them";
      for (const profile::PeerLayer& l : peer_->layers(20)) side.layers.push_back({l.name, l.op, l.ms});
      return side;
    }
    profile::Options how;
    how.seconds = seconds;
    const profile::Profile p = profile::collect(*network_->loaded->instance, network_->plan(), network_->threads,
                                                network_->from, network_->to, how);
    side.conditions = p.conditions;
    side.conditions.program = version_text();
    for (const profile::Row& r : p.rows) {
      side.layers.push_back(
          {r.name, r.kind == profile::RowKind::gap ? "" : fmt::format("{} | {}", r.ops, r.schedule), r.time.mean});
    }
    return side;
  }
  bool peer() const { return peer_ != nullptr; }
  /// The network before any pass; of another runtime's side only.
  const Graph& original() const { return *original_; }

 private:
  void start_peer(const std::string& runtime, const ModelOptions& model) {
    profile::Peer::Request request{runtime, model.model, 1, {}};
    const auto session = model.open();
    if (session->compiled_file()) {
      fail(ErrorKind::usage, "{}: a compiled file runs in Kilter only; give the ONNX file or zoo:NAME", label_);
    }
    for (const auto& [name, tensor] : model.all_inputs(*session)) request.shapes[name] = tensor.shape();
    request.threads = threads_ = model.threads > 0 ? model.threads : default_threads();
    original_ = session->graph(request.shapes);
    if (model.model.starts_with("zoo:")) {
      exported_ = std::filesystem::temp_directory_path() / fmt::format("kilter-compare-{}", getpid());
      std::filesystem::create_directories(exported_);
      request.model = (exported_ / "model.onnx").string();
      onnx::save(*original_, request.model, 17);
    }
    peer_ = std::make_unique<profile::Peer>(request);
  }

  std::string label_;
  int threads_ = 1;
  std::unique_ptr<Prepared> network_;
  std::unique_ptr<profile::Peer> peer_;
  std::optional<Graph> original_;
  std::filesystem::path exported_;
};

void compare_files(const CompareOptions& options) {
  if (!is_json(options.a.what) || !is_json(options.b.what)) {
    fail(ErrorKind::usage,
         "compare {} {}: a saved result compares with a saved result only; give two .json files, or two networks",
         options.a.what, options.b.what);
  }
  const profile::Side a = profile::side_from_json(read_json(options.a.what), options.a.what);
  const profile::Side b = profile::side_from_json(read_json(options.b.what), options.b.what);
  fmt::print("A  {:<40} {:>10.4f} ms\nB  {:<40} {:>10.4f} ms\n", a.label, a.ms, b.label, b.ms);
  fmt::print("{}", profile::conditions_text(a, b));
  fmt::print("B / A = {:.3f}; not interleaved, so no interval: the machine may have changed in between\n", b.ms / a.ms);
  if (!a.layers.empty() && !b.layers.empty()) fmt::print("{}", profile::differences_text(a, b, options.layers));
}

std::string verdict(const Ratio& r) {
  if (r.contains(1)) return "no difference shows";
  return r.value > 1 ? fmt::format("B takes {:.1f} % longer", 100 * (r.value - 1))
                     : fmt::format("B is {:.2f} times as fast", 1 / r.value);
}

void compare_networks(CompareOptions options) {
  if (options.b.what.empty()) options.b.what = options.a.what;
  if (is_json(options.a.what) || is_json(options.b.what)) return compare_files(options);
  Progress progress("compare");
  progress.show("preparing A");
  Runner a(options, options.a);
  // Equal settings are one network, run twice: two copies lie elsewhere in memory, which shows in times.
  std::unique_ptr<Runner> other;
  if (options.b != options.a) {
    progress.show("preparing B");
    other = std::make_unique<Runner>(options, options.b);
  }
  Runner& b = other ? *other : a;
  progress.show(fmt::format("measuring, at most {:g} s", options.seconds));
  kilter::CompareOptions how;
  how.max_seconds = options.seconds;
  how.target_half_width = options.half_width * 0.01;
  const Comparison c = compare({a.candidate(), b.candidate()}, how);
  progress.show("profiling both");
  profile::Side side_a = a.describe(options.seconds / 4), side_b = b.describe(options.seconds / 4);
  if (b.peer() && !a.peer()) profile::match_layers(b.original(), side_a, side_b);
  if (a.peer() && !b.peer()) profile::match_layers(a.original(), side_b, side_a);
  progress.clear();
  const Ratio ratio = c.ratio(0, 1), ms_a = c.time_ms(0), ms_b = c.time_ms(1);
  side_a.ms = ms_a.value, side_b.ms = ms_b.value;
  if (!options.json.empty()) {
    nlohmann::json report{
        {"a",
         {{"what", side_a.label},
          {"ms", ms_a.value},
          {"low_ms", ms_a.low},
          {"high_ms", ms_a.high},
          {"conditions", to_json(side_a.conditions)}}},
        {"b",
         {{"what", side_b.label},
          {"ms", ms_b.value},
          {"low_ms", ms_b.low},
          {"high_ms", ms_b.high},
          {"conditions", to_json(side_b.conditions)}}},
        {"ratio", {{"value", ratio.value}, {"low", ratio.low}, {"high", ratio.high}, {"confidence", c.confidence}}},
        {"rounds", c.taken},
        {"kept", c.kept},
        {"disturbed", c.disturbed},
        {"stopped_because", c.stopped_because}};
    for (const auto& d : profile::layer_differences(side_a, side_b))
      report["layers"].push_back({{"name", d.name}, {"a_ms", d.a_ms}, {"b_ms", d.b_ms}});
    write_text("--json", options.json, report.dump(2) + "\n");
    if (options.json == "-") return;
  }
  fmt::print("{}", profile::conditions_text(side_a, side_b));
  fmt::print("A  {:<40} {:>10.4f} ms ({:.4f} to {:.4f})\nB  {:<40} {:>10.4f} ms ({:.4f} to {:.4f})\n", side_a.label,
             ms_a.value, ms_a.low, ms_a.high, side_b.label, ms_b.value, ms_b.low, ms_b.high);
  fmt::print("B / A = {:.4f} ({:.4f} to {:.4f}, 95 %): {}\n", ratio.value, ratio.low, ratio.high, verdict(ratio));
  fmt::print("  {} interleaved rounds in {:.1f} s; {}; {}\n", c.taken, c.seconds, c.dropped, c.stopped_because);
  if (a.peer() || b.peer())
    fmt::print("  the other runtime's layers are as its own profiler gives them: they need not add up to its time\n");
  fmt::print("layers that make the difference:\n{}", profile::differences_text(side_a, side_b, options.layers));
}

void add_side(CLI::App& app, SideOptions& side, const std::string& suffix) {
  const std::string of = " of " + std::string(suffix == "a" ? "A" : "B");
  app.add_option("--threads-" + suffix, side.threads, "threads" + of)->check(CLI::Range(1, 1024));
  app.add_option("--target-" + suffix, side.target, "CPU to generate code for" + of);
  app.add_option("--schedule-" + suffix, side.schedules, "NODE=SCHEDULE" + of);
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
      "           kilter compare model.onnx onnxruntime:model.onnx --threads 1\n"
      "           kilter compare yesterday.json today.json");
  sub->callback([=] { compare_networks(*options); });
}

}  // namespace kilter::tool
