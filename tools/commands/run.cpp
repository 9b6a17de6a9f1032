// kilter run: runs a network once, prints or writes its outputs, and compares them with the reference kernels.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/files.h"
#include "base/npy.h"
#include "base/text.h"
#include "compile/difference.h"
#include "graph/values.h"
#include "ops/op.h"
#include "terminal.h"
#include "tool.h"
#include "tune/run/value.h"
#include "tuning.h"

namespace kilter::tool {
namespace {

void print_outputs(const std::vector<PlanTensor>& outputs, const std::vector<Tensor>& tensors) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& t = tensors[i];
    say("{}: {}[{}]", printable(outputs[i].name), name(t.dtype()), text(t.shape()));
    if (t.elems() > 0) {
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
    say("\n");
  }
}

void write_outputs(const std::string& folder, const std::vector<PlanTensor>& outputs,
                   const std::vector<Tensor>& tensors) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(ErrorKind::io, "--output {}: cannot make the folder: {}", folder, error.message());
  std::set<std::string> taken;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string file = file_name(outputs[i].name, ".npy", taken);
    save_npy(std::filesystem::path(folder) / file, tensors[i]);
    if (file != outputs[i].name + ".npy") say("{} is in {}\n", printable(outputs[i].name), file);
  }
}

/// Returns the values of a run by name, in the order of the steps.
std::vector<std::pair<std::string, Tensor>> values_of(Loaded& loaded, const std::vector<Tensor>& inputs,
                                                      const std::map<std::string, Tensor>* only) {
  std::vector<std::pair<std::string, Tensor>> values;
  std::multimap<size_t, const PlacedValue*> by_step;
  for (const PlacedValue& v : loaded.compiled.values) {
    if (only == nullptr || only->contains(v.name)) by_step.emplace(v.step, &v);
  }
  StepObserver observer;
  observer.after = [&](size_t step) {
    for (auto [it, end] = by_step.equal_range(step); it != end; ++it) {
      values.emplace_back(it->second->name, extract(*it->second, loaded.instance->address(it->second->buffer)));
    }
  };
  run_plan(loaded, inputs, &observer);
  return values;
}

/// A signal [n,c,w] is computed as an image [n,c,1,w] under the same name, so dimensions of 1 are ignored.
Shape without_ones(Shape shape) {
  std::erase(shape, 1);
  return shape;
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

/// The allowed difference from the reference kernels. Stored as bf16, each value has a relative error of 2^-9, and as
/// f16 of 2^-12, which grows from layer to layer. `values`: those of the network in its declared types.
double verify_tolerance(Precision precision, const std::map<std::string, Tensor>& values) {
  const auto stores = [&](DType type) {
    return stored_type(precision) == type ||
           std::ranges::any_of(values, [&](const auto& value) { return value.second.dtype() == type; });
  };
  if (stores(DType::bf16)) return 0.05;
  return stores(DType::f16) ? 0.01 : tune::kDefaultTolerance;
}

int verify_run(const ModelOptions& options, Session& session, const std::map<std::string, Tensor>& inputs) {
  if (session.compiled_file())
    fail(ErrorKind::usage, "--verify needs the model, not a compiled file: {}", options.model);
  Session::Options naive = session.options();
  naive.compile = {},
  naive.chooser = nullptr;  // layer options may name nodes that only passes make; reference kernels need none
  naive.compile.target = session.options().compile.target, naive.compile.debug.naive = true;
  const auto reference = Session::open(options.model, naive);
  Loaded& slow = reference->prepare_for(inputs);
  Loaded& fast = session.prepare_for(inputs);
  std::vector<Tensor> ordered;
  for (const PlanTensor& t : fast.plan().inputs) ordered.push_back(inputs.at(t.name));
  std::map<std::string, Tensor> wanted;
  {
    Progress progress("verify");
    progress.show("running the reference kernels");
    for (auto& [name, tensor] : values_of(slow, ordered, nullptr)) wanted.emplace(name, std::move(tensor));
  }
  const Graph bound = bound_graph(session, inputs);
  const bool finite = std::ranges::all_of(ordered, all_finite) && finite_constants(bound);
  double tolerance = verify_tolerance(session.options().compile.precision, wanted);
  // Codes whose scale is computed at run time can differ by one step, where rounding errors before them decide.
  constexpr double kStepTolerance = 0.05;
  const bool steps_allowed = computes_scales(bound);
  int64_t compared = 0, steps = 0;
  std::string first, worst;
  ReferenceDifference first_difference, worst_difference;
  for (const auto& [name, tensor] : values_of(fast, ordered, &wanted)) {
    const Tensor want = wanted.at(name).widened();
    const Tensor got = tensor.widened();
    if (without_ones(want.shape()) != without_ones(got.shape()) || want.dtype() != got.dtype()) continue;
    ++compared;
    const ReferenceDifference d = difference(got.reshaped(want.shape()), want, finite);
    // A zero point that differs by one changes the integers that are multiples of it.
    const bool multiple = steps > 0 && want.dtype() == DType::i32;
    if (steps_allowed && !d.unlike && d.most > 0 && (d.most == 1 || multiple) && all_integers(got) &&
        all_integers(want)) {
      ++steps;
      tolerance = std::max(tolerance, kStepTolerance);
      continue;
    }
    if (d.relative() > tolerance && first.empty()) first = name, first_difference = d;
    if (worst.empty() || d.relative() > worst_difference.relative()) worst = name, worst_difference = d;
  }
  say("verify: {} values compared with the reference kernels; tolerance {:g} of the largest magnitude\n", compared,
      tolerance);
  if (steps > 0) {
    say("  {} values of integers differ by a step, since scales are computed from rounded values; the tolerance "
        "after the first of them is {:g}\n",
        steps, kStepTolerance);
  }
  if (compared > 0) {
    say("  worst: '{}' differs by {:.3g} of {:.3g} ({:.2e})\n", printable(worst), worst_difference.most,
        worst_difference.scale, worst_difference.relative());
  }
  if (first.empty()) {
    say("verify: passed\n");
    return kDone;
  }
  say("  first beyond the tolerance: '{}' differs by {:.3g} of {:.3g} ({:.2e}){}\n", printable(first),
      first_difference.most, first_difference.scale, first_difference.relative(),
      first_difference.unlike ? ", NaN or infinite on one side" : "");
  say("verify: FAILED\n");
  return kCheckFailed;
}

}  // namespace

void add_run(Command app, Context& context) {
  auto options = std::make_shared<ModelOptions>();
  auto folder = std::make_shared<std::string>();
  auto verify = std::make_shared<bool>(false);
  Command sub = app.subcommand("run", "Run a network once; inputs that are not given get seeded random values");
  options->add_to(sub);
  sub.option("--output", *folder, "folder to write one NAME.npy per output to");
  sub.flag("--verify", *verify, "compare every value with the reference kernels (exit code 1 if any differs)");
  sub.callback([=, &context] {
    const auto session = options->open();
    const std::map<std::string, Tensor> inputs = options->all_inputs(*session);
    const std::vector<Tensor> outputs = session->run(inputs);
    Loaded& loaded = session->prepare_for(inputs);
    if (options->time_passes) print_passes(loaded.compiled);
    tell_records(loaded.plan());
    print_outputs(loaded.plan().outputs, outputs);
    if (!folder->empty()) write_outputs(*folder, loaded.plan().outputs, outputs);
    if (*verify) context.exit = verify_run(*options, *session, inputs);
  });
}

}  // namespace kilter::tool
