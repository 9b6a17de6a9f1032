// Chooses and lowers a schedule for every task.
#include <fmt/format.h>

#include <algorithm>

#include "compile/check_options.h"
#include "compile/stages/plan_state.h"
#include "graph/values.h"

namespace kilter {
namespace {

std::string key_of(const Task& task, const Schedule* wanted) {
  return fmt::format("{}|{}|{}", task.node().name, task.layouts(), wanted != nullptr ? wanted->text() : "the default");
}

/// Throws usage if all templates that would accept the task are forbidden, so that it has no default.
void check_not_forbidden(const Task& task, const Chosen& chosen) {
  if (chosen.schedule.name != "reference") return;
  for (const auto& [name, rejected] : chosen.rejected) {
    if (rejected.check != kForbid) continue;
    fail(ErrorKind::usage,
         "--forbid {}: no other template applies to '{}'; allow it, or give --schedule {}=reference for the reference "
         "kernel",
         rejected.got, task.node().name, task.node().name);
  }
}

class ScheduleChooser {
 public:
  explicit ScheduleChooser(PlanState& state)
      : s_(state),
        options_(state.options),
        graph_(state.tasks.graph),
        shared_(state.tasks.open ? state.kernel_store() : nullptr) {}

  void run() {
    const size_t dense = s_.dense.size();
    int64_t done = 0;
    s_.lowerings.assign(s_.tasks.tasks.size(), {});
    for (size_t i = 0; i < s_.tasks.tasks.size(); ++i) {
      tell_task(options_, "choose schedules", done++, std::ssize(s_.tasks.tasks));
      TaskEntry& entry = s_.tasks.tasks[i];
      entry.kind == TaskEntry::view ? refuse_forced(entry) : choose_for(entry, s_.lowerings[i]);
    }
    s_.again = s_.dense.size() > dense;
  }

 private:
  /// Throws usage if a schedule is forced on a unit that became a view: views have no kernel.
  void refuse_forced(const TaskEntry& entry) const {
    const Task task = make_task(graph_, entry.unit, nullptr);
    if (const Schedule* forced = forced_schedule(s_.choices, task.node().name)) {
      fail(ErrorKind::usage, "{}: {} is a view of its operands' memory and runs no kernel; leave the option out",
           option_text(options_, "--schedule", task.node().name, forced->text()), task.ops());
    }
  }

  void choose_for(TaskEntry& entry, Lowering& lowering) {
    const Task task = s_.tasks.task(entry);
    if (entry.kind == TaskEntry::reference) {
      entry.schedule = {"reference", {}};
      if (!options_.debug.naive && forced_schedule(s_.choices, task.node().name) == nullptr)
        lowering.rejected = known_rejections(task);
      return;
    }
    const Schedule* schedule = wanted(task);
    if (schedule != nullptr && !fits(task, *schedule) && make_dense(entry.unit)) return;
    std::optional<TaskForm> form = repeats(schedule) ? form_of(task) : std::nullopt;
    if (form) {
      if (const auto known = memo_.find(form->text); known != memo_.end()) {
        lowering = {known->second, std::move(*form), {}};
        lowering.own.text.clear();
        entry.schedule = known->second->packed->chosen.schedule;
        return;
      }
    }
    const std::optional<Schedule> usual = schedule == nullptr ? usual_for(task) : std::nullopt;
    std::shared_ptr<PackedTask> packed = lower(task, usual ? &*usual : schedule);
    entry.schedule = packed->chosen.schedule;
    if (schedule == nullptr && !usual) note_usual(task, entry.schedule);
    if (entry.schedule.name == "reference") {
      if (make_dense(entry.unit)) return;
      refuse_reference(task, schedule, packed->chosen);
    }
    const bool own = form && form->any_content && !packed->chosen.lowered.constants.empty();
    lowering.lowered = std::make_shared<LoweredForm>(LoweredForm{form.value_or(TaskForm{}), std::move(packed)});
    if (form && !own) memo_.emplace(form->text, lowering.lowered);
  }

  /// The schedule that replaces the task's default; null if there is none.
  const Schedule* wanted(const Task& task) const {
    const std::string& node = task.node().name;
    if (const Schedule* forced = forced_schedule(s_.choices, node)) return forced;
    if (const auto slim = s_.slim.find(node); slim != s_.slim.end()) return &slim->second;
    const std::optional<Schedule>& preferred = choice_for(s_.choices, node).schedule;
    return preferred && permits(options_, node, *preferred) && fits(task, *preferred) ? &*preferred : nullptr;
  }

