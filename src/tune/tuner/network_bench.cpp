#include "tune/tuner/network_bench.h"

#include <algorithm>
#include <set>

#include "compile/tasks.h"
#include "measure/conditions.h"
#include "tune/tuner/plans/weight_budget.h"
#include "tune/tuner/step_values.h"
#include "tune/tuner/tasks/task_list.h"

namespace kilter::tune {
namespace {

/// Number of builds that may come between building a variant and loading it; the store keeps its data that long.
constexpr int64_t kBuildsAhead = 12;
/// The number of forms of the graph that are kept in addition to the default's.
constexpr size_t kOtherForms = 8;

}  // namespace

/// The runner's constant store in the form that the compiler expects.
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

CpuShares share_cpus(const std::vector<int>& all, int threads, const std::vector<int>& cores) {
  const auto core = [&](size_t i) { return cores.empty() ? all[i] : cores[i]; };
  std::vector<size_t> order;  // by preference for measuring: the last CPU of each core, then the other CPUs
  std::set<int> seen;
  for (size_t i = all.size(); i-- > 0;) {
    if (seen.insert(core(i)).second) order.push_back(i);
  }
  for (size_t i = all.size(); i-- > 0;) {
    if (std::ranges::find(order, i) == order.end()) order.push_back(i);
  }
  order.resize(std::min(order.size(), static_cast<size_t>(threads)));
  std::set<int> taken;
  for (const size_t i : order) taken.insert(core(i));
  CpuShares out;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!taken.contains(core(i))) out.building.push_back(all[i]);
  }
  if (out.building.empty()) return {all, all, false};
  for (const size_t i : order) out.measuring.push_back(all[i]);
  std::ranges::sort(out.measuring);
  out.apart = true;
  return out;
}

/// All CPUs may compile while another machine measures.
CpuShares all_cpus() { return {{}, affinity_cpus(), true}; }

CpuShares cpus_for(int threads) {
  const std::vector<int> cpus = affinity_cpus();
  return share_cpus(cpus, threads, cores_of(cpus));
}

void fail_default(std::span<const Fault> faults) {
  fail(ErrorKind::unsupported, "the network does not run under its default schedules: {}",
       faults.empty() ? "no reason is known" : faults.front().words);
}

NetworkBench::NetworkBench(Graph graph, const CompileOptions& compile, RunnerOptions runner)
    : graph_(std::move(graph)),
      options_(compile),
      inputs_(runner.inputs),
      threads_(runner.threads),
      cpus_(runner.make ? all_cpus() : cpus_for(runner.threads)),
      kernels_(std::make_shared<KernelStore>()) {
  if (cpus_.apart) runner.cpus = cpus_.measuring;
  runner_ = make_runner(std::move(runner));
  sink_ = std::make_unique<Sink>(runner_->store());
  options_.contents.tasks = true;
  options_.contents.recipes = runner_->wants_recipes();
  fallback_ = build({});
  const Loaded loaded = load(*fallback_);
  if (!loaded.id) fail_default(loaded.faults);
  fallback_id_ = *loaded.id;
}

NetworkBench::~NetworkBench() = default;

NetworkBench::Passed& NetworkBench::passed(const Choices& choices) {
  CompileOptions options = options_;
  for (const auto& [node, choice] : choices) {  // schedules and chosen threads do not affect the passes
    LayerChoice for_passes;
    for_passes.plain = choice.plain, for_passes.fuse = choice.fuse;
    if (choice.changes_passes()) add({{node, for_passes}}, options.choices);
  }
  const Choices& form = options.choices;
  for (Passed& p : passed_) {
    if (p.form == form) return p;
  }
  PassedGraph graph = run_passes(graph_, options);
  if (passed_.size() > kOtherForms) passed_.erase(passed_.begin() + 1);
  passed_.push_back({form, std::move(graph), std::make_unique<BuildCache>(*sink_, kBuildsAhead, kernels_)});
  return passed_.back();
}

std::shared_ptr<const Variant> NetworkBench::build(const Choices& choices) {
  auto variant = std::make_shared<Variant>();
  variant->choices = choices;
  CompileOptions options = options_;
  for (const auto& [node, choice] : choices) {
    LayerChoice& to = options.choices[node];
    if (choice.schedule) to.schedule = choice.schedule, to.schedule_from = {};
  }
  add(without_schedules(choices), options.choices);
  if (fallback_ != nullptr) {
    options.budget.limit_weights = false;
    for (auto& [node, choice] : options.choices) {
      if (!choice.forced()) choice.schedule.reset();
    }
    add(slimmed_schedules(fallback_->compiled), options.choices);
  }
  Passed& from = passed(choices);
  options.cache = from.cache.get();
  variant->compiled = compile_passed(from.graph, options);
  const std::vector<Step>& steps = variant->compiled.plan.steps;
  for (size_t s = 0; s < steps.size(); ++s) {
    if (steps[s].kind == StepKind::kernel) variant->steps[steps[s].name].push_back(s);
  }
  return variant;
}

void NetworkBench::try_build(const Choices& choices) {
  const auto count = [this](bool counts) {
    for (Passed& p : passed_) p.cache->count_builds(counts);
  };
  count(false);
  try {
    (void)build(choices);
  } catch (...) {
    count(true);
    throw;
  }
  count(true);
}

std::vector<std::string> NetworkBench::reference_nodes(const Choices& choices) const {
  CompileOptions options = options_;
  options.contents = {.code = false};
  add(choices, options.choices);
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

std::vector<Loaded> NetworkBench::load_all(std::span<const std::shared_ptr<const Variant>> variants) {
  std::vector<Loadable> all;
  for (const auto& variant : variants) all.push_back({&variant->compiled.plan, step_values(variant->compiled)});
  return runner_->load_all(all);
}

std::vector<NetworkTask> NetworkBench::tasks(const Variant& of) const {
  const Compiled& compiled = of.compiled;
  std::map<std::string, Task> by_anchor;
  for (Task& task : tasks_of(compiled.tasks->graph, compiled.tasks->storage))
    by_anchor.emplace(task.node().name, std::move(task));
  std::vector<NetworkTask> out;
  int64_t number = 0;
  for (std::vector<std::string>& nodes : numbered_tasks(compiled, options_.forbidden)) {
    ++number;
    std::erase_if(nodes, [&](const std::string& node) { return forced_schedule(options_.choices, node) != nullptr; });
    if (nodes.empty()) continue;
    const Step& step = compiled.plan.steps[of.steps.at(nodes.front()).front()];
    Task& task = by_anchor.at(nodes.front());
    out.push_back({std::move(task), step.problem, step.layouts, nodes, parse_schedule(step.schedule), number});
  }
  return out;
}

}  // namespace kilter::tune
