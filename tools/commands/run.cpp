// kilter run: runs a network once, prints or writes its outputs, and compares them with the reference kernels.

#include <algorithm>
#include <cmath>
#include <filesystem>
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
#include "ops/op.h"
#include "terminal.h"
#include "tool.h"
#include "tune/run/value.h"
#include "tuning.h"

namespace kilter::tool {
namespace {

void print_numbers(const Tensor& t) {
  double low = INFINITY, high = -INFINITY, sum = 0;
  int64_t nans = 0;
  for (int64_t k = 0; k < t.elems(); ++k) {
    const double v = t.as_double(k);
    if (std::isnan(v)) {
      ++nans;
      continue;
    }
    low = std::min(low, v), high = std::max(high, v), sum += v;
  }
  say("  min {:.6g}  max {:.6g}  mean {:.6g}", low, high,
      sum / static_cast<double>(std::max<int64_t>(t.elems() - nans, 1)));
  if (nans > 0) say("  {} of {} NaN", nans, t.elems());
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

/// Codes whose scale is computed at run time can differ by one step, where rounding errors before them decide.
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

void print(const Verdict& v, bool alone) {
  say("verify: {} values compared with the reference kernels{}; tolerance {:g} of the largest magnitude\n", v.compared,
      alone ? ", each layer on its own operands" : "", v.tolerance);
  if (v.steps > 0) {
    say("  {} values of integers differ by a step, since scales are computed from rounded values; the tolerance "
        "after the first of them is {:g}\n",
        v.steps, kStepTolerance);
  }
  if (v.compared > 0) {
    say("  worst: '{}' differs by {:.3g} of {:.3g} ({:.2e})\n", printable(v.worst), v.worst_difference.most,
        v.worst_difference.scale, v.worst_difference.relative());
  }
  if (!v.first.empty()) {
    say("  first beyond the tolerance: '{}' differs by {:.3g} of {:.3g} ({:.2e}){}\n", printable(v.first),
        v.first_difference.most, v.first_difference.scale, v.first_difference.relative(),
        v.first_difference.unlike ? ", NaN or infinite on one side" : "");
  }
}

/// Prints how far the outputs are from those of the reference kernels, by the errors of all layers together.
void print_output_errors(const std::vector<PlanTensor>& outputs, const std::vector<Tensor>& got,
                         const std::vector<Tensor>& want, bool finite) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!is_float(outputs[i].type)) continue;
    const ReferenceDifference d = difference(got[i], want[i], finite);
    say("  output '{}', by the errors of all layers: differs by at most {:.3g} of {:.3g} ({:.2e}), root mean square "
        "{:.2e} of the values\n",
        printable(outputs[i].name), d.most, d.scale, d.relative(), relative_rms(got[i], want[i]));
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

/// Writes the tensors of outputs as .npy files, and maps as JSON.
void write_outputs(const std::string& folder, const std::vector<onnx::Port>& ports,
                   const std::vector<AnyValue>& values) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(ErrorKind::io, "--output {}: cannot make the folder: {}", folder, error.message());
  std::set<std::string> taken;
  const auto file_for = [&](const std::string& name, const std::string& ending) {
    const std::string file = file_name(name, ending, taken);
    if (file != name + ending) say("{} is in {}\n", printable(name), file);
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
}

FlatOutputs flat(const Session& session, const std::vector<AnyValue>& values) {
  FlatOutputs flat;
  const std::vector<onnx::Port> ports = session.outputs();
  for (size_t i = 0; i < values.size(); ++i) flat.add(ports[i].name, values[i]);
  return flat;
}

/// Returns a session for the same network that uses only reference kernels.
std::unique_ptr<Session> reference_session(const ModelOptions& options, const Session& session) {
  Session::Options naive = session.options();
  naive.compile = {},
  naive.chooser = nullptr;  // layer options may name nodes that only passes make; reference kernels need none
  naive.compile.target = session.options().compile.target, naive.compile.debug.naive = true;
  return Session::open(options.model, naive);
}

/// Compares the outputs of a program with those of the reference kernels.
int verify_program(const ModelOptions& options, const Session& session, const std::map<std::string, AnyValue>& inputs,
                   const FlatOutputs& got) {
  const auto reference = reference_session(options, session);
  const FlatOutputs want = flat(*reference, reference->run_values(inputs));
  const double tolerance = verify_tolerance(stored_type(session.options().compile.precision));
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
    say("  output '{}' differs by {:.3g} of {:.3g} ({:.2e})\n", printable(got.ports[i].name), d.most, d.scale,
        d.relative());
  }
  say("verify: the outputs of the program compared with the reference kernels; tolerance {:g} of the largest "
      "magnitude\nverify: {}\n",
      tolerance, passed ? "passed" : "FAILED");
  return passed ? kDone : kCheckFailed;
}

/// Compares every value with the reference kernels. Errors of narrow types grow from layer to layer, however well the
/// kernels compute. So the kernels of a network that stores them are judged layer by layer, each on its own operands.
int verify_run(const ModelOptions& options, Session& session, const std::map<std::string, Tensor>& inputs) {
  const auto reference = reference_session(options, session);
  Loaded& slow = reference->prepare_for(inputs);
  Loaded& fast = session.prepare_for(inputs);
  std::vector<Tensor> ordered;
  for (const PlanTensor& t : fast.plan().inputs) ordered.push_back(inputs.at(t.name));
  std::map<std::string, Tensor> wanted, alone;
  RunValues exact, values;
  std::optional<DType> narrow;
  {
    Progress progress("verify");
    progress.show("running the reference kernels");
    exact = values_of(slow, ordered, nullptr);
    wanted = {exact.made.begin(), exact.made.end()};
    values = values_of(fast, ordered, &wanted);
    narrow = narrow_type(session.options().compile.precision, wanted);
    if (narrow) alone = values_of_layers_alone(slow, ordered, {values.made.begin(), values.made.end()});
  }
  const Graph bound = session.bind(inputs).graph;
  const bool finite = std::ranges::all_of(ordered, all_finite) && finite_constants(bound);
  const Verdict verdict =
      judge(values, narrow ? alone : wanted, verify_tolerance(narrow), finite, computes_scales(bound));
  print(verdict, narrow.has_value());
  if (narrow) print_output_errors(fast.plan().outputs, values.outputs, exact.outputs, finite);
  say("verify: {}\n", verdict.first.empty() ? "passed" : "FAILED");
  return verdict.first.empty() ? kDone : kCheckFailed;
}

}  // namespace

