// kilter run: runs a network once, prints or writes its outputs, and compares them with the reference kernels.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "base/map_value.h"
#include "base/npy.h"
#include "base/text.h"
#include "compile/difference.h"
#include "compile/run_values.h"
#include "graph/text.h"
#include "graph/values.h"
#include "map_file.h"
#include "on_agent.h"
#include "ops/op.h"
#include "terminal.h"
#include "tool.h"
#include "tune/run/value.h"
#include "tuning.h"

namespace kilter::tool {
namespace {

/// The range of a tensor's numbers without NaN.
struct Numbers {
  double low = INFINITY, high = -INFINITY, mean = 0;
  int64_t nans = 0;
};

Numbers numbers_of(const Tensor& t) {
  Numbers n;
  double sum = 0;
  for (int64_t k = 0; k < t.elems(); ++k) {
    const double v = t.as_double(k);
    if (std::isnan(v)) {
      ++n.nans;
      continue;
    }
    n.low = std::min(n.low, v), n.high = std::max(n.high, v), sum += v;
  }
  n.mean = sum / static_cast<double>(std::max<int64_t>(t.elems() - n.nans, 1));
  return n;
}

void print_numbers(const Tensor& t) {
  const Numbers n = numbers_of(t);
  say("  min {:.6g}  max {:.6g}  mean {:.6g}", n.low, n.high, n.mean);
  if (n.nans > 0) say("  {} of {} NaN", n.nans, t.elems());
}

void print_strings(const Tensor& t) {
  constexpr size_t kShown = 8, kLongest = 60;
  const std::vector<std::string>& strings = t.strings();
  for (size_t i = 0; i < std::min(kShown, strings.size()); ++i) {
    const bool cut = strings[i].size() > kLongest;
    say("{}'{}'{}", i == 0 ? "  " : ", ", printable(strings[i].substr(0, kLongest)), cut ? "..." : "");
  }
  if (strings.size() > kShown) say(", ...");
}

void print_map(const AnyValue& map) {
  constexpr int64_t kShown = 8;
  const Tensor& keys = map_keys(map);
  for (int64_t i = 0; i < std::min(kShown, keys.elems()); ++i)
    say("{}{}: {}", i == 0 ? "  " : ", ", printable(element_text(keys, i)),
        printable(element_text(map_values(map), i)));
  if (keys.elems() > kShown) say(", ...");
  say("\n");
}

void print_output(const std::string& name, const AnyValue& value) {
  if (is_map(value)) {
    say("{}: {}", printable(name), text(value));
    print_map(value);
    return;
  }
  if (!value.is_tensor()) {
    say("{}: {}\n", printable(name),
        value.absent() ? "absent" : fmt::format("sequence of {}", value.elements().size()));
    for (size_t i = 0; value.is_sequence() && i < value.elements().size(); ++i)
      print_output(fmt::format("{}[{}]", name, i), value.elements()[i]);
    return;
  }
  const Tensor& t = value.tensor();
  say("{}: {}[{}]", printable(name), kilter::name(t.dtype()), text(t.shape()));
  if (t.dtype() == DType::string) {
    print_strings(t);
  } else if (t.elems() > 0) {
    print_numbers(t);
  }
  say("\n");
}

nlohmann::json output_json(const std::string& name, const AnyValue& value) {
  nlohmann::json out{{"name", name}, {"value", text(value)}};
  if (value.is_sequence() && !is_map(value)) {
    out["elements"] = nlohmann::json::array();
    for (size_t i = 0; i < value.elements().size(); ++i)
      out["elements"].push_back(output_json(fmt::format("{}[{}]", name, i), value.elements()[i]));
  }
  if (!value.is_tensor()) return out;
  const Tensor& t = value.tensor();
  out["type"] = kilter::name(t.dtype()), out["shape"] = t.shape();
  if (t.dtype() == DType::string || t.elems() == 0) return out;
  const Numbers n = numbers_of(t);
  out["min"] = n.low, out["max"] = n.high, out["mean"] = n.mean, out["nans"] = n.nans;
  return out;
}

bool finite_constants(const Graph& graph) {
  for (size_t v = 0; v < graph.value_count(); ++v) {
    const std::optional<Tensor>& constant = graph.value(static_cast<ValueId>(v)).constant;
    if (constant && !all_finite(*constant)) return false;
  }
  return true;
}

/// Whether the network quantises a tensor with a scale that it computes.
bool computes_scales(const Graph& graph) {
  return std::ranges::any_of(graph.order(), [&](NodeId id) {
    const Node& node = graph.node(id);
    return node.op->quantises && constant_of(graph, node.inputs[1]) == nullptr;
  });
}

bool all_integers(const Tensor& t) {
  for (int64_t i = 0; i < t.elems(); ++i) {
    if (const double v = t.as_double(i); v != std::floor(v)) return false;
  }
  return true;
}

/// The type in which the network stores values that are computed as f32, if it is narrow. `values`: those of the
/// network in its declared types.
std::optional<DType> narrow_type(Precision precision, const std::map<std::string, Tensor>& values) {
  if (const std::optional<DType> type = stored_type(precision)) return type;
  for (const DType type : {DType::bf16, DType::f16}) {
    if (std::ranges::any_of(values, [&](const auto& value) { return value.second.dtype() == type; })) return type;
  }
  return std::nullopt;
}

/// The difference that a layer may have from the reference kernels. Stored as bf16, operands and results have relative
/// errors of 2^-8, and as f16 of 2^-11; results that are differences of larger terms have more.
double verify_tolerance(std::optional<DType> narrow) {
  if (narrow == DType::bf16) return 0.02;
  return narrow == DType::f16 ? 0.005 : tune::kDefaultTolerance;
}

struct Verdict {
  double tolerance = 0;
  int64_t compared = 0, steps = 0;
  std::string first, worst;  ///< the first value beyond the tolerance, and the worst
  ReferenceDifference first_difference, worst_difference;
};

/// Quantised values whose scale is computed at run time can differ by one step, as a result of earlier rounding errors.
constexpr double kStepTolerance = 0.05;

/// `finite`: difference()'s `finite_inputs`. `steps_allowed`: the network quantises with scales that it computes.
Verdict judge(const RunValues& values, const std::map<std::string, Tensor>& wanted, double tolerance, bool finite,
              bool steps_allowed) {
  Verdict v{tolerance, 0, 0, {}, {}, {}, {}};
  for (const auto& [name, tensor] : values.made) {
    if (!comparable(tensor, wanted.at(name))) continue;
    const Tensor want = wanted.at(name).widened();
    const Tensor got = tensor.widened().reshaped(want.shape());
    ++v.compared;
    const ReferenceDifference d = difference(got, want, finite);
    // A zero point that differs by one changes the integers that are multiples of it.
    const bool multiple = v.steps > 0 && want.dtype() == DType::i32;
    if (steps_allowed && !d.unlike && d.most > 0 && (d.most == 1 || multiple) && all_integers(got) &&
        all_integers(want)) {
      ++v.steps;
      v.tolerance = std::max(v.tolerance, kStepTolerance);
      continue;
    }
    if (d.relative() > v.tolerance && v.first.empty()) v.first = name, v.first_difference = d;
    if (v.worst.empty() || d.relative() > v.worst_difference.relative()) v.worst = name, v.worst_difference = d;
  }
  return v;
}

/// The comparison of a run with the reference kernels, as text and as JSON.
struct Verified {
  bool passed = true;
  std::string text;
  nlohmann::json json;

