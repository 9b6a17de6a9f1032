#include "tune/tuner/network_bench.h"

#include <algorithm>
#include <mutex>

#include "compile/tasks.h"
#include "tune/run/of_compiled.h"

namespace kilter::tune {
namespace {

/// Builds between that of a variant and its loading: what it needs stays in the store so long.
constexpr int64_t kBuildsAhead = 8;

}  // namespace

/// The runner's constants as the compiler sees them.
class NetworkBench::Sink : public ConstantSink {
 public:
  explicit Sink(ConstantStore& store) : store_(store) {}

  int64_t add(std::span<const std::byte> bytes) override {
    const StorePart part = store_.add(bytes);
    parts_.emplace(part.offset, part);
    return part.offset;
  }
  void release(int64_t offset) override {
    const auto it = parts_.find(offset);
    store_.release(it->second);
    parts_.erase(it);
  }
  const std::byte* data() const override { return store_.data(); }
  int64_t size() const override { return store_.size(); }

 private:
  ConstantStore& store_;
  std::multimap<int64_t, StorePart> parts_;
};

NetworkBench::NetworkBench(Graph graph, const CompileOptions& compile, RunnerOptions runner)
    : options_(compile), passed_(run_passes(std::move(graph), compile)) {
  runner_ = std::make_unique<Runner>(std::move(runner));
  sink_ = std::make_unique<Sink>(runner_->store());
  cache_ = std::make_unique<BuildCache>(*sink_, kBuildsAhead);
  options_.cache = cache_.get();
  options_.keep_placed = true;
  fallback_ = build({});
  const Loaded loaded = load(*fallback_);
  if (!loaded.id) {
    fail(ErrorKind::unsupported, "the network does not run under its default schedules: {}",
         loaded.faults.empty() ? "no reason is known" : loaded.faults.front().words);
  }
  fallback_id_ = *loaded.id;
}

NetworkBench::~NetworkBench() = default;

std::shared_ptr<const Variant> NetworkBench::build(const Choices& choices) {
  auto variant = std::make_shared<Variant>();
  variant->choices = choices;
  CompileOptions options = options_;
  for (const auto& [node, schedule] : choices) options.schedules[node] = schedule;
  variant->compiled = compile_passed(passed_, options);
  const std::vector<Step>& steps = variant->compiled.plan.steps;
  for (size_t s = 0; s < steps.size(); ++s) {
    if (steps[s].kind == StepKind::kernel) variant->steps[steps[s].name].push_back(s);
  }
  return variant;
}

Loaded NetworkBench::load(const Variant& variant, const LoadOptions& options) {
  const std::vector<StepValue> values = step_values(variant.compiled);
  return runner_->load(variant.compiled.plan, values, options);
}

std::vector<NetworkTask> NetworkBench::tasks() const {
  const Compiled& compiled = fallback_->compiled;
  const Placed& placed = *compiled.placed;
  std::vector<NetworkTask> out;
  for (const Unit& unit : units(placed.graph)) {
    if (placed.storage.views.contains(unit.nodes.front())) continue;
    Task task = make_task(placed.graph, unit, &placed.storage);
    const std::string& node = task.node().name;
    const auto steps = fallback_->steps.find(node);
    if (steps == fallback_->steps.end() || options_.schedules.contains(node)) continue;
    const Step& step = compiled.plan.steps[steps->second.front()];
    const auto same = [&](const NetworkTask& t) {
      return t.problem == step.problem && t.layouts == step.layouts && t.fallback.text() == step.schedule;
    };
    const auto known = std::find_if(out.begin(), out.end(), same);
    if (known != out.end()) {
      known->nodes.push_back(node);
      continue;
    }
    out.push_back({std::move(task), step.problem, step.layouts, {node}, parse_schedule(step.schedule)});
  }
  return out;
}

double layer_ms(const Lap& lap, const std::vector<size_t>& steps) {
  double ms = 0;
  for (const size_t s : steps) ms += lap.step_ms[s] + lap.gap_ms[s];
  return ms;
}

}  // namespace kilter::tune
