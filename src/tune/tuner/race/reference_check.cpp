#include "tune/tuner/race/reference_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <future>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "compile/session.h"
#include "graph/values.h"
#include "measure/conditions.h"
#include "ops/support/builder.h"
#include "tune/run/value.h"

namespace kilter::tune {
namespace {

ValueLayout dense(const Tensor& t) {
  ValueLayout out;
  out.type = t.dtype(), out.shape = t.shape(), out.strides = dense_strides(t.shape());
  return out;
}

/// Allowed difference, relative to the largest magnitude of the value.
double tolerance(DType type, double largest) {
  constexpr double kRoundings = 4, kHalf = 1.0 / 2048, kBFloat = 1.0 / 256;
  if (!is_float(type)) return largest > 0 ? std::max(kDefaultTolerance, 1 / largest) : kDefaultTolerance;
  if (type == DType::f16) return kDefaultTolerance + kRoundings * kHalf;
  return type == DType::bf16 ? kDefaultTolerance + kRoundings * kBFloat : kDefaultTolerance;
}

/// The locations of the values of a plan's graph, including values that are parts of others.
class Places {
 public:
  explicit Places(const Compiled& compiled) : placed_(*compiled.tasks) {
    const Graph& graph = placed_.graph;
    std::map<std::string_view, ValueId> ids;  // values that passes have left unused keep their names
    for (const NodeId node : graph.order()) {
      for (const ValueId v : graph.node(node).outputs) {
        if (v != kNone) ids.emplace(graph.value(v).name, v);
      }
    }
    for (const PlacedValue& value : compiled.values) {
      const Storage& storage = placed_.storage.of(ids.at(value.name));
      BufferRef root = value.buffer;
      root.offset -= storage.offset_elems * stored_bytes(value.type);
      roots_.emplace(storage.root, root);
    }
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      BufferRef root;
      root.space = kilter::Space::input, root.index = static_cast<int32_t>(i);
      roots_.emplace(graph.inputs()[i], root);
    }
  }

  /// Values without elements have no location.
  bool knows(const Operand& o) const { return roots_.contains(placed_.storage.of(o.value).root); }

  /// Copies the value's present contents.
  Tensor read(ValueId id, const Instance& instance) const {
    const TensorType& type = placed_.graph.type(id);
    const Storage& storage = placed_.storage.of(id);
    BufferRef ref = roots_.at(storage.root);
    ref.offset += storage.offset_elems * stored_bytes(type);
    ValueLayout from;
    from.type = stored_type(type), from.shape = type.shape, from.block = type.layout.block;
    from.strides = storage.phys.strides, from.offset = storage.phys.offset;
    Tensor out(stored_type(type), type.shape);
    copy_value(from, instance.address(ref), dense(out), out.raw());
    return elements_of(type, out);
  }

 private:
  const TaskGraph& placed_;
  std::map<ValueId, BufferRef> roots_;
};

/// One layer of a task, with the values that it read and wrote.
struct Layer {
  const NetworkTask* task = nullptr;
  size_t first = 0, last = 0;  ///< steps
  std::map<ValueId, Tensor> read, wrote;

  /// The layer's nodes in topological order.
  std::vector<NodeId> nodes() const {
    const Task& t = task->task;
    std::set<NodeId> mine(t.feeder.begin(), t.feeder.end());
    mine.insert(t.prologue.begin(), t.prologue.end());
    mine.insert(t.epilogue.begin(), t.epilogue.end());
    mine.insert(t.anchor);
    std::vector<NodeId> out;
    std::ranges::copy_if(t.graph->order(), std::back_inserter(out), [&](NodeId id) { return mine.contains(id); });
    return out;
  }

  bool can_be_judged(const Places& places) const {
    const Task& t = task->task;
    const auto known = [&](const Operand& o) { return o.constant != nullptr || places.knows(o); };
    return std::ranges::all_of(nodes(), [&](NodeId id) { return t.graph->node(id).op->deterministic; }) &&
           std::ranges::all_of(t.inputs, known) && std::ranges::all_of(t.outputs, known);
  }
};

void compare(const Layer& layer, ValueId id, const Tensor& want, ReferenceCheck& out) {
  const Tensor& got = layer.wrote.at(id);
  const std::string& value = layer.task->task.graph->value(id).name;
  const double largest = largest_magnitude(dense(want), want.raw());
  const ValueDifference d = compare_values(dense(want), want.raw(), dense(got), got.raw());
  const double allowed = tolerance(stored_type(layer.task->task.graph->type(id)), largest);
  const double share = largest > 0 ? d.most / largest : d.most;
  ++out.values;
  if (d.unlike == 0 && share <= allowed) {
    out.worst = std::max(out.worst, share);
    return;
  }
  const std::string how = d.unlike > 0 ? fmt::format(
                                             "{} of its {} elements are NaN or infinite where the reference "
                                             "kernel's are not, or the reverse",
                                             d.unlike, d.elems)
                                       : fmt::format(
                                             "it differs by {:.3g} from the reference kernel's, whose largest "
                                             "magnitude is {:.3g}; expected at most {:.2g} of that",
                                             d.most, largest, allowed);
  const NetworkTask& task = *layer.task;
  out.layer = LayerRan{task.problem, task.layouts, task.nodes.front(), task.fallback};
  out.wrong = fmt::format("value '{}' of layer '{}' ({} | {}): {}", value, layer.task->nodes.front(),
                          layer.task->problem, layer.task->fallback.text(), how);
}

ReferenceCheck judge(const Layer& layer) {
  const Graph& graph = *layer.task->task.graph;
  std::map<ValueId, Tensor> values = layer.read;
  ReferenceCheck out;
  for (const NodeId id : layer.nodes()) {
    const Node& node = graph.node(id);
    std::vector<Tensor> operands;
    for (const ValueId v : node.inputs) {
      if (v == kNone)
        operands.emplace_back();
      else
        operands.push_back(graph.value(v).constant ? *graph.value(v).constant : values.at(v));
    }
    std::vector<TensorType> types;
    for (const ValueId v : node.outputs) types.push_back(v == kNone ? TensorType{} : graph.type(v));
    const std::vector<Tensor> results = run_reference(node, std::move(operands), types);
    for (size_t i = 0; i < results.size(); ++i) {
      if (node.outputs[i] == kNone) continue;
      if (out.wrong.empty() && layer.wrote.contains(node.outputs[i])) compare(layer, node.outputs[i], results[i], out);
      values[node.outputs[i]] = results[i];
    }
  }
  return out;
}

/// Checks layers in parallel, as many at a time as there are CPUs.
class Judges {
 public:
  void take(Layer layer) {
    if (under_way_.size() >= most_) collect();
    under_way_.push_back(std::async(std::launch::async, [layer = std::move(layer)] { return judge(layer); }));
  }
  ReferenceCheck finish() {
    while (!under_way_.empty()) collect();
    return std::move(all_);
  }