  void end() {
    json["passed"] = passed;
    text += "verify: " + (passed ? styled(Style::good, "passed") : styled(Style::bad, "FAILED")) + "\n";
  }
};

nlohmann::json to_json(const std::string& value, const ReferenceDifference& d) {
  return {{"value", value}, {"difference", d.most}, {"scale", d.scale}, {"relative", d.relative()}};
}

std::string text(const Verdict& v, bool alone) {
  std::string out =
      fmt::format("verify: {} values compared with the reference kernels{}; tolerance {:g} of the largest magnitude\n",
                  v.compared, alone ? ", each layer on its own operands" : "", v.tolerance);
  if (v.steps > 0) {
    out += fmt::format(
        "  {} integer values differ by a step, since scales are computed from rounded values; the tolerance after the "
        "first of them is {:g}\n",
        v.steps, kStepTolerance);
  }
  if (v.compared > 0) {
    out += fmt::format("  worst: '{}' differs by {:.3g} of {:.3g} ({:.2e})\n", printable(v.worst),
                       v.worst_difference.most, v.worst_difference.scale, v.worst_difference.relative());
  }
  if (!v.first.empty()) {
    out += fmt::format("  first beyond the tolerance: '{}' differs by {:.3g} of {:.3g} ({:.2e}){}\n",
                       printable(v.first), v.first_difference.most, v.first_difference.scale,
                       v.first_difference.relative(), v.first_difference.unlike ? ", NaN or infinite on one side" : "");
  }
  return out;
}

/// Adds how far the outputs are from those of the reference kernels, by the errors of all layers together.
void add_output_errors(Verified& verified, const std::vector<PlanTensor>& outputs, const std::vector<Tensor>& got,
                       const std::vector<Tensor>& want, bool finite) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!is_float(outputs[i].type)) continue;
    const ReferenceDifference d = difference(got[i], want[i], finite);
    const double rms = relative_rms(got[i], want[i]);
    verified.text += fmt::format(
        "  output '{}', by the errors of all layers: differs by at most {:.3g} of {:.3g} ({:.2e}), root mean square "
        "{:.2e} of the values\n",
        printable(outputs[i].name), d.most, d.scale, d.relative(), rms);
    verified.json["outputs"].push_back(to_json(outputs[i].name, d));
    verified.json["outputs"].back()["root_mean_square"] = rms;
  }
}

