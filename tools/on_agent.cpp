#include "on_agent.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json_text.h"
#include "base/text.h"
#include "fleet/remote_runner.h"
#include "graph/values.h"
#include "ops/support/builder.h"
#include "profile/profile.h"
#include "target/target.h"
#include "vm/compiled_file.h"

namespace kilter::tool {

using kilter::fleet::Queue;
using kilter::fleet::QueueAgent;
using tune::Lap;
using tune::Tap;

void OnOptions::add_to(Command app) {
  app.heading("On another machine");
  app.option("--on", fleet.device_class,
             "compile here, and run on a machine whose kilter-agent has this device class (doc/fleet.md)")
      .value("CLASS")
      .on_value([this] { given = true; });
  app.option("--fleet", fleet.url,
             "the fleet's database: postgresql://USER@HOST/DATABASE (default with --on: $KILTER_FLEET)")
      .value("URL");
  fleet.add_key_to(app);
}

void OnOptions::settle(std::initializer_list<LocalOption> local) {
  if (!given) {
    if (!fleet.url.empty())
      fail(ErrorKind::usage, "--fleet: only --on runs on a fleet; give --on CLASS as well, or leave --fleet out");
    if (!fleet.sign_key.empty())
      fail(ErrorKind::usage, "--sign-key {}: only jobs of a fleet are signed; give --on CLASS as well", fleet.sign_key);
    return;
  }
  if (fleet.device_class.empty())  // for example, from an unset shell variable
    fail(ErrorKind::usage, "--on '': expected the device class of an agent; `kilter fleet status` lists the agents");
  fleet.url = fleet_or_variable(fleet.url);
  if (fleet.url.empty()) {
    fail(ErrorKind::usage,
         "--on {}: the fleet is missing; give --fleet URL, or set the variable KILTER_FLEET to the URL",
         fleet.device_class);
  }
  refuse(local);
}

void OnOptions::refuse(std::initializer_list<LocalOption> local) const {
  for (const LocalOption& option : local) {
    if (!option.given) continue;
    fail(ErrorKind::usage, "{} does not apply with --on {}: {}; leave one of the two out", option.option,
         fleet.device_class, option.why);
  }
}

void OnOptions::check(const ModelOptions& model) const {
  constexpr std::string_view kFiles = "it is about compiled files, and --on compiles";
  constexpr std::string_view kRecords = "records are those of this machine; --layer-plan takes a plan from a file";
  const ModelOptions usual;
  refuse({{"--records", model.records != usual.records, kRecords},
          {"--choose", model.choose != usual.choose, kRecords},
          {"--specialise", model.specialise != usual.specialise, "one plan runs there"},
          {"--no-verify-file", model.no_verify_file, kFiles},
          {"--signed-by", model.asks_signature, kFiles}});
  if (vm::is_compiled_file(model.model)) {
    fail(ErrorKind::usage,
         "--on {}: {} is a compiled file, but --on compiles for the agent's machine; give the original model",
         fleet.device_class, model.model);
  }
}

namespace {

onnx::Model::Shapes shapes_of(const std::map<std::string, Tensor>& inputs) {
  onnx::Model::Shapes shapes;
  for (const auto& [name, tensor] : inputs) shapes[name] = tensor.shape();
  return shapes;
}

/// Runs `work`, and treats its errors as errors of the fleet.
template <class Work>
auto of_fleet(const Work& work) {
  try {
    return work();
  } catch (const Error& e) {
    throw AgentError(e.kind(), e.message());
  }
}

kilter::fleet::RemoteOptions remote_options(const OnOptions& on) {
  kilter::fleet::RemoteOptions remote;
  remote.url = on.fleet.url, remote.device_class = on.fleet.device_class, remote.key = on.fleet.key();
  remote.run = kilter::fleet::new_name();
  return remote;
}

}  // namespace

AgentNetwork::AgentNetwork(ModelOptions model, const OnOptions& on, const TensorsOf& tensors,
                           const std::function<void(const std::string&)>& tell)
    : model_(std::move(model)), url_(on.fleet.url) {
  const auto say = [&](const std::string& what) {
    if (tell) tell(what);
  };
  on.check(model_);
  kilter::fleet::RemoteOptions remote = of_fleet([&] { return remote_options(on); });
  run_ = remote.run;
  remote.overhead = [this](double ms) { overhead_ms_ += ms; };
  machine_ = of_fleet([&] { return machine_of_class(on.fleet.url, on.fleet.device_class); });
  model_.target = target_on(machine_, model_.target);
  if (model_.threads == 0) model_.threads = machine_.cpus;
  say("compiling");
  session_ = model_.open();
  inputs_ = tensors ? tensors(*session_) : model_.all_inputs(*session_);
  try {
    const Session::Bound bound = session_->bind(inputs_);
    compiled_ = &session_->compile(shapes_of(inputs_), bound.values).compiled;
  } catch (const NeedsProgram& e) {
    fail(ErrorKind::unsupported,
         "{}, so the network runs as a program (doc/control_flow.md), but --on runs networks that are one plan; leave "
         "--on out to run it here",
         e.why());
  }
  if (plan().steps.empty()) {
    fail(ErrorKind::unsupported,
         "{}: nothing is left to compute after compiling, so there is nothing to run with --on; leave it out",
         printable(session_->name()));
  }
  tune::RunnerOptions runner;
  for (const PlanTensor& t : plan().inputs) runner.inputs.push_back(inputs_.at(t.name));
  runner.threads = threads();
  const tune::Loaded loaded = of_fleet([&] {
    say("sending to the fleet");
    runner_ = std::make_unique<kilter::fleet::RemoteRunner>(std::move(remote), std::move(runner));
    say(fmt::format("waiting for an agent of the device class {}", machine_.device_class));
    return runner_->load(plan(), {});
  });
  if (!loaded.id) fail_run(loaded.faults);
  id_ = *loaded.id;
}

AgentNetwork::~AgentNetwork() = default;

void AgentNetwork::fail_run(const std::vector<tune::Fault>& faults) const {
  fail(ErrorKind::internal, "{} failed on {}: {}", printable(session_->name()), machine_text(machine_),
       faults.empty() ? "no reason is known" : faults.front().words);
}

std::vector<Lap> AgentNetwork::measure(double seconds, int64_t runs, const std::function<void(double)>& progress) {
  constexpr int64_t kLeast = 3;
  constexpr double kJobMs = 2000;                                 // between two lines of progress
  constexpr int64_t kJobBytes = int64_t{8} << 20;                 // of an answer
  const int64_t run_bytes = 128 + 12 * std::ssize(plan().steps);  // a little more than trial_job.cpp packs
  std::vector<Lap> out;
  double measured_ms = 0;
  const auto job = [&](const tune::MeasureOptions& how) {
    tune::Laps laps = runner_->measure({&id_, 1}, how);
    if (!laps.faults.empty()) {
      fail(ErrorKind::unsupported, "{} failed while it ran {}: {}", machine_text(machine_), printable(session_->name()),
           laps.faults.front().words);
    }
    require(!laps.laps.front().empty(), "an agent measured no run");
    return laps;
  };
  // The processor was idle before, so the first job only warms up and shows how many runs fit into a round.
  tune::MeasureOptions how{.rounds = 4, .max_ms = 20, .warm_up = tune::WarmUp::never};
  const std::vector<Lap> first = std::move(job(how).laps.front());
  const int64_t of_round = std::ranges::count(first, first.back().round, &Lap::round);
  how.rounds = std::max<int64_t>(1, kJobBytes / (run_bytes * of_round));
  const auto share = [&] {
    return runs > 0 ? static_cast<double>(out.size()) / static_cast<double>(runs) : measured_ms / (seconds * 1e3);
  };
  const auto enough = [&] { return std::ssize(out) >= (runs > 0 ? runs : kLeast) && (runs > 0 || share() >= 1); };
  while (!enough()) {
    progress(std::min(share(), 1.0));
    if (runs > 0) how.rounds = std::min(how.rounds, (runs - std::ssize(out) + of_round - 1) / of_round);
    how.max_ms = runs > 0 ? kJobMs : std::clamp(seconds * 1e3 - measured_ms, 1.0, kJobMs);
    ++how.seed;
    tune::Laps laps = job(how);
    measured_ms += laps.wall_ms;
    std::ranges::move(laps.laps.front(), std::back_inserter(out));
  }
  if (runs > 0) out.resize(static_cast<size_t>(runs));
  return out;
}

std::vector<std::vector<std::byte>> AgentNetwork::trace(const std::vector<Tap>& taps) {
  tune::Traced traced = of_fleet([&] { return runner_->trace(id_, taps); });
  if (traced.fault) fail_run({*traced.fault});
  return std::move(traced.values);
}

void AgentNetwork::add_output_taps(std::vector<Tap>& taps) const {
  for (size_t i = 0; i < plan().outputs.size(); ++i) {
    BufferRef buffer;
    buffer.space = kilter::Space::output, buffer.index = static_cast<int32_t>(i);
    buffer.bytes = tune::written_space_bytes(plan(), buffer);
    taps.push_back({plan().steps.size() - 1, buffer});
  }
}

std::vector<Tensor> AgentNetwork::take_outputs(const std::vector<std::vector<std::byte>>& values, size_t first) const {
  std::vector<Tensor> out;
  for (size_t i = 0; i < plan().outputs.size(); ++i) {
    const std::vector<std::byte>& bytes = values.at(first + i);
    Tensor& to = out.emplace_back(plan().outputs[i].type, plan().outputs[i].shape);
    require(std::ssize(bytes) == to.bytes(), "output '{}' has {} bytes; expected {}", plan().outputs[i].name,
            bytes.size(), to.bytes());
    if (!bytes.empty()) std::memcpy(to.raw(), bytes.data(), bytes.size());
  }
  return out;
}

std::vector<Tensor> AgentNetwork::outputs() {
  std::vector<Tap> taps;
  add_output_taps(taps);
  return take_outputs(trace(taps), 0);
}

RunValues AgentNetwork::values(const std::map<std::string, Tensor>& only) {
  std::vector<Tap> taps;
  std::vector<PlacedValue> placed;  // whose offset counts from the tap's first byte
  for (const PlacedValue& value : compiled_->values) {
    const bool written = value.buffer.space == kilter::Space::arena || value.buffer.space == kilter::Space::output;
    if (!written || !only.contains(value.name)) continue;
    tune::ValueLayout layout;
    layout.type = stored_type(value.type), layout.shape = value.type.shape, layout.block = value.type.layout.block;
    layout.strides = value.strides, layout.offset = value.offset;
    taps.push_back({value.step, tune::occupied(value.buffer, layout)});
    placed.push_back(value);
    placed.back().offset -= tune::range_of(layout).begin;
  }
  const size_t first_output = taps.size();
  add_output_taps(taps);
  const std::vector<std::vector<std::byte>> bytes = trace(taps);
  RunValues out;
  for (size_t i = 0; i < placed.size(); ++i) out.made.emplace_back(placed[i].name, extract(placed[i], bytes[i].data()));
  out.outputs = take_outputs(bytes, first_output);
  return out;
}

Peaks AgentNetwork::peaks() {
  return of_fleet([&] { return runner_->measure_peaks(threads()); });
}

Conditions AgentNetwork::conditions() const {
  return profile::conditions_of(plan(), threads(), machine_.caches, machine_.conditions());
}

AgentNetwork::Place AgentNetwork::place() {
  Queue queue(url_);
  constexpr int kMostJobs = 100'000;
  std::set<std::string> agents, devices;
  for (const kilter::fleet::QueueJob& job : queue.jobs(run_, kMostJobs)) {
    if (!job.agent.empty()) agents.insert(job.agent);
  }
  for (const QueueAgent& agent : queue.agents()) {
    if (!agents.contains(agent.name)) continue;
    const std::string device = machine_of(agent).device;
    if (!device.empty()) devices.insert(device);
  }
  if (devices.empty()) devices.insert("device not known");
  std::string text = fmt::format("on agent{} {} of the device class {} ({}); transfers and waiting: {:.1f} s",
                                 agents.size() == 1 ? "" : "s", printable(fmt::format("{}", fmt::join(agents, ", "))),
                                 printable(machine_.device_class),
                                 printable(fmt::format("{}", fmt::join(devices, "; "))), overhead_ms_ / 1e3);
  return {std::move(text),
          {{"device_class", machine_.device_class},
           {"agents", agents},
           {"devices", devices},
           {"processor", machine_.processor},
           {"overhead_ms", overhead_ms_}}};
}

Evaluation evaluation_of(const std::vector<Lap>& runs) {
  Evaluation out;
  std::vector<double> undisturbed;
  for (const Lap& run : runs) {
    out.samples.ms.push_back(run.total_ms);
    out.disturbed_count.add(run.disturbance);
    if (!run.disturbance.disturbed()) {
      undisturbed.push_back(run.total_ms);
    } else if (out.disturbed++ == 0) {
      out.disturbed_by = run.disturbance.why();
    }
  }
  const bool enough = 2 * undisturbed.size() >= out.samples.ms.size();
  out.quiet.ms = enough ? undisturbed : out.samples.ms;
  return out;
}

}  // namespace kilter::tool