void add_run(Command app, Context& context) {
  auto options = std::make_shared<ModelOptions>();
  auto folder = std::make_shared<std::string>();
  auto verify = std::make_shared<bool>(false);
  Command sub = app.subcommand("run", "Run a network once; inputs that are not given get seeded random values");
  options->add_to(sub);
  sub.option("--output", *folder, "folder to write one NAME.npy per output to, or NAME.json for maps");
  sub.flag("--verify", *verify, "compare every value with the reference kernels (exit code 1 if any differs)");
  sub.callback([=, &context] {
    const auto session = options->open();
    const std::map<std::string, AnyValue> given = options->all_values(*session);
    std::map<std::string, Tensor> inputs;
    for (const auto& [name, value] : given) {
      if (value.is_tensor()) inputs.emplace(name, value.tensor());
    }
    const std::vector<AnyValue> values = session->run_values(given);
    if (!session->runs_program()) {
      Loaded& loaded = session->prepare_for(inputs);
      if (options->time_passes) print_passes(loaded.compiled);
      tell_records(loaded.plan().records);
    } else {
      tell_records_of_program(*session);
    }
    const std::vector<onnx::Port> ports = session->outputs();
    for (size_t i = 0; i < values.size(); ++i) print_output(ports[i].name, values[i]);
    if (!folder->empty()) write_outputs(*folder, ports, values);
    if (!*verify) return;
    if (session->compiled_file())
      fail(ErrorKind::usage, "--verify needs the model, not a compiled file: {}", options->model);
    context.exit = session->runs_program() ? verify_program(*options, *session, given, flat(*session, values))
                                           : verify_run(*options, *session, inputs);
  });
}

}  // namespace kilter::tool
