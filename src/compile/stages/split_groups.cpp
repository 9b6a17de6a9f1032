// Splits groups that no template accepts into single nodes, before values are placed. A node that no template accepts
// even on its own leaves its group and gets plain operands: a Relayout connects it to values in another layout.

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <variant>

#include "compile/stages/plan_state.h"
#include "compile/tasks.h"
#include "graph/values.h"
#include "ops/support/relayout.h"

namespace kilter {
namespace {

class Splitter {
 public:
  explicit Splitter(PlanState& state) : state_(state), graph_(state.fused), options_(state.options) {}

  void run() {
    int64_t done = 0;
    const std::vector<Unit> all = units(graph_);
    for (const Unit& unit : all) {
      tell_task(options_, "look for templates", done++, std::ssize(all));
      if (!viewable(unit) && !schedulable(unit)) split(unit);
    }
    graph_.sort();
    state_.dense = state_.reference;
  }

 private:
  void split(const Unit& unit) {
    note(unit);
    for (NodeId id : unit.nodes) {
      graph_.change_node(id).group = id;
      const Unit alone{{id}};
      if (unit.nodes.size() > 1 && schedulable(alone)) continue;
      graph_.change_node(id).group = kNone;
      make_plain(id);
      state_.reference.insert(id);
    }
  }

  void note(const Unit& unit) {
    if (unit.nodes.size() < 2) return;
    const Task task = make_task(graph_, unit, nullptr);
    std::string reason = "its schedule is forced to reference";
    if (forced_schedule(options_.choices, task.node().name) == nullptr) {
      reason = "no template applies to the group";
      for (const auto& [name, rejected] : rejections(task, state_.limits))
        reason += fmt::format("; {}: {}", name, rejected.text());
    }
    for (NodeId id : unit.nodes) {
      const Node& node = graph_.node(id);
      if (id != task.anchor) state_.unfused.push_back({Unfused::schedule, node.name, task.node().name, reason});
    }
  }

  bool viewable(const Unit& unit) const {
    const Node& node = graph_.node(unit.nodes.front());
    if (options_.debug.naive || is_string(node)) return false;
    if (node.op->family == Family::reshape) return true;
    // A blocked Slice or Split is a view of a run of blocks.
    return node.op->family == Family::movement &&
           (node.op->movement == Movement::concat ||
            (node.outputs[0] != kNone && graph_.type(node.outputs[0]).layout.block > 1));
  }
  bool is_string(const Node& node) const {
    return std::any_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId v) { return v != kNone && graph_.type(v).dtype == DType::string; });
  }

  bool schedulable(const Unit& unit) {
    if (options_.debug.naive) return false;
    const Task task = make_task(graph_, unit, nullptr);
    if (const Schedule* forced = forced_schedule(options_.choices, task.node().name))
      return forced->name != "reference";
    const std::optional<TaskForm> form = form_of(task);
    if (!form) return has_template(task);
    const auto [it, fresh] = schedulable_.try_emplace(form->text, false);
    if (fresh) it->second = has_template(task);
    return it->second;
  }
  bool has_template(const Task& task) const {
    return std::ranges::any_of(all_templates(), [&](const Template* t) {
      const auto analysed = t->analyse(task, state_.limits);
      return analysed && (*analysed)->quick();
    });
  }

  /// Makes a node's operands plain, as reference kernels need them; readers of a blocked output get a Relayout.
  void make_plain(NodeId id) {
    std::vector<ValueId> inputs = graph_.node(id).inputs;  // replaced in one call, since there may be very many
    for (ValueId& in : inputs) {
      if (in == kNone || graph_.type(in).layout.plain()) continue;
      in = constant_of(graph_, in) != nullptr
               ? graph_.add_constant(graph_.fresh_name(graph_.value(in).name), *constant_of(graph_, in))
               : relayout(in, Layout{});
    }
    if (inputs != graph_.node(id).inputs) graph_.change_node(id).inputs = std::move(inputs);
    for (ValueId out : graph_.node(id).outputs) {
      if (out == kNone || graph_.type(out).layout.plain()) continue;
      const Layout layout = graph_.type(out).layout;
      const std::vector<NodeId> users = graph_.users(out);
      graph_.change_value(out).type.layout = Layout{};
      const ValueId blocked = relayout(out, layout);
      for (NodeId user : users) std::ranges::replace(graph_.change_node(user).inputs, out, blocked);
    }
  }

  ValueId relayout(ValueId from, const Layout& layout) {
    const ValueId to = add_relayout(graph_, from, layout, "relayout");
    const NodeId id = graph_.value(to).producer;
    graph_.change_node(id).group = id;
    return to;
  }

  PlanState& state_;
  Graph& graph_;
  const CompileOptions& options_;
  std::unordered_map<std::string, bool> schedulable_;  ///< by TaskForm::text of tasks with dense operands
};

}  // namespace

void split_groups(PlanState& state) { Splitter(state).run(); }

std::vector<std::pair<std::string, Rejected>> rejections(const Task& task, const CpuLimits& limits) {
  std::vector<std::pair<std::string, Rejected>> all;
  for (const Template* t : all_templates()) {
    if (const auto picked = t->pick(task, limits); !picked) all.emplace_back(t->name, picked.rejected());
  }
  return all;
}

void tell_task(const CompileOptions& options, std::string_view stage, int64_t done, int64_t of) {
  constexpr int64_t kEach = 64;
  if (options.report.progress && done % kEach == 0) options.report.progress({stage, done, of});
}

}  // namespace kilter
