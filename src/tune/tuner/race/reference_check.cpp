#include "tune/tuner/race/reference_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <future>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
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

  /// The bytes that the value occupies in a run.
  BufferRef buffer(ValueId id) const { return occupied(start(id), layout(id)); }

  /// Creates a tensor from these bytes.
  Tensor read(ValueId id, const std::byte* bytes) const {
    const TensorType& type = placed_.graph.type(id);
    ValueLayout from = layout(id);
    from.offset -= range_of(from).begin;
    Tensor out(stored_type(type), type.shape);
    copy_value(from, bytes, dense(out), out.raw());
    return elements_of(type, out);
  }

 private:
  /// The place from which the offsets of layout() count.
  BufferRef start(ValueId id) const {
    const Storage& storage = placed_.storage.of(id);
    BufferRef ref = roots_.at(storage.root);
    ref.offset += storage.offset_elems * stored_bytes(placed_.graph.type(id));
    return ref;
  }
  ValueLayout layout(ValueId id) const {
    const TensorType& type = placed_.graph.type(id);
    const Storage& storage = placed_.storage.of(id);
    ValueLayout out;
    out.type = stored_type(type), out.shape = type.shape, out.block = type.layout.block;
    out.strides = storage.phys.strides, out.offset = storage.phys.offset;
    return out;
  }

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

[[noreturn]] void fail_run(const std::string& words) {
  fail(ErrorKind::unsupported, "the run whose values are checked failed: {}", words);
}

/// The values that some layers read and write in one run.
class Reading {
 public:
  Reading(const Plan& plan, const std::vector<Tensor>& inputs, const Places& places)
      : plan_(plan), inputs_(inputs), places_(places) {}

  void add(const Layer& layer) {
    for (const auto& [value, steps] : moments(layer)) {
      const BufferRef b = places_.buffer(value);
      if (is_known(b) || !numbers_.emplace(key(b, steps), taps_.size()).second) continue;
      require(steps > 0, "layer '{}' reads '{}', which no step has written", layer.task->nodes.front(),
              layer.task->task.graph->value(value).name);
      taps_.push_back({steps - 1, b});
    }
  }
  /// Bytes that a layer adds.
  int64_t more_bytes(const Layer& layer) const {
    int64_t out = 0;
    for (const auto& [value, steps] : moments(layer)) {
      const BufferRef b = places_.buffer(value);
      if (!is_known(b) && !numbers_.contains(key(b, steps))) out += b.bytes;
    }
    return out;
  }

  void run(Runner& runner, VariantId id) {
    if (taps_.empty()) return;
    Traced traced = runner.trace(id, taps_);
    if (traced.fault) fail_run(traced.fault->words);
    values_ = std::move(traced.values);
  }

  /// Fills in the values of a layer.
  void fill(Layer& layer) const {
    for (const auto& [value, steps] : moments(layer)) {
      const BufferRef b = places_.buffer(value);
      const std::byte* bytes = is_known(b) ? known(b) : values_.at(numbers_.at(key(b, steps))).data();
      (steps == layer.first ? layer.read : layer.wrote).emplace(value, places_.read(value, bytes));
    }
  }

 private:
  using Key = std::tuple<uint64_t, kilter::Space, int32_t, int64_t, int64_t>;

  static Key key(const BufferRef& b, uint64_t steps) { return {steps, b.space, b.index, b.offset, b.bytes}; }

  /// The values of a layer, each with the number of steps that have run when it is copied.
  static std::vector<std::pair<ValueId, uint64_t>> moments(const Layer& layer) {
    std::vector<std::pair<ValueId, uint64_t>> out;
    for (const Operand& o : layer.task->task.inputs) {
      if (o.constant == nullptr) out.emplace_back(o.value, layer.first);
    }
    for (const Operand& o : layer.task->task.outputs) out.emplace_back(o.value, layer.last + 1);
    return out;
  }

  static bool is_known(const BufferRef& b) {
    return b.bytes == 0 || b.space == kilter::Space::input || b.space == kilter::Space::constant;
  }
  /// The contents of a buffer that no step writes.
  const std::byte* known(const BufferRef& b) const {
    if (b.bytes == 0) return nullptr;
    const std::byte* base =
        b.space == kilter::Space::input ? inputs_[static_cast<size_t>(b.index)].raw() : plan_.constants;
    return base + b.offset;
  }

  const Plan& plan_;
  const std::vector<Tensor>& inputs_;
  const Places& places_;
  std::vector<Tap> taps_;
  std::map<Key, size_t> numbers_;  ///< of the taps
  std::vector<std::vector<std::byte>> values_;
};

}  // namespace

ReferenceCheck check_against_reference(Runner& runner, VariantId id, const Compiled& compiled,
                                       const std::vector<Tensor>& inputs, std::span<const NetworkTask> tasks) {
  const Places places(compiled);
  std::vector<Layer> layers = layers_of(compiled.plan, tasks, places);
  Judges judges;
  for (size_t first = 0, end = 0; first < layers.size(); first = end) {
    Reading reading(compiled.plan, inputs, places);
    int64_t bytes = 0;
    for (; end < layers.size(); ++end) {
      bytes += reading.more_bytes(layers[end]);
      if (end > first && bytes > kTracedAtOnce) break;
      reading.add(layers[end]);
    }
    reading.run(runner, id);
    for (size_t l = first; l < end; ++l) {
      reading.fill(layers[l]);
      judges.take(std::exchange(layers[l], {}));
    }
  }
  return judges.finish();
}

ReferenceCheck check_default(NetworkBench& bench) {
  return check_against_reference(bench.runner(), bench.fallback_id(), bench.fallback().compiled, bench.inputs(),
                                 bench.tasks());
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
  const Loaded loaded = bench.load(*variant, {.check = false});
  if (!loaded.id) fail_run(loaded.faults.empty() ? "no reason is known" : loaded.faults.front().words);
  ReferenceCheck out;
  try {
    out = check_against_reference(bench.runner(), *loaded.id, variant->compiled, bench.inputs(), tasks);
  } catch (...) {
    bench.runner().drop(*loaded.id);
    throw;
  }
  bench.runner().drop(*loaded.id);
  return out;
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
       "`--schedule LAYER=SCHEDULE` forces another schedule for the layer. If an agent of a fleet ran the plan, let a "
       "different agent do it, since its machine may be at fault; please report this",
       check.wrong);
}

}  // namespace kilter::tune