/// Outputs of any kind as tensors: the elements of a sequence are "NAME[0]", "NAME[1]", ..., the parts of a map
/// "NAME.keys" and "NAME.values".
struct FlatOutputs {
  std::vector<PlanTensor> ports;
  std::vector<Tensor> tensors;

  void add(const std::string& name, const AnyValue& value) {
    if (value.is_tensor()) {
      ports.push_back({name, value.tensor().dtype(), value.tensor().shape()});
      tensors.push_back(value.tensor());
    } else if (is_map(value)) {
      add(name + ".keys", map_keys(value));
      add(name + ".values", map_values(value));
    } else if (value.is_sequence()) {
      for (size_t i = 0; i < value.elements().size(); ++i) add(fmt::format("{}[{}]", name, i), value.elements()[i]);
    }
  }
};

/// Whether an output is a map or a sequence of maps.
bool has_maps(const AnyValue& value) {
  return is_map(value) || (value.is_sequence() && !value.elements().empty() && is_map(value.elements()[0]));
}

/// Writes the tensors of outputs as .npy files, and maps as JSON. Returns the file of each. `prints`: prints the file
/// names that differ from the outputs' names.
nlohmann::json write_outputs(const std::string& folder, const std::vector<onnx::Port>& ports,
                             const std::vector<AnyValue>& values, bool prints) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(ErrorKind::io, "--output {}: cannot create the folder: {}", folder, error.message());
  std::set<std::string> taken;
  nlohmann::json files;
  const auto file_for = [&](const std::string& name, const std::string& ending) {
    const std::string file = file_name(name, ending, taken);
    if (prints && file != name + ending) say("{} is in {}\n", printable(name), file);
    files[name] = file;
    return std::filesystem::path(folder) / file;
  };
  for (size_t i = 0; i < values.size(); ++i) {
    if (has_maps(values[i])) {
      const std::filesystem::path file = file_for(ports[i].name, ".json");
      write_file_atomically(file, maps_text(values[i]));
      continue;
    }
    FlatOutputs flat;
    flat.add(ports[i].name, values[i]);
    for (size_t t = 0; t < flat.tensors.size(); ++t) save_npy(file_for(flat.ports[t].name, ".npy"), flat.tensors[t]);
  }
  return files;
}

FlatOutputs flat(const Session& session, const std::vector<AnyValue>& values) {
  FlatOutputs flat;
  const std::vector<onnx::Port> ports = session.outputs();
  for (size_t i = 0; i < values.size(); ++i) flat.add(ports[i].name, values[i]);
  return flat;
}

/// Returns a session for the same network that uses only reference kernels. `there`: the session compiled for another
/// machine.
std::unique_ptr<Session> reference_session(const std::string& model, const Session& session, bool there = false) {
  Session::Options naive = session.options();
  naive.compile = {},
  naive.chooser = nullptr;  // layer options may name nodes that only passes create; reference kernels need none
  naive.compile.target = there ? parse_target("native") : session.options().compile.target;
  naive.compile.debug.naive = true;
  if (there) naive.threads = 0;
  return Session::open(model, naive);
}

