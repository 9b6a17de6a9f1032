#include "runner.h"

#include <nlohmann/json.hpp>

#include "measure/device.h"
#include "onnx/model.h"
#include "profile/profile.h"
#include "profile/shown.h"

namespace kilter::tool {
namespace {

/// "onnxruntime:MODEL": the runtime; empty for Kilter.
std::string runtime_of(const std::string& what) {
  for (const char* name : {"onnxruntime", "openvino"}) {
    if (what.starts_with(std::string(name) + ":")) return name;
  }
  return {};
}

/// "B takes 3.1 % longer", "B is 1.20 times as fast", "no difference shows".
std::string verdict(const Ratio& r) {
  if (r.contains(1)) return "no difference shows";
  return r.value > 1 ? fmt::format("B takes {:.1f} % longer", 100 * (r.value - 1))
                     : fmt::format("B is {:.2f} times as fast", 1 / r.value);
}

}  // namespace

Runner::Runner(const std::string& what, ModelOptions options) : label_(what) {
  const std::string runtime = runtime_of(what);
  options.model = runtime.empty() ? what : what.substr(runtime.size() + 1);
  if (runtime.empty()) {
    network_ = std::make_unique<Prepared>(options);
  } else {
    start_peer(runtime, options);
  }
}

Candidate Runner::candidate() {
  Candidate c{label_, [this] { network_->run(); }};
  if (peer_) c.timed = [this](int64_t calls) { return peer_->run(calls); };
  return c;
}

profile::Side Runner::describe(double seconds) {
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

void Runner::start_peer(const std::string& runtime, const ModelOptions& model) {
  profile::Peer::Request request{runtime, model.model, 1, {}};
  const auto session = model.open();
  if (session->compiled_file()) {
    fail(ErrorKind::usage, "{}: a compiled file runs in Kilter only; give the ONNX file or zoo:NAME", label_);
  }
  for (const auto& [name, tensor] : model.all_inputs(*session)) request.shapes[name] = tensor.shape();
  request.threads = threads_ = model.threads > 0 ? model.threads : default_threads();
  original_ = session->graph(request.shapes);
  if (model.model.starts_with("zoo:")) {
    exported_.emplace();
    request.model = exported_->model().string();
    onnx::save(*original_, request.model, 17);
  }
  peer_ = std::make_unique<profile::Peer>(request);
}

Duel duel(Runner& a, Runner& b, const kilter::CompareOptions& how, Progress& progress) {
  progress.show(fmt::format("measuring, at most {:g} s", how.max_seconds));
  Duel d;
  d.other_runtime = a.peer() || b.peer();
  d.comparison = compare({a.candidate(), b.candidate()}, how);
  progress.show("profiling both");
  d.a = a.describe(how.max_seconds / 4);
  d.b = b.describe(how.max_seconds / 4);
  if (b.peer() && !a.peer()) profile::match_layers(b.original(), d.a, d.b);
  if (a.peer() && !b.peer()) profile::match_layers(a.original(), d.b, d.a);
  d.a.ms = d.comparison.time_ms(0).value;
  d.b.ms = d.comparison.time_ms(1).value;
  return d;
}

std::string text(const Duel& duel, size_t layers) {
  const Comparison& c = duel.comparison;
  const profile::Side a = profile::shown(duel.a), b = profile::shown(duel.b);
  const Ratio ratio = c.ratio(0, 1), ms_a = c.time_ms(0), ms_b = c.time_ms(1);
  std::string out = profile::conditions_text(a, b);
  out += fmt::format("A  {:<40} {:>10.4f} ms ({:.4f} to {:.4f})\nB  {:<40} {:>10.4f} ms ({:.4f} to {:.4f})\n", a.label,
                     ms_a.value, ms_a.low, ms_a.high, b.label, ms_b.value, ms_b.low, ms_b.high);
  out +=
      fmt::format("B / A = {:.4f} ({:.4f} to {:.4f}, 95 %): {}\n", ratio.value, ratio.low, ratio.high, verdict(ratio));
  out += fmt::format("  {} interleaved rounds in {:.1f} s; {}; {}\n", c.taken, c.seconds, c.dropped, c.stopped_because);
  if (duel.other_runtime)
    out += "  the other runtime's layers are as its own profiler gives them: they need not add up to its time\n";
  return out + "layers that make the difference:\n" + profile::differences_text(a, b, layers);
}

nlohmann::json to_json(const Duel& duel) {
  const Comparison& c = duel.comparison;
  const auto side = [](const profile::Side& s, const Ratio& ms) {
    return nlohmann::json{{"what", s.label},
                          {"ms", ms.value},
                          {"low_ms", ms.low},
                          {"high_ms", ms.high},
                          {"conditions", kilter::to_json(s.conditions)}};
  };
  const Ratio ratio = c.ratio(0, 1);
  nlohmann::json out{
      {"a", side(duel.a, c.time_ms(0))},
      {"b", side(duel.b, c.time_ms(1))},
      {"ratio", {{"value", ratio.value}, {"low", ratio.low}, {"high", ratio.high}, {"confidence", c.confidence}}},
      {"rounds", c.taken},
      {"kept", c.kept},
      {"disturbed", c.disturbed},
      {"stopped_because", c.stopped_because},
      {"layers", nlohmann::json::array()}};
  for (const auto& d : profile::layer_differences(duel.a, duel.b))
    out["layers"].push_back({{"name", d.name}, {"a_ms", d.a_ms}, {"b_ms", d.b_ms}});
  return out;
}

}  // namespace kilter::tool
