#include "runner.h"

#include <nlohmann/json.hpp>

#include "base/other_threads.h"
#include "measure/device.h"
#include "onnx/model.h"
#include "ops/support/builder.h"
#include "profile/profile.h"
#include "profile/program.h"
#include "profile/shown.h"

namespace kilter::tool {
namespace {

/// Returns the runtime of "onnxruntime:MODEL", or an empty string for Kilter.
std::string runtime_of(const std::string& what) {
  for (const char* name : {"onnxruntime", "openvino"}) {
    if (what.starts_with(std::string(name) + ":")) return name;
  }
  return {};
}

/// Returns the first dimension of the first input, which counts the network's items.
int64_t items_of(const Session& session, const std::map<std::string, Tensor>& inputs) {
  const auto ports = session.inputs();
  const auto first = ports.empty() ? inputs.end() : inputs.find(ports.front().name);
  return first == inputs.end() || first->second.shape().empty() ? 1 : first->second.shape().front();
}

/// Returns e.g. "B takes 3.1 % longer", "B is 1.20 times as fast" or "no significant difference".
std::string verdict(const Ratio& r) {
  if (r.contains(1)) return "no significant difference";
  return r.value > 1 ? fmt::format("B takes {:.1f} % longer", 100 * (r.value - 1))
                     : fmt::format("B is {:.2f} times as fast", 1 / r.value);
}

}  // namespace

Runner::Runner(const std::string& what, ModelOptions options) : label_(what) {
  const std::string runtime = runtime_of(what);
  options.model = runtime.empty() ? what : what.substr(runtime.size() + 1);
  if (runtime.empty()) {
    network_ = std::make_unique<Prepared>(options, Prepared::Form::any);
    network_->warm_up();
    items_ = items_of(*network_->session, network_->inputs);
  } else {
    start_peer(runtime, options);
  }
}

Candidate Runner::candidate() {
  Candidate c{label_, [this] { network_->run(); }};
  if (peer_) {
    c.timed = [this](int64_t calls) { return peer_->run(calls); };
    c.cpu_ms = [this] { return peer_->cpu_ms(); };
  }
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
    const profile::PeerLayers profiled = peer_->layers(20);
    side.profiled_ms = profiled.run_ms;
    for (const profile::PeerLayer& l : profiled.layers) side.layers.push_back({l.name, l.op, l.ms});
    return side;
  }
  if (network_->session->file_program() != nullptr) {  // it cannot be profiled
    side.conditions = profile::program_conditions(*network_->session);
    side.conditions.program = version_text();
    return side;
  }
  profile::Options how;
  how.seconds = seconds;
  how.peaks = false;  // bounds are not shown
  const profile::Profile p = network_->loaded == nullptr
                                 ? profile::collect_program(*network_->session, network_->values, how)
                                 : profile::collect(*network_->loaded->instance, network_->plan(), network_->threads,
                                                    network_->from, network_->to, how);
  side.conditions = p.conditions;
  side.conditions.program = version_text();
  for (const profile::Row& r : p.rows) {
    side.layers.push_back(
        {r.name, r.schedule.empty() ? r.ops : fmt::format("{} | {}", r.ops, r.schedule), r.time.mean});
  }
  return side;
}

void Runner::start_peer(const std::string& runtime, const ModelOptions& model) {
  profile::Peer::Request request{runtime, model.model, 1, {}};
  const auto session = model.open();
  if (session->compiled_file()) {
    fail(ErrorKind::usage, "{}: a compiled file runs in Kilter only; give the ONNX file or zoo:NAME", label_);
  }
  const std::map<std::string, Tensor> inputs = model.all_inputs(*session);
  for (const auto& [name, tensor] : inputs) request.shapes[name] = tensor.shape();
  items_ = items_of(*session, inputs);
  request.threads = threads_ = model.threads > 0 ? model.threads : default_threads();
  try {
    original_ = session->graph(request.shapes);
  } catch (const NeedsProgram&) {
    request.values = inputs;  // what a program does can depend on them, so both runtimes get the same
  }
  if (model.model.starts_with("zoo:")) {
    exported_.emplace();
    request.model = exported_->model().string();
    onnx::save(*original_, request.model, 17);
  }
  peer_ = std::make_unique<profile::Peer>(request);
}