/// Compares the outputs of a program with those of the reference kernels.
Verified verify_program(const std::string& model, const Session& session, const std::map<std::string, AnyValue>& inputs,
                        const FlatOutputs& got) {
  const auto reference = reference_session(model, session);
  const FlatOutputs want = flat(*reference, reference->run_values(inputs));
  const double tolerance = verify_tolerance(stored_type(session.options().compile.precision));
  Verified verified;
  verified.json["tolerance"] = tolerance;
  bool passed = got.ports.size() == want.ports.size();
  for (size_t i = 0; passed && i < got.ports.size(); ++i) {
    passed = comparable(got.tensors[i], want.tensors[i]);
    if (!passed) break;
    if (got.ports[i].type == DType::string) {
      passed = got.tensors[i].same(want.tensors[i]);
      continue;
    }
    const ReferenceDifference d = difference(got.tensors[i].widened(), want.tensors[i].widened(), true);
    passed = d.relative() <= tolerance;
    verified.text += fmt::format("  output '{}' differs by {:.3g} of {:.3g} ({:.2e})\n", printable(got.ports[i].name),
                                 d.most, d.scale, d.relative());
    verified.json["outputs"].push_back(to_json(got.ports[i].name, d));
  }
  verified.passed = passed;
  verified.text += fmt::format(
      "verify: the outputs of the program compared with the reference kernels; tolerance {:g} of the largest "
      "magnitude\n",
      tolerance);
  verified.end();
  return verified;
}

/// Runs the network and returns the outputs, and the values that `wanted` names. The inputs are in the order of the
/// plan.
using ValuesOf =
    std::function<RunValues(const std::vector<Tensor>& inputs, const std::map<std::string, Tensor>& wanted)>;

/// Compares every value with the reference kernels. Errors of narrow types grow from layer to layer even if every
/// kernel is correct. So if a network stores narrow types, its kernels are judged layer by layer, each on its own
/// operands. `reference`: reference_session(). `plan`: the plan that runs.
Verified verify_run(Session& reference, const Session& session, const std::map<std::string, Tensor>& inputs,
                    const Plan& plan, const ValuesOf& run) {
  Loaded& slow = reference.prepare_for(inputs);
  std::vector<Tensor> ordered;
  for (const PlanTensor& t : plan.inputs) ordered.push_back(inputs.at(t.name));
  std::map<std::string, Tensor> wanted, alone;
  RunValues exact, values;
  std::optional<DType> narrow;
  {
    Progress progress("verify");
    progress.show("running the reference kernels");
    exact = values_of(slow, ordered, nullptr);
    wanted = {exact.made.begin(), exact.made.end()};
    values = run(ordered, wanted);
    narrow = narrow_type(session.options().compile.precision, wanted);
    if (narrow) alone = values_of_layers_alone(slow, ordered, {values.made.begin(), values.made.end()});
  }
  const Graph bound = session.bind(inputs).graph;
  const bool finite = std::ranges::all_of(ordered, all_finite) && finite_constants(bound);
  const Verdict verdict =
      judge(values, narrow ? alone : wanted, verify_tolerance(narrow), finite, computes_scales(bound));
  Verified verified{verdict.first.empty(), text(verdict, narrow.has_value()), {}};
  verified.json = {{"tolerance", verdict.tolerance}, {"compared", verdict.compared}};
  if (verdict.compared > 0) verified.json["worst"] = to_json(verdict.worst, verdict.worst_difference);
  if (!verdict.first.empty()) verified.json["first_beyond"] = to_json(verdict.first, verdict.first_difference);
  if (narrow) add_output_errors(verified, plan.outputs, values.outputs, exact.outputs, finite);
  verified.end();
  return verified;
}

struct RunCommand {
  ModelOptions model;
  OnOptions on;
  std::string folder, json;
  bool verify = false;
  bool prints() const { return json != "-"; }
};

