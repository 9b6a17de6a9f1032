#include "compile/task_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "base/error.h"
#include "graph/text.h"

namespace kilter {
namespace {

constexpr std::string_view kKinds[] = {"view", "kernel", "reference"};

/// "x: f32[1,64,56,56]c16 at pool+64": the name, the type, and the place in another value's buffer.
std::string operand_text(const TaskGraph& tasks, ValueId id) {
  if (id == kNone) return "none";
  const Value& value = tasks.graph.value(id);
  std::string out = fmt::format("{}: {}", in_quotes(value.name), text(value.type));
  if (value.constant) return out + " constant";
  const Storage& storage = tasks.storage.of(id);
  if (storage.root != id)
    out += fmt::format(" at {}+{}", in_quotes(tasks.graph.value(storage.root).name), storage.offset_elems);
  return out;
}

class Verifier {
 public:
  explicit Verifier(const TaskGraph& tasks) : tasks_(tasks), graph_(tasks.graph) {}

  void run() {
    require(tasks_.storage.values.size() == graph_.value_count(), "{} values have storage, expected {}",
            tasks_.storage.values.size(), graph_.value_count());
    done_.resize(graph_.node_count(), false);
    for (size_t i = 0; i < tasks_.tasks.size(); ++i) check(tasks_.tasks[i], i);
    for (const NodeId id : graph_.order())
      require(done_[static_cast<size_t>(id)], "node '{}' is in no task", graph_.node(id).name);
  }

 private:
  void check(const TaskEntry& entry, size_t index) {
    require(!entry.unit.nodes.empty(), "task {} has no nodes", index);
    for (const NodeId id : entry.unit.nodes) {
      const Node& node = graph_.node(id);
      require(!done_[static_cast<size_t>(id)], "node '{}' is in task {} and in an earlier one", node.name, index);
      done_[static_cast<size_t>(id)] = true;
      for (const ValueId in : node.inputs) check_made(in, node, index);
      for (const ValueId out : node.outputs) check_place(out);
    }
    require(entry.kind != TaskEntry::view || entry.schedule.name.empty(), "task {} is a view with schedule '{}'", index,
            entry.schedule.text());
  }
  void check_made(ValueId in, const Node& node, size_t index) const {
    const NodeId producer = in == kNone ? kNone : graph_.value(in).producer;
    require(producer == kNone || done_[static_cast<size_t>(producer)],
            "task {}: node '{}' reads '{}' before it is computed", index, node.name,
            in == kNone ? "" : graph_.value(in).name);
  }
  /// Checks that a value lies inside the buffer of its root.
  void check_place(ValueId id) const {
    if (id == kNone) return;
    const Storage& storage = tasks_.storage.of(id);
    const Value& value = graph_.value(id);
    require(storage.root != kNone, "value '{}' has no storage", value.name);
    const int64_t elems = physical(graph_.type(storage.root)).elems;
    require(storage.offset_elems >= 0 && storage.offset_elems + storage.phys.elems <= elems,
            "value '{}' occupies elements {} to {} of '{}', which has {}", value.name, storage.offset_elems,
            storage.offset_elems + storage.phys.elems, graph_.value(storage.root).name, elems);
  }

  const TaskGraph& tasks_;
  const Graph& graph_;
  std::vector<bool> done_;  ///< by node: whether a task contains it
};

}  // namespace

std::string print(const TaskGraph& tasks) {
  std::string out = fmt::format("tasks of {}\n", in_quotes(tasks.graph.name));
  for (size_t i = 0; i < tasks.tasks.size(); ++i) {
    const TaskEntry& entry = tasks.tasks[i];
    const Task task = tasks.task(entry);
    std::vector<std::string> ins, outs;
    for (const Operand& in : task.inputs) ins.push_back(operand_text(tasks, in.value));
    for (const Operand& o : task.outputs) outs.push_back(operand_text(tasks, o.value));
    out += fmt::format("{} {} {} {}", i, kKinds[entry.kind], in_quotes(task.node().name), task.ops());
    if (!entry.schedule.name.empty()) out += fmt::format(" by {}", entry.schedule.text());
    out += fmt::format(" ({}) -> ({})\n", fmt::join(ins, ", "), fmt::join(outs, ", "));
  }
  return out;
}

void verify(const TaskGraph& tasks) { Verifier(tasks).run(); }

}  // namespace kilter