 private:
  void collect() {
    const ReferenceCheck one = under_way_.front().get();
    under_way_.pop_front();
    all_.values += one.values;
    all_.worst = std::max(all_.worst, one.worst);
    if (all_.wrong.empty()) all_.wrong = one.wrong, all_.layer = one.layer;
  }

  size_t most_ = std::max<size_t>(affinity_cpus().size(), 1);
  std::deque<std::future<ReferenceCheck>> under_way_;
  ReferenceCheck all_;
};

std::vector<Layer> layers_of(const Plan& plan, std::span<const NetworkTask> tasks, const Places& places) {
  std::vector<Layer> out;
  for (const NetworkTask& task : tasks) {
    Layer layer;
    layer.task = &task;
    const auto mine = [&](const Step& s) { return s.kind == StepKind::kernel && s.name == task.nodes.front(); };
    const auto first = std::ranges::find_if(plan.steps, mine);
    if (first == plan.steps.end() || !layer.can_be_judged(places)) continue;
    layer.first = layer.last = static_cast<size_t>(first - plan.steps.begin());
    while (layer.last + 1 < plan.steps.size() && mine(plan.steps[layer.last + 1])) ++layer.last;
    out.push_back(std::move(layer));
  }
  return out;
}

}  // namespace

ReferenceCheck check_against_reference(const Compiled& compiled, const std::vector<Tensor>& inputs,
                                       std::span<const NetworkTask> tasks, int threads) {
  const Places places(compiled);
  std::vector<Layer> layers = layers_of(compiled.plan, tasks, places);
  kilter::Loaded loaded;
  loaded.program = std::make_shared<const Program>(compiled.plan);
  loaded.instance = std::make_unique<Instance>(loaded.program, std::make_shared<ThreadPool>(threads));
  Judges judges;
  StepObserver observer;
  observer.before = [&](size_t step) {
    for (Layer& layer : layers) {
      if (layer.first != step) continue;
      for (const Operand& o : layer.task->task.inputs) {
        if (o.constant == nullptr) layer.read.emplace(o.value, places.read(o.value, *loaded.instance));
      }
    }
  };
  observer.after = [&](size_t step) {
    for (Layer& layer : layers) {
      if (layer.last != step) continue;
      for (const Operand& o : layer.task->task.outputs)
        layer.wrote.emplace(o.value, places.read(o.value, *loaded.instance));
      judges.take(std::move(layer));
      layer = {};
      layer.first = layer.last = compiled.plan.steps.size();
    }
  };
  run_plan(loaded, inputs, &observer);
  return judges.finish();
}

ReferenceCheck check_choices(NetworkBench& bench, const Choices& choices) {
  using Ran = std::array<std::string, 3>;
  const auto ran = [](const NetworkTask& t) { return Ran{t.problem, t.layouts, t.fallback.text()}; };
  std::set<Ran> usual;
  for (const NetworkTask& task : bench.tasks()) usual.insert(ran(task));
  const auto variant = bench.build(choices);
  std::vector<NetworkTask> tasks = bench.tasks(*variant);
  std::erase_if(tasks, [&](const NetworkTask& task) { return usual.contains(ran(task)); });
  if (tasks.empty()) return {};
  return check_against_reference(variant->compiled, bench.inputs(), tasks, bench.threads());
}

ReferenceCheck checked(const std::function<ReferenceCheck(NetworkBench&, const Choices&)>& check, NetworkBench& bench,
                       const Choices& choices) {
  try {
    return check(bench, choices);
  } catch (const Error& e) {
    ReferenceCheck out;
    out.wrong = "it could not be checked against the reference kernels: " + e.message();
    return out;
  }
}

Record wrong_record(const LayerRan& layer, const std::string& error, const Conditions& conditions,
                    const KernelVersions& versions, const std::string& network) {
  Record r;
  r.problem = layer.problem, r.layouts = layer.layouts, r.schedule = layer.schedule.text();
  r.status = Status::wrong, r.error = error;
  r.conditions = conditions;
  r.conditions.codegen = code_version(r, versions);
  r.conditions.date = iso_date();
  r.network = network, r.node = layer.node;
  return r;
}

void require_right(const ReferenceCheck& check) {
  if (check.wrong.empty()) return;
  fail(ErrorKind::internal,
       "the default plan is wrong: {}. Candidates are compared with the default plan, so nothing is tuned. "
       "`--schedule LAYER=SCHEDULE` forces another schedule for the layer; please report this",
       check.wrong);
}

}  // namespace kilter::tune