namespace {

/// Profiles both sides in the order A B B A, so that the same disturbances affect both, and averages each layer over
/// its two profiles.
void describe_both(Runner& a, Runner& b, double seconds, Duel& d) {
  d.a = a.describe(seconds / 2);
  d.b = b.describe(seconds / 2);
  const auto again = [&](Runner& runner, profile::Side& side) {
    const profile::Side second = runner.describe(seconds / 2);
    if (second.layers.size() != side.layers.size()) return;  // another runtime may name its layers differently
    for (size_t i = 0; i < side.layers.size(); ++i) {
      if (side.layers[i].name == second.layers[i].name)
        side.layers[i].ms = (side.layers[i].ms + second.layers[i].ms) / 2;
    }
    side.profiled_ms = (side.profiled_ms + second.profiled_ms) / 2;
  };
  again(b, d.b);
  again(a, d.a);
}

/// Adds the counts of samples and disturbances, and the side's best time, to its conditions.
void note_samples(const Comparison& c, size_t candidate, Conditions& conditions) {
  conditions.taken = c.taken, conditions.kept = c.kept;
  conditions.disturbed = c.disturbed, conditions.disturbed_by = c.disturbances.why();
  conditions.best_ms = c.rounds.front().ms[candidate];
  for (const Round& round : c.rounds) conditions.best_ms = std::min(conditions.best_ms, round.ms[candidate]);
}

}  // namespace

Ratio Duel::per_item(const Ratio& runs) const {
  const double scale = static_cast<double>(items_a) / static_cast<double>(items_b);
  return {runs.value * scale, runs.low * scale, runs.high * scale};
}

Duel duel(Runner& a, Runner& b, const kilter::CompareOptions& how, Progress& progress) {
  progress.show(fmt::format("measuring, at most {:g} s", how.max_seconds));
  Duel d;
  d.items_a = a.items(), d.items_b = b.items();
  kilter::CompareOptions options = how;
  // It is soon clear that eight items take longer than one, but not whether each of the eight does.
  if (d.batches_differ()) options.stop_when_different = false;
  const Attendance before_a = a.attendance(), before_b = b.attendance();
  d.comparison = compare({a.candidate(), b.candidate()}, options);
  const Attendance in_a = a.attendance().since(before_a), in_b = b.attendance().since(before_b);
  progress.show("profiling both");
  describe_both(a, b, how.max_seconds / 4, d);
  note_samples(d.comparison, 0, d.a.conditions);
  note_samples(d.comparison, 1, d.b.conditions);
  d.a.conditions.took_part = in_a.took_part(), d.b.conditions.took_part = in_b.took_part();
  if (b.original() != nullptr && !a.peer()) profile::match_layers(*b.original(), d.a, d.b);
  if (a.original() != nullptr && !b.peer()) profile::match_layers(*a.original(), d.b, d.a);
  d.a.ms = d.comparison.time_ms(0).value;
  d.b.ms = d.comparison.time_ms(1).value;
  return d;
}

namespace {

std::string ratio_line(const std::string& what, const Ratio& r) {
  return fmt::format("{}B / A = {:.4f} ({:.4f} to {:.4f}, 95 %): {}\n", what, r.value, r.low, r.high, verdict(r));
}

std::string side_line(char side, const profile::Side& s, const Ratio& ms, const std::optional<Ratio>& cpu) {
  std::string out = fmt::format("{}  {:<40} {:>10.4f} ms ({:.4f} to {:.4f}), best {:.4f}", side, s.label, ms.value,
                                ms.low, ms.high, s.conditions.best_ms);
  if (cpu) out += fmt::format("; CPU time {:.4f} ms", cpu->value);
  return out + "\n";
}

std::string ratios_text(const Duel& duel) {
  const Ratio ratio = duel.comparison.ratio(0, 1);
  const std::optional<Ratio> cpu = duel.comparison.cpu_ratio(0, 1);
  std::string out = ratio_line("", ratio);
  if (cpu) out += ratio_line("by CPU time  ", *cpu);
  if (!duel.batches_differ()) return out;
  out += fmt::format("per item, in batches of {} and {}\n", duel.items_a, duel.items_b);
  out += ratio_line("  ", duel.per_item(ratio));
  if (cpu) out += ratio_line("  by CPU time  ", duel.per_item(*cpu));
  return out;
}

}  // namespace