  /// The schedule that the layer runs for other shapes, if it is nearly as fast as the default for this one, so that
  /// the shapes can share kernels. For a short layer, the loss may be a larger share of its time, but only a few
  /// microseconds. After many shapes, each new one is unlikely to recur, and generating code for it takes as long as
  /// hundreds of runs could save.
  std::optional<Schedule> usual_for(const Task& task) const {
    constexpr int64_t kFewShapes = 8;
    constexpr double kMostLoss = 1.15, kMostLossOfMany = 1.3, kMostLossOfShort = 1.5;
    constexpr double kShort = 20'000;  // cycles that a short layer may lose
    if (shared_ == nullptr || !options_.forbidden.empty()) return std::nullopt;
    const std::vector<Schedule>& known = shared_->usual(task.node().name);
    if (known.empty()) return std::nullopt;
    const double most_loss = shared_->builds() < kFewShapes ? kMostLoss : kMostLossOfMany;
    for (const Template* from : all_templates()) {
      const auto analysed = from->analyse(task, s_.limits);
      if (from->approximates != nullptr && options_.accuracy == Accuracy::strict) continue;
      const auto picked = analysed ? (*analysed)->quick() : analysed.rejected();
      if (!picked) continue;
      const auto usual = (*analysed)->estimate(*picked);
      if (!usual) return std::nullopt;
      std::optional<Schedule> best;
      double least =
          std::max(usual->cycles * most_loss, std::min(usual->cycles * kMostLossOfShort, usual->cycles + kShort));
      for (const Schedule& schedule : known) {
        const auto estimate = schedule.name == from->name ? (*analysed)->estimate(schedule) : Rejected{};
        if (estimate && estimate->cycles <= least) best = schedule, least = estimate->cycles;
      }
      return best;
    }
    return std::nullopt;
  }

  void note_usual(const Task& task, const Schedule& schedule) const {
    constexpr size_t kMost = 8;
    if (shared_ == nullptr) return;
    std::vector<Schedule>& known = shared_->usual(task.node().name);
    if (known.size() < kMost && std::ranges::find(known, schedule) == known.end()) known.push_back(schedule);
  }

  [[noreturn]] void refuse_reference(const Task& task, const Schedule* schedule, const Chosen& chosen) const {
    if (schedule != nullptr && schedule->name == "reference") {
      fail(ErrorKind::usage,
           "{}: the layer changes a layout, for which there is no reference kernel; leave the option out",
           option_text(options_, "--schedule", task.node().name, schedule->name));
    }
    std::string why;
    for (const auto& [name, r] : chosen.rejected) why += fmt::format("; {}: {}", name, r.text());
    fail(ErrorKind::internal, "'{}' lost its template when its operands were placed{}", task.node().name, why);
  }

  /// Returns whether all tasks of one form are lowered in the same way, because no option singles one out.
  bool repeats(const Schedule* wanted) const {
    return wanted == nullptr && options_.cache == nullptr && options_.forbidden.empty() && s_.given_up.empty();
  }

  /// rejections() of the task; computed once per form.
  std::vector<std::pair<std::string, Rejected>> known_rejections(const Task& task) {
    const std::optional<TaskForm> form = form_of(task);
    if (!form) return rejections(task, s_.limits);
    const auto [it, fresh] = rejections_.try_emplace(form->text);
    if (fresh) it->second = rejections(task, s_.limits);
    return it->second;
  }

  /// `wanted`: null for the default schedule.
  std::shared_ptr<PackedTask> lower(const Task& task, const Schedule* wanted) const {
    BuildCache* cache = options_.cache;
    const std::string key = cache != nullptr ? key_of(task, wanted) : std::string();
    if (cache != nullptr) {
      if (auto known = cache->task(key)) return known;
    }
    auto packed = std::make_shared<PackedTask>();
    const std::optional<Schedule> forced = wanted != nullptr ? std::optional(*wanted) : std::nullopt;
    try {
      packed->chosen = choose(task, s_.limits, forced, options_.accuracy, options_.forbidden);
    } catch (const Error& e) {
      if (!forced) throw;
      fail(e.kind(), "{}: {}", option_text(options_, "--schedule", task.node().name), e.message());
    }
    if (wanted == nullptr) check_not_forbidden(task, packed->chosen);
    if (cache != nullptr) cache->keep_task(key, packed);
    return packed;
  }

  bool fits(const Task& task, const Schedule& schedule) const {
    if (options_.cache != nullptr && options_.cache->task(key_of(task, &schedule)) != nullptr) return true;
    const Template* t = find_template(schedule.name);
    return t != nullptr && t->lower(task, schedule, s_.limits);
  }

  /// Requests dense operands for a task without blocked ones. Returns false if they are dense already or cannot be.
  bool make_dense(const Unit& unit) {
    const auto plain = [&](const std::vector<ValueId>& values) {
      return std::all_of(values.begin(), values.end(), [&](ValueId v) {
        return v == kNone || constant_of(graph_, v) != nullptr || graph_.type(v).layout.row_major();
      });
    };
    for (NodeId id : unit.nodes) {
      if (s_.dense.contains(id) || !plain(graph_.node(id).inputs) || !plain(graph_.node(id).outputs)) return false;
    }
    s_.dense.insert(unit.nodes.begin(), unit.nodes.end());
    return true;
  }

  PlanState& s_;
  const CompileOptions& options_;
  const Graph& graph_;
  KernelStore* shared_;  ///< kernels of other shapes; null if there are none
  FormMemo memo_;        ///< by TaskForm::text
  std::unordered_map<std::string, std::vector<std::pair<std::string, Rejected>>> rejections_;  ///< by TaskForm::text
};

}  // namespace

void choose_schedules(PlanState& state) { ScheduleChooser(state).run(); }

}  // namespace kilter
