#include "compile/build_plan.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "compile/build_cache.h"
#include "compile/driver.h"
#include "compile/stages/plan_state.h"

namespace kilter {
namespace {

using StageFunction = void (*)(PlanState&);

struct TableRow {
  StageRow row;
  StageFunction function;
  bool changes_tasks = false;  ///< the task graph is verified after the stage
};

constexpr TableRow kStages[] = {
    {{"split_groups", "splits groups to which no template applies", "first: placing needs the final groups"},
     split_groups},
    {{"place_values", "gives every value its place in memory, with copies where views are impossible",
      "a template sees the strides of its operands"},
     place_values,
     true},
    {{"choose_schedules", "chooses and lowers a schedule for every task",
      "needs strides; tasks whose templates cannot read them get dense operands, and values are placed again"},
     choose_schedules,
     true},
    {{"emit_steps", "turns the tasks into steps, kernels and buffers", "needs lowered tasks"}, emit_steps},
    {{"plan_memory", "gives the buffers their places in the arena", "needs the buffers' lifetimes"}, plan_memory},
    {{"fit_memory", "chooses slower kernels with smaller packed weights if memory is short",
      "needs the sizes of weights and arena; other schedules are placed and lowered again"},
     fit_memory},
    {{"take_records", "takes schedules from records or an accepted plan",
      "records are found by task and default schedule; their schedules are placed and lowered again"},
     take_records},
    {{"share_kernels", "uses kernels that also serve other shapes and read the numbers that differ",
      "all choices are final; the numbers are constants"},
     share_kernels},
    {{"pack_constants", "packs the weights in the order in which kernels read them",
      "once, when all choices are final"},
     pack_constants},
    {{"generate_code", "generates machine code", "last: kernels are known and distinct"}, generate_code},
};
constexpr size_t kStageCount = std::size(kStages);
constexpr size_t kPlace = 1, kShare = 7, kPack = 8;
static_assert(kStages[kPlace].function == place_values && kStages[kShare].function == share_kernels &&
              kStages[kPack].function == pack_constants);

constexpr auto kRows = [] {
  std::array<StageRow, kStageCount> rows{};
  std::ranges::transform(kStages, rows.begin(), &TableRow::row);
  return rows;
}();

/// Clears the results of the stages from `place_values` on.
void start_round(PlanState& s) {
  s.lowerings.clear(), s.buffers.clear(), s.constants.clear();
  s.weight_bytes = 0;
  s.kernels = {};
  s.out = {};
}

}  // namespace

std::span<const StageRow> all_stages() { return kRows; }

PlanState::PlanState(const Graph& graph, const CompileOptions& how, const Offer* from)
    : options(how), limits(how.target.limits), offer(from), fused(graph), choices(how.choices) {}

KernelStore* PlanState::kernel_store() const {
  return options.cache != nullptr ? &options.cache->kernels() : options.shared.kernels;
}

int64_t PlanState::weight_limit() const {
  constexpr double kGrowth = 2.5;
  constexpr int64_t kFree = int64_t{64} << 20;
  if (options.budget.memory) return *options.budget.memory - out.plan.arena_bytes;
  return std::max(kFree, static_cast<int64_t>(static_cast<double>(parameter_bytes(fused)) * kGrowth));
}

void plan_memory(PlanState& state) { place_arena(state.buffers, state.out.plan, state.out.values); }

struct PlanBuild::Impl {
  Impl(const PassedGraph& from, const CompileOptions& options, const Offer* offer)
      : state(from.graph, options, offer), passed(from) {
    for (const TableRow& stage : kStages) timings.push_back({std::string(stage.row.name), 0, 0});
  }

  /// Runs the stages from `first` up to but excluding `end`. After a stage that changes a choice, continues with
  /// `place_values`.
  void run(size_t first, size_t end) {
    for (size_t i = first; i < end;) {
      if (i == kPlace) start_round(state);
      run(i);
      i = std::exchange(state.again, false) ? kPlace : i + 1;
    }
  }

  void run(size_t index) {
    const auto start = std::chrono::steady_clock::now();
    try {
      kStages[index].function(state);
      if (kStages[index].changes_tasks) verify(state.tasks);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::internal) throw;
      fail(ErrorKind::internal, "stage {}: {}", kStages[index].row.name, error.message());
    }
    if (!state.options.debug.dump_ir.empty()) dump(index);
    timings[index].ms += ms_since(start);
    timings[index].rewrites += state.again ? 1 : 0;
  }

