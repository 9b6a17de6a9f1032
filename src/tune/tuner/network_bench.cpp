#include "tune/tuner/network_bench.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "compile/tasks.h"
#include "measure/conditions.h"
#include "tune/run/of_compiled.h"
#include "tune/tuner/weight_budget.h"

namespace kilter::tune {
namespace {

/// Builds between that of a variant and its loading: what it needs stays in the store so long.
constexpr int64_t kBuildsAhead = 12;
/// Forms of the graph beside the default's that are kept.
constexpr size_t kOtherForms = 8;

/// Whether the same is forbidden of two layers.
bool same_forbidden(std::span<const Forbidden> forbidden, const std::string& a, const std::string& b) {
  const auto of = [&](const std::string& node) {
    std::set<std::string> out;
    for (const Forbidden& f : forbidden) {
      if (f.node == node) out.insert(f.schedule.text());
    }
    return out;
  };
  return of(a) == of(b);
}

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
  void share(int64_t offset, int64_t bytes) override { parts_.emplace(offset, store_.share(offset, bytes)); }
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

CpuShares share_cpus(const std::vector<int>& all, int threads) {
  const auto wanted = static_cast<std::ptrdiff_t>(threads), there = static_cast<std::ptrdiff_t>(all.size());
  if (wanted >= there) return {all, all, false};
  return {{all.end() - wanted, all.end()}, {all.begin(), all.end() - wanted}, true};
}

NetworkBench::NetworkBench(Graph graph, const CompileOptions& compile, RunnerOptions runner)
    : graph_(std::move(graph)),
      options_(compile),
      cpus_(share_cpus(affinity_cpus(), runner.threads)),
      objects_(std::make_shared<BuildCache::Objects>()) {
  if (cpus_.apart) runner.cpus = cpus_.measuring;
  runner_ = std::make_unique<Runner>(std::move(runner));
  sink_ = std::make_unique<Sink>(runner_->store());
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

NetworkBench::Passed& NetworkBench::passed(const CompileOptions& options) {
  for (Passed& p : passed_) {
    if (p.plain_layout == options.plain_layout && p.no_fuse == options.no_fuse) return p;
  }
  PassedGraph graph = run_passes(graph_, options);
  if (passed_.size() > kOtherForms) passed_.erase(passed_.begin() + 1);
  passed_.push_back({options.plain_layout, options.no_fuse, std::move(graph),
                     std::make_unique<BuildCache>(*sink_, kBuildsAhead, objects_)});
  return passed_.back();
}

std::shared_ptr<const Variant> NetworkBench::build(const Choices& choices) {
  auto variant = std::make_shared<Variant>();
  variant->choices = choices;
  CompileOptions options = options_;
  add_settings(choices, options);
  for (const auto& [node, choice] : choices) {
    if (choice.schedule) options.schedules[node] = *choice.schedule;
  }
  if (fallback_ != nullptr) {
    options.limit_weights = false;
    options.preferred = slimmed_schedules(fallback_->compiled);
  }
  Passed& from = passed(options);
  options.cache = from.cache.get();
  variant->compiled = compile_passed(from.graph, options);
  const std::vector<Step>& steps = variant->compiled.plan.steps;
  for (size_t s = 0; s < steps.size(); ++s) {
    if (steps[s].kind == StepKind::kernel) variant->steps[steps[s].name].push_back(s);
  }
  return variant;
}

std::vector<std::string> NetworkBench::reference_nodes(const Choices& choices) const {
  CompileOptions options = options_;
  options.keep_placed = false, options.generate_code = false;
  add_settings(choices, options);
  add_schedules(choices, options);
  const Compiled compiled = compile_passed(run_passes(graph_, options), options);
  std::vector<std::string> out;
  for (const Step& step : compiled.plan.steps) {
    if (step.kind == StepKind::reference) out.push_back(step.name);
  }
  return out;
}

Loaded NetworkBench::load(const Variant& variant, const LoadOptions& options) {
  const std::vector<StepValue> values = step_values(variant.compiled);
  return runner_->load(variant.compiled.plan, values, options);
}

std::vector<NetworkTask> NetworkBench::tasks() const {
  const Compiled& compiled = fallback_->compiled;
  const Placed& placed = *compiled.placed;
  std::vector<NetworkTask> out;
  for (Task& task : tasks_of(placed.graph, placed.storage)) {
    const std::string& node = task.node().name;
    const auto steps = fallback_->steps.find(node);
    if (steps == fallback_->steps.end() || options_.schedules.contains(node)) continue;
    const Step& step = compiled.plan.steps[steps->second.front()];
    const auto same = [&](const NetworkTask& t) {
      return t.problem == step.problem && t.layouts == step.layouts && t.fallback.text() == step.schedule &&
             same_forbidden(options_.forbidden, t.nodes.front(), node);
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

}  // namespace kilter::tune