std::string text(const Duel& duel, size_t layers, const TableStyle& style) {
  const Comparison& c = duel.comparison;
  const profile::Side a = profile::shown(duel.a), b = profile::shown(duel.b);
  Conditions both = a.conditions;
  both.best_ms = 0;  // each side has its own
  std::string out;
  if (quietness(both) == Quietness::busy) out += quiet_text(both, "rounds") + "\n";
  out += profile::conditions_text(a, b);
  out += side_line('A', a, c.time_ms(0), c.cpu_ms(0)) + side_line('B', b, c.time_ms(1), c.cpu_ms(1));
  if (quietness(both) != Quietness::busy) out += "  " + quiet_text(both, "rounds") + "\n";
  for (const auto& [side, of] : {std::pair{'A', &a}, {'B', &b}}) {
    if (const std::string absent = absent_threads_text(of->conditions.took_part); !absent.empty())
      out += fmt::format("  {}: {}\n", side, absent);
  }
  out += ratios_text(duel);
  out += fmt::format("  {} interleaved rounds in {:.1f} s; {}; {}\n", c.taken, c.seconds, c.dropped, c.stopped_because);
  for (const std::string& told : {profile::peer_layers_text('A', a), profile::peer_layers_text('B', b)})
    out += told.empty() ? told : "  " + told;
  return fit_lines(out, style.width) + profile::layers_text(a, b, c.ratio(0, 1), layers, style);
}

nlohmann::json to_json(const Duel& duel) {
  const Comparison& c = duel.comparison;
  const auto interval = [&](const Ratio& r) {
    return nlohmann::json{{"value", r.value}, {"low", r.low}, {"high", r.high}, {"confidence", c.confidence}};
  };
  const auto side = [&](const profile::Side& s, size_t candidate) {
    const Ratio ms = c.time_ms(candidate);
    nlohmann::json out{{"what", s.label},
                       {"ms", ms.value},
                       {"low_ms", ms.low},
                       {"high_ms", ms.high},
                       {"conditions", kilter::to_json(s.conditions)}};
    if (const auto cpu = c.cpu_ms(candidate)) out["cpu_ms"] = cpu->value;
    if (!s.layers.empty()) out["layers_ms"] = s.layers_ms();
    if (s.profiled_ms > 0) out["profiled_ms"] = s.profiled_ms;
    return out;
  };
  const Ratio ratio = c.ratio(0, 1);
  const std::optional<Ratio> cpu = c.cpu_ratio(0, 1);
  nlohmann::json out{{"a", side(duel.a, 0)},
                     {"b", side(duel.b, 1)},
                     {"ratio", interval(ratio)},
                     {"rounds", c.taken},
                     {"kept", c.kept},
                     {"disturbed", c.disturbed},
                     {"stopped_because", c.stopped_because},
                     {"layers_withheld", profile::layers_withheld(duel.a, duel.b, ratio)},
                     {"layers", nlohmann::json::array()}};
  if (cpu) out["cpu_ratio"] = interval(*cpu);
  if (duel.batches_differ()) {
    out["per_item"] = {{"items_a", duel.items_a}, {"items_b", duel.items_b}, {"ratio", interval(duel.per_item(ratio))}};
    if (cpu) out["per_item"]["cpu_ratio"] = interval(duel.per_item(*cpu));
  }
  for (const auto& d : profile::layer_differences(duel.a, duel.b))
    out["layers"].push_back({{"name", d.name}, {"a_ms", d.a_ms}, {"b_ms", d.b_ms}});
  return out;
}

}  // namespace kilter::tool