/// Shows, writes and checks the outputs of a run, with what `report` says about it. Returns the exit code.
int finish(const RunCommand& command, const Session& session, const std::vector<AnyValue>& values,
           nlohmann::json report, const std::function<Verified()>& verify) {
  report["model"] = session.name(), report["outputs"] = nlohmann::json::array();
  const std::vector<onnx::Port> ports = session.outputs();
  for (size_t i = 0; i < values.size(); ++i) {
    report["outputs"].push_back(output_json(ports[i].name, values[i]));
    if (command.prints()) print_output(ports[i].name, values[i]);
  }
  if (!command.folder.empty()) report["files"] = write_outputs(command.folder, ports, values, command.prints());
  bool passed = true;
  if (command.verify) {
    const Verified verified = verify();
    passed = verified.passed, report["verify"] = verified.json;
    if (command.prints()) say_fitted(verified.text);
  }
  if (!command.json.empty()) write_json(command.json, report);
  return passed ? kDone : kCheckFailed;
}

int run_here(const RunCommand& command) {
  const auto session = command.model.open();
  const std::map<std::string, AnyValue> given = command.model.all_values(*session);
  std::map<std::string, Tensor> inputs;
  for (const auto& [name, value] : given) {
    if (value.is_tensor()) inputs.emplace(name, value.tensor());
  }
  const std::vector<AnyValue> values = session->run_values(given);
  nlohmann::json report = nlohmann::json::object();
  if (!session->runs_program()) {
    Loaded& loaded = session->prepare_for(inputs);
    if (command.model.time_passes && command.prints()) print_passes(loaded.compiled);
    tell_records(loaded.plan().records);
    report["records"] = loaded.plan().records, report["target"] = loaded.plan().target;
  } else {
    tell_records_of_program(*session);
  }
  tell_absent_threads(*session);
  return finish(command, *session, values, std::move(report), [&] {
    const std::string& model = command.model.model;
    if (session->compiled_file()) fail(ErrorKind::usage, "--verify needs the model, not a compiled file: {}", model);
    if (session->runs_program()) return verify_program(model, *session, given, flat(*session, values));
    const auto reference = reference_session(model, *session);
    Loaded& fast = session->prepare_for(inputs);
    return verify_run(*reference, *session, inputs, fast.plan(),
                      [&](const auto& ordered, const auto& wanted) { return values_of(fast, ordered, &wanted); });
  });
}

int run_there(const RunCommand& command) {
  Progress progress("run " + command.model.model);
  AgentNetwork network(command.model, command.on, {}, [&](const std::string& what) { progress.show(what); });
  progress.show("running");
  std::vector<AnyValue> values;
  for (Tensor& output : network.outputs()) values.emplace_back(std::move(output));
  progress.clear();
  if (command.model.time_passes && command.prints()) print_passes(network.compiled());
  tell_records(network.plan().records);
  const AgentNetwork::Place place = network.place();
  note("ran {}\n", place.text);
  const nlohmann::json report{
      {"records", network.plan().records}, {"target", network.plan().target}, {"on", place.json}};
  return finish(command, network.session(), values, report, [&] {
    const auto reference = reference_session(command.model.model, network.session(), true);
    return verify_run(*reference, network.session(), network.inputs(), network.plan(),
                      [&](const auto&, const auto& wanted) { return network.values(wanted); });
  });
}

/// Returns the exit code.
int run(RunCommand command) {
  check_writable("--json", command.json);
  command.on.settle();
  return command.on.given ? run_there(command) : run_here(command);
}

}  // namespace

void add_run(Command app, Context& context) {
  auto command = std::make_shared<RunCommand>();
  Command sub = app.subcommand("run", "Run a network once; inputs that are not given get seeded random values");
  sub.group("Run and deploy");
  command->model.add_to(sub);
  command->on.add_to(sub);
  sub.heading("Output");
  sub.option("-o,--output", command->folder, "folder to write one NAME.npy per output to, or NAME.json for maps")
      .folder();
  sub.json(command->json, "the outputs' shapes and ranges, and the verdict of --verify");
  sub.flag("--verify", command->verify, "compare every value with the reference kernels (exit code 1 if any differs)");
  sub.example("kilter run zoo:resnet18 --verify", "Run ResNet-18 and check its results");
  sub.example("kilter run model.onnx --input input=1x3x224x224 --output results", "Write the outputs as .npy files");
  sub.example("kilter run zoo:resnet18 --verify --on board --sign-key team.secret",
              "Check the results of the machine of an agent that trusts team.public, in the fleet of KILTER_FLEET");
  sub.callback([command, &context] { context.exit = run(*command); });
}

}  // namespace kilter::tool