  void dump(size_t index) const {
    // run_passes() used 0 for the model's graph and the next numbers for the passes.
    const size_t number = 1 + all_passes().size() + index;
    const auto file = [&](std::string_view extension) {
      return state.options.debug.dump_ir / fmt::format("{:02}_{}.{}", number, kStages[index].row.name, extension);
    };
    index < kPlace ? write_dump(file("graph"), print(state.fused)) : write_dump(file("tasks"), print(state.tasks));
  }

  PlanState state;
  const PassedGraph& passed;
  std::vector<PassTiming> timings;
};

PlanBuild::PlanBuild(const PassedGraph& passed, const CompileOptions& options, const Offer* offer)
    : impl_(std::make_unique<Impl>(passed, options, offer)) {
  impl_->run(0, kShare);
}

PlanBuild::~PlanBuild() = default;

namespace {

/// Describes the origin of a choice for Step::record.
std::string words_of(const Origin& origin) {
  switch (origin.source) {
    case ScheduleSource::given:
      return std::string(kGiven);
    case ScheduleSource::layer_plan:
      return std::string(kFromLayerPlan) + origin.words;
    case ScheduleSource::record:
      return origin.words;
    case ScheduleSource::fallback:
      break;
  }
  return {};
}

/// The text for Step::record: the origin of the step's schedule, or of any other choice for the layer that was not made
/// by an option.
std::string record_of(const LayerChoice& choice, const Step& step) {
  if (choice.schedule)
    return covers(*choice.schedule, parse_schedule(step.schedule)) ? words_of(choice.schedule_from) : "";
  const std::pair<bool, const Origin*> made[] = {{choice.threads > 0, &choice.threads_from},
                                                 {choice.plain, &choice.plain_from},
                                                 {choice.fuse != Fusion::usual, &choice.fuse_from}};
  for (const auto& [is_made, origin] : made) {
    if (is_made && origin->source != ScheduleSource::given) return words_of(*origin);
  }
  return {};
}

/// Records in the plan where the choices for its steps come from, and how many of the offered schedules no step runs.
void note_records(PlanState& state) {
  Plan& plan = state.out.plan;
  std::set<std::string> run;  // anchors that run their recorded schedules
  for (Step& step : plan.steps) {
    if (step.schedule.empty()) continue;
    const LayerChoice& choice = choice_for(state.choices, step.name);
    step.record = state.options.debug.naive ? std::string(kGiven) : record_of(choice, step);
    if (choice.schedule && !choice.forced() && !step.record.empty()) run.insert(step.name);
  }
  plan.records = state.recorded.summary;
  int64_t left = 0;
  bool any = false;
  for (const auto& [node, choice] : state.recorded.choices) {
    any = any || choice.schedule;
    if (choice.schedule && !run.contains(node) && forced_schedule(state.options.choices, node) == nullptr) ++left;
  }
  if (!run.empty() || !any) state.out.records_tuned_at = state.recorded.tuned_at;
  if (left > 0) {
    plan.records += fmt::format(
        "; {} of these schedules are not used: their packed weights would be too large, or they do not apply to the "
        "layer",
        left);
  }
}

void note_memory(PlanState& state) {
  for (const auto& [node, schedule] : state.slim) state.out.slimmed.push_back(node);
  const MemoryBudget& budget = state.options.budget;
  const int64_t arena = state.out.plan.arena_bytes;
  state.out.memory = budget.memory;
  state.out.weight_bytes = state.weight_bytes, state.out.wanted_bytes = state.wanted_bytes;
  state.out.weight_limit = state.weight_limit();
  if (budget.memory && budget.limit_weights)
    check_budget(state.fused.name, *budget.memory, state.weight_bytes, arena, std::ssize(state.slim));
}

}  // namespace

Compiled PlanBuild::finish() {
  PlanState& state = impl_->state;
  const CompileOptions& options = state.options;
  if (options.contents.code) impl_->run(kShare, kPack + 1);
  note_memory(state);
  if (options.contents.code) {
    impl_->run(kPack + 1, kStageCount);
    state.out.plan.owner = state.owned;
  }
  note_records(state);
  Compiled out = std::move(state.out);
  out.choices = std::move(state.choices);
  out.timings = impl_->passed.timings;
  out.timings.insert(out.timings.end(), impl_->timings.begin(), impl_->timings.end());
  out.unfused = impl_->passed.unfused;
  out.unfused.insert(out.unfused.end(), state.unfused.begin(), state.unfused.end());
  if (options.contents.tasks) out.tasks = std::make_shared<const TaskGraph>(std::move(state.tasks));
  if (options.cache != nullptr) options.cache->next();
  return out;
}

}  // namespace kilter
